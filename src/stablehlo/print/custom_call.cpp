// Custom-calls as text: custom code, and instructions that StableHLO has no op for.
#include <algorithm>

#include "gspmd/ir/text.h"
#include "ir/lexer.h"
#include "stablehlo/annotations.h"
#include "stablehlo/print/writer.h"

namespace gspmd::stablehlo {
namespace {

// "{0,1}" or "{1,0:T(8,128)}", where a layout stands, else major first, as MLIR has it.
std::string layout_text(std::string_view layout, int64_t rank) {
  Dims dims;
  int64_t number = -1;
  for (const char c : layout.substr(0, layout.find(':'))) {
    if (is_digit(c)) {
      number = (number < 0 ? 0 : 10 * number) + (c - '0');
    } else if (number >= 0) {
      dims.push_back(number);
      number = -1;
    }
  }
  if (number >= 0) dims.push_back(number);
  if (std::ssize(dims) != rank) {
    dims.clear();
    for (int64_t d = rank; d-- > 0;) dims.push_back(d);
  }
  return rank == 0 ? "dense<> : tensor<0xindex>"
                   : fmt::format("dense<{}> : tensor<{}xindex>", list_text(dims), rank);
}

// Of arrays: "{f32[2,3]{0,1}, f32[]}" as lists of minor to major, and those of the results.
void add_layouts(const Node& node, const std::string& constraints, Fields& fields) {
  const auto is_tuple = [](const Shape& shape) { return shape.is_tuple; };
  const auto has_tuple = [](const Node* operand) { return operand->shape.is_tuple; };
  const auto& elements = node.shape.elements;
  if (constraints.empty() || std::any_of(elements.begin(), elements.end(), is_tuple) ||
      std::any_of(node.operands().begin(), node.operands().end(), has_tuple))
    return;
  std::string operands, results;
  size_t at = 0;
  for (const Node* operand : node.operands()) {
    at = std::min(constraints.find(']', at), constraints.size() - 1) + 1;
    const bool is_written = at < constraints.size() && constraints[at] == '{';
    const size_t end = is_written ? constraints.find('}', at) : at;
    operands += (operands.empty() ? "" : ", ") +
                layout_text(std::string_view(constraints).substr(at, end - at), operand->rank());
  }
  const std::span<const Shape> shapes =
      node.shape.is_tuple ? std::span<const Shape>(elements) : std::span(&node.shape, 1);
  for (const Shape& shape : shapes)
    results += (results.empty() ? "" : ", ") + layout_text(*shape.layout, shape.rank());
  fields.emplace_back("operand_layouts", "[" + operands + "]");
  fields.emplace_back("result_layouts", "[" + results + "]");
}

// "{{0}: (1, {}), {1}: (0, {2})}".
std::string aliases_text(const std::string& aliases) {
  std::string text;
  std::vector<std::string> parts;  // output, operand, index inside, of one alias
  std::string list;
  const auto end_list = [&] {
    parts.push_back(std::exchange(list, {}));
    if (parts.size() < 3) return;
    text += fmt::format(
        "{}#stablehlo.output_operand_alias<output_tuple_indices = [{}], operand_index = {}, "
        "operand_tuple_indices = [{}]>",
        text.empty() ? "" : ", ", parts[0], parts[1], parts[2]);
    parts.clear();
  };
  for (size_t i = 1; i + 1 < aliases.size(); ++i) {
    const char c = aliases[i];
    if (c == '}' || (c == ',' && parts.size() == 1))
      end_list();
    else if (is_digit(c))
      list.push_back(c);
    else if (c == ',' && !list.empty())
      list += ", ";
  }
  return "[" + text + "]";
}

// Of a configuration in braces: whether it is a dictionary of MLIR, "{key = value}", not JSON.
bool is_mlir_dictionary(const std::string& config) {
  if (!config.starts_with('{')) return false;
  const size_t key = config.find_first_not_of(" \n", 1);
  if (key == std::string::npos || config[key] != '"') return true;
  const size_t end = config.find('"', key + 1);
  const size_t behind = end == std::string::npos ? end : config.find_first_not_of(" \n", end + 1);
  return behind != std::string::npos && config[behind] == '=';
}

Fields call_fields(OpWriter& op) {
  const Node& node = op.node();
  const auto& other = node.attrs.other;
  Fields fields;
  const auto get = [&](const char* name) {
    const auto found = other.find(name);
    return found == other.end() ? std::string() : found->second;
  };
  const std::string config = get("backend_config");
  const auto dictionary = is_mlir_dictionary(config) ? whole_attribute_text(config) : std::nullopt;
  if (config.starts_with('"'))
    fields.emplace_back("backend_config",
                        quote(Lexer(config, "backend_config").quoted("backend_config")));
  else if (!config.empty())
    fields.emplace_back("backend_config", dictionary ? *dictionary : quote(config));
  const std::string version = get("api_version");
  if (version == "API_VERSION_STATUS_RETURNING") fields.emplace_back("api_version", "2 : i32");
  if (version == "API_VERSION_STATUS_RETURNING_UNIFIED")
    fields.emplace_back("api_version", "3 : i32");
  if (version == "API_VERSION_TYPED_FFI" || (version.empty() && dictionary))
    fields.emplace_back("api_version", "4 : i32");
  if (get("custom_call_has_side_effect") == "true") fields.emplace_back("has_side_effect", "true");
  add_layouts(node, get("operand_layout_constraints"), fields);
  if (const std::string aliases = get("output_to_operand_aliasing"); !aliases.empty())
    fields.emplace_back("output_operand_aliases", aliases_text(aliases));
  std::string called;
  for (const Computation* computation : node.called)
    called += fmt::format("{}{}", called.empty() ? "" : ", ",
                          symbol_text(op.writer().symbol(*computation)));
  if (!called.empty()) fields.emplace_back("called_computations", "[" + called + "]");
  return fields;
}

// An instruction of HLO that StableHLO has no op for: its attributes as text.
void write_instruction(OpWriter& op) {
  const Node& node = op.node();
  if (!node.called.empty())
    user_error("{}: StableHLO has no form of \"{}\"; print the module as HLO",
               opcode_name(node.opcode()), node.name());
  std::string text = to_text(node, {.shardings = false, .metadata = false});
  if (text.starts_with("ROOT ")) text = text.substr(5);
  // Its operands by number.
  const std::string head = fmt::format(" {}(", opcode_name(node.opcode()));
  const size_t begin = text.find(head) + head.size(), end = text.find(')', begin);
  std::string numbered;
  for (size_t i = 0; i < node.operands().size(); ++i)
    numbered += fmt::format("{}%p{}", i ? ", " : "", i);
  text = text.substr(0, begin) + numbered + text.substr(end);
  // What runs before it has other names there, and no op of StableHLO says it.
  if (node.attrs.other.contains("control-predecessors")) {
    const size_t control = text.rfind(", control-predecessors={");
    if (control != std::string::npos) text.erase(control, text.find('}', control) + 1 - control);
  }
  const std::string operands = op.operands();
  op.writer().line_of_one(
      node,
      fmt::format("stablehlo.custom_call {}({}){} : {}",
                  symbol_text(fmt::format("{}{}", kInstruction, opcode_name(node.opcode()))),
                  operands, op.dictionary({{"mhlo.attributes", "{text = " + quote(text) + "}"}}),
                  fmt::format("({}) -> {}", op.operand_types(), type_text(node.shape))));
}

}  // namespace

void write_custom_call(OpWriter& op, std::string_view name) {
  const Node& node = op.node();
  if (name.empty() || !node.is(Opcode::custom_call)) return write_instruction(op);
  if (write_sdy_custom_call(op)) return;
  const std::string operands = op.operands();
  op.custom(fmt::format("{} {}({})", name, symbol_text(*node.attrs.custom_call_target), operands),
            op.function_type(), call_fields(op));
}

}  // namespace gspmd::stablehlo
