#pragma once

// Products of matrices whose result, or operand, is a space of rows and columns that never is in
// memory as a whole: attention. One block of rows after another goes through all steps.

#include <cstdint>
#include <functional>
#include <vector>

#include "gspmd/kernels/loop_program.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// An array as the steps see it: where it is, and its steps, in elements.
struct BlockArray {
  enum Kind : uint8_t {
    operand,
    result,      // of the kernel
    tile,        // rows x columns of a block, in scratch
    row_values,  // one per row of a block, in scratch
    position,    // one number: the index along an outer dim, or of the block's first row or column
  } kind = operand;
  int64_t index = 0;  // which one; position: outer dim, or behind these kFirstRow, kFirstColumn
  DType dtype = DType::f32;
  Dims outer = {};  // operands, results: steps along the outer dims
  int64_t row = 0, column = 0, inner = 0;
};
constexpr int64_t kFirstRow = -1, kFirstColumn = -2;

// Three matrices: T[row, column], a tile, X[row, inner] and Y[column, inner]; one is the sum of
// products of the others. Elements are f32 or 16-bit floats, which are summed in f32; what is
// multiplied is of one type.
struct BlockProduct {
  BlockArray x, y;
  int64_t tile = 0;
  int64_t inner = 1;
};

// Columns of a block, the last one excluded.
struct BlockColumns {
  int64_t first = 0, last = 0;
};

// What has to hold for rows whose columns are not all gone through: a value of each row, f32.
struct BlockGuard {
  BlockArray value;         // f32 or bf16
  float least = 0;          // at least this
  bool is_divisor = false;  // neither zero nor NaN, whatever `least` is
};

// For each index of the outer dims and each block of rows: `scores` (T = X Y'), `loop`, `row_sums`
// (X = T Y), and `column_sums` (Y = T' X, summed over all rows).
struct RowBlockSpec {
  Dims outer;         // sizes of the outer dims
  int64_t batch = 0;  // of them, the first: those that every Y has; the others are rows of sums
  int64_t rows = 1, columns = 1;
  std::vector<BlockProduct> scores, row_sums, column_sums;
  // Over dims (row, column), the column reduced, with tiles and positions among its operands. No
  // values: there is none.
  LoopProgram loop;
  std::vector<BlockArray> loop_operands, loop_results;
  std::vector<DType> tiles, row_values;  // how many, of which types
  // The columns of these rows that count: others would add nothing if the guards hold. Multiples
  // of 64, or the end. Empty: all count.
  std::function<BlockColumns(int64_t first_row, int64_t last_row)> live;
  std::vector<BlockGuard> guards;
};

// Rows of a block; the last has what is left.
int64_t row_block_rows(const RowBlockSpec& spec);

// `run` is empty where a row of the loop is too long. Parts are ranges of batches, or of rows where
// these are few and nothing is summed over rows.
PreparedKernel prepare_row_blocks(RowBlockSpec spec);

}  // namespace gspmd
