#include "gspmd/ops/sdy_rules.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <unordered_map>

#include "gspmd/base/error.h"
#include "ir/sdy_names.h"
#include "ops/common/check.h"
#include "ops/control/control.h"
#include "ops/sdy_rules/rule_builder.h"

namespace gspmd {
namespace {

constexpr SdyFactorKind kPass = SdyFactorKind::pass_through;
constexpr SdyFactorKind kReduction = SdyFactorKind::reduction;
constexpr SdyFactorKind kWhole = SdyFactorKind::need_replication;
constexpr SdyFactorKind kMoved = SdyFactorKind::permutation;
using Rule = std::optional<SdyRule>;

// One factor per dim of operand 0 and the results of its rank; `kind_of(d)` says which.
template <class KindOf>
Rule by_dim(const Node& node, const Dims& sizes, KindOf kind_of) {
  SdyRuleBuilder builder(node);
  const int64_t rank = std::ssize(sizes);
  for (int64_t d = 0; d < rank; ++d) {
    const SdyFactor factor = kind_of(d);
    builder.share(d, rank, sizes[static_cast<size_t>(d)], factor.kind, factor.blocked);
  }
  return builder.build();
}

Rule broadcast_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  const Dims& out = builder.result();
  for (int64_t d = 0; d < std::ssize(out); ++d) {
    const Dims& dims = node.attrs.dimensions;
    const auto at = std::find(dims.begin(), dims.end(), d);
    builder.add({at == dims.end() ? kNoDim : at - dims.begin()}, {d}, out[static_cast<size_t>(d)]);
  }
  return builder.build();
}

Rule transpose_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  for (int64_t d = 0; d < std::ssize(builder.result()); ++d)
    builder.add({node.attrs.dimensions.at(static_cast<size_t>(d))}, {d},
                builder.result()[static_cast<size_t>(d)]);
  return builder.build();
}

Rule reverse_rule(const Node& node, bool) {
  return by_dim(node, node.dims(), [&](int64_t d) {
    return SdyFactor{1, contains(node.attrs.dimensions, d) ? kMoved : kPass};
  });
}

// A roll: pieces of one value one behind the other, or pieces alone.
bool joins_slices(const Node& node) {
  const Node* whole = nullptr;
  bool slices = false;
  for (const Node* operand : node.operands())
    if (operand->is(Opcode::slice)) {
      slices = true;
      if (whole == nullptr) whole = operand->operand(0);
    }
  return slices && std::all_of(node.operands().begin(), node.operands().end(),
                               [&](const Node* o) { return o->is(Opcode::slice) || o == whole; });
}

Rule concatenate_rule(const Node& node, bool conservative) {
  SdyRuleBuilder builder(node);
  const bool moved = joins_slices(node);
  for (int64_t d = 0; d < node.rank(); ++d) {
    const bool joined = contains(node.attrs.dimensions, d);
    if (joined && moved && conservative) continue;
    builder.share(d, node.rank(), node.dim(d), !joined ? kPass : moved ? kMoved : kWhole);
  }
  return builder.build();
}

// Slices and pads: dims of equal size pass, others move.
Rule resize_rule(const Node& node, bool conservative) {
  const Dims& in = node.operand(0)->dims();
  return by_dim(node, in, [&](int64_t d) {
    const bool same = in[static_cast<size_t>(d)] == node.dim(d);
    return SdyFactor{1, same ? kPass : kMoved, !same && conservative};
  });
}

Rule reduce_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  const auto results = static_cast<size_t>(builder.result_count());
  int64_t out = 0;
  for (int64_t d = 0; d < std::ssize(builder.operand(0)); ++d) {
    const bool reduced = contains(node.attrs.dimensions, d);
    builder.add(Dims(results, d), reduced ? Dims{} : Dims(results, out),
                builder.operand(0)[static_cast<size_t>(d)], reduced ? kReduction : kPass);
    if (!reduced) ++out;
  }
  return builder.build();
}

bool is_passing(const WindowDim& w) {
  return w.size == 1 && w.stride == 1 && w.pad_low == 0 && w.pad_high == 0;
}

Rule reduce_window_rule(const Node& node, bool conservative) {
  const Dims out = leaf_shapes(node.shape).at(0).dims;
  return by_dim(node, out, [&](int64_t d) {
    const bool passes = is_passing(node.attrs.window.at(static_cast<size_t>(d)));
    return SdyFactor{1, passes ? kPass : kMoved, !passes && conservative};
  });
}

