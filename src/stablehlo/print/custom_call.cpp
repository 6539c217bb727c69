// Custom-calls as text: Shardy's ops, custom code, and instructions that StableHLO has no op for.
#include <algorithm>

#include "gspmd/ir/text.h"
#include "ir/lexer.h"
#include "stablehlo/annotations.h"
#include "stablehlo/lowering.h"
#include "stablehlo/print/writer.h"

namespace gspmd::stablehlo {
namespace {

constexpr const char* kToLocal = "xla.sdy.GlobalToLocalShape";
constexpr const char* kToGlobal = "xla.sdy.LocalToGlobalShape";

bool is_target(const Node& node, std::string_view target) {
  return node.is(Opcode::custom_call) && node.attrs.custom_call_target == target;
}

std::string frontend(const Node& node, const std::string& name) {
  const auto found = node.frontend_attributes.find(name);
  return found == node.frontend_attributes.end() ? "" : found->second;
}

// "#sdy.sharding_per_value<[<..>]>" without its name and brackets: "<..>".
std::string one_of(const std::string& shardings) {
  constexpr std::string_view kList = "#sdy.sharding_per_value<[";
  if (shardings.starts_with(kList) && shardings.ends_with("]>"))
    return shardings.substr(kList.size(), shardings.size() - kList.size() - 2);
  constexpr std::string_view kOne = "#sdy.sharding";
  return shardings.starts_with(kOne) ? shardings.substr(kOne.size()) : shardings;
}

// "[<..>, <..>]".
std::string list_of(const std::string& shardings) {
  constexpr std::string_view kList = "#sdy.sharding_per_value<";
  if (shardings.starts_with(kList))
    return shardings.substr(kList.size(), shardings.size() - kList.size() - 1);
  return fmt::format("[{}]", shardings.empty() ? std::string() : one_of(shardings));
}

// Discardable attributes without those that the op's own form says.
std::string rest(const OpWriter& op, std::initializer_list<std::string_view> said) {
  return op.dictionary({}, std::span(said.begin(), said.size()));
}

bool write_constraint(OpWriter& op) {
  const Node& node = op.node();
  if (!is_target(node, "Sharding") || !node.frontend_attributes.contains(kSharding)) return false;
  const std::string sharding = one_of(frontend(node, kSharding));
  if (!sharding.starts_with('<')) return false;
  const std::string x = op.operand(0), type = type_text(node.shape);
  const std::string collective = frontend(node, "sdy.collective");
  if (!collective.empty()) {
    const std::string parameters = frontend(node, "sdy.collective_parameters");
    op.writer().line(
        node,
        fmt::format("sdy.{} {}{}{} out_sharding={}{} : {}", collective, parameters,
                    parameters.empty() ? "" : " ", x, sharding,
                    rest(op, {kSharding, "sdy.collective", "sdy.collective_parameters"}), type));
    return true;
  }
  const bool moves = node.frontend_attributes.contains("sdy.reshard");
  op.writer().line(node,
                   fmt::format("sdy.{} {} {}{} : {}", moves ? "reshard" : "sharding_constraint", x,
                               sharding, rest(op, {kSharding, "sdy.reshard"}), type));
  return true;
}

bool write_other_sdy(OpWriter& op) {
  const Node& node = op.node();
  const std::string& target = node.attrs.custom_call_target;
  if (target == "xla.sdy.ShardingGroup" && node.operands().size() == 1) {
    std::string id = frontend(node, "xla.sdy.sharding_group_id");
    id = id.substr(0, id.find(' '));
    const std::string x = op.operand(0);
    op.writer().bind(&node, {"", {}, true});
    op.writer().raw_line(fmt::format("sdy.sharding_group {} group_id={}{} : {}", x, id,
                                     rest(op, {"xla.sdy.sharding_group_id"}),
                                     type_text(node.operand(0)->shape)));
    return true;
  }
  if (target == "xla.sdy.PropagationBarrier" && node.operands().size() == 1) {
    const std::string number = frontend(node, "xla.sdy.allowed_direction");
    const char* const direction = number.starts_with("1")   ? "FORWARD"
                                  : number.starts_with("2") ? "BACKWARD"
                                                            : "NONE";
    const std::string x = op.operand(0);
    op.writer().line(
        node, fmt::format("sdy.propagation_barrier {} allowed_direction={}{} : {}", x, direction,
                          rest(op, {"xla.sdy.allowed_direction"}), type_text(node.shape)));
    return true;
  }
  if ((target == "sdy.DataFlowEdge" || target == "sdy.FuncDataFlowEdge") &&
      node.operands().size() == 1) {
    const std::string x = op.operand(0), sharding = one_of(frontend(node, kOpSharding));
    op.writer().line(
        node, fmt::format("sdy.{} {}{}{} : {}",
                          target == "sdy.DataFlowEdge" ? "data_flow_edge" : "func_data_flow_edge",
                          x, sharding.empty() ? "" : " sharding=" + sharding,
                          rest(op, {kOpSharding}), type_text(node.shape)));
    return true;
  }
  return false;
}

const Node* source_of(const Node* node) {
  return node->is(Opcode::get_tuple_element) ? node->operand(0) : node;
}

// The call between the borders of a manual computation; nullptr: it is none, or its borders say
// nothing in the dialect.
const Node* manual_call(const Node& to_global) {
  if (to_global.operands().empty() || frontend(to_global, "xla.sdy.out_shardings").empty())
    return nullptr;
  const Node* const call = source_of(to_global.operand(0));
  if (!call->is(Opcode::call)) return nullptr;
  for (const Node* operand : to_global.operands())
    if (source_of(operand) != call) return nullptr;
  if (call->operands().empty()) return call;
  const Node& to_local = *source_of(call->operand(0));
  const bool says =
      is_target(to_local, kToLocal) && !frontend(to_local, "xla.sdy.in_shardings").empty();
  return says ? call : nullptr;
}

// Also of a call without results, which stands for itself: `shape` has no element.
void write_manual(OpWriter& op, const Node& call, const std::string& out,
                  const std::string& axes_text) {
  Writer& writer = op.writer();
  const Node* const to_local = call.operands().empty() ? nullptr : source_of(call.operand(0));
  std::string operands, operand_types, arguments;
  std::vector<Written> parameters;
  for (size_t i = 0; to_local != nullptr && i < to_local->operands().size(); ++i) {
    const Node* const operand = to_local->operands()[i];
    operands += fmt::format("{}{}", i ? ", " : "", writer.name_of(operand));
    operand_types += fmt::format("{}{}", i ? ", " : "", type_text(operand->shape));
  }
  for (const Node* parameter : call.called[0]->parameters()) {
    parameters.push_back({writer.new_argument(), {}, false});
    arguments += fmt::format("{}{}: {}", arguments.empty() ? "" : ", ", parameters.back().name,
                             type_text(parameter->shape));
  }
  constexpr std::string_view kAxes = "#sdy<manual_axes";
  const std::string axes = axes_text.starts_with(kAxes) && axes_text.ends_with('>')
                               ? axes_text.substr(kAxes.size(), axes_text.size() - kAxes.size() - 1)
                               : axes_text;
  const std::string in =
      to_local == nullptr ? "[]" : list_of(frontend(*to_local, "xla.sdy.in_shardings"));
  writer.reserve(op.node());
  const std::string body = writer.body(*call.called[0], parameters, "sdy.return", 0, true);
  const std::string types =
      op.node().shape.is_tuple && op.node().shape.elements.empty() ? "()" : op.result_types();
  writer.line(op.node(),
              fmt::format("sdy.manual_computation({}) in_shardings={} out_shardings={} "
                          "manual_axes={} ({}) {}{} : ({}) -> {}",
                          operands, in, out, axes, arguments, body,
                          rest(op, {"xla.sdy.out_shardings", "xla.sdy.manual_axes", "inlineable"}),
                          operand_types, types));
}

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
  const bool is_dictionary = is_mlir_dictionary(config);
  if (config.starts_with('"'))
    fields.emplace_back("backend_config",
                        quote(Lexer(config, "backend_config").quoted("backend_config")));
  else if (!config.empty())
    fields.emplace_back("backend_config", is_dictionary ? config : quote(config));
  const std::string version = get("api_version");
  if (version == "API_VERSION_STATUS_RETURNING") fields.emplace_back("api_version", "2 : i32");
  if (version == "API_VERSION_STATUS_RETURNING_UNIFIED")
    fields.emplace_back("api_version", "3 : i32");
  if (version == "API_VERSION_TYPED_FFI" || (version.empty() && is_dictionary))
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
  const std::string operands = op.operands();
  op.writer().line_of_one(
      node,
      fmt::format("stablehlo.custom_call {}({}){} : {}",
                  symbol_text(fmt::format("{}{}", kInstruction, opcode_name(node.opcode()))),
                  operands, op.dictionary({{"mhlo.attributes", "{text = " + quote(text) + "}"}}),
                  fmt::format("({}) -> {}", op.operand_types(), type_text(node.shape))));
}

}  // namespace

