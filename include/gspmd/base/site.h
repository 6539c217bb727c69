#pragma once

// Lines of the user's program.

#include <concepts>

namespace gspmd {

// A line of the user's program or of a text that it reads. Public functions take one as their last,
// defaulted parameter, so that an error can name the line that caused it. File names are not owned:
// they are the ends of string literals of the compiler, or those of lasting_site (ir/place.h).
struct Site {
  const char* file = "";  // of a program: without directories; of a text: as it was given
  int line = 0;           // from 1; 0: not known

  constexpr Site() = default;
  // A template, so that {0, 1} - a null pointer and a line to the compiler - is never taken for a
  // Site.
  template <std::same_as<char> Char>
  constexpr Site(const Char* path, int number) : file(path), line(number) {}

  // The line that calls the function whose default argument this is.
  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {base_name(file), line};
  }
  // Without directories: messages and programs then do not depend on where the source tree lies.
  static constexpr const char* base_name(const char* path) {
    const char* name = path;
    for (const char* c = path; *c != '\0'; ++c)
      if (*c == '/') name = c + 1;
    return name;
  }
  constexpr bool known() const { return line > 0; }  // whether there is a line
};

}  // namespace gspmd
