// Calls: of functions, of composites, of custom code, of asynchronous work.
#include <algorithm>

#include "gspmd/ir/text.h"
#include "ir/lexer.h"
#include "stablehlo/annotations.h"
#include "stablehlo/lowering.h"
#include "stablehlo/ops/targets.h"
#include "stablehlo/text/op_reader.h"

namespace gspmd::stablehlo {
namespace {

// --- Pretty forms

// "@f(%a, %b) {..} : (T, T) -> R".
void read_call_form(OpReader& reader, Op& op, std::string_view attribute) {
  Cursor& cursor = reader.cursor();
  Attribute callee;
  callee.kind = AttributeKind::symbol;
  callee.position = cursor.position();
  callee.text = cursor.symbol("what is called");
  op.set(attribute, std::move(callee));
  cursor.expect("(", "behind what is called");
  reader.read_uses(op.operands);
  cursor.expect(")", "behind the operands of a call");
  reader.read_dictionary(op);
  cursor.expect(":", "before the type of a call");
  reader.read_function_type(op);
}

void read_call(OpReader& reader, Op& op) { read_call_form(reader, op, "callee"); }
void read_custom_call(OpReader& reader, Op& op) { read_call_form(reader, op, "call_target_name"); }

// "\"ns.name\" %a, %b {decomposition = @f, ..} : FT".
void read_composite(OpReader& reader, Op& op) {
  Cursor& cursor = reader.cursor();
  Attribute name;
  name.kind = AttributeKind::string;
  name.position = cursor.position();
  name.text = cursor.quoted("a composite's name");
  op.set("name", std::move(name));
  reader.read_uses(op.operands);
  reader.read_dictionary(op);
  reader.read_types(op);
}

// --- HLO

Node* lower_call(OpLowering& op) {
  const Attribute& callee = op.attribute("callee");
  Computation* const called = op.lowering().callee(callee.text, op.operands(), op.op().position);
  return op.emit(Opcode::call, op.operands(), {}, {}, {called});
}

// One of CHLO that the library has is that op; others call what they are made of.
Node* lower_composite(OpLowering& op) {
  const std::string name = op.string("name");
  const Attribute* const attributes = op.find("composite_attributes");
  const int64_t version = op.integer("version", 0);
  const std::string decomposition = op.attribute("decomposition").text;
  op.find("composite_regions");
  if (const OpRow* const row = name.starts_with("chlo.") ? find_row(name) : nullptr)
    if (Node* const node = lower_as(op, *row, attributes)) return node;
  Computation* const called = op.lowering().callee(decomposition, op.operands(), op.op().position);
  Attributes attrs;
  attrs.other["is_composite"] = "true";
  Node* const node = op.emit(Opcode::call, op.operands(), std::move(attrs), {}, {called});
  node->frontend_attributes["composite.name"] = name;
  node->frontend_attributes["composite.version"] = std::to_string(version);
  node->frontend_attributes["composite.attributes"] =
      attributes ? op.lowering().text_of(*attributes) : "{}";
  return node;
}

// Older files keep the dictionary of a typed call beside an empty backend_config.
void add_config(OpLowering& op, Attributes& attrs) {
  const Attribute* config = op.find("backend_config");
  if (config == nullptr || (config->kind == AttributeKind::string && config->text.empty()))
    if (const Attribute* const beside = op.find("mhlo.backend_config"))
      if (beside->kind == AttributeKind::dictionary) config = beside;
  if (config == nullptr) return;
  if (config->kind == AttributeKind::dictionary)
    attrs.other["backend_config"] = op.lowering().text_of(*config);
  else if (config->kind != AttributeKind::string)
    op.fail("backend_config is a string or a dictionary");
  else if (!config->text.empty())
    attrs.other["backend_config"] = gspmd::quote(config->text);
}

void add_api_version(OpLowering& op, Attributes& attrs) {
  constexpr const char* kNames[] = {"", "", "API_VERSION_STATUS_RETURNING",
                                    "API_VERSION_STATUS_RETURNING_UNIFIED",
                                    "API_VERSION_TYPED_FFI"};
  const int64_t version = op.integer("api_version", 1);
  if (version < 0 || version > 4) op.fail("api_version {} is none of 0 to 4", version);
  if (version > 1) attrs.other["api_version"] = kNames[version];
}

std::string layout_text(const OpLowering& op, const Attribute& layout) {
  return fmt::format("{{{}}}", fmt::join(op.integers_of(layout, "operand_layouts"), ","));
}

void add_layouts(OpLowering& op, Attributes& attrs, Shape& shape) {
  const Attribute* const operands = op.find("operand_layouts");
  const Attribute* const results = op.find("result_layouts");
  if (operands != nullptr) {
    if (operands->list.size() != op.count())
      op.fail("operand_layouts has {} layouts for {} operands", operands->list.size(), op.count());
    std::string text;
    for (size_t i = 0; i < op.count(); ++i)
      text += (i ? ", " : "") + to_string(op.operand(i)->shape) +
              (op.operand(i)->shape.is_tuple || op.operand(i)->rank() == 0
                   ? std::string()
                   : layout_text(op, operands->list[i]));
    attrs.other["operand_layout_constraints"] = "{" + text + "}";
  }
  if (results == nullptr) return;
  const auto set = [&](Shape& result, const Attribute& layout) {
    if (!result.is_tuple && result.rank() > 0) result.layout = layout_text(op, layout);
  };
  if (!shape.is_tuple && results->list.size() == 1) return set(shape, results->list[0]);
  if (!shape.is_tuple || results->list.size() != shape.elements.size())
    op.fail("result_layouts has {} layouts", results->list.size());
  for (size_t i = 0; i < shape.elements.size(); ++i) set(shape.elements[i], results->list[i]);
}

void add_aliases(OpLowering& op, Attributes& attrs) {
  const Attribute* const aliases = op.find("output_operand_aliases");
  if (aliases == nullptr || aliases->list.empty()) return;
  std::string text;
  for (const Attribute& alias : aliases->list) {
    Dims output, inside;
    int64_t operand = 0;
    for (const NamedAttribute& field : op.fields(alias)) {
      const Dims values = op.integers_of(field.value, field.name);
      if (field.name == "output_tuple_indices") output = values;
      if (field.name == "operand_tuple_indices") inside = values;
      if (field.name == "operand_index" && values.size() == 1) operand = values[0];
    }
    text += fmt::format("{}{{{}}}: ({}, {{{}}})", text.empty() ? "" : ", ", fmt::join(output, ","),
                        operand, fmt::join(inside, ","));
  }
  attrs.other["output_to_operand_aliasing"] = "{" + text + "}";
}

// An instruction of HLO, written as its text.
Node* lower_instruction(OpLowering& op) {
  const Attribute* const attributes = op.find("mhlo.attributes");
  std::string instruction;
  if (attributes != nullptr)
    for (const NamedAttribute& named : attributes->entries)
      if (named.name == "text") instruction = named.value.text;
  if (instruction.empty()) op.fail("mhlo.attributes has no text of the instruction");
  std::string text = fmt::format("HloModule m, num_partitions={}\nENTRY e {{\n",
                                 op.lowering().module().num_partitions);
  for (size_t i = 0; i < op.count(); ++i)
    text += fmt::format("%p{} = {} parameter({})\n", i, to_string(op.operand(i)->shape), i);
  std::unique_ptr<Module> module;
  try {
    module = parse_module(text + "ROOT " + instruction + "\n}\n", "instruction");
  } catch (const UserError& error) {
    op.fail("its text is no instruction: {}", error.what());
  }
  for (const auto& node : module->entry()->nodes())
    if (!node->called.empty()) op.fail("its instruction calls computations");
  if (module->entry()->parameters().size() != op.count())
    op.fail("its instruction has other operands");
  Node* const node = inline_computation(*module->entry(), op.computation(), op.operands());
  if (op.result_count() == 1) op.set_results({node});
  return node;
}

Node* lower_custom_call(OpLowering& op) {
  const std::string target = op.string("call_target_name");
  if (target.starts_with(kInstruction)) return lower_instruction(op);
  if (const OpRow* const row = find_target(target)) {
    const Attribute* attributes = op.find("mhlo.attributes");
    if (Node* const node = lower_as(op, *row, attributes)) return node;
    if (op.results() != nullptr) return nullptr;
  }
  Shape shape;
  std::vector<Shape> results;
  for (size_t i = 0; i < op.result_count(); ++i) {
    if (!op.is_static(i)) op.fail("result {} has an open size: export with static shapes", i);
    results.push_back(op.result(i));
  }
  shape = results.size() == 1 ? results[0] : Shape::tuple(results);
  Attributes attrs;
  attrs.custom_call_target = target;
  if (op.flag("has_side_effect", false)) attrs.other["custom_call_has_side_effect"] = "true";
  add_config(op, attrs);
  add_api_version(op, attrs);
  add_layouts(op, attrs, shape);
  add_aliases(op, attrs);
  std::vector<Computation*> called;
  if (const Attribute* const functions = op.find("called_computations"))
    for (const Attribute& function : functions->list) {
      const auto& by_name = op.lowering().syntax().by_name;
      const auto found = by_name.find(function.text);
      if (found == by_name.end()) op.fail("there is no function @{}", function.text);
      Computation* const computation = op.lowering().lowered(*found->second);
      if (computation == nullptr) op.fail("@{} has open sizes, or no body", function.text);
      called.push_back(computation);
    }
  Node* const node =
      op.emit(Opcode::custom_call, op.operands(), std::move(attrs), shape, std::move(called));
  node->shape = std::move(shape);  // with its layout
  return node;
}

// The work on its arguments as a computation.
Node* lower_async_start(OpLowering& op) {
  Computation* const body = op.body(0, "async");
  std::vector<Shape> operands;
  for (const Node* operand : op.operands()) operands.push_back(operand->shape);
  return op.emit(Opcode::async_start, op.operands(), {},
                 Shape::tuple({Shape::tuple(operands), body->root()->shape}), {body});
}

Node* lower_async_done(OpLowering& op) {
  op.need_operands(1, 1);
  const Shape& started = op.operand(0)->shape;
  if (!started.is_tuple || started.elements.size() < 2) op.fail("operand 0 is no future");
  std::vector<Computation*> called = op.operand(0)->called;
  return op.emit(Opcode::async_done, op.operands(), {}, started.elements[1], std::move(called));
}

// clang-format off
const OpRow kCallRows[] = {
    {"func.call", lower_call, Opcode::call, read_call},
    {"stablehlo.composite", lower_composite, Opcode::call, read_composite},
    {"stablehlo.custom_call", lower_custom_call, Opcode::custom_call, read_custom_call},
    {"stablehlo.async_start", lower_async_start, Opcode::async_start},
    {"stablehlo.async_done", lower_async_done, Opcode::async_done},
};
// clang-format on

}  // namespace

Node* lower_as(OpLowering& op, const OpRow& row, const Attribute* attributes) {
  if (row.lower == nullptr) return nullptr;
  Op other;
  other.name = row.name;
  other.position = op.op().position;
  other.row = &row;
  other.operands = op.op().operands;
  other.operand_types = op.op().operand_types;
  other.result_types = op.op().result_types;
  other.attributes = op.op().attributes;
  if (attributes != nullptr)
    for (const NamedAttribute& named : attributes->entries) other.attributes.push_back(named);
  OpLowering lowering(op.lowering(), other);
  Node* const node = row.lower(lowering);
  if (lowering.results() != nullptr) op.set_results(*lowering.results());
  for (size_t i = 0; i < op.op().attributes.size(); ++i)
    if (other.attributes[i].used) op.op().attributes[i].used = true;
  return node;
}

std::span<const OpRow> call_rows() { return kCallRows; }

}  // namespace gspmd::stablehlo