bool is_manual_call(const Node& call) {
  return !frontend(call, "xla.sdy.manual_axes").empty() || is_part_of_manual(call);
}

bool is_part_of_manual(const Node& node) {
  if (is_target(node, kToLocal))
    return std::any_of(node.users().begin(), node.users().end(), [](const Node* user) {
      if (user->is(Opcode::get_tuple_element))
        return std::any_of(user->users().begin(), user->users().end(),
                           [](const Node* n) { return n->is(Opcode::call) && is_manual_call(*n); });
      return user->is(Opcode::call) && is_manual_call(*user);
    });
  if (node.is(Opcode::get_tuple_element)) return is_part_of_manual(*node.operand(0));
  if (!node.is(Opcode::call)) return false;
  for (const Node* user : node.users()) {
    const Node* const reader =
        user->is(Opcode::get_tuple_element) && !user->users().empty() ? user->users()[0] : user;
    if (is_target(*reader, kToGlobal) && manual_call(*reader) == &node) return true;
  }
  return false;
}

void write_custom_call(OpWriter& op, std::string_view name) {
  const Node& node = op.node();
  if (name.empty() || !node.is(Opcode::custom_call)) return write_instruction(op);
  if (write_constraint(op) || write_other_sdy(op)) return;
  if (is_target(node, kToGlobal))
    if (const Node* const call = manual_call(node))
      return write_manual(op, *call, list_of(frontend(node, "xla.sdy.out_shardings")),
                          frontend(node, "xla.sdy.manual_axes"));
  const std::string operands = op.operands();
  op.custom(fmt::format("{} {}({})", name, symbol_text(*node.attrs.custom_call_target), operands),
            op.function_type(), call_fields(op));
}

