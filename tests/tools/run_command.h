#pragma once

#include <string>

namespace gspmd {

struct CommandResult {
  int code = -1;
  std::string out, err;
};

// Runs `gspmd ARGUMENTS` with `input` on standard input.
CommandResult run_command(const std::string& arguments, const std::string& input = "");

// A two-layer network on a 2x4 mesh whose partial sums need collectives.
extern const char* const kNetwork;

}  // namespace gspmd
