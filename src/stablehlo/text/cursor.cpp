#include "stablehlo/text/cursor.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "ir/lexer.h"

namespace gspmd::stablehlo {
namespace {

bool is_word_character(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '$'; }

bool is_suffix_character(char c) { return is_word_character(c) || c == '-'; }

}  // namespace

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void Cursor::skip_comment() {
  const size_t end = text_.find('\n', at_);
  at_ = end == std::string_view::npos ? text_.size() : end + 1;
}

void Cursor::fail_at(size_t position, const std::string& message) const {
  Lexer(text_, file_).fail_at(position, message);
}

std::string Cursor::found() {
  const size_t at = position();
  if (at == text_.size()) return "the end of the text";
  size_t end = at + 1;
  if (is_word_character(text_[at]))
    while (end < text_.size() && end - at < 40 && is_word_character(text_[end])) ++end;
  const auto code = static_cast<unsigned char>(text_[at]);
  if (code < 0x20 || code >= 0x7f) return fmt::format("the byte 0x{:02x}", code);
  return fmt::format("\"{}\"", text_.substr(at, end - at));
}

void Cursor::expect(std::string_view token, std::string_view where) {
  if (accept(token)) return;
  const size_t at = position();
  fail(at, "expected \"{}\" {}, found {}", token, where, found());
}

bool Cursor::sees_word(std::string_view word) { return peek_word() == word; }

bool Cursor::accept_word(std::string_view word) {
  if (!sees_word(word)) return false;
  at_ += word.size();
  return true;
}

void Cursor::expect_word(std::string_view word, std::string_view where) {
  if (accept_word(word)) return;
  const size_t at = position();
  fail(at, "expected \"{}\" {}, found {}", word, where, found());
}

std::string_view Cursor::peek_word() {
  const size_t at = position();
  if (at == text_.size() || !is_letter(text_[at])) return {};
  size_t end = at + 1;
  while (end < text_.size() && is_word_character(text_[end])) ++end;
  return text_.substr(at, end - at);
}

std::string_view Cursor::word(std::string_view what) {
  const std::string_view result = peek_word();
  if (result.empty()) {
    const size_t at = position();
    fail(at, "expected {}, found {}", what, found());
  }
  at_ += result.size();
  return result;
}

std::string_view Cursor::suffix_id(std::string_view what) {
  size_t end = at_;
  if (end < text_.size() && is_digit(text_[end]))
    while (end < text_.size() && is_digit(text_[end])) ++end;
  else
    while (end < text_.size() && is_suffix_character(text_[end])) ++end;
  // "->" is no part of a name.
  if (end > at_ && end < text_.size() && text_[end] == '>' && text_[end - 1] == '-') --end;
  if (end == at_) fail(at_, "expected {}, found {}", what, found());
  const std::string_view result = text_.substr(at_, end - at_);
  at_ = end;
  return result;
}

std::string Cursor::symbol(std::string_view what) {
  expect("@", fmt::format("before {}", what));
  if (adjacent() == '"') return quoted(what);
  return std::string(suffix_id(what));
}

int64_t Cursor::integer(std::string_view what) {
  const size_t at = position();
  const std::string_view text = number(what);
  const bool negative = text.starts_with('-');
  std::string_view digits = text.substr(negative ? 1 : 0);
  const bool hex = digits.starts_with("0x");
  if (hex) digits.remove_prefix(2);
  uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
  const uint64_t most = uint64_t{std::numeric_limits<int64_t>::max()} + (negative ? 1 : 0);
  if (error != std::errc{} || end != digits.data() + digits.size() || (!hex && value > most))
    fail(at, "{}: \"{}\" is no 64-bit integer", what, text);
  return static_cast<int64_t>(negative ? ~value + 1 : value);
}

std::string_view Cursor::number(std::string_view what) {
  const size_t start = position();
  size_t end = start;
  const auto at = [&](size_t i) { return i < text_.size() ? text_[i] : '\0'; };
  if (at(end) == '-' || at(end) == '+') ++end;
  if (!is_digit(at(end))) fail(start, "expected {}, found {}", what, found());
  if (at(end) == '0' && at(end + 1) == 'x' && hex_value(at(end + 2)) >= 0) {
    end += 2;
    while (hex_value(at(end)) >= 0) ++end;
  } else {
    while (is_digit(at(end))) ++end;
    if (at(end) == '.') {
      ++end;
      while (is_digit(at(end))) ++end;
      const size_t sign = at(end + 1) == '-' || at(end + 1) == '+' ? 1 : 0;
      if ((at(end) == 'e' || at(end) == 'E') && is_digit(at(end + 1 + sign))) {
        end += 1 + sign;
        while (is_digit(at(end))) ++end;
      }
    }
  }
  at_ = end;
  return text_.substr(start, end - start);
}

std::string_view Cursor::raw_quoted(std::string_view what) {
  const size_t start = position();
  if (adjacent() != '"') fail(start, "expected {}, a string, found {}", what, found());
  size_t end = start + 1;
  // Most strings have no escape; bytes of large literals are passed at once.
  const size_t quote = text_.find('"', end);
  const std::string_view inside = text_.substr(end, quote == text_.npos ? quote : quote - end);
  if (quote != text_.npos && inside.find('\\') == text_.npos && inside.find('\n') == text_.npos) {
    at_ = quote + 1;
    return inside;
  }
  while (end < text_.size() && text_[end] != '"' && text_[end] != '\n')
    end += text_[end] == '\\' ? 2 : 1;
  if (end >= text_.size() || text_[end] != '"') fail(start, "{}: the string has no end", what);
  at_ = end + 1;
  return text_.substr(start + 1, end - start - 1);
}

std::string Cursor::quoted(std::string_view what) {
  const size_t start = position();
  const std::string_view raw = raw_quoted(what);
  std::string result;
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      result.push_back(raw[i]);
      continue;
    }
    const char next = raw[++i];
    if (next == '"' || next == '\\') {
      result.push_back(next);
    } else if (next == 'n' || next == 't') {
      result.push_back(next == 'n' ? '\n' : '\t');
    } else {
      const int high = hex_value(next), low = i + 1 < raw.size() ? hex_value(raw[i + 1]) : -1;
      if (high < 0 || low < 0)
        fail(start + i, "{}: \"\\{}\" is no escape; \\n, \\t, \\\", \\\\ and \\HH are", what, next);
      result.push_back(static_cast<char>(16 * high + low));
      ++i;
    }
  }
  return result;
}

std::string_view Cursor::balanced(std::string_view what) {
  const size_t start = at_;
  std::string open;  // closing brackets wanted
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '"') {
      raw_quoted(what);
      continue;
    }
    if (text_.substr(at_).starts_with("//")) {
      at_ = std::min(text_.find('\n', at_), text_.size());
      continue;
    }
    if (c == '(' || c == '[' || c == '{' || c == '<') {
      open.push_back(c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : '>');
    } else if (c == '-' && at_ + 1 < text_.size() && text_[at_ + 1] == '>') {
      ++at_;
    } else if (c == ')' || c == ']' || c == '}' || c == '>') {
      if (open.empty()) return text_.substr(start, at_ - start);
      if (open.back() != c)
        fail(at_, "{}: \"{}\" closes no bracket; expected \"{}\"", what, c, open.back());
      open.pop_back();
    }
    ++at_;
  }
  fail(start, "{}: the closing bracket is missing", what);
}

std::string quote(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\\')
      result += "\\\\";
    else if (c == '"' || code < 0x20 || code >= 0x7f)
      fmt::format_to(std::back_inserter(result), "\\{:02X}", code);
    else
      result.push_back(c);
  }
  return result + "\"";
}

}  // namespace gspmd::stablehlo