bool write_sdy_call(OpWriter& op) {
  const Node& node = op.node();
  const std::string axes = frontend(node, "xla.sdy.manual_axes");
  if (!axes.empty()) {
    write_manual(op, node, "[]", axes);
    return true;
  }
  const std::string name = frontend(node, "sdy.named_computation");
  if (name.empty()) return false;
  Writer& writer = op.writer();
  const std::string operands = op.operands();
  std::string arguments;
  std::vector<Written> parameters;
  for (const Node* parameter : node.called[0]->parameters()) {
    parameters.push_back({writer.new_argument(), {}, false});
    arguments += fmt::format("{}{}: {}", arguments.empty() ? "" : ", ", parameters.back().name,
                             type_text(parameter->shape));
  }
  std::string shardings;
  for (const char* key : {"in_shardings", "out_shardings"})
    if (const std::string text = frontend(node, fmt::format("xla.sdy.{}", key)); !text.empty())
      shardings += fmt::format(" {}={}", key, list_of(text));
  writer.reserve(node);
  const std::string body = writer.body(*node.called[0], parameters, "sdy.return", 0, true);
  writer.line(node, fmt::format("sdy.named_computation<{}>({}){} ({}) {}{} : {}", quote(name),
                                operands, shardings, arguments, body,
                                rest(op, {"sdy.named_computation", "xla.sdy.in_shardings",
                                          "xla.sdy.out_shardings"}),
                                op.function_type()));
  return true;
}

}  // namespace gspmd::stablehlo