Rule select_and_scatter_rule(const Node& node, bool conservative) {
  SdyRuleBuilder builder(node);
  for (int64_t d = 0; d < node.rank(); ++d) {
    if (is_passing(node.attrs.window.at(static_cast<size_t>(d)))) {
      builder.add({d, d}, {d}, node.dim(d));
      continue;
    }
    builder.add({d, kNoDim}, {d}, node.dim(d), kMoved, conservative);
    builder.own_operand(1, d, kWhole, conservative);
  }
  return builder.build();
}

Rule sort_rule(const Node& node, bool) {
  const Dims& dims = node.operand(0)->dims();
  const int64_t sorted = node.attrs.dimensions.at(0);
  bool alone = true;
  for (int64_t d = 0; d < std::ssize(dims); ++d)
    alone &= d == sorted || dims[static_cast<size_t>(d)] == 1;
  return by_dim(node, dims, [&](int64_t d) {
    return d == sorted ? SdyFactor{1, kWhole, alone} : SdyFactor{1, kPass};
  });
}

Rule cholesky_rule(const Node& node, bool) {
  return by_dim(node, node.dims(), [&](int64_t d) {
    return SdyFactor{1, d + 2 < node.rank() ? kPass : kWhole};
  });
}

Rule fft_rule(const Node& node, bool) {
  const Dims& in = node.operand(0)->dims();
  const int64_t rank = std::ssize(in), first = rank - std::ssize(node.attrs.dimensions);
  return by_dim(node, in, [&](int64_t d) {
    if (d < first) return SdyFactor{1, kPass};
    return SdyFactor{1, kWhole, d + 1 == rank && in.back() != node.dims().back()};
  });
}

Rule generator_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  if (builder.result_count() != 2 || builder.operand_count() != 1) return std::nullopt;
  for (int64_t d = 0; d < std::ssize(builder.operand(0)); ++d)
    builder.add({d}, {d, kNoDim}, builder.operand(0)[static_cast<size_t>(d)], kWhole, true);
  for (int64_t d = 0; d < std::ssize(builder.result(1)); ++d) builder.own_result(1, d, kPass);
  return builder.build();
}

// Collectives that gather, scatter or exchange along dims: these are their own on each side.
Rule exchange_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  if (builder.operand_count() != builder.result_count()) return std::nullopt;
  const int64_t rank = std::ssize(builder.operand(0));
  const std::optional<SdyAllToAll> exchange = sdy_all_to_all(node);
  for (int64_t d = 0; d < rank; ++d) {
    if (!contains(node.attrs.dimensions, d) && !(exchange && exchange->split_dim == d)) {
      builder.share(d, rank, builder.operand(0)[static_cast<size_t>(d)]);
      continue;
    }
    for (int64_t i = 0; i < builder.operand_count(); ++i) builder.own_operand(i, d, kWhole);
    for (int64_t i = 0; i < builder.result_count(); ++i) builder.own_result(i, d, kWhole);
  }
  return builder.build();
}

Rule batch_norm_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  for (int64_t d = 0; d < node.rank(); ++d) {
    Dims operands(static_cast<size_t>(builder.operand_count()), d == node.attrs.index ? 0 : kNoDim);
    operands.at(0) = d;
    builder.add(operands, {d}, node.dim(d));
  }
  return builder.build();
}

Rule bitcast_convert_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  const int64_t in = std::ssize(builder.operand(0)), out = std::ssize(builder.result());
  for (int64_t d = 0; d < std::min(in, out); ++d)
    builder.add({d}, {d}, builder.result()[static_cast<size_t>(d)]);
  if (in > out) builder.own_operand(0, in - 1, kWhole);
  if (out > in) builder.own_result(0, out - 1, kWhole);
  return builder.build();
}

