#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace gspmd {

// Ends the process, as libFuzzer wants it: a find.
[[noreturn]] inline void report(const char* what, std::string_view text) {
  std::fprintf(stderr, "%s:\n%.*s\n", what, static_cast<int>(text.size()), text.data());
  std::abort();
}

}  // namespace gspmd
