#include "mesh/text_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace gspmd {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

}  // namespace

void TextCursor::skip_space() {
  while (pos_ < text_.size() && is_space(text_[pos_])) ++pos_;
}

bool TextCursor::at_end() {
  skip_space();
  return pos_ == text_.size();
}

char TextCursor::peek() { return at_end() ? '\0' : text_[pos_]; }

bool TextCursor::accept(char mark) {
  if (peek() != mark || at_end()) return false;
  ++pos_;
  return true;
}

bool TextCursor::accept(std::string_view marks) {
  skip_space();
  if (text_.substr(pos_, marks.size()) != marks) return false;
  pos_ += marks.size();
  return true;
}

void TextCursor::expect(char mark, std::string_view place) {
  if (accept(mark)) return;
  if (at_end()) fail("the text ends where '{}' should stand {}", mark, place);
  fail("'{}' stands where '{}' should {}", text_[pos_], mark, place);
}

std::string_view TextCursor::word() {
  skip_space();
  const size_t start = pos_;
  if (pos_ < text_.size() && is_letter(text_[pos_]))
    while (pos_ < text_.size() && (is_letter(text_[pos_]) || is_digit(text_[pos_]) ||
                                   text_[pos_] == '.' || text_[pos_] == '-'))
      ++pos_;
  return text_.substr(start, pos_ - start);
}

int64_t TextCursor::number(std::string_view what) {
  skip_space();
  const size_t start = pos_;
  const bool negative = pos_ < text_.size() && text_[pos_] == '-';
  if (negative) ++pos_;
  if (pos_ == text_.size() || !is_digit(text_[pos_]))
    fail_at(start, "a number is missing where the {} should stand", what);
  int64_t value = 0;
  while (pos_ < text_.size() && is_digit(text_[pos_])) {
    if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
        __builtin_add_overflow(value, int64_t{text_[pos_] - '0'}, &value))
      fail_at(start, "the {} is larger than any number of devices can be", what);
    ++pos_;
  }
  if (negative && value != 0) fail_at(start, "the {} is -{}; it cannot be negative", what, value);
  return value;
}

std::string TextCursor::quoted() {
  const size_t start = pos_;
  const char quote = peek();
  if (quote != '\'' && quote != '"') fail("an axis name in quotes is missing");
  const size_t end = text_.find(quote, ++pos_);
  if (end == std::string_view::npos) fail_at(start, "the quote opened here is not closed");
  std::string name(text_.substr(pos_, end - pos_));
  pos_ = end + 1;
  return name;
}

void TextCursor::skip_braces() {
  skip_space();
  const size_t start = pos_;
  if (!accept('{')) fail("'{{' is missing");
  for (int64_t depth = 1; depth > 0; ++pos_) {
    if (pos_ == text_.size()) fail_at(start, "the brace opened here is not closed");
    const char c = text_[pos_];
    if (c == '{') ++depth;
    if (c == '}') --depth;
    if (c != '"') continue;
    for (++pos_; pos_ < text_.size() && text_[pos_] != '"'; ++pos_)
      if (text_[pos_] == '\\') ++pos_;
    if (pos_ >= text_.size()) fail_at(start, "a string inside this brace is not closed");
  }
}

std::string TextCursor::excerpt() const {
  constexpr size_t kLongest = 100;  // and within the line, for an unclosed brace runs on
  const size_t at = std::min(pos_, text_.size());
  const size_t before = text_.find_last_of("\r\n", at ? at - 1 : 0);
  const size_t line = before == std::string_view::npos || before >= at ? 0 : before + 1;
  const size_t from = std::max(line, at > kLongest / 2 ? at - kLongest / 2 : 0);
  const size_t end = std::min(text_.find_first_of("\r\n", at), from + kLongest);
  const std::string_view shown = text_.substr(from, end - from);
  return fmt::format("`{}{}{}`", from ? "..." : "", shown,
                     from + shown.size() < text_.size() ? "..." : "");
}

}  // namespace gspmd
