#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "gspmd/base/error.h"

namespace gspmd {

// Reads the words, numbers and marks of a sharding's text. Every failure is a UserError with the
// column.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  size_t column() const { return pos_; }
  void rewind(size_t column) { pos_ = column; }
  std::string_view text() const { return text_; }

  void skip_space();
  bool at_end();  // of the text, blanks aside
  char peek();    // the next mark, 0 at the end
  bool accept(char mark);
  bool accept(std::string_view marks);
  void expect(char mark, std::string_view place);  // place: "after the tile dims"
  std::string_view word();                         // [A-Za-z_][A-Za-z0-9_.-]*, or empty
  int64_t number(std::string_view what);
  std::string quoted();  // 'x' or "x"
  void skip_braces();    // a balanced {...}, with strings inside

  template <class... Args>
  [[noreturn]] void fail_at(size_t column, fmt::format_string<Args...> format,
                            Args&&... args) const {
    user_error("sharding: {}, at column {} of {}", fmt::format(format, std::forward<Args>(args)...),
               column, excerpt());
  }
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(pos_, format, std::forward<Args>(args)...);
  }

 private:
  std::string excerpt() const;

  std::string_view text_;
  size_t pos_ = 0;
};

}  // namespace gspmd
