#pragma once

namespace gspmd {

// A line of the user's program. Public functions take one as their last, defaulted parameter, so that
// an error can name the line that caused it. File names are string literals of the compiler.
struct Site {
  const char* file = "";
  int line = 0;

  constexpr Site() = default;
  constexpr Site(const char* file, int line) : file(file), line(line) {}

  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  constexpr bool known() const { return line > 0; }
};

}  // namespace gspmd
