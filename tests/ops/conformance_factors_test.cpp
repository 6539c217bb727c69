// Every declared factor holds numerically: an op on the pieces of its operands along a factor gives
// the pieces of its result (or partial results to combine). Factors that hold undeclared are
// listed.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/builders.h"
#include "ops/samples.h"
#include "ops/scan/scan.h"

namespace gspmd::testing {
namespace {

// An op with the values of its operands and result.
struct Case {
  const Node* node = nullptr;
  std::vector<Array> operands;
  std::vector<Array> results;
};

// Which dim of each operand and result leaf a factor is, -1 where it is none.
struct Cut {
  std::vector<int64_t> operands;
  std::vector<int64_t> results;
  int64_t size = 0;
  int64_t factor = -1;
};

int64_t dim_of(const std::vector<int64_t>& dims, int64_t factor) {
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] == factor) return static_cast<int64_t>(d);
  return -1;
}

Cut cut_of(const FactorRule& rule, int64_t factor) {
  Cut cut;
  for (const auto& dims : rule.operands) cut.operands.push_back(dim_of(dims, factor));
  for (const auto& dims : rule.results) cut.results.push_back(dim_of(dims, factor));
  cut.size = rule.factors[static_cast<size_t>(factor)].size;
  cut.factor = factor;
  return cut;
}

// Elements [begin, end) along `dim`, all of them where it is -1.
Array part_of(const Array& array, int64_t dim, int64_t begin, int64_t end) {
  if (dim < 0) return array;
  Module module;
  Computation& c = *module.add_computation("part");
  Dims starts(array.dims().size(), 0);
  Dims limits = array.dims();
  starts[static_cast<size_t>(dim)] = begin;
  limits[static_cast<size_t>(dim)] = end;
  c.set_root(hlo::slice(hlo::constant(c, array), starts, limits, Dims(starts.size(), 1)));
  return evaluate(c, {}).array;
}

// Attributes that repeat sizes follow the pieces.
Attributes attributes_of_part(const Case& op, const Cut& cut, int64_t begin, int64_t end) {
  Attributes attrs = op.node->attrs;
  const int64_t dim = cut.operands.empty() ? -1 : cut.operands[0];
  if (dim >= 0 && dim < static_cast<int64_t>(attrs.limits.size()))
    attrs.limits.edit()[static_cast<size_t>(dim)] = end - begin;
  // A batching dim keeps its slice size of one.
  if (dim >= 0 && dim < static_cast<int64_t>(attrs.slice_sizes.size()) &&
      attrs.slice_sizes[static_cast<size_t>(dim)] == op.operands[0].dim(dim))
    attrs.slice_sizes.edit()[static_cast<size_t>(dim)] = end - begin;
  if (!attrs.literal.empty()) attrs.literal = part_of(attrs.literal, cut.results[0], begin, end);
  return attrs;
}

// What the op calls; the computation of a scan has the sizes of the pieces in its text.
std::vector<Computation*> called_on_part(const Case& op, const Cut& cut, int64_t size,
                                         Module& module) {
  if (!op.node->is(Opcode::scan)) return op.node->called;
  std::vector<int64_t> sizes;
  for (const Factor& factor : op.node->op().factors(*op.node).factors) sizes.push_back(factor.size);
  sizes.at(static_cast<size_t>(cut.factor)) = size;
  return {scan_body_on_parts(*op.node, sizes, module, [](const Computation& called) {
    return const_cast<Computation*>(&called);
  })};
}

// The op on pieces. `identity`: operands without the factor hold this instead (they have counted in
// another piece).
std::vector<Array> evaluate_part(const Case& op, const Cut& cut, int64_t begin, int64_t end,
                                 std::optional<double> identity = std::nullopt) {
  Module module;
  Computation& c = *module.add_computation("part");
  std::vector<Node*> operands;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    Array array = part_of(op.operands[i], cut.operands[i], begin, end);
    if (identity && cut.operands[i] < 0) {
      Node* const fill = hlo::splat(c, array.shape(), *identity);
      operands.push_back(fill);
    } else {
      operands.push_back(hlo::constant(c, array));
    }
  }
  std::vector<Shape> declared = leaf_shapes(op.node->shape);
  for (size_t l = 0; l < declared.size(); ++l)
    if (cut.results[l] >= 0) declared[l].dims[static_cast<size_t>(cut.results[l])] = end - begin;
  const Shape shape = op.node->shape.is_tuple ? Shape::tuple(declared) : declared[0];
  c.set_root(emit(c, op.node->opcode(), operands, attributes_of_part(op, cut, begin, end), shape,
                  called_on_part(op, cut, end - begin, module)));
  return leaves(evaluate(c, {}));
}

Array combined(const Array& a, const Array& b, Combiner combiner) {
  Module module;
  Computation& c = *module.add_computation("both");
  c.set_root(hlo::binary(combiner_opcode(combiner), hlo::constant(c, a), hlo::constant(c, b)));
  return evaluate(c, {}).array;
}

bool equal_arrays(const std::vector<Array>& a, const std::vector<Array>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!bitwise_equal(a[i], b[i])) return false;
  return true;
}

