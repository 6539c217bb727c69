#pragma once

// What the programs of the tutorial share.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "gspmd/gspmd.h"

namespace lesson {

// Prints text. The pages quote it behind the lines of code that hold the call, which pages.py
// learns from a mark.
inline void show(const std::string& text, gspmd::Site site = gspmd::Site::here()) {
  if (std::getenv("GSPMD_LESSON_MARKS")) fmt::print("\x1e{}\n", site.line);
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

// The message of the error that `f` throws; ends the program where it throws none.
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const gspmd::Error& error) {
    return error.what();
  }
  fmt::print(stderr, "an error was expected, and there was none\n");
  std::exit(1);
}

inline void check(bool holds, const char* claim, const char* file, int line) {
  if (holds) return;
  fmt::print(stderr, "{}:{}: does not hold: {}\n", file, line, claim);
  std::exit(1);
}

}  // namespace lesson

using lesson::error_of;
using lesson::show;

// Ends the program where a claim does not hold.
#define CHECK(...) lesson::check(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
