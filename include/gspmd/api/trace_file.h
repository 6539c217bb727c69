#pragma once

// Recorded runs as files for a trace viewer.

#include <string>

#include "gspmd/base/export.h"
#include "gspmd/runtime/run_trace.h"

namespace gspmd {

// Writes a run in the Trace Event Format (JSON), which chrome://tracing and ui.perfetto.dev show: a
// track per device; a complete event per op with opcode, shape, source line and bytes; collectives
// with bytes, axes, groups and the time waited, which is an event inside theirs; loops and
// conditionals around what is in them; a counter per device of the arena's live bytes as planned.
// `name` is shown as the process. UserError where the file cannot be written.
GSPMD_API void write_trace(const std::string& path, const RunTrace& trace,
                           const std::string& name = "gspmd");

}  // namespace gspmd
