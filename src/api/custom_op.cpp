#include "gspmd/api/custom_op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "api/copy_module.h"
#include "api/emit.h"
#include "gspmd/api/trace.h"
#include "gspmd/ops/custom_ops.h"

namespace gspmd {

using namespace detail;

namespace {

std::vector<Shape> operand_shapes(const Node& node) {
  std::vector<Shape> shapes;
  for (const Node* operand : node.operands()) {
    if (operand->shape.is_tuple)
      user_error("custom-call: operand \"{}\" of {} is a tuple; its ops take arrays",
                 operand->name(), *node.attrs.custom_call_target);
    shapes.push_back(operand->shape);
  }
  return shapes;
}

CustomShapes shapes_of(const Node& node) {
  return {operand_shapes(node), leaf_shapes(node.shape), custom_config(node)};
}

std::string list_of(const std::vector<Shape>& shapes) {
  std::vector<std::string> texts;
  for (const Shape& shape : shapes) texts.push_back(to_string(shape));
  return fmt::format("({})", fmt::join(texts, ", "));
}

Shape inferred(const CustomOp& op, const Node& node) {
  const std::vector<Shape> operands = operand_shapes(node);
  std::vector<Shape> results = op.infer(operands, custom_config(node));
  if (results.empty()) user_error("custom-call: infer of \"{}\" gives no result", op.name);
  return results.size() == 1 ? results[0] : Shape::tuple(std::move(results));
}

// The letters of one side of a nest: "bi,i" -> {"bi", "i"}.
std::vector<std::string> lists(const std::string& side) {
  std::vector<std::string> lists{""};
  for (const char c : side) {
    if (c == ',')
      lists.emplace_back();
    else
      lists.back() += c;
  }
  return lists;
}

// A nest as it is read, letter by letter.
class NestReader {
 public:
  NestReader(const CustomOp& op, const CustomLoops& loops, const CustomShapes& shapes)
      : op_(op), loops_(loops), shapes_(shapes) {}

  FactorRule read() {
    const size_t arrow = loops_.nest.find("->");
    if (arrow == std::string::npos) fail("write operands -> results, as bi,ij->bj");
    operands_ = lists(loops_.nest.substr(0, arrow));
    results_ = lists(loops_.nest.substr(arrow + 2));
    FactorRule rule;
    rule.scalars_start = false;
    add_dims(rule, operands_, shapes_.operands, "operand", rule.operands);
    add_dims(rule, results_, shapes_.results, "result", rule.results);
    for (const char letter : loops_.whole)
      if (letters_.find(letter) == std::string::npos)
        fail(fmt::format("letter {} of `whole` is in no dim", letter));
    for (size_t f = 0; f < letters_.size(); ++f) {
      rule.factors[f].kind = kind_of(letters_[f]);
      rule.factors[f].combiner = loops_.combiner;
    }
    return rule;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    user_error("custom-call: loops \"{}\" of \"{}\" do not fit {} -> {}: {}", loops_.nest, op_.name,
               list_of(shapes_.operands), list_of(shapes_.results), why);
  }

  void add_dims(FactorRule& rule, const std::vector<std::string>& texts,
                const std::vector<Shape>& shapes, const char* what,
                std::vector<std::vector<int64_t>>& dims) {
    if (texts.size() != shapes.size())
      fail(fmt::format("it lists {} {}s of {}", texts.size(), what, shapes.size()));
    for (size_t i = 0; i < texts.size(); ++i) {
      if (static_cast<int64_t>(texts[i].size()) != shapes[i].rank())
        fail(fmt::format("{} {} has {} letters for {} dims", what, i, texts[i].size(),
                         shapes[i].rank()));
      if (std::set<char>(texts[i].begin(), texts[i].end()).size() != texts[i].size())
        fail(fmt::format("{} {} has a letter twice", what, i));
      std::vector<int64_t>& list = dims.emplace_back();
      for (size_t d = 0; d < texts[i].size(); ++d)
        list.push_back(factor(rule, texts[i][d], shapes[i].dims[d]));
    }
  }

