#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gspmd/base/error.h"

namespace gspmd {

// A cursor over HLO text. Every read skips blanks and comments first; every error is a UserError
// "file:line:column: message", the source line, and a caret. No recursion, no copy of the text.
class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  size_t position();  // byte offset of the next token
  bool at_end() { return position() == text_.size(); }
  char peek();  // first character of the next token; '\0' at the end
  bool accept(std::string_view token);
  void expect(std::string_view token, std::string_view where);
  // Whether the next word is exactly `word`; accept_word also reads it.
  bool sees_word(std::string_view word);
  bool accept_word(std::string_view word);

  // "%add.1" or "add.1" -> "add.1"; `what` names it in errors. Behind % a name may hold ':' and '/'
  // too.
  std::string_view name(std::string_view what);
  // A name that % may not mark: of an opcode, a type, an attribute.
  std::string_view word(std::string_view what);
  int64_t integer(std::string_view what);
  bool boolean(std::string_view what);
  std::string quoted(std::string_view what);  // "a\"b", unescaped
  // The next name without moving; empty when no name comes next.
  std::string_view peek_name();
  // The character right behind the next name, blanks not skipped ('\0' at the end).
  char after_name();
  // The first character of the token behind the next name.
  char token_after_name();
  // Characters up to a blank, comma or closing bracket at depth 0, brackets, strings and comments
  // whole.
  std::string_view raw_value(std::string_view what);
  // As raw_value, with what follows on the same line up to a comma or closing bracket, unless that
  // is the next instruction: "f32[2] {1, 2}". Comments and line ends are left out.
  std::string raw_attribute(std::string_view what);
  // One number-like token: digits, letters, signs and dots.
  std::string_view number(std::string_view what);
  // The character at the cursor itself, blanks not skipped: a layout follows its shape directly.
  char adjacent() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void seek(size_t position) { at_ = position; }

  template <class... Args>
  [[noreturn]] void fail(size_t position, fmt::format_string<Args...> format,
                         Args&&... args) const {
    fail_at(position, fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail_at(size_t position, const std::string& message) const;
  std::string_view text() const { return text_; }

 private:
  void skip_blanks();
  std::string found() const;  // what stands at the cursor, for messages

  std::string_view text_;
  std::string_view file_;
  size_t at_ = 0;
};

// Comments and runs of blanks as one blank each; strings as they are.
std::string tidy(std::string_view text);

// C escapes: quotes, backslashes and control characters; the inverse of Lexer::quoted.
std::string quote(std::string_view text);

}  // namespace gspmd
