#include "gspmd/api/debug.h"

#include "api/emit.h"
#include "gspmd/ir/effects.h"
#include "gspmd/ops/debug_calls.h"

namespace gspmd {

using namespace detail;

namespace {

Node* value_node(const Operand& value) {
  return value.is_scalar() ? node_of(value, value.is_integral() ? DType::s32 : DType::f32)
                           : node_of(value);
}

// A text that does not fit is found out while tracing.
void check_text(const std::string& format, std::span<Node* const> values) {
  std::vector<Array> zeros;
  for (const Node* value : values) zeros.emplace_back(value->shape.dtype, Dims{});
  try {
    debug_text(format, zeros);
  } catch (const UserError& error) {
    call_error("{}; give one field for each value", error.what());
  }
  // fmt itself passes over values without a field.
  if (values.empty()) return;
  zeros.pop_back();
  bool fits = true;
  try {
    debug_text(format, zeros);
  } catch (const UserError&) {
    fits = false;
  }
  if (fits)
    call_error("the text \"{}\" has no field for the last of {} values; give one field for each",
               format, values.size());
}

void emit_debug_call(const char* target, const DebugFormat& format, DebugSpeakers speakers,
                     std::vector<Node*> operands) {
  TraceState& trace = trace_of_call();
  DebugConfig config{speakers, "", format.text};
  if (trace.region != nullptr) {
    config.speakers = DebugSpeakers::every_device;
    config.devices = device_names(trace.region->mesh);
  }
  Attributes attrs;
  attrs.custom_call_target = target;
  attrs.other["backend_config"] = debug_config_text(config);
  attrs.other["custom_call_has_side_effect"] = "true";
  emit(trace.here(), Opcode::custom_call, std::move(operands), std::move(attrs),
       Shape(DType::pred, {}));
}

}  // namespace

void detail::debug_print(const DebugFormat& format, const DebugPrintOptions& options,
                         const std::vector<Operand>& values) {
  call("debug_print", format.site, [&] {
    std::vector<Node*> operands;
    for (const Operand& value : values) operands.push_back(value_node(value));
    check_text(format.text, operands);
    emit_debug_call(kDebugPrint, format,
                    options.every_device ? DebugSpeakers::every_device : DebugSpeakers::once,
                    std::move(operands));
  });
}

void detail::debug_check(const Operand& holds, const DebugFormat& format,
                         const std::vector<Operand>& values) {
  call("debug_check", format.site, [&] {
    if (holds.is_scalar())
      call_error("the condition {} is a C++ number; give a pred tensor, such as x < 1",
                 holds.number());
    std::vector<Node*> operands{node_of(holds)};
    check_needs(operands[0], Needs::pred);
    for (const Operand& value : values) operands.push_back(value_node(value));
    check_text(format.text, std::span(operands).subspan(1));
    emit_debug_call(kDebugCheck, format, DebugSpeakers::every_device, std::move(operands));
  });
}

std::function<void(const std::string&)> debug_output(
    std::function<void(const std::string&)> output) {
  return replace_debug_output(std::move(output));
}

}  // namespace gspmd
