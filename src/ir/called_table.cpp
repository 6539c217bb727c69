#include "ir/called_table.h"

#include <fmt/format.h>

namespace gspmd {
namespace {

constexpr size_t kAny = static_cast<size_t>(-1);

struct OpcodeCalls {
  Opcode opcode;
  CalledRow row;
};

// clang-format off
const OpcodeCalls kCalledRows[] = {
    {Opcode::map, {{{"to_apply"}}, 1, 1}},
    {Opcode::reduce, {{{"to_apply"}}, 1, 1}},
    {Opcode::reduce_window, {{{"to_apply"}}, 1, 1}},
    {Opcode::select_and_scatter, {{{"select"}, {"scatter", false, 1}}, 2, 2}},
    {Opcode::scatter, {{{"to_apply"}}, 1, 1}},
    {Opcode::sort, {{{"to_apply"}}, 1, 1}},
    {Opcode::scan, {{{"to_apply"}}, 1, 1}},
    {Opcode::topk, {{{"to_apply"}}, 0, 1}},
    {Opcode::all_reduce, {{{"to_apply"}}, 1, 1}},
    {Opcode::all_reduce_start, {{{"to_apply"}}, 1, 1}},
    {Opcode::reduce_scatter, {{{"to_apply"}}, 1, 1}},
    {Opcode::call, {{{"to_apply"}}, 1, 1}},
    {Opcode::fusion, {{{"calls"}}, 1, 1}},
    {Opcode::async_start, {{{"calls"}}, 1, 1}},
    {Opcode::async_update, {{{"calls"}}, 0, 1}},
    {Opcode::async_done, {{{"calls"}}, 0, 1}},
    {Opcode::while_, {{{"condition"}, {"body", false, 1}}, 2, 2}},
    {Opcode::conditional,
     {{{"true_computation"}, {"false_computation", false, 1}, {"branch_computations", true}},
      1, kAny}},
    {Opcode::custom_call, {{{"to_apply"}, {"called_computations", true}}, 0, kAny}},
};
// clang-format on

std::vector<CalledRow> index_of_calls() {
  std::vector<CalledRow> index(static_cast<size_t>(opcode_count()));
  for (const OpcodeCalls& calls : kCalledRows) index[static_cast<size_t>(calls.opcode)] = calls.row;
  return index;
}

bool on_pred(const Node& conditional) {
  return !conditional.operands().empty() && !conditional.operand(0)->shape.is_tuple &&
         conditional.operand(0)->shape.dtype == DType::pred && conditional.called.size() == 2;
}

// The list attribute of an opcode that prints one; nullptr: each computation has a name of its own.
const CalledAttribute* printed_list(const Node& node) {
  if (node.is(Opcode::conditional) && on_pred(node)) return nullptr;
  for (const CalledAttribute& attribute : called_row(node.opcode()).attributes)
    if (attribute.is_list) return &attribute;
  return nullptr;
}

std::string name_of(const Computation* called) {
  return called ? "%" + called->name() : std::string("?");
}

}  // namespace

const CalledRow& called_row(Opcode opcode) {
  static const std::vector<CalledRow> index = index_of_calls();
  return index[static_cast<size_t>(opcode)];
}

std::string_view called_name(const Node& node, size_t slot) {
  if (const CalledAttribute* const list = printed_list(node)) return list->name;
  for (const CalledAttribute& attribute : called_row(node.opcode()).attributes)
    if (!attribute.is_list && attribute.slot == slot) return attribute.name;
  return "called computation";
}

std::string print_called(const Node& node) {
  std::string text;
  if (node.called.empty()) return text;
  if (const CalledAttribute* const list = printed_list(node)) {
    text = fmt::format(", {}={{", list->name);
    for (size_t i = 0; i < node.called.size(); ++i)
      text += (i ? ", " : "") + name_of(node.called[i]);
    return text + "}";
  }
  for (size_t i = 0; i < node.called.size(); ++i)
    text += fmt::format(", {}={}", called_name(node, i), name_of(node.called[i]));
  return text;
}

}  // namespace gspmd
