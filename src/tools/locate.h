#pragma once

#include <optional>
#include <span>
#include <string>

#include "tools/execute.h"
#include "tools/report.h"

namespace gspmd::tools {

// Where a run on a mesh went wrong: the first op whose value the partitioner's program computes
// otherwise on the reference interpreter; else the first pass behind it whose program does; else
// what ran it.
struct WrongStep {
  std::string kind;  // "op", "pass" or "runtime"
  std::string name;  // of the instruction or pass; empty for the runtime
  Json details;      // of an op: see to_json
};

// Looks for it by runs on the reference interpreter; nullopt where those do not fit into memory, or
// fail. `exact`: compared bit for bit, else within the command's or the default tolerance.
std::optional<WrongStep> locate_wrong_step(const Prepared& prepared, const Module& module,
                                           std::span<const Array> inputs, bool exact,
                                           const Command& command);

// {"kind", "name"}; of an op also "opcode", "computation", "iteration", "device", "index",
// "expected", "actual", "source".
Json to_json(const std::optional<WrongStep>& step);
std::string to_text(const WrongStep& step);  // one line

}  // namespace gspmd::tools
