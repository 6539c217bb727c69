#pragma once

#include <map>
#include <string>

#include "examples/front.h"

namespace gspmd::examples {

// Trains a task's model and reports; the exit code: 0, or 1 where --check found a difference.
// `identity`: what a resumed run must share, by option.
int run_training(const std::string& program, const RunOptions& options,
                 std::map<std::string, std::string> identity, const Task& task);

}  // namespace gspmd::examples
