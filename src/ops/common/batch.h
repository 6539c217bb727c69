#pragma once

#include "gspmd/ir/batch_context.h"

namespace gspmd {

// What the rows' `batch` functions share. The batch is dim 0 of what depends on it.

// The leaf of an operand that is an array.
const BatchLeaf& operand_leaf(const BatchContext& context, const Node& node, int64_t operand);
bool any_batched(const std::vector<BatchLeaf>& leaves);
std::vector<Node*> nodes_of(const std::vector<BatchLeaf>& leaves);
// The leaves of a value, all of one kind.
std::vector<BatchLeaf> leaves_of(Node* value, bool batched);

Shape batched_shape(const Shape& shape, int64_t size);  // of all leaves
// The value with the batch in front, repeated where it is one for all.
Node* with_batch(const BatchLeaf& leaf, int64_t size);
Dims behind_batch(Dims dims);            // numbers of dims, one further on
Dims front_and_behind_batch(Dims dims);  // dim 0, then those
Node* move_to_front(Node* x, int64_t dim);
Node* split_dim(Node* x, int64_t dim, const Dims& sizes);
Node* merge_dims(Node* x, int64_t dim, int64_t count);  // `count` dims from `dim` on

// Dims that attributes name moved one further on, lists with an entry per dim begun with the
// batch's.
Attributes attributes_behind_batch(const Node& node, int64_t size);

// The op on operands that have the batch in front, with these attributes. Operands without dims:
// `scalars` says whether they get it as well, else they have to be one for all.
std::vector<BatchLeaf> batch_in_front(BatchContext& context, const Node& node, Attributes attrs,
                                      bool scalars);
// Each element of the batch after the other: what is right for every op without effects.
std::vector<BatchLeaf> batch_in_loop(BatchContext& context, const Node& node);
// Of a node whose row has no `batch`: what the traits and the nest say. UserError: they do not say
// that dim 0 is a loop of its own.
std::vector<BatchLeaf> batch_by_nest(BatchContext& context, const Node& node);
// A row's `batch`: UserError, no rule.
std::vector<BatchLeaf> refuse_batch(BatchContext& context, const Node& node);
// A row's `batch`: the batch in front, attributes name no dims.
std::vector<BatchLeaf> batch_as_it_is(BatchContext& context, const Node& node);
// A row's `batch`: `dimensions` has an entry for each dim of the operand.
std::vector<BatchLeaf> batch_with_dimensions(BatchContext& context, const Node& node);
// A row's `batch`: `dimensions` and others shifted, operands without dims too.
std::vector<BatchLeaf> batch_shifted(BatchContext& context, const Node& node);

}  // namespace gspmd
