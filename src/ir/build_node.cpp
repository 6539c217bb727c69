#include <stdexcept>

#include "gspmd/ir/op.h"
#include "ir/module_parser.h"
#include "ir/parse_attributes.h"
#include "ir/sharding_text.h"

namespace gspmd {
namespace {

constexpr std::string_view kThread = "async_execution_thread";
constexpr std::string_view kPredecessors = "control-predecessors";

std::vector<Node*> nodes_of(const auto& operands) {
  std::vector<Node*> nodes;
  nodes.reserve(operands.size());
  for (const auto& operand : operands) nodes.push_back(operand.node);
  return nodes;
}

// Opcodes whose element type is part of the declared result only.
bool declares_its_type(Opcode opcode) {
  return opcode == Opcode::convert || opcode == Opcode::bitcast_convert ||
         opcode == Opcode::stochastic_convert;
}

// The type of a node whose declaration its rule does not read: two different declarations give one
// result. nullopt where they do not.
std::optional<Shape> implied_shape(Node& node) {
  if (declares_its_type(node.opcode())) return std::nullopt;
  const bool of_array = !node.operands().empty() && !node.operand(0)->shape.is_tuple;
  const DType dtype = of_array ? node.operand(0)->shape.dtype : DType::f32;
  const Shape probes[] = {Shape(dtype, {7, 3}), Shape(dtype, {})};
  std::optional<Shape> result;
  for (const Shape& probe : probes) {
    node.shape = probe;
    Shape shape = node.op().infer(node);
    if (result && !(*result == shape)) return std::nullopt;
    result = std::move(shape);
  }
  return result;
}

// The narrowest type that holds the values of both floats.
DType wider(DType a, DType b) {
  if (a == b) return a;
  if (dtype_size(a) != dtype_size(b)) return dtype_size(a) > dtype_size(b) ? a : b;
  return DType::f32;  // f16 and bf16, or two of one byte
}

// What the sharding at the cursor is of: the result; or of an outfeed, whose result is a token,
// when it is a tuple, what goes out and the token.
Shape annotated_shape(const Node& node, Lexer& lexer) {
  if (!node.is(Opcode::outfeed) || node.shape.is_tuple || node.operands().empty())
    return node.shape;
  const size_t start = lexer.position();
  lexer.accept("{");
  const bool tuple = lexer.peek() == '{';
  lexer.seek(start);
  return tuple ? Shape::tuple({node.operand(0)->shape, node.shape}) : node.shape;
}

}  // namespace

Node* ModuleParser::append(std::string name, Opcode opcode, Shape shape,
                           std::vector<Node*> operands, Attributes attrs, size_t position) {
  Node* const node = scope_.computation->append_as(std::move(name), opcode, std::move(shape),
                                                   std::move(operands), std::move(attrs));
  positions_.resize(static_cast<size_t>(node->id()) + 1);
  positions_.back() = position;
  node->metadata.text = site_of(position);
  return node;
}

Node* ModuleParser::build(Instruction& instruction) {
  Node* node = nullptr;
  if (instruction.opcode == Opcode::constant && instruction.shape->is_tuple) {
    node = build_tuple_constant(instruction);
  } else if (instruction.is_async_start) {
    node = build_async_start(instruction);
  } else if (instruction.opcode == Opcode::bitcast && reorders(instruction)) {
    node = build_bitcast(instruction);
  } else {
    split_start_vector(instruction);
    const std::optional<DType> wide = unify_precision(instruction);
    const bool narrows = wide && instruction.shape && is_floating(instruction.shape->dtype) &&
                         instruction.shape->dtype != *wide;
    Shape shape = instruction.shape.value_or(Shape());
    if (narrows) shape.dtype = *wide;
    node = append(narrows ? made_name(instruction, "wide") : std::string(instruction.name),
                  instruction.opcode, std::move(shape), nodes_of(instruction.operands),
                  std::move(instruction.attrs), instruction.position);
    attach_calls(node, instruction.calls);
    if (!instruction.shape) node->shape = infer(*node, instruction);
    if (narrows) {
      scope_.made.push_back(node);
      node = append(std::string(instruction.name), Opcode::convert, *instruction.shape, {node}, {},
                    instruction.position);
    }
  }
  annotate(node, instruction);
  if (instruction.key != instruction.name) scope_.made.push_back(node);
  if (instruction.is_root) scope_.computation->set_root(node);
  return node;
}

// A name for a node that the text has no line for.
std::string ModuleParser::made_name(const Instruction& instruction, std::string_view suffix) {
  return module_->unique_name(fmt::format("{}.{}", instruction.name, suffix));
}

// Text may mix the precisions of floats in elementwise instructions, which means computing in the
// widest: the others are converted to it. nullopt where there is nothing to convert.
std::optional<DType> ModuleParser::unify_precision(Instruction& instruction) {
  if (!op_info(instruction.opcode).has(kElementwise)) return std::nullopt;
  std::optional<DType> wide;
  bool mixed = false;
  for (const Operand& operand : instruction.operands) {
    const Shape& shape = operand.node->shape;
    if (shape.is_tuple || !is_floating(shape.dtype)) continue;
    mixed = mixed || (wide && *wide != shape.dtype);
    wide = wide ? wider(*wide, shape.dtype) : shape.dtype;
  }
  if (!mixed) return std::nullopt;
  for (Operand& operand : instruction.operands) {
    Shape shape = operand.node->shape;
    if (shape.is_tuple || !is_floating(shape.dtype) || shape.dtype == *wide) continue;
    shape.dtype = *wide;
    operand.node = append(made_name(instruction, "wide"), Opcode::convert, std::move(shape),
                          {operand.node}, {}, instruction.position);
    scope_.made.push_back(operand.node);
  }
  return wide;
}

// An older form of dynamic slices gives all start indices as one vector: its elements are taken
// out.
void ModuleParser::split_start_vector(Instruction& instruction) {
  const size_t first = instruction.opcode == Opcode::dynamic_slice          ? 1
                       : instruction.opcode == Opcode::dynamic_update_slice ? 2
                                                                            : 0;
  if (first == 0 || instruction.operands.size() != first + 1) return;
  Node* const vector = instruction.operands[first].node;
  const Shape& shape = vector->shape;
  if (shape.is_tuple || shape.rank() != 1 ||
      shape.dims[0] != instruction.operands[0].node->shape.rank())
    return;
  const auto make = [&](Opcode opcode, Dims dims, Node* operand, Attributes attrs) {
    Node* const node =
        append(made_name(instruction, "start"), opcode, Shape(shape.dtype, std::move(dims)),
               {operand}, std::move(attrs), instruction.position);
    scope_.made.push_back(node);
    return node;
  };
  instruction.operands.pop_back();
  for (int64_t i = 0; i < vector->dim(0); ++i) {
    Attributes attrs;
    attrs.starts = {i};
    attrs.limits = {i + 1};
    attrs.strides = {1};
    Operand start;
    start.node = make(Opcode::reshape, {}, make(Opcode::slice, {1}, vector, std::move(attrs)), {});
    instruction.operands.push_back(std::move(start));
  }
}

// Constants are arrays here: a tuple of them is a tuple of constants.
Node* ModuleParser::build_tuple_constant(Instruction& instruction) {
  size_t next = 0;
  const auto make = [&](const auto& self, const Shape& shape, std::string name) -> Node* {
    const bool leaf = !shape.is_tuple;
    std::vector<Node*> elements;
    for (const Shape& element : shape.elements)
      elements.push_back(self(self, element, made_name(instruction, "element")));
    Attributes attrs;
    if (leaf) attrs.literal = std::move(instruction.leaves.at(next++));
    Node* const node = append(std::move(name), leaf ? Opcode::constant : Opcode::tuple, shape,
                              std::move(elements), std::move(attrs), instruction.position);
    scope_.made.push_back(node);
    return node;
  };
  Node* const node = make(make, *instruction.shape, std::string(instruction.name));
  scope_.made.pop_back();
  node->attrs.other = std::move(instruction.attrs.other);
  return node;
}

// "add-start(..)" is async-start of a computation that holds the one instruction "add".
Node* ModuleParser::build_async_start(Instruction& instruction) {
  const bool fits =
      instruction.shape && instruction.shape->is_tuple && instruction.shape->elements.size() >= 2;
  if (!fits)
    lexer_.fail(instruction.word_position,
                "{}: the type is a tuple of the operands' tuple, the result and contexts",
                instruction.word);
  Attributes outer;
  for (const std::string_view name : {kThread, kPredecessors})
    if (auto kept = instruction.attrs.other.edit().extract(std::string(name)); !kept.empty())
      outer.other.edit().insert(std::move(kept));

  Computation* const home = scope_.computation;
  Computation* const wrapper =
      module_->add_computation(fmt::format("async_{}", opcode_name(instruction.opcode)));
  if (const auto thread = outer.other.find(std::string(kThread)); thread != outer.other.end())
    wrapper->attributes.emplace_back("execution_thread", thread->second);
  scope_.computation = wrapper;
  std::vector<Node*> parameters;
  for (const Operand& operand : instruction.operands) {
    Attributes attrs;
    attrs.index = static_cast<int64_t>(parameters.size());
    std::string name = fmt::format("param_{}", parameters.size());
    parameters.push_back(append(std::move(name), Opcode::parameter, operand.node->shape, {},
                                std::move(attrs), operand.position));
  }
  Node* const wrapped = append(std::string(opcode_name(instruction.opcode)), instruction.opcode,
                               instruction.shape->elements[1], std::move(parameters),
                               std::move(instruction.attrs), instruction.position);
  attach_calls(wrapped, instruction.calls);
  wrapper->set_root(wrapped);
  scope_.computation = home;

  Node* const start =
      append(std::string(instruction.name), Opcode::async_start, *instruction.shape,
             nodes_of(instruction.operands), std::move(outer), instruction.position);
  start->called = {wrapper};
  return start;
}

void ModuleParser::attach_calls(Node* node, std::vector<Call>& calls) {
  node->called.resize(calls.size());
  for (Call& call : calls) {
    call.caller = node;
    resolve_call(call);
    calls_.push_back(call);
  }
}

void ModuleParser::annotate(Node* node, Instruction& instruction) {
  instruction.metadata.text = node->metadata.text;
  node->metadata = std::move(instruction.metadata);
  node->frontend_attributes = std::move(instruction.frontend_attributes);
  if (instruction.prevents_cse) node->frontend_attributes[kCsePreventionAttribute] = "true";
  const auto phase = node->frontend_attributes.find("gspmd.phase");
  if (phase != node->frontend_attributes.end() && phase->second == "backward") {
    node->backward = true;
    node->frontend_attributes.erase(phase->first);
  }
  if (instruction.sharding_position && !instruction.sharding) {
    const size_t behind = lexer_.position();
    lexer_.seek(*instruction.sharding_position);
    instruction.sharding = read_sharding(lexer_, annotated_shape(*node, lexer_));
    lexer_.seek(behind);
  }
  node->sharding = std::move(instruction.sharding);
}

// The type of an instruction that was written without one.
Shape ModuleParser::infer(Node& node, const Instruction& instruction) {
  std::string why;
  try {
    const bool of_called =
        node.is(Opcode::call) || node.is(Opcode::fusion) || node.is(Opcode::conditional);
    if (of_called && !node.called.empty() && node.called[0] && node.called[0]->root())
      return node.called[0]->root()->shape;
    if (node.is(Opcode::while_) && !node.operands().empty()) return node.operand(0)->shape;
    if (const std::optional<Shape> shape = of_called ? std::nullopt : implied_shape(node))
      return *shape;
  } catch (const UserError& error) {
    why = fmt::format(": {}", error.what());
  } catch (const std::out_of_range&) {
    // An operand or dim that the rule reads is not there.
  }
  lexer_.fail(instruction.word_position,
              "{}: the type is missing, and what is written does not imply one{}", instruction.word,
              why);
}

}  // namespace gspmd