bool pass_holds(const Case& op, const Cut& cut) {
  const int64_t middle = cut.size / 2;
  for (const auto& [begin, end] : {std::pair{int64_t(0), middle}, std::pair{middle, cut.size}}) {
    std::vector<Array> expected;
    for (size_t l = 0; l < op.results.size(); ++l)
      expected.push_back(part_of(op.results[l], cut.results[l], begin, end));
    if (!equal_arrays(evaluate_part(op, cut, begin, end), expected)) return false;
  }
  return true;
}

bool reduction_holds(const Case& op, const Cut& cut, Combiner combiner) {
  const int64_t middle = cut.size / 2;
  const double identity = combiner_identity(combiner, op.results[0].dtype());
  const std::vector<Array> first = evaluate_part(op, cut, 0, middle);
  const std::vector<Array> second = evaluate_part(op, cut, middle, cut.size, identity);
  return equal_arrays({combined(first[0], second[0], combiner)}, op.results);
}

// Runs the sample and the operands of its root.
Case make_case(const Sample& sample, Module& module) {
  const std::vector<Value> arguments = sample_arguments(sample, module, Values::integers, 11);
  Computation& c = *module.entry();
  Case op;
  op.node = c.root();
  op.results = leaves(evaluate(module, arguments));
  Node* const root = c.root();
  c.set_root(hlo::tuple(c, root->operands()));
  op.operands = leaves(evaluate(module, arguments));
  c.set_root(root);
  return op;
}

bool has_tuple_operand(const Node& node) {
  for (const Node* operand : node.operands())
    if (operand->shape.is_tuple) return true;
  return false;
}

// All ways to cut operands along dims of one size that no pass or reduction factor has.
std::vector<Cut> undeclared_cuts(const FactorRule& rule, const Case& op) {
  const auto declared = [&](int64_t factor) {
    if (factor == FactorRule::kNone) return false;
    const FactorKind kind = rule.factors[static_cast<size_t>(factor)].kind;
    return kind == FactorKind::pass || kind == FactorKind::reduction;
  };
  std::vector<Cut> cuts;
  for (size_t d = 0; d < rule.results[0].size(); ++d) {
    const int64_t size = op.results[0].dims()[d];
    if (declared(rule.results[0][d]) || size < 2) continue;
    std::vector<Cut> open{{{}, {static_cast<int64_t>(d)}, size, -1}};
    for (size_t i = 0; i < op.operands.size(); ++i) {
      std::vector<Cut> longer;
      for (const Cut& cut : open)
        for (int64_t o = -1; o < op.operands[i].shape().rank(); ++o) {
          if (o >= 0 &&
              (declared(rule.operands[i][static_cast<size_t>(o)]) || op.operands[i].dim(o) != size))
            continue;
          longer.push_back(cut);
          longer.back().operands.push_back(o);
        }
      open = std::move(longer);
    }
    cuts.insert(cuts.end(), open.begin(), open.end());
  }
  return cuts;
}

bool holds_undeclared(const Case& op, const Cut& cut) {
  try {
    return pass_holds(op, cut);
  } catch (const UserError&) {
    return false;  // the pieces do not even fit together
  }
}

}  // namespace

TEST_CASE("every declared pass and reduction factor holds", "[conformance]") {
  int checked = 0;
  for (const Sample& sample : samples()) {
    if (sample.devices > 1) continue;
    const std::unique_ptr<Module> module = sample_module(sample);
    const Node& node = *module->entry()->root();
    if (node.op().factors == nullptr || has_tuple_operand(node)) continue;
    const FactorRule rule = node.op().factors(node);
    INFO(sample.name << ": " << to_string(rule));
    const Case op = make_case(sample, *module);
    REQUIRE(rule.operands.size() == op.operands.size());
    REQUIRE(rule.results.size() == op.results.size());
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      const Factor& factor = rule.factors[f];
      const Cut cut = cut_of(rule, static_cast<int64_t>(f));
      for (size_t i = 0; i < op.operands.size(); ++i)
        if (cut.operands[i] >= 0 && factor.kind != FactorKind::window)
          CHECK(op.operands[i].dim(cut.operands[i]) == factor.size);
      // An iota counts along its own dim: a piece starts at its offset, which the partitioner adds.
      if (node.is(Opcode::iota) && cut.results[0] == node.attrs.index) continue;
      INFO("factor " << f << " of size " << factor.size);
      if (factor.size < 2) continue;
      ++checked;
      if (factor.kind == FactorKind::pass)
        CHECK(pass_holds(op, cut));
      else if (factor.kind == FactorKind::reduction)
        CHECK(reduction_holds(op, cut, factor.combiner));
    }
  }
  CHECK(checked > 150);
}

TEST_CASE("factors that hold but are not declared are known", "[conformance]") {
  std::set<std::string> found;
  for (const Sample& sample : samples()) {
    if (sample.devices > 1) continue;
    const std::unique_ptr<Module> module = sample_module(sample);
    const Node& node = *module->entry()->root();
    if (node.op().factors == nullptr || has_tuple_operand(node) || node.shape.is_tuple) continue;
    const FactorRule rule = node.op().factors(node);
    const Case op = make_case(sample, *module);
    if (op.results[0].size() == 0) continue;  // anything holds for no elements
    for (const Cut& cut : undeclared_cuts(rule, op))
      if (holds_undeclared(op, cut))
        found.insert(fmt::format("{}: ([{}])->[{}]", sample.name, fmt::join(cut.operands, ","),
                                 cut.results[0]));
  }
  CHECK(found == std::set<std::string>{});
}

}  // namespace gspmd::testing
