#pragma once

#include <optional>

#include "kernels/row_blocks.h"
#include "ops/dot/dot.h"

namespace gspmd {

// A kCustom fusion: products of parameters over equal result dims (batch, rows, one dim of columns
// last), elementwise ops and reductions over the columns, and products that sum what these give
// over the columns or over all rows. Results: of the latter, under transposes and reshapes, and
// reductions. nullopt: the computation has another form.
std::optional<RowBlockSpec> row_block_spec(const Computation& fused);

// How a product of the values of such a space with another operand sums them.
struct SpaceSum {
  int64_t side = 0;  // the operand that has the space's dims
  bool over_columns = true;
};
// nullopt: `dot`, whose operand `side` has dims of a space with `batch` leading dims of batches,
// sums over something else.
std::optional<SpaceSum> space_sum(const Node& dot, int64_t side, int64_t batch);

// Whether what such a sum gives lies in lines where `root`, a view of it, is written.
bool gives_lines(const Node& dot, const SpaceSum& sum, const Node& root);

// A product whose result can be such a space; its last dim are the columns.
bool makes_space(const Node& node);
// Whether a product with batches is worth that it is, with its dims in another order.
bool may_make_space(const Node& node);
constexpr int64_t kLeastSpaceElements = 65536;  // what is worth it
int64_t space_batches(const Node& dot);         // how many of its first dims are batches

// Whether a node only adds or drops dims of size 1 of its operand: a reshape or a broadcast.
bool moves_ones(const Node& node);

// Values of spaces that a program turns on the way, in one order of dims: batches, rows, columns;
// none of size 1.
bool turn_spaces(Computation& computation);
// Reductions of one element each become reshapes.
bool drop_reductions_of_one(Computation& computation);

PreparedKernel lower_row_blocks(const Node& fusion);

}  // namespace gspmd