// Off the dim that is scanned as its body is: element by element, or whole.
Rule scan_rule(const Node& node, bool) {
  SdyRuleBuilder builder(node);
  const int64_t scanned = node.attrs.dimensions.at(0);
  const Dims& x = builder.operand(0);
  bool elementwise = true;
  for (const auto& inner : node.called.at(0)->nodes())
    elementwise &=
        inner->is(Opcode::parameter) || inner->is(Opcode::tuple) || inner->op().has(kElementwise);
  const bool associative = node.attrs.scalar->is_associative.value_or(false);
  const int64_t rank = std::ssize(x);
  for (int64_t d = 0; d < rank; ++d) {
    const SdyFactorKind kind = d == scanned  ? (associative ? kMoved : kWhole)
                               : elementwise ? kPass
                                             : kWhole;
    const auto dims_of = [&](int64_t tensor_rank) {
      if (tensor_rank == rank) return d;
      if (d == scanned || tensor_rank + 1 != rank) return kNoDim;
      return d > scanned ? d - 1 : d;  // a carry
    };
    Dims operands, results;
    for (int64_t i = 0; i < builder.operand_count(); ++i)
      operands.push_back(dims_of(std::ssize(builder.operand(i))));
    for (int64_t i = 0; i < builder.result_count(); ++i)
      results.push_back(dims_of(std::ssize(builder.result(i))));
    builder.add(operands, results, x[static_cast<size_t>(d)], kind);
  }
  return builder.build();
}

// The ops with a rule that are not elementwise by their traits. An op that is in neither has none.
// The loop nest of an op (FactorRule) does not say these: the order of factors is that of the text,
// kinds differ (a slice moves data and still propagates), and a dim may be several factors.
struct SdyRuleRow {
  Opcode opcode;
  SdyRuleFunction rule;
};
constexpr std::array kSdyRuleRows{
    SdyRuleRow{Opcode::all_reduce, pointwise_sdy_rule},
    SdyRuleRow{Opcode::collective_permute, pointwise_sdy_rule},
    SdyRuleRow{Opcode::collective_broadcast, pointwise_sdy_rule},
    SdyRuleRow{Opcode::copy, pointwise_sdy_rule},
    SdyRuleRow{Opcode::broadcast, broadcast_rule},
    SdyRuleRow{Opcode::reshape, reshape_sdy_rule},
    SdyRuleRow{Opcode::transpose, transpose_rule},
    SdyRuleRow{Opcode::reverse, reverse_rule},
    SdyRuleRow{Opcode::concatenate, concatenate_rule},
    SdyRuleRow{Opcode::slice, resize_rule},
    SdyRuleRow{Opcode::pad, resize_rule},
    SdyRuleRow{Opcode::dynamic_slice, dynamic_slice_sdy_rule},
    SdyRuleRow{Opcode::dynamic_update_slice, dynamic_update_slice_sdy_rule},
    SdyRuleRow{Opcode::gather, gather_sdy_rule},
    SdyRuleRow{Opcode::scatter, scatter_sdy_rule},
    SdyRuleRow{Opcode::reduce, reduce_rule},
    SdyRuleRow{Opcode::reduce_window, reduce_window_rule},
    SdyRuleRow{Opcode::select_and_scatter, select_and_scatter_rule},
    SdyRuleRow{Opcode::sort, sort_rule},
    SdyRuleRow{Opcode::topk, top_k_sdy_rule},
    SdyRuleRow{Opcode::cholesky, cholesky_rule},
    SdyRuleRow{Opcode::triangular_solve, triangular_solve_sdy_rule},
    SdyRuleRow{Opcode::fft, fft_rule},
    SdyRuleRow{Opcode::rng_bit_generator, generator_rule},
    SdyRuleRow{Opcode::all_gather, exchange_rule},
    SdyRuleRow{Opcode::reduce_scatter, exchange_rule},
    SdyRuleRow{Opcode::all_to_all, exchange_rule},
    SdyRuleRow{Opcode::batch_norm_inference, batch_norm_rule},
    SdyRuleRow{Opcode::bitcast_convert, bitcast_convert_rule},
    SdyRuleRow{Opcode::dot, dot_sdy_rule},
    SdyRuleRow{Opcode::ragged_dot, ragged_dot_sdy_rule},
    SdyRuleRow{Opcode::convolution, convolution_sdy_rule},
    SdyRuleRow{Opcode::scan, scan_rule},
    SdyRuleRow{Opcode::custom_call, custom_call_sdy_rule},
};

bool is_elementwise(const Node& node) {
  if (node.is(Opcode::map) || node.is(Opcode::rng) || node.shape.is_tuple) return false;
  if (node.is(Opcode::bitcast_convert)) return node.operand(0)->dims() == node.dims();
  if (is_custom_call(node, "Sharding"))
    return !node.frontend_attributes.contains(kSdyReshard) &&
           !node.frontend_attributes.contains(kSdyCollective);
  return node.is(Opcode::copy) || node.op().has(kElementwise);
}

