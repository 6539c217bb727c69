#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gspmd/base/dtype.h"

namespace gspmd {

// c[rows,n] = a[rows,k] * b[k,n] (b stored [n,k] if `b_transposed`); a is dense. Reentrant.
class GemmProduct {
 public:
  virtual ~GemmProduct() = default;
  virtual int64_t scratch_bytes() const = 0;
  virtual void run(const std::byte* a, const std::byte* b, std::byte* c,
                   std::byte* scratch) const = 0;
};

struct GemmExtents {
  int64_t rows = 1, n = 1, k = 1;
  bool b_transposed = false;
  int64_t b_line = 0, c_line = 0;  // elements from one line to the next; 0: they are dense
  int64_t b_step() const { return b_line != 0 ? b_line : b_transposed ? k : n; }
  int64_t c_step() const { return c_line != 0 ? c_line : n; }
};

// Sizes, and steps in elements; rows of c are contiguous. `groups`: so many times the rows, a step
// further in a and c, by the same b.
struct PackedExtents {
  int64_t rows = 1, n = 1, k = 1;
  int64_t a_row = 0, a_k = 0, b_k = 0, b_n = 0, c_row = 0;
  int64_t groups = 1, a_group = 0, c_group = 0;
};

// Of few rows, so that reading b is what takes time: steps in elements, of b one of them is 1.
struct FewRowsExtents {
  int64_t rows = 1, n = 1, k = 1;
  int64_t a_row = 0, a_k = 0, b_k = 0, b_n = 0, c_row = 0, c_n = 0;
};
// f32, f64, bf16 or f16, to the same or from 16 bits to f32; sums are f32, or f64 of f64. nullptr:
// of other types, or lines of b lie neither along n nor along k.
std::unique_ptr<GemmProduct> few_rows_product(DType operand, DType result,
                                              const FewRowsExtents& extents);

// f32, f64, s32 or u32 over any strides.
std::unique_ptr<GemmProduct> packed_product(DType dtype, const PackedExtents& extents);
// f32 of few columns, all of b packed before, and one group.
std::unique_ptr<GemmProduct> strip_product(const PackedExtents& extents);
int64_t packed_lanes();  // floats in a vector of this processor

// Products of f32 whose operand b is laid out once and multiplied often: in strips of some columns,
// each of them with all k, line by line.
struct StripExtents {
  int64_t rows = 1, n = 1, k = 1;
  int64_t a_row = 0, a_k = 0, c_row = 0;
  int64_t strip = 0;  // floats from one strip to the next
};
struct StripFunctions {
  int64_t columns;             // of a strip
  int64_t (*step)(int64_t k);  // floats from one strip to the next
  // The n, k and steps of b that `extents` has.
  void (*lay_out)(const PackedExtents& extents, const float* b, float* strips);
  // c = or, with `adds`, += a * strips; `strips` may begin at any line of k and any strip.
  void (*multiply)(const StripExtents& extents, bool adds, const float* a, const float* strips,
                   float* c, float* scratch);
  int64_t (*scratch)(const StripExtents& extents);  // floats
};
const StripFunctions& strip_functions();  // of this processor

// Whether the processor has instructions for products of bf16 that are quicker than those of f32:
// of any kind, and of those that add two products to each lane.
bool multiplies_bf16();
bool multiplies_pairs();
// f32 to f32, or bf16 to bf16 or f32; nullptr where the library or the processor has none.
std::unique_ptr<GemmProduct> library_product(DType operand, DType result,
                                             const GemmExtents& extents);
// The library's, of f32 or of bf16 to bf16 or f32, for which `prepack` has laid out b; nullptr
// where the library or the processor has none that reads that layout.
std::unique_ptr<GemmProduct> prepacked_product(DType operand, DType result,
                                               const GemmExtents& extents);
constexpr int64_t kStripOfLibrary = 64;  // columns
// What b is and what its strips are: floats, bf16, or bf16 that become floats.
enum class StripKind : uint8_t { floats, halves, widened };
int64_t prepacked_bytes(int64_t n, int64_t k, StripKind kind);
// Strips `first` to `last` of b, whose n, k and steps `extents` has; `to`: of strip 0.
void prepack(const PackedExtents& extents, StripKind kind, const std::byte* b, int64_t first,
             int64_t last, std::byte* to);

// Products of bf16, summed in f32, by pairs of two values of k; b is in strips of `halves`.
struct PairExtents {
  int64_t rows = 1, n = 1, pairs = 1;  // the latter along k
  int64_t a_row = 0, a_pair = 0;       // bytes, to the next row and pair: one of them is 4
  int64_t c_row = 0;                   // elements
  int64_t strip = 0;                   // bytes from one strip to the next
};
struct PairFunctions {
  // c, f32 or bf16, = or, with `adds` (f32 only), += a * strips; `strips` may begin at any pair.
  void (*multiply)(const PairExtents& extents, DType result, bool adds, const std::byte* a,
                   const std::byte* strips, std::byte* c);
  // `count` lines of k, `step` bytes apart, of `length` bf16: two of them become one line of pairs;
  // beside the last there may be zeros.
  void (*interleave)(const std::byte* lines, int64_t step, int64_t count, int64_t length,
                     std::byte* to);
};
const PairFunctions* pair_functions();  // of this processor; nullptr: it has no such instruction

// Of types that are computed as they are stored; b transposed where `reads_transposed` says so.
std::unique_ptr<GemmProduct> loop_product(DType dtype, const GemmExtents& extents);
bool reads_transposed(DType dtype, int64_t k);
// Around a product of f32: reads 16-bit floats into f32 first, but b where it is f32 by then, and
// rounds the result. Inside, what is read and what will be rounded is dense.
std::unique_ptr<GemmProduct> widened_product(std::unique_ptr<GemmProduct> product, DType operand,
                                             DType result, const GemmExtents& extents,
                                             bool b_is_wide = false);

}  // namespace gspmd
