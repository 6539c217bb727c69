#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "gspmd/kernels/gemm.h"
#include "gspmd/kernels/strided_copy.h"
#include "kernels/gemm_product.h"

namespace gspmd {

// What products read: operands that are dense, or copied to be; operands of any steps, which they
// pack themselves; dense rows of a, and b as it was laid out for all of them before; or few rows of
// a, and b as it lies.
enum class Way : uint8_t { plain, packed, prepacked, few };

constexpr int64_t kPrepackedParts = 8;  // in which b is laid out, at most

// A product as it runs: outer loops around blocks of rows, operands packed where they are not
// dense.
struct GemmPlan {
  DType operand = DType::f32, result = DType::f32;
  int64_t operand_size = 4, result_size = 4;  // bytes per element
  std::vector<GemmLoop> outer;
  int64_t outer_count = 1;
  GemmLoop m, n;
  GemmLoop groups;  // more rows, which read the same b and stay out of the outer loops
  std::vector<GemmLoop> k;
  int64_t k_size = 1;
  bool swapped = false;  // operand 1 plays a
  bool pack_a = false, pack_b = false, pack_c = false;
  bool b_transposed = false;
  Way way = Way::plain;
  bool in_place = false;          // packed: rows of a are read where they lie, by parts of columns
  int64_t block = 1, blocks = 1;  // rows
  int64_t column_block = 1, column_blocks = 1;  // columns; one part each
  int64_t outer_parts = 1, row_parts = 1, parts = 1;
  StridedCopy copy_a[2], copy_b, copy_c[2];  // [1]: of the last, shorter block
  // By rows and columns; [1]: of the last, smaller block.
  std::unique_ptr<GemmProduct> products[2][2];
  int64_t bytes_a = 0, bytes_b = 0, bytes_c = 0, bytes_library = 0;

  int64_t rows(int64_t i) const { return std::min(block, m.size - i * block); }
  int64_t columns(int64_t i) const { return std::min(column_block, n.size - i * column_block); }
  double flops() const;       // of one product of the outer loops
  double bytes_of_b() const;  // that are read, in all
  StripKind strips() const;   // as the library reads b where it is laid out before

  // Which ways there are, and whether they are worth it. Operands that are swapped trade places.
  void swap_operands();
  // Turns a product so that its rows are few, where either side has few, and the lines of the other
  // operand lie in a row. Whether it is such a product.
  bool take_few();
  // Takes the outer loop that leaves b as it is, where there is one, so that b is packed once for
  // all of its rows: several groups of rows by one matrix, as tokens by the weights of an expert.
  // Whether it did.
  bool take_groups();
  bool reads_in_place() const;  // rows of a, by strips of a few columns
  bool is_prepacked() const;    // the library reads b in strips where vectors have 16 lanes
  bool is_packed() const;
  bool uses_library() const;
  bool packs_widened() const;  // operands that are widened before

  // What is copied, and which parts there are, once the way is known.
  void choose_packing();
  void choose_blocks();
};

}  // namespace gspmd
