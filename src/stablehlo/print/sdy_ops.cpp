// Shardy's ops as text: custom-calls and calls whose frontend attributes say what the ops do. An
// attribute that is not what its op's form has a place for leaves the call as it is.
#include <algorithm>
#include <charconv>

#include "stablehlo/annotations.h"
#include "stablehlo/lowering.h"
#include "stablehlo/print/writer.h"
#include "stablehlo/row.h"

namespace gspmd::stablehlo {
namespace {

using Said = std::vector<std::string_view>;  // names of the attributes that a form says
using MaybeText = std::optional<std::string>;

bool is_target(const Node& node, std::string_view target) {
  return node.is(Opcode::custom_call) && node.attrs.custom_call_target == target;
}

std::string frontend(const Node& node, const std::string& name) {
  const auto found = node.frontend_attributes.find(name);
  return found == node.frontend_attributes.end() ? "" : found->second;
}

std::string_view without(std::string_view text, std::string_view before, std::string_view behind) {
  const bool has_both = text.size() >= before.size() + behind.size() && text.starts_with(before) &&
                        text.ends_with(behind);
  if (has_both) text = text.substr(before.size(), text.size() - before.size() - behind.size());
  return text;
}

// "<..>" of "#sdy.sharding_per_value<[<..>]>" or "#sdy.sharding<..>".
MaybeText one_sharding(const Node& node, const std::string& name) {
  const std::string text = frontend(node, name);
  return bracketed_text(
      without(without(text, "#sdy.sharding_per_value<[", "]>"), "#sdy.sharding", ""), '<');
}

// "[<..>, <..>]" of the same.
MaybeText sharding_list(const Node& node, const std::string& name) {
  const std::string text = frontend(node, name);
  if (text.starts_with("#sdy.sharding<"))
    return bracketed_text(fmt::format("[{}]", without(text, "#sdy.sharding", "")), '[');
  return bracketed_text(without(text, "#sdy.sharding_per_value<", ">"), '[');
}

// "{"x"}" of "#sdy<manual_axes{"x"}>".
MaybeText manual_axes(const Node& node) {
  const std::string text = frontend(node, kSdyManualAxes);
  return bracketed_text(without(text, "#sdy<manual_axes", ">"), '{');
}

// Discardable attributes without those that the op's own form says.
std::string rest(const OpWriter& op, const Said& said) { return op.dictionary({}, said); }

// "sum [{"b"}, {}]": what a collective may have before its operand.
MaybeText collective_parameters(const Node& node) {
  const std::string text = frontend(node, kSdyParameters);
  std::string_view lists = text;
  std::string words;
  for (const std::string_view word : {"sum", "max", "min"})
    if (lists.starts_with(word)) {
      words = word;
      lists = lists.substr(word.size());
      lists = lists.substr(std::min(lists.find_first_not_of(' '), lists.size()));
      break;
    }
  if (lists.empty()) return words;
  const MaybeText list = bracketed_text(lists, lists[0] == '{' ? '{' : '[');
  if (!list) return std::nullopt;
  return words.empty() ? *list : fmt::format("{} {}", words, *list);
}

bool write_collective(OpWriter& op, const std::string& sharding) {
  const Node& node = op.node();
  const std::string collective = frontend(node, kSdyCollective);
  const MaybeText parameters = collective_parameters(node);
  if (!parameters || !is_sdy_collective(collective)) return false;
  const std::string x = op.operand(0);
  op.writer().line(node, fmt::format("sdy.{} {}{}{} out_sharding={}{} : {}", collective,
                                     *parameters, parameters->empty() ? "" : " ", x, sharding,
                                     rest(op, {kXlaSdySharding, kSdyCollective, kSdyParameters}),
                                     type_text(node.shape)));
  return true;
}

bool write_constraint(OpWriter& op) {
  const Node& node = op.node();
  const MaybeText sharding = one_sharding(node, kXlaSdySharding);
  if (!sharding) return false;
  if (node.frontend_attributes.contains(kSdyCollective)) return write_collective(op, *sharding);
  const bool moves = frontend(node, kSdyReshard) == "true";
  Said said{kXlaSdySharding};
  if (moves) said.emplace_back(kSdyReshard);
  const std::string x = op.operand(0);
  op.writer().line(node,
                   fmt::format("sdy.{} {} {}{} : {}", moves ? "reshard" : "sharding_constraint", x,
                               *sharding, rest(op, said), type_text(node.shape)));
  return true;
}

bool write_group(OpWriter& op) {
  const Node& node = op.node();
  const std::string text = frontend(node, kSdyGroup);
  int64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc{} || (*end != '\0' && *end != ' ')) return false;
  const std::string x = op.operand(0);
  op.writer().bind(&node, {"", {}, true});
  op.writer().raw_line(fmt::format("sdy.sharding_group {} group_id={}{} : {}", x, id,
                                   rest(op, {kSdyGroup}), type_text(node.operand(0)->shape)));
  return true;
}

bool write_barrier(OpWriter& op) {
  const std::string number = frontend(op.node(), kSdyDirection);
  const char* const direction = number.starts_with("1")   ? "FORWARD"
                                : number.starts_with("2") ? "BACKWARD"
                                                          : "NONE";
  const std::string x = op.operand(0);
  op.writer().line(
      op.node(), fmt::format("sdy.propagation_barrier {} allowed_direction={}{} : {}", x, direction,
                             rest(op, {kSdyDirection}), type_text(op.node().shape)));
  return true;
}

bool write_edge(OpWriter& op, const char* name) {
  const MaybeText sharding = one_sharding(op.node(), kSdySharding);
  const std::string x = op.operand(0);
  op.writer().line(
      op.node(),
      fmt::format("sdy.{} {}{}{} : {}", name, x,
                  sharding ? fmt::format(" sharding={}", *sharding) : std::string(),
                  rest(op, sharding ? Said{kSdySharding} : Said{}), type_text(op.node().shape)));
  return true;
}

const Node* source_of(const Node* node) {
  return node->is(Opcode::get_tuple_element) ? node->operand(0) : node;
}

bool enters_manual(const Node& node) {
  return is_target(node, kToLocalShape) && sharding_list(node, kSdyInShardings);
}

// The call between the borders of a manual computation; nullptr: it is none, or its borders say
// nothing in the dialect.
const Node* manual_call(const Node& to_global) {
  if (!is_target(to_global, kToGlobalShape) || to_global.operands().empty() ||
      !sharding_list(to_global, kSdyOutShardings) || !manual_axes(to_global))
    return nullptr;
  const Node* const call = source_of(to_global.operand(0));
  if (!call->is(Opcode::call)) return nullptr;
  for (const Node* operand : to_global.operands())
    if (source_of(operand) != call) return nullptr;
  return call->operands().empty() || enters_manual(*source_of(call->operand(0))) ? call : nullptr;
}

// A manual computation without results is its call.
bool is_manual_without_results(const Node& call) {
  return call.is(Opcode::call) && call.shape.is_tuple && call.shape.elements.empty() &&
         manual_axes(call) &&
         (call.operands().empty() || enters_manual(*source_of(call.operand(0))));
}

// The op is the border behind the call, or the call itself, without results.
void write_manual(OpWriter& op, const Node& call, const std::string& out, const std::string& axes) {
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
  const std::string in =
      to_local == nullptr ? "[]" : sharding_list(*to_local, kSdyInShardings).value_or("[]");
  writer.reserve(op.node());
  const std::string body = writer.body(*call.called[0], parameters, "sdy.return", 0, true);
  const std::string types =
      op.node().shape.is_tuple && op.node().shape.elements.empty() ? "()" : op.result_types();
  writer.line(op.node(), fmt::format("sdy.manual_computation({}) in_shardings={} out_shardings={} "
                                     "manual_axes={} ({}) {}{} : ({}) -> {}",
                                     operands, in, out, axes, arguments, body,
                                     rest(op, {kSdyOutShardings, kSdyManualAxes, "inlineable"}),
                                     operand_types, types));
}

void write_named(OpWriter& op) {
  const Node& node = op.node();
  Writer& writer = op.writer();
  const std::string operands = op.operands();
  std::string arguments;
  std::vector<Written> parameters;
  for (const Node* parameter : node.called[0]->parameters()) {
    parameters.push_back({writer.new_argument(), {}, false});
    arguments += fmt::format("{}{}: {}", arguments.empty() ? "" : ", ", parameters.back().name,
                             type_text(parameter->shape));
  }
  Said said{kSdyNamed};
  std::string shardings;
  for (const char* key : {kSdyInShardings, kSdyOutShardings})
    if (const MaybeText list = sharding_list(node, key)) {
      shardings += fmt::format(" {}={}", without(key, "xla.sdy.", ""), *list);
      said.emplace_back(key);
    }
  writer.reserve(node);
  const std::string body = writer.body(*node.called[0], parameters, "sdy.return", 0, true);
  writer.line(node, fmt::format("sdy.named_computation<{}>({}){} ({}) {}{} : {}",
                                quote(frontend(node, kSdyNamed)), operands, shardings, arguments,
                                body, rest(op, said), op.function_type()));
}

}  // namespace