// The rule for what the reader made of the operands, said of the operands of the text.
void look_through(const Node& node, SdyRule& rule) {
  for (int64_t i = 0; i < std::ssize(node.operands()); ++i) {
    const SdyOperand source = sdy_operand(node, i);
    if (source.node == node.operand(i)) continue;
    const SdyRule::Tensor made = rule.operands.at(static_cast<size_t>(i));
    SdyRule::Tensor given(source.dims.size());
    for (size_t d = 0; d < source.dims.size(); ++d) {
      if (source.dims[d] != kNoDim) {
        given[d] = made.at(static_cast<size_t>(source.dims[d]));
      } else {
        given[d] = {std::ssize(rule.factors)};
        rule.factors.push_back({source.node->dim(static_cast<int64_t>(d))});
      }
    }
    rule.operands[static_cast<size_t>(i)] = std::move(given);
  }
}

// [.., whole, .., join, ..] as [.., parts, part, .., join, ..] with the parts moved before the dim
// that they are joined with.
struct SplitDims {
  Dims parts, order, joined;
};

SplitDims split_dims(const Dims& given, int64_t split, int64_t join, int64_t count) {
  SplitDims dims{given, {}, given};
  dims.parts[static_cast<size_t>(split)] /= count;
  dims.parts.insert(dims.parts.begin() + split, count);
  for (int64_t d = 0; d < std::ssize(dims.parts); ++d) {
    if (d == split) continue;
    if (d == (join < split ? join : join + 1)) dims.order.push_back(split);
    dims.order.push_back(d);
  }
  dims.joined[static_cast<size_t>(split)] /= count;
  int64_t& joined = dims.joined[static_cast<size_t>(join)];
  joined = saturating_multiply(joined, count);
  return dims;
}

// Where dim `d` of the operand of `made`, a node that a reader made, is in its result.
int64_t dim_in(const Node& made, int64_t d) {
  const Dims& dims = made.attrs.dimensions;
  if (made.is(Opcode::broadcast)) return dims.at(static_cast<size_t>(d));
  if (made.is(Opcode::transpose)) return std::find(dims.begin(), dims.end(), d) - dims.begin();
  if (!made.is(Opcode::reshape)) return d;
  if (const std::optional<Dims> said = sdy_broadcast_dims(made)) {
    if (said->at(static_cast<size_t>(d)) < 0) return kNoDim;
    return std::count_if(said->begin(), said->begin() + d, [](int64_t e) { return e >= 0; });
  }
  if (made.operand(0)->dim(d) == 1) return kNoDim;
  int64_t large = 0;  // dims of more than one element before d
  for (int64_t e = 0; e < d; ++e) large += made.operand(0)->dim(e) != 1 ? 1 : 0;
  for (int64_t e = 0; e < made.rank(); ++e)
    if (made.dim(e) != 1 && large-- == 0) return e;
  return kNoDim;
}

}  // namespace

Rule pointwise_sdy_rule(const Node& node, bool) {
  const Dims sizes = leaf_shapes(node.shape).at(0).dims;
  return by_dim(node, sizes, [](int64_t) { return SdyFactor{1, kPass}; });
}

std::optional<Dims> sdy_broadcast_dims(const Node& reshape) {
  const auto found = reshape.frontend_attributes.find(kImplicit);
  if (!reshape.is(Opcode::reshape) || found == reshape.frontend_attributes.end())
    return std::nullopt;
  Dims dims;
  int64_t kept = 0;
  std::istringstream words(found->second);
  for (int64_t dim; words >> dim;) {
    dims.push_back(dim);
    kept += dim >= 0 ? 1 : 0;
  }
  if (!words.eof() || std::ssize(dims) != reshape.operand(0)->rank() || kept != reshape.rank())
    return std::nullopt;
  return dims;
}

std::optional<SdyAllToAll> sdy_all_to_all(const Node& node) {
  if (!node.is(Opcode::all_to_all) || node.operands().size() != 1 ||
      node.attrs.dimensions.size() != 1)
    return std::nullopt;
  const auto is_made = [](const Node* made, Opcode opcode) {
    return made->is(opcode) && made->frontend_attributes.contains(kImplicit);
  };
  const Node* const joined = node.operand(0);
  if (!is_made(joined, Opcode::reshape)) return std::nullopt;
  const Node* const moved = joined->operand(0);
  if (!is_made(moved, Opcode::transpose) || !is_made(moved->operand(0), Opcode::reshape))
    return std::nullopt;
  const Node* const parts = moved->operand(0);
  const Dims& given = parts->operand(0)->dims();
  const int64_t join = node.attrs.dimensions[0], rank = std::ssize(given);
  if (rank != node.rank()) return std::nullopt;
  for (int64_t split = 0; split < rank; ++split) {
    const int64_t size = node.dim(split), whole = given[static_cast<size_t>(split)];
    if (split == join || size < 1 || whole % size != 0) continue;
    const SplitDims dims = split_dims(given, split, join, whole / size);
    if (dims.parts == parts->dims() && dims.order == moved->attrs.dimensions &&
        dims.joined == joined->dims())
      return SdyAllToAll{parts->operand(0), split};
  }
  return std::nullopt;
}

