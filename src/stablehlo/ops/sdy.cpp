// Shardy's ops, carried in HLO as XLA carries them (docs/design/0033-stablehlo-is-a-door.md).
#include <algorithm>

#include "stablehlo/annotations.h"
#include "stablehlo/lowering.h"
#include "stablehlo/text/op_reader.h"

namespace gspmd::stablehlo {
namespace {

// --- Pretty forms

// Text that stands for an attribute: "[{"b"}, {}]", "{"x"}".
Attribute text_attribute(OpReader& reader, size_t begin) {
  Attribute attribute;
  attribute.kind = AttributeKind::other;
  attribute.position = begin;
  Cursor& cursor = reader.cursor();
  attribute.end = cursor.position();
  return attribute;
}

// Reads a bracketed text: the cursor stands at its opening bracket.
Attribute read_bracketed(OpReader& reader) {
  Cursor& cursor = reader.cursor();
  const size_t begin = cursor.position();
  const char open = cursor.peek();
  const char* const closes = open == '[' ? "]" : open == '{' ? "}" : open == '<' ? ">" : nullptr;
  if (closes == nullptr) cursor.fail(begin, "expected a bracket, found {}", cursor.found());
  cursor.seek(begin + 1);
  cursor.balanced("an attribute");
  cursor.expect(closes, "behind an attribute");
  return text_attribute(reader, begin);
}

// "%0 <@m, [..]> {..} : T".
void read_constraint(OpReader& reader, Op& op) {
  op.operands.push_back(reader.read_use());
  op.set("sharding", reader.attributes().read_body(reader.cursor(), "sdy.sharding"));
  reader.read_dictionary(op);
  reader.read_types(op);
}

// "%0 group_id=7 : T".
void read_keyed(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  op.operands.push_back(reader.read_use());
  while (true) {
    const std::string_view key = cursor.peek_word();
    if (key.empty()) break;
    cursor.word("an attribute");
    cursor.expect("=", "behind the name of an attribute");
    if (cursor.peek() == '<')
      op.set(key, reader.attributes().read_body(cursor, "sdy.sharding"));
    else
      op.set(key, reader.read_value());
  }
  reader.read_dictionary(op);
  reader.read_types(op);
}

void read_group(OpReader& reader, Op& op) {
  read_keyed(reader, op);
  op.result_types.clear();
}

void read_list_attribute(OpReader& reader, Op& op, std::string_view name) {
  reader.cursor().expect("=", "behind the name of an attribute");
  op.set(name, read_bracketed(reader));
}

// "(%0, %t) in_shardings=[..] out_shardings=[..] manual_axes={..} (%a: T) {..} {..} : FT".
void read_body_op(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  cursor.expect("(", "before the operands");
  reader.read_uses(op.operands);
  cursor.expect(")", "behind the operands");
  for (const char* name : {"in_shardings", "out_shardings", "manual_axes"})
    if (cursor.accept_word(name)) read_list_attribute(reader, op, name);
  List<Argument> arguments;
  if (cursor.peek() == '(') reader.read_arguments(arguments);
  Region& region = op.regions.emplace_back();
  reader.read_region(region);
  region.arguments = std::move(arguments);
  reader.read_dictionary(op);
  cursor.expect(":", "before the type of an op");
  reader.read_function_type(op);
}

void read_manual(OpReader& reader, Op& op) { read_body_op(reader, op); }

// "<"f">(%0) ...".
void read_named(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  Attribute name;
  name.kind = AttributeKind::string;
  cursor.expect("<", "before the name of a computation");
  name.text = cursor.quoted("the name of a computation");
  cursor.expect(">", "behind the name of a computation");
  op.set("name", std::move(name));
  read_body_op(reader, op);
}

// "[max] [{"b"}, {}] %0 out_sharding=<..> : T": the parameters of a collective, then as keyed.
void read_collective(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  const size_t begin = cursor.position();
  for (const char* word : {"sum", "max", "min"}) cursor.accept_word(word);
  if (cursor.peek() == '[' || cursor.peek() == '{') read_bracketed(reader);
  if (cursor.position() != begin) op.set("parameters", text_attribute(reader, begin));
  read_keyed(reader, op);
}

// --- HLO

Node* identity_call(OpLowering& op, const char* target, bool has_side_effect = false) {
  op.need_operands(1, 1);
  Attributes attrs;
  attrs.custom_call_target = target;
  if (has_side_effect) attrs.other["custom_call_has_side_effect"] = "true";
  return op.emit(Opcode::custom_call, op.operands(), std::move(attrs), op.operand(0)->shape);
}

// An attribute of shardings as text: "[<..>, <..>]" is "#sdy.sharding_per_value<[..]>".
std::string shardings_text(OpLowering& op, std::string_view name) {
  const Attribute* const value = op.find(name);
  if (value == nullptr) return "";
  const std::string text = op.lowering().text_of(*value);
  return text.starts_with('[') ? "#sdy.sharding_per_value<" + text + ">" : per_value(text);
}

Node* lower_constraint(OpLowering& op) {
  Node* const node = identity_call(op, "Sharding");
  node->frontend_attributes[kXlaSdySharding] =
      per_value(op.lowering().text_of(op.attribute("sharding")));
  if (op.op().name == "sdy.reshard") node->frontend_attributes[kSdyReshard] = "true";
  return node;
}

Node* lower_group(OpLowering& op) {
  op.need_operands(1, 1);
  Attributes attrs;
  attrs.custom_call_target = kSdyGroupTarget;
  attrs.other["custom_call_has_side_effect"] = "true";
  Node* const node =
      op.emit(Opcode::custom_call, op.operands(), std::move(attrs), Shape::tuple({}));
  node->frontend_attributes[kSdyGroup] = fmt::format("{} : i64", op.integer("group_id"));
  return node;
}

Node* lower_propagation_barrier(OpLowering& op) {
  Node* const node = identity_call(op, kSdyBarrierTarget);
  const bool is_number = op.attribute("allowed_direction").kind == AttributeKind::integer;
  const std::string direction =
      is_number ? std::to_string(op.integer("allowed_direction")) : op.word("allowed_direction");
  const char* const number = direction == "NONE" || direction == "0"       ? "0"
                             : direction == "FORWARD" || direction == "1"  ? "1"
                             : direction == "BACKWARD" || direction == "2" ? "2"
                                                                           : nullptr;
  if (number == nullptr)
    op.fail("allowed_direction {} is none of NONE, FORWARD, BACKWARD", direction);
  node->frontend_attributes[kSdyDirection] = fmt::format("{} : i32", number);
  return node;
}

Node* lower_edge(OpLowering& op) {
  Node* const node = identity_call(
      op, op.op().name == "sdy.data_flow_edge" ? kSdyEdgeTarget : kSdyFunctionEdgeTarget);
  if (op.find("sharding") != nullptr)
    node->frontend_attributes[kSdySharding] =
        per_value(op.lowering().text_of(op.attribute("sharding")));
  return node;
}

Node* lower_sdy_collective(OpLowering& op) {
  Node* const node = identity_call(op, "Sharding");
  node->frontend_attributes[kXlaSdySharding] =
      per_value(op.lowering().text_of(op.attribute("out_sharding")));
  node->frontend_attributes[kSdyCollective] = op.op().name.substr(4);
  std::string parameters;
  for (const NamedAttribute& named : op.op().attributes) {
    if (named.used || !named.is_property) continue;
    named.used = true;
    if (named.name == "parameters")
      parameters = op.lowering().text_of(named.value);
    else
      parameters += (parameters.empty() ? "" : ", ") +
                    fmt::format("{} = {}", named.name, op.lowering().text_of(named.value));
  }
  if (!parameters.empty()) node->frontend_attributes[kSdyParameters] = parameters;
  return node;
}

std::vector<Shape> shapes_of(const std::vector<Node*>& nodes) {
  std::vector<Shape> shapes;
  for (const Node* node : nodes) shapes.push_back(node->shape);
  return shapes;
}

Shape together(const std::vector<Shape>& shapes) {
  return shapes.size() == 1 ? shapes[0] : Shape::tuple(shapes);
}

std::vector<Node*> elements(Node* node, size_t count) {
  if (count == 1) return {node};
  std::vector<Node*> result;
  for (size_t i = 0; i < count; ++i)
    result.push_back(hlo::get_tuple_element(node, static_cast<int64_t>(i)));
  return result;
}

// Global values to local ones, a call of the body, and back.
Node* lower_manual(OpLowering& op) {
  const Region& region = op.region(0);
  if (region.arguments.size() != op.count())
    op.fail("{} arguments for {} operands", region.arguments.size(), op.count());
  const std::string axes_text = op.lowering().text_of(op.attribute("manual_axes"));
  const std::string axes =
      axes_text.starts_with('{') ? "#sdy<manual_axes" + axes_text + ">"
      : axes_text.starts_with("#sdy.manual_axes<")
          ? "#sdy<manual_axes" + axes_text.substr(17, axes_text.size() - 18) + ">"
          : axes_text;
  const std::string in = shardings_text(op, "in_shardings"),
                    out = shardings_text(op, "out_shardings");
  Computation* const body = op.body(0, "xla.sdy.manual_computation_body");
  const auto border = [&](const char* target, std::vector<Node*> operands, const Shape& shape,
                          const char* key, const std::string& shardings) {
    Attributes attrs;
    attrs.custom_call_target = target;
    attrs.other["custom_call_has_side_effect"] = "true";
    Node* const node = op.emit(Opcode::custom_call, std::move(operands), std::move(attrs), shape);
    node->frontend_attributes[key] = shardings;
    node->frontend_attributes[kSdyManualAxes] = axes;
    return node;
  };
  std::vector<Node*> local;
  if (op.count() > 0)
    local = elements(
        border(kToLocalShape, op.operands(),
               together(shapes_of(std::vector<Node*>(body->parameters()))), kSdyInShardings, in),
        op.count());
  Node* const call = op.emit(Opcode::call, local, {}, {}, {body});
  call->frontend_attributes["inlineable"] = "xla_late";
  std::vector<Shape> results;
  for (size_t i = 0; i < op.result_count(); ++i) results.push_back(op.result(i));
  if (results.empty()) {
    call->frontend_attributes[kSdyManualAxes] = axes;
    op.set_results({});
    return call;
  }
  Node* const global = border(kToGlobalShape, elements(call, results.size()), together(results),
                              kSdyOutShardings, out);
  if (results.size() == 1) op.set_results({global});
  return global;
}

Node* lower_named(OpLowering& op) {
  const std::string name = op.string("name");
  if (op.region(0).arguments.size() != op.count())
    op.fail("{} arguments for {} operands", op.region(0).arguments.size(), op.count());
  Computation* const body = op.body(0, "named_computation");
  Node* const call = op.emit(Opcode::call, op.operands(), {}, {}, {body});
  call->frontend_attributes[kSdyNamed] = name;
  for (const char* key : {"in_shardings", "out_shardings"})
    if (const std::string text = shardings_text(op, key); !text.empty())
      call->frontend_attributes[fmt::format("xla.sdy.{}", key)] = text;
  return call;
}

// clang-format off
const OpRow kSdyRows[] = {
    {"sdy.sharding_constraint", lower_constraint, Opcode::custom_call, read_constraint},
    {"sdy.reshard", lower_constraint, Opcode::custom_call, read_constraint},
    {"sdy.sharding_group", lower_group, Opcode::custom_call, read_group},
    {"sdy.propagation_barrier", lower_propagation_barrier, Opcode::custom_call, read_keyed},
    {"sdy.data_flow_edge", lower_edge, Opcode::custom_call, read_keyed},
    {"sdy.func_data_flow_edge", lower_edge, Opcode::custom_call, read_keyed},
    {"sdy.manual_computation", lower_manual, Opcode::custom_call, read_manual},
    {"sdy.named_computation", lower_named, Opcode::call, read_named},
    {"sdy.all_gather", lower_sdy_collective, Opcode::custom_call, read_collective},
    {"sdy.all_slice", lower_sdy_collective, Opcode::custom_call, read_collective},
    {"sdy.all_to_all", lower_sdy_collective, Opcode::custom_call, read_collective},
    {"sdy.collective_permute", lower_sdy_collective, Opcode::custom_call, read_collective},
    {"sdy.all_reduce", lower_sdy_collective, Opcode::custom_call, read_collective},
    {"sdy.reduce_scatter", lower_sdy_collective, Opcode::custom_call, read_collective},
    {"sdy.sharded_to_unreduced", lower_sdy_collective, Opcode::custom_call, read_collective},
    {"sdy.replicated_to_unreduced", lower_sdy_collective, Opcode::custom_call, read_collective},
};
// clang-format on

}  // namespace

std::span<const OpRow> sdy_rows() { return kSdyRows; }

bool is_sdy_collective(std::string_view name) {
  return std::any_of(std::begin(kSdyRows), std::end(kSdyRows), [&](const OpRow& row) {
    return row.lower == lower_sdy_collective && row.name.substr(4) == name;
  });
}

}  // namespace gspmd::stablehlo
