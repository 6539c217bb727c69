// Completion reads the loop nest of an op; where an op has rules of its own, they say what the nest
// says or are named here with the reason.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "gspmd/ir/text.h"
#include "ops/common/completion.h"
#include "ops/common/completion_rules.h"
#include "ops/samples.h"

namespace gspmd::testing {
namespace {

// Ops whose rules the nest does not give, and why.
const std::map<Opcode, const char*>& special_ops() {
  static const std::map<Opcode, const char*> special{
      {Opcode::reshape, "digits of a dim go on to parts of dims"},
      {Opcode::reverse, "devices change places"},
      {Opcode::broadcast, "whole is not handed on; without SPMD new splits are not undone"},
      {Opcode::concatenate, "one operand speaks for all; without SPMD pieces have devices"},
      {Opcode::dynamic_slice, "a whole result has whole start indices"},
      {Opcode::dynamic_update_slice, "as dynamic-slice; the update speaks before the operand"},
      {Opcode::reduce, "without SPMD nothing is summed over devices"},
      {Opcode::reduce_window, "dilated windows hand nothing on"},
      {Opcode::select_and_scatter, "as reduce-window; the source has the result's layout at most"},
      {Opcode::convolution, "a small kernel leaves split window dims where they are"},
      {Opcode::gather, "indices speak between the operand's shared dims and its others"},
      {Opcode::scatter, "as gather; updates and indices confer"},
      {Opcode::cholesky, "a matrix stays whole"},
      {Opcode::triangular_solve, "as cholesky"},
      {Opcode::sort, "a split sorted dim needs another dim that can take it"},
      {Opcode::scan, "carries have no scan dim"},
      {Opcode::rng, "nothing but wholeness goes from bounds to numbers"},
      {Opcode::tuple, "leaves are values of their own"},
      {Opcode::get_tuple_element, "as tuple"},
      {Opcode::while_, "tied to its computations"},
      {Opcode::conditional, "tied to its computations"},
      {Opcode::call, "tied to its computation"},
      {Opcode::optimization_barrier, "leaf by leaf, tuples too"},
      {Opcode::custom_call, "by its target"},
      {Opcode::outfeed, "the value's leaves, without the token's"},
  };
  return special;
}

bool is_pointwise_rule(const CompletionRules& rules) {
  const bool forward =
      rules.forward == pointwise_forward || rules.forward == representative_forward;
  return forward && (!rules.suggestions || rules.suggestions == same_dims_suggestions);
}

TEST_CASE("Ops with completion rules of their own are on the list") {
  std::set<std::string> own, listed;
  for (int64_t i = 0; i < opcode_count(); ++i) {
    const OpInfo& op = op_info(static_cast<Opcode>(i));
    const CompletionRules& rules = op.completion;
    if ((rules.forward || rules.suggestions) && !is_pointwise_rule(rules))
      own.insert(std::string(opcode_name(op.opcode)));
  }
  for (const auto& [opcode, reason] : special_ops())
    listed.insert(std::string(opcode_name(opcode)));
  CHECK(own == listed);
}

// Every way to split the dims of a value over the two axes of four devices, one axis per dim.
std::vector<Sharding> layouts_of(const Shape& shape) {
  const DeviceOrder order = iota_order(4);
  const Digit outer{2, 2}, inner{2, 1};
  std::vector<Sharding> all{Sharding::replicated()};
  for (int64_t a = -1; a < shape.rank(); ++a)
    for (int64_t b = -1; b < shape.rank(); ++b) {
      std::vector<Digits> dims(shape.dims.size());
      if (a >= 0) dims[static_cast<size_t>(a)].push_back(outer);
      if (b >= 0) dims[static_cast<size_t>(b)].push_back(inner);
      if (a >= 0 || b >= 0) all.push_back(Sharding::tiled(order, std::move(dims)));
    }
  return all;
}

// Whether every split of `part` is one of `whole`.
bool is_part(const Sharding& part, const Sharding& whole, int64_t rank) {
  for (int64_t d = 0; d < rank; ++d)
    if (!part.dim(d).empty() && part.dim(d) != whole.dim(d)) return false;
  return true;
}

std::string told(const Node& node, CompletionMode mode, int64_t operand, const Sharding& said) {
  return fmt::format("{} level {}{} operand {}: {}", to_text(node), mode.level,
                     mode.spmd ? "" : " no-spmd", operand, to_string(said));
}

const std::vector<CompletionMode>& modes() {
  static const std::vector<CompletionMode> all{{0, true},  {1, true},  {2, true},  {3, true},
                                               {0, false}, {1, false}, {2, false}, {3, false}};
  return all;
}

// Of ops that say what no loop of theirs says.
bool goes_beyond_nest(Opcode opcode) {
  return opcode == Opcode::reshape || opcode == Opcode::reverse || opcode == Opcode::concatenate ||
         opcode == Opcode::convolution;
}

// What `node` says forward with operand i laid out as `s` and all others without a sharding.
void check_forward(Node& node, int64_t i, const Sharding& s) {
  const std::vector<Shape> leaves = leaf_shapes(node.shape);
  node.operand(i)->sharding = s;
  for (const CompletionMode mode : modes()) {
    const FactorRule rule = completion_nest(node, mode);
    for (const ShardingProposal& p : proposals_of_operands(node, mode)) {
      if (p.operand != i || p.sharding.is_tuple()) continue;
      const auto leaf = static_cast<size_t>(std::max<int64_t>(p.leaf, 0));
      const Sharding by_nest =
          carry_sharding(rule.operands.at(static_cast<size_t>(i)), s, rule.results.at(leaf));
      INFO(told(node, mode, i, p.sharding) << ", by the nest " << to_string(by_nest));
      CHECK(is_part(p.sharding, by_nest, leaves.at(leaf).rank()));
      if (!special_ops().contains(node.opcode())) CHECK(p.sharding == by_nest);
    }
  }
  node.operand(i)->sharding.reset();
}

// What its result says of operand i, laid out as `s` in all leaves.
void check_backward(Node& node, int64_t i, const Sharding& s) {
  const std::vector<Shape> leaves = leaf_shapes(node.shape);
  node.sharding = s;
  if (node.shape.is_tuple) node.sharding = Sharding::tuple(std::vector<Sharding>(leaves.size(), s));
  for (const CompletionMode mode : modes()) {
    const FactorRule rule = completion_nest(node, mode);
    for (const OperandSuggestion& said : suggestions_of_reader(node, i, mode)) {
      if (said.operand >= 0 || said.sharding.is_tuple()) continue;
      const Sharding by_nest = carry_sharding(rule.results.at(static_cast<size_t>(said.leaf)), s,
                                              rule.operands.at(static_cast<size_t>(i)));
      INFO(told(node, mode, i, said.sharding) << ", by the nest " << to_string(by_nest));
      CHECK(is_part(said.sharding, by_nest, node.operand(i)->rank()));
      if (!special_ops().contains(node.opcode())) CHECK(said.sharding == by_nest);
    }
  }
  node.sharding.reset();
}

// Whether all values that the rules look at are arrays, and there is a nest that completion heeds:
// ops that it never splits have none.
bool has_plain_nest(const Node& node) {
  const OpInfo& op = node.op();
  if (op.completion.may_be_tiled && !op.completion.may_be_tiled(node, true)) return false;
  if (!op.completion.nest && !op.factors) return false;
  if (node.operands().empty() || op.has(kCollective)) return false;
  return std::none_of(node.operands().begin(), node.operands().end(),
                      [](const Node* operand) { return operand->shape.is_tuple; });
}

TEST_CASE("What completion says of every sample follows from its loop nest") {
  std::set<Opcode> seen;
  for (const Sample& sample : samples()) {
    const std::unique_ptr<Module> module = sample_module(sample);
    Node& node = *module->entry()->root();
    if (!has_plain_nest(node) || goes_beyond_nest(node.opcode())) continue;
    seen.insert(node.opcode());
    for (int64_t i = 0; i < std::ssize(node.operands()); ++i) {
      for (const Sharding& s : layouts_of(node.operand(i)->shape)) check_forward(node, i, s);
      for (const Sharding& s : layouts_of(leaf_shapes(node.shape).at(0)))
        check_backward(node, i, s);
    }
  }
  CHECK(seen.size() > 60);
}

// The other way round: the nest is heard.
TEST_CASE("Ops that leave completion to their nest hand on every loop that they share") {
  for (const Sample& sample : samples()) {
    const std::unique_ptr<Module> module = sample_module(sample);
    Node& node = *module->entry()->root();
    const CompletionRules& rules = node.op().completion;
    if (rules.speakers == Speakers::none || rules.forward || !has_plain_nest(node)) continue;
    const CompletionMode mode{3, true};
    const FactorRule rule = completion_nest(node, mode);
    for (const Sharding& s : layouts_of(node.operand(0)->shape)) {
      node.operand(0)->sharding = s;
      INFO(to_text(node) << " of " << to_string(s));
      const std::vector<ShardingProposal> proposals = proposals_of_operands(node, mode);
      REQUIRE(proposals.size() == 1);
      CHECK(proposals[0].sharding == carry_sharding(rule.operands[0], s, rule.results.at(0)));
    }
  }
}

}  // namespace
}  // namespace gspmd::testing