  int64_t factor(FactorRule& rule, char letter, int64_t size) {
    if (std::isalpha(static_cast<unsigned char>(letter)) == 0)
      fail(fmt::format("'{}' is no letter", letter));
    const size_t at = letters_.find(letter);
    if (at == std::string::npos) {
      letters_ += letter;
      rule.factors.push_back({size});
      return static_cast<int64_t>(rule.factors.size()) - 1;
    }
    if (rule.factors[at].size != size)
      fail(fmt::format("letter {} is of sizes {} and {}", letter, rule.factors[at].size, size));
    return static_cast<int64_t>(at);
  }

  // A loop that only some of the results have, or no operand, cannot be cut.
  FactorKind kind_of(char letter) const {
    const auto has = [&](const std::string& list) { return list.find(letter) != list.npos; };
    const auto count = std::count_if(results_.begin(), results_.end(), has);
    const bool read = std::any_of(operands_.begin(), operands_.end(), has);
    if (loops_.whole.find(letter) != std::string::npos || !read) return FactorKind::blocked;
    if (count == 0) return FactorKind::reduction;
    return count == std::ssize(results_) ? FactorKind::pass : FactorKind::blocked;
  }

  const CustomOp& op_;
  const CustomLoops& loops_;
  const CustomShapes& shapes_;
  std::vector<std::string> operands_, results_;
  std::string letters_;  // of the factors, in order
};

FactorRule factors(const CustomOp& op, const Node& node) {
  const CustomShapes shapes = shapes_of(node);
  CustomLoops loops;
  if (op.loops) loops = op.loops(shapes.operands, shapes.config);
  if (!loops.nest.empty()) return NestReader(op, loops, shapes).read();
  FactorRule rule;
  rule.scalars_start = false;
  const auto block = [&](const std::vector<Shape>& all, std::vector<std::vector<int64_t>>& dims) {
    for (const Shape& shape : all) {
      std::vector<int64_t>& list = dims.emplace_back();
      for (const int64_t size : shape.dims) {
        list.push_back(static_cast<int64_t>(rule.factors.size()));
        rule.factors.push_back({size, FactorKind::blocked});
      }
    }
  };
  block(shapes.operands, rule.operands);
  block(shapes.results, rule.results);
  return rule;
}

Value evaluated(const CustomOp& op, const EvalContext& context) {
  std::vector<Array> operands;
  for (const Value& value : context.operands) operands.push_back(value.array);
  std::vector<Array> results = op.reference(operands, custom_config(context.node));
  const std::vector<Shape> wanted = leaf_shapes(context.node.shape);
  std::vector<Shape> given;
  for (const Array& result : results) given.push_back(result.shape());
  if (!(given == wanted))
    user_error("custom-call: the reference of \"{}\" gives {}, its infer says {}", op.name,
               list_of(given), list_of(wanted));
  return pack(context.node.shape, results);
}

// What the gradient of a call reads, in order.
std::vector<Node*> gradient_inputs(Node& node, const std::vector<Node*>& cotangents) {
  std::vector<Node*> inputs = node.operands();
  const std::vector<Node*> results = hlo::leaves(&node);
  inputs.insert(inputs.end(), results.begin(), results.end());
  for (size_t i = 0; i < cotangents.size(); ++i)
    inputs.push_back(cotangents[i] != nullptr ? cotangents[i] : splat_like(results[i], 0));
  return inputs;
}

// The gradient's program, on parameters of these shapes; `flows` says for which operands it has a
// result.
Traced trace_gradient(const CustomOp& op, const Node& node, const std::vector<Node*>& inputs,
                      std::vector<bool>& flows) {
  TraceSession session({.name = op.name + ".gradient", .site = {}});
  CustomCotangents given;
  given.config = custom_config(node);
  const size_t operands = node.operands().size();
  const size_t results = (inputs.size() - operands) / 2;
  for (size_t i = 0; i < inputs.size(); ++i) {
    session.begin_argument(type_address<Array>());
    std::vector<Tensor>& list = i < operands             ? given.operands
                                : i < operands + results ? given.results
                                                         : given.cotangents;
    list.push_back(session.parameter("", inputs[i]->shape));
  }
  const std::vector<Tensor> found = op.gradient(given);
  if (found.size() != operands)
    user_error(
        "custom-call: the gradient of \"{}\" gives {} cotangents for {} operands; give Tensor() "
        "where none flows",
        op.name, found.size(), operands);
  for (size_t i = 0; i < operands; ++i) {
    const Node* const cotangent = TensorAccess::node(found[i]);
    flows.push_back(cotangent != nullptr);
    if (cotangent == nullptr) continue;
    if (!(cotangent->shape == inputs[i]->shape))
      user_error("custom-call: the gradient of \"{}\" gives {} for operand {} of {}", op.name,
                 to_string(cotangent->shape), i, to_string(inputs[i]->shape));
    session.begin_result(type_address<Array>());
    session.result("", found[i]);
  }
  return session.finish();
}

std::vector<Node*> gradient(const CustomOp& op, Node& node, const std::vector<Node*>& cotangents) {
  if (!op.gradient)
    user_error(
        "custom-call: \"{}\" has no gradient; give CustomOp::gradient, or stop_gradient() what it "
        "reads",
        op.name);
  Computation& c = node.parent();
  std::vector<Node*> inputs = gradient_inputs(node, cotangents);
  std::vector<bool> flows;
  const Traced traced = trace_gradient(op, node, inputs, flows);
  for (const Array& captured : traced.captured()) inputs.push_back(hlo::constant(c, captured));
  const std::vector<Node*> found = hlo::leaves(copy_entry(*traced.module().entry(), c, inputs));
  std::vector<Node*> result;
  size_t next = 0;
  for (const bool flow : flows) result.push_back(flow ? found.at(next++) : nullptr);
  return result;
}

}  // namespace

void register_op(CustomOp op, Site site) {
  if (op.name.empty()) user_error(site, "register_op: the op has no name; give it one");
  if (!op.infer || !op.reference)
    user_error(site, "register_op: \"{}\" has no {}; give it one", op.name,
               op.infer ? "reference" : "infer");
  const auto shared = std::make_shared<const CustomOp>(std::move(op));
  CustomOpRow row;
  row.target = shared->name;
  row.infer = [shared](const Node& node) { return inferred(*shared, node); };
  row.factors = [shared](const Node& node) { return factors(*shared, node); };
  row.evaluate = [shared](const EvalContext& context) { return evaluated(*shared, context); };
  row.gradient = [shared](Node& node, const std::vector<Node*>& cotangents) {
    return gradient(*shared, node, cotangents);
  };
  if (shared->kernel)
    row.lower = [shared](const Node& node) { return shared->kernel(shapes_of(node)); };
  if (shared->flops)
    row.flops = [shared](const Node& node) { return shared->flops(shapes_of(node)); };
  try {
    add_custom_op(std::move(row));
  } catch (const UserError& error) {
    throw UserError(error.what(), site);
  }
}

std::vector<Tensor> custom_call(const std::string& name, const std::vector<Tensor>& operands,
                                const CustomCallOptions& options, Site site) {
  return call("custom_call", site, [&] {
    const CustomOpRow* const row = find_custom_op(name);
    if (row == nullptr) {
      const std::vector<std::string> known = custom_op_names();
      call_error(
          "no op \"{}\" is registered; register_op() it first ({})", name,
          known.empty() ? "there is none" : fmt::format("there are {}", fmt::join(known, ", ")));
    }
    std::vector<Node*> nodes;
    for (const Tensor& operand : operands) nodes.push_back(node_of(operand));
    Attributes attrs;
    attrs.custom_call_target = name;
    set_custom_config(attrs, options.config);
    Node* const node = emit(trace_of_call().here(), Opcode::custom_call, nodes, std::move(attrs));
    row->factors(*node);  // says what does not fit
    std::vector<Tensor> results;
    for (Node* leaf : hlo::leaves(node)) results.push_back(tensor_of(leaf));
    return results;
  });
}

}  // namespace gspmd
