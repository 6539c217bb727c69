#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "gspmd/base/error.h"

namespace gspmd::stablehlo {

// A cursor over MLIR text. Every read skips blanks and comments first; every error is a UserError
// "file:line:column: message" with the line and a caret. The text is never copied.
class Cursor {
 public:
  // Reads text[begin, end); positions are those of `text`, so that errors name its lines.
  Cursor(std::string_view text, std::string_view file, size_t begin, size_t end)
      : whole_(text.substr(0, end)), text_(whole_), file_(file), at_(begin) {}

  std::string_view text() const { return text_; }
  std::string_view file() const { return file_; }
  // The same text from `begin` to `end`.
  Cursor sub(size_t begin, size_t end) const {
    Cursor part = *this;
    part.text_ = whole_.substr(0, end);
    part.at_ = begin;
    return part;
  }
  // The whole text from `begin`.
  Cursor from(size_t begin) const { return sub(begin, whole_.size()); }

  size_t position() {
    skip_blanks();
    return at_;
  }
  void seek(size_t position) { at_ = position; }
  bool at_end() { return position() == text_.size(); }
  // The first character of the next token; '\0' at the end.
  char peek() {
    skip_blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  // The character at the cursor itself, blanks not skipped.
  char adjacent() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool sees(std::string_view token) {
    skip_blanks();
    return text_.substr(at_, token.size()) == token;
  }
  bool accept(std::string_view token) {
    if (!sees(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token, std::string_view where);
  bool sees_word(std::string_view word);
  bool accept_word(std::string_view word);
  void expect_word(std::string_view word, std::string_view where);

  // A bare id with dots: "stablehlo.add", "sdy.sharding".
  std::string_view word(std::string_view what);
  std::string_view peek_word();
  // What stands behind %, ^, # and !.
  std::string_view suffix_id(std::string_view what);
  std::string symbol(std::string_view what);  // "@f" or "@\"any\"": without the @
  int64_t integer(std::string_view what);     // "-12", "0x1F"
  std::string quoted(std::string_view what);  // decoded
  std::string_view raw_quoted(std::string_view what);
  // A number as it stands: sign, digits, dot, exponent, or hex digits.
  std::string_view number(std::string_view what);
  // Reads a balanced text up to the closing bracket of the one before the cursor, strings whole;
  // the cursor stands at that bracket then.
  std::string_view balanced(std::string_view what);

  template <class... Args>
  [[noreturn]] void fail(size_t position, fmt::format_string<Args...> format,
                         Args&&... args) const {
    fail_at(position, fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail_at(size_t position, const std::string& message) const;
  // What stands at the cursor, for messages.
  std::string found();

 private:
  void skip_blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\n' || c == '\t' || c == '\r')
        ++at_;
      else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/')
        skip_comment();
      else
        return;
    }
  }
  void skip_comment();

  std::string_view whole_;  // of which this reads
  std::string_view text_;   // up to where it reads
  std::string_view file_;
  size_t at_;
};

// How deep types, attributes, locations and regions may stand inside one another.
inline constexpr int kMaxDepth = 64;

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
int hex_value(char c);  // -1: no hex digit

// A string of MLIR text: quotes, backslashes and control characters as \HH.
std::string quote(std::string_view text);

}  // namespace gspmd::stablehlo
