#pragma once

// What debug calls do where they run.

#include <functional>
#include <span>
#include <string>

#include "gspmd/base/array.h"
#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"
#include "gspmd/mesh/mesh.h"

namespace gspmd {

// Who says what.
enum class DebugSpeakers : uint8_t {
  once,         // the whole values, said by device 0
  every_device  // each device's parts
};

// A debug call's backend_config.
struct DebugConfig {
  DebugSpeakers speakers = DebugSpeakers::once;  // who says it
  // What devices are called, and the sizes of the parts they have, "device 1
  // (x=0,y=1)@2+2,6+0/3+0": of each operand, with where they begin; by device, separated by ';'.
  // Empty: not known.
  std::string devices = {};
  std::string format = {};  // as fmt's, a field for each value
};
// "device 1 (x=0,y=1);device 2 ...", of all devices of the mesh.
GSPMD_API std::string device_names(const Mesh& mesh);
GSPMD_API std::string debug_config_text(const DebugConfig& config);  // quoted, for the attribute
GSPMD_API DebugConfig debug_config(const Node& node);                // UserError: it is none

// The text with the values in its fields: arrays as in NumPy, long ones shortened; what stands in a
// field behind the colon is for each element. UserError: a field without a value, a value without a
// field, a wrong one.
GSPMD_API std::string debug_text(const std::string& format, std::span<const Array> values);

// Runs a debug call on one device. ExecutionError: a check fails there.
GSPMD_API void run_debug_call(const Node& node, std::span<const Array> operands, int64_t device);

// Where the text of debug_print() goes, a line at a time from any thread, but no two at once; an
// empty function: to the standard output. Returns what it was.
GSPMD_API std::function<void(const std::string& line)> replace_debug_output(
    std::function<void(const std::string& line)> output);

}  // namespace gspmd