bool is_manual_call(const Node& call) {
  return is_manual_without_results(call) || is_part_of_manual(call);
}

bool is_part_of_manual(const Node& node) {
  if (is_target(node, kToLocalShape))
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
    if (manual_call(*reader) == &node) return true;
  }
  return false;
}

bool write_sdy_custom_call(OpWriter& op) {
  const Node& node = op.node();
  if (const Node* const call = manual_call(node)) {
    write_manual(op, *call, *sharding_list(node, kSdyOutShardings), *manual_axes(node));
    return true;
  }
  if (node.operands().size() != 1) return false;
  if (is_target(node, "Sharding")) return write_constraint(op);
  if (is_target(node, kSdyGroupTarget)) return write_group(op);
  if (is_target(node, kSdyBarrierTarget)) return write_barrier(op);
  if (is_target(node, kSdyEdgeTarget)) return write_edge(op, "data_flow_edge");
  if (is_target(node, kSdyFunctionEdgeTarget)) return write_edge(op, "func_data_flow_edge");
  return false;
}

bool write_sdy_call(OpWriter& op) {
  const Node& node = op.node();
  if (is_manual_without_results(node)) {
    write_manual(op, node, "[]", *manual_axes(node));
    return true;
  }
  if (!node.frontend_attributes.contains(kSdyNamed)) return false;
  write_named(op);
  return true;
}

}  // namespace gspmd::stablehlo
