#pragma once

#include <vector>

#include "gspmd/ir/module.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// How a node's results depend on its operands row by row; a row is an index of the leading dims.
struct RowUse {
  // How many leading dims of the results each go their way alone: index i of them is computed from
  // index i of the same dims of `rows` operands and from all of the others. 0: none does, or it is
  // a product of matrices.
  int64_t depth = 0;
  std::vector<bool> rows;  // by operand
};
// Of a fusion: of all that is in it. Of tuples, aliases and get-tuple-element too.
RowUse row_use(const Node& node);

// The arithmetic of a node, of a fusion of all that is in it.
double arithmetic_of(const Node& node);

// A kCustom fusion whose results, each made by one op with a kernel, go row by row through all
// that is in it: the kernel of one tile of rows after the other, with what is between the ops in
// the running worker's scratch. `run` is empty where there is none: ops without kernels, or with
// such that prepare something for all parts, rows that are too large, and any other form.
PreparedKernel lower_row_tiles(const Node& fusion);

}  // namespace gspmd