SdyOperand sdy_operand(const Node& node, int64_t operand) {
  const std::optional<SdyAllToAll> exchange = sdy_all_to_all(node);
  SdyOperand result{exchange ? exchange->operand : node.operand(operand), {}};
  for (int64_t d = 0; d < result.node->rank(); ++d) result.dims.push_back(d);
  while (result.node->frontend_attributes.contains(kImplicit) &&
         result.node->operands().size() == 1 && !result.node->operand(0)->shape.is_tuple) {
    const Node& made = *result.node;
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < made.operand(0)->rank(); ++d) {
      const int64_t there = dim_in(made, d);
      dims.push_back(there == kNoDim ? kNoDim : result.dims.at(static_cast<size_t>(there)));
    }
    result = {made.operand(0), std::move(dims)};
  }
  return result;
}

Rule sdy_rule(const Node& node, bool conservative) {
  const auto given = node.frontend_attributes.find(kSdyRule);
  if (given != node.frontend_attributes.end()) {
    SdyRule rule = parse_sdy_rule(given->second);
    // Compilers hand the attributes of a custom-call on to what they make of it and beside it.
    if (node.is(Opcode::custom_call) || !rule.custom) {
      std::vector<Shape> operands;
      for (int64_t i = 0; i < std::ssize(node.operands()); ++i)
        operands.push_back(sdy_operand(node, i).node->shape);
      check_rule(rule, operands, leaf_shapes(node.shape));
      return rule;
    }
  }
  for (const Node* operand : node.operands())
    if (operand->shape.is_tuple) return std::nullopt;
  const auto row = std::find_if(kSdyRuleRows.begin(), kSdyRuleRows.end(),
                                [&](const SdyRuleRow& r) { return node.is(r.opcode); });
  if (row == kSdyRuleRows.end() && !is_elementwise(node)) return std::nullopt;
  Rule rule = (row == kSdyRuleRows.end() ? pointwise_sdy_rule : row->rule)(node, conservative);
  if (rule) look_through(node, *rule);
  return rule;
}

namespace {

// XLA makes reshapes of broadcasts that add dims of size 1 alone before it completes a program. A
// text that counts no partitions is none of XLA's.
bool is_reshape_to_xla(const Node& node) {
  return node.is(Opcode::broadcast) &&
         sdy_operand(node, 0).node->shape.elements_count() == node.shape.elements_count() &&
         !node.parent().module().frontend_attributes.contains(kUncounted);
}

}  // namespace

SdyTraits sdy_traits(const Node& node) {
  if (is_elementwise(node)) return {true, SdyRound::pass_through};
  if (node.is(Opcode::reshape) || node.is(Opcode::transpose) || is_reshape_to_xla(node) ||
      is_custom_call(node, "MoveToHost") || is_custom_call(node, "MoveToDevice"))
    return {false, SdyRound::pass_through};
  if (node.is(Opcode::dynamic_slice) || node.is(Opcode::dynamic_update_slice))
    return {false, SdyRound::dynamic_slice};
  return {false, node.is(Opcode::broadcast) ? SdyRound::broadcast : SdyRound::other};
}

bool is_sdy_constant(const Node& node, const std::set<const Node*>& constants) {
  if (node.is(Opcode::constant) || node.is(Opcode::iota)) return true;
  const bool cheap = node.is(Opcode::broadcast) || node.is(Opcode::reshape) ||
                     node.is(Opcode::slice) ||
                     (node.op().has(kElementwise) && !node.is(Opcode::rng));
  return cheap && !node.operands().empty() && !node.shape.is_tuple &&
         std::all_of(node.operands().begin(), node.operands().end(),
                     [&](const Node* operand) { return constants.contains(operand); });
}

bool is_sdy_scalar_broadcast(const Node& node) {
  return node.is(Opcode::broadcast) && sdy_operand(node, 0).node->rank() == 0 &&
         !is_reshape_to_xla(node);
}

}  // namespace gspmd
