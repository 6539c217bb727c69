#include <algorithm>

#include "gspmd/ir/op.h"
#include "ops/common/check.h"
#include "ops/sdy_rules/rule_builder.h"

namespace gspmd {
namespace {

constexpr SdyFactorKind kPassThrough = SdyFactorKind::pass_through;
constexpr SdyFactorKind kReduced = SdyFactorKind::reduction;
constexpr SdyFactorKind kReplicated = SdyFactorKind::need_replication;

// Dims of the indices that are positions, in order: all but the one of the index vector.
Dims batch_dims_of_indices(int64_t rank, int64_t index_vector_dim) {
  Dims dims;
  for (int64_t d = 0; d < rank; ++d)
    if (d != index_vector_dim) dims.push_back(d);
  return dims;
}

// The dim of the operand that is position by position with a dim of the indices; kNoDim: none.
int64_t batching_dim(const Dims& operand_dims, const Dims& indices_dims, int64_t d) {
  for (size_t i = 0; i < indices_dims.size() && i < operand_dims.size(); ++i)
    if (indices_dims[i] == d) return operand_dims[i];
  return kNoDim;
}

// Whether the computation is one op on its two parameters whose order does not count.
bool is_known_reduction(const Computation& body) {
  const Node& root = *body.root();
  return root.operands().size() == 2 && root.op().has(kCommutative) && body.nodes().size() == 3 &&
         root.operand(0) != root.operand(1) && root.operand(0)->is(Opcode::parameter) &&
         root.operand(1)->is(Opcode::parameter);
}

}  // namespace

std::optional<SdyRule> gather_sdy_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  const GatherDims& dims = *node.attrs.gather;
  const Dims &x = builder.operand(0), &indices = builder.operand(1), &out = builder.result();
  const Dims positions = batch_dims_of_indices(std::ssize(indices), dims.index_vector_dim);
  int64_t x_dim = 0;
  size_t position = 0;
  for (int64_t d = 0; d < std::ssize(out); ++d) {
    const int64_t size = out[static_cast<size_t>(d)];
    if (!contains(dims.offset_dims, d)) {
      const int64_t i = positions.at(position++);
      const int64_t batched =
          batching_dim(dims.operand_batching_dims, dims.start_indices_batching_dims, i);
      builder.add({batched, i}, {d}, size);
      continue;
    }
    while (contains(dims.collapsed_slice_dims, x_dim) ||
           contains(dims.operand_batching_dims, x_dim))
      ++x_dim;
    const int64_t x_size = x.at(static_cast<size_t>(x_dim));
    if (x_size == size) {
      builder.add({x_dim, kNoDim}, {d}, size);
    } else if (size == 1) {
      builder.own_operand(0, x_dim, kReduced);
      builder.own_result(0, d, kReplicated);
    } else {
      builder.add({x_dim, kNoDim}, {d}, x_size, kReplicated, true);
    }
    ++x_dim;
  }
  for (const int64_t d : dims.collapsed_slice_dims)
    builder.own_operand(0, d, x.at(static_cast<size_t>(d)) == 1 ? kReplicated : kReduced);
  if (dims.index_vector_dim < std::ssize(indices))
    builder.own_operand(1, dims.index_vector_dim, kReplicated);
  return builder.build();
}

std::optional<SdyRule> scatter_sdy_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  const ScatterDims& dims = *node.attrs.scatter;
  const int64_t inputs = builder.result_count();
  if (builder.operand_count() != 2 * inputs + 1) return std::nullopt;
  const Dims &x = builder.operand(0), &indices = builder.operand(inputs),
             &updates = builder.operand(inputs + 1);
  const auto add = [&](int64_t x_dim, int64_t index_dim, int64_t update_dim, int64_t size,
                       SdyFactorKind kind) {
    Dims operands(static_cast<size_t>(inputs), x_dim);
    operands.push_back(index_dim);
    operands.insert(operands.end(), static_cast<size_t>(inputs), update_dim);
    builder.add(operands, Dims(static_cast<size_t>(inputs), x_dim), size, kind);
  };
  const Dims positions = batch_dims_of_indices(std::ssize(indices), dims.index_vector_dim);
  const bool reduces = inputs == 1 && is_known_reduction(*node.called.at(0));
  int64_t x_dim = 0;
  size_t position = 0;
  for (int64_t d = 0; d < std::ssize(updates); ++d) {
    const int64_t size = updates[static_cast<size_t>(d)];
    if (!contains(dims.update_window_dims, d)) {
      const int64_t i = positions.at(position++);
      const int64_t batched =
          batching_dim(dims.input_batching_dims, dims.scatter_indices_batching_dims, i);
      if (batched != kNoDim)
        add(batched, i, d, size, kPassThrough);
      else
        add(kNoDim, i, d, size, reduces ? kReduced : kReplicated);
      continue;
    }
    while (contains(dims.inserted_window_dims, x_dim) || contains(dims.input_batching_dims, x_dim))
      ++x_dim;
    const int64_t x_size = x.at(static_cast<size_t>(x_dim));
    if (x_size == size) {
      add(x_dim, kNoDim, d, size, kPassThrough);
    } else {
      add(x_dim, kNoDim, kNoDim, x_size, kReplicated);
      add(kNoDim, kNoDim, d, size, kReplicated);
    }
    ++x_dim;
  }
  for (const int64_t d : dims.inserted_window_dims)
    add(d, kNoDim, kNoDim, x.at(static_cast<size_t>(d)), kPassThrough);
  if (dims.index_vector_dim < std::ssize(indices))
    builder.own_operand(inputs, dims.index_vector_dim, kReplicated);
  return builder.build();
}

std::optional<SdyRule> dynamic_slice_sdy_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  const Dims &x = builder.operand(0), &out = builder.result();
  for (size_t d = 0; d < x.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    const bool whole = x[d] == out.at(d);
    builder.add({dim}, {dim}, x[d], whole ? kPassThrough : kReplicated, !whole);
  }
  return builder.build();
}

std::optional<SdyRule> dynamic_update_slice_sdy_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  const Dims &x = builder.operand(0), &update = builder.operand(1);
  const bool constant = std::all_of(node.operands().begin() + 2, node.operands().end(),
                                    [](const Node* start) { return start->is(Opcode::constant); });
  for (size_t d = 0; d < x.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (x[d] == update.at(d)) {
      builder.add({dim, dim}, {dim}, x[d]);
      continue;
    }
    builder.add({dim, kNoDim}, {dim}, x[d]);
    builder.own_operand(1, dim, constant ? kPassThrough : kReplicated);
  }
  return builder.build();
}

}  // namespace gspmd
