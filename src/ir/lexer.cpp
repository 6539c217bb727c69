#include "ir/lexer.h"

#include <algorithm>
#include <charconv>

namespace gspmd {
namespace {

constexpr size_t kShown = 100;  // characters of a source line that a message shows

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_name(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '.' || c == '-' || c == '$';
}
bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

char closer_of(char open) {
  switch (open) {
    case '{':
      return '}';
    case '[':
      return ']';
    case '(':
      return ')';
    default:
      return '\0';
  }
}

bool is_quoted_name(char c) { return c == ':' || c == '/' || c == '@'; }

// Names end before "->", so that "(x: f32[])->f32[]" and "a->b" read as written; '#' stands inside
// a name only. `marked`: behind a %.
size_t name_end(std::string_view text, size_t at, bool marked) {
  const size_t start = at;
  for (; at < text.size(); ++at) {
    const char next = at + 1 < text.size() ? text[at + 1] : '\0';
    if (is_name(text[at])) {
      if (text[at] == '-' && next == '>') break;
    } else if (text[at] == '#' && at > start && is_name(next)) {
      continue;
    } else if (!marked || !is_quoted_name(text[at]) || !is_name(next)) {
      break;
    }
  }
  return at;
}

// The end of a comment that starts at `at`, or `at` where none does.
size_t comment_end(std::string_view text, size_t at) {
  const std::string_view mark = text.substr(at, 2);
  if (mark == "//") return std::min(text.find('\n', at), text.size());
  if (mark != "/*") return at;
  const size_t end = text.find("*/", at + 2);
  return end == std::string_view::npos ? end : end + 2;
}

}  // namespace

std::string tidy(std::string_view text) {
  std::string result;
  const auto blank = [&] {
    if (!result.empty() && result.back() != ' ') result.push_back(' ');
  };
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      const size_t start = at++;
      while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
      at = std::min(at + 1, text.size());
      result += text.substr(start, at - start);
    } else if (const size_t end = comment_end(text, at); end != at) {
      at = std::min(end, text.size());
      blank();
    } else if (is_blank(text[at])) {
      ++at;
      blank();
    } else {
      result.push_back(text[at++]);
    }
  }
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

namespace {

struct Escape {
  char letter, meaning;
};
constexpr Escape kEscapes[] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'a', '\a'},
                               {'b', '\b'}, {'f', '\f'}, {'v', '\v'}};

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The escape whose letter stands at `at`; moves behind it.
char unescape(std::string_view text, size_t& at) {
  const char letter = text[at++];
  for (const Escape& escape : kEscapes)
    if (escape.letter == letter) return escape.meaning;
  if (letter == 'x') {
    int value = 0;
    for (int i = 0; i < 2 && at < text.size() && hex_value(text[at]) >= 0; ++i)
      value = value * 16 + hex_value(text[at++]);
    return static_cast<char>(value);
  }
  if (letter >= '0' && letter <= '7') {
    int value = letter - '0';
    for (int i = 0; i < 2 && at < text.size() && text[at] >= '0' && text[at] <= '7'; ++i)
      value = value * 8 + (text[at++] - '0');
    return static_cast<char>(value);
  }
  return letter;
}

}  // namespace

void Lexer::skip_blanks() {
  while (at_ < text_.size()) {
    if (is_blank(text_[at_])) {
      ++at_;
      continue;
    }
    if (text_[at_] != '/') return;
    const size_t end = comment_end(text_, at_);
    if (end == at_) return;
    if (end == std::string_view::npos) fail(at_, "this comment is not closed by */");
    at_ = end;
  }
}

size_t Lexer::position() {
  skip_blanks();
  return at_;
}

char Lexer::peek() {
  skip_blanks();
  return adjacent();
}

bool Lexer::accept(std::string_view token) {
  skip_blanks();
  if (text_.substr(at_, token.size()) != token) return false;
  at_ += token.size();
  return true;
}

void Lexer::expect(std::string_view token, std::string_view where) {
  if (!accept(token)) fail(at_, "expected '{}' {}, found {}", token, where, found());
}

std::string_view Lexer::peek_name() {
  skip_blanks();
  const bool marked = adjacent() == '%';
  const size_t start = marked ? at_ + 1 : at_;
  return text_.substr(start, name_end(text_, start, marked) - start);
}

char Lexer::after_name() {
  const std::string_view next = peek_name();
  const auto end = static_cast<size_t>(next.data() - text_.data()) + next.size();
  return end < text_.size() ? text_[end] : '\0';
}

char Lexer::token_after_name() {
  const size_t start = at_;
  const std::string_view next = peek_name();
  at_ = static_cast<size_t>(next.data() - text_.data()) + next.size();
  const char result = peek();
  at_ = start;
  return result;
}

bool Lexer::sees_word(std::string_view word) { return peek() != '%' && peek_name() == word; }

bool Lexer::accept_word(std::string_view word) {
  if (!sees_word(word)) return false;
  at_ += word.size();
  return true;
}

std::string_view Lexer::name(std::string_view what) {
  const std::string_view result = peek_name();
  if (result.empty()) fail(at_, "expected {}, found {}", what, found());
  at_ = static_cast<size_t>(result.data() - text_.data()) + result.size();
  return result;
}

std::string_view Lexer::word(std::string_view what) {
  if (peek() == '%') fail(at_, "expected {}, found {}", what, found());
  return name(what);
}

int64_t Lexer::integer(std::string_view what) {
  skip_blanks();
  int64_t value = 0;
  const char* const begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error == std::errc::invalid_argument)
    fail(at_, "expected an integer for {}, found {}", what, found());
  if (error == std::errc::result_out_of_range)
    fail(at_, "the integer for {} does not fit into 64 bits", what);
  at_ += static_cast<size_t>(end - begin);
  return value;
}

bool Lexer::boolean(std::string_view what) {
  if (accept_word("true")) return true;
  if (accept_word("false")) return false;
  fail(position(), "expected true or false for {}, found {}", what, found());
}

std::string Lexer::quoted(std::string_view what) {
  skip_blanks();
  const size_t start = at_;
  if (!accept("\"")) fail(at_, "expected a quoted string for {}, found {}", what, found());
  std::string result;
  while (at_ < text_.size() && text_[at_] != '"') {
    const char c = text_[at_++];
    if (c == '\\' && at_ < text_.size())
      result.push_back(unescape(text_, at_));
    else
      result.push_back(c);
  }
  if (at_ == text_.size()) fail(start, "this string is not closed by a quote");
  ++at_;
  return result;
}

std::string_view Lexer::raw_value(std::string_view what) {
  skip_blanks();
  const size_t start = at_;
  std::vector<std::pair<char, size_t>> open;  // closing character wanted, position of the opener
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (open.empty() && (is_blank(c) || c == ',' || c == '}' || c == ')' || c == ']')) break;
    if (c == '"') {
      quoted(what);
      continue;
    }
    if (c == '/' && comment_end(text_, at_) != at_) {
      if (open.empty()) break;
      skip_blanks();
      continue;
    }
    if (const char closer = closer_of(c)) open.emplace_back(closer, at_);
    if (c == '}' || c == ')' || c == ']') {
      if (open.back().first != c)
        fail(at_, "'{}' closes nothing here: '{}' is wanted first", c, open.back().first);
      open.pop_back();
    }
    ++at_;
  }
  if (!open.empty())
    fail(open.back().second, "this bracket is not closed by '{}'", open.back().first);
  if (at_ == start) fail(start, "expected a value for {}, found {}", what, found());
  return text_.substr(start, at_ - start);
}

std::string Lexer::raw_attribute(std::string_view what) {
  const size_t start = position();
  for (;;) {
    raw_value(what);
    const size_t end = at_;
    const char next = peek();
    const bool same_line = text_.substr(end, at_ - end).find('\n') == std::string_view::npos;
    const bool more = same_line && next != '\0' && next != ',' && next != '}' && next != ')' &&
                      next != ']' && next != '%' && !sees_word("ROOT") &&
                      (peek_name().empty() || token_after_name() != '=');
    if (more) continue;
    at_ = end;
    return tidy(text_.substr(start, end - start));
  }
}

std::string_view Lexer::number(std::string_view what) {
  skip_blanks();
  const size_t start = at_;
  while (at_ < text_.size() && (is_name(text_[at_]) || text_[at_] == '+')) ++at_;
  if (at_ == start) fail(start, "expected {}, found {}", what, found());
  return text_.substr(start, at_ - start);
}

std::string Lexer::found() const {
  if (at_ >= text_.size()) return "the end of the text";
  const size_t end = std::min(std::max(name_end(text_, at_, false), at_ + 1), at_ + 40);
  const std::string_view token = text_.substr(at_, end - at_);
  const auto code = static_cast<unsigned char>(token[0]);
  if (code < 0x20 || code == 0x7f) return fmt::format("the byte 0x{:02x}", code);
  return fmt::format("'{}'", token);
}

void Lexer::fail_at(size_t position, const std::string& message) const {
  position = std::min(position, text_.size());
  // At the end of the text the caret stands behind the last character, not on an empty line below.
  if (position == text_.size())
    while (position > 0 && is_blank(text_[position - 1])) --position;
  const auto line =
      1 + std::count(text_.begin(), text_.begin() + static_cast<int64_t>(position), '\n');
  const size_t newline = position == 0 ? std::string_view::npos : text_.rfind('\n', position - 1);
  const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  const size_t end = std::min(text_.find('\n', position), text_.size());
  const size_t column = position - begin;
  // A window around the column: machine-made lines may be megabytes long.
  const size_t first = column > kShown / 2 && end - begin > kShown ? column - kShown / 2 : 0;
  std::string shown(text_.substr(begin + first, std::min(kShown, end - begin - first)));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = c == '\t' ? ' ' : '?';
  throw UserError(fmt::format("{}:{}:{}: {}\n  {}\n  {:>{}}", file_, line, column + 1, message,
                              shown, '^', column - first + 1),
                  Site{});
}

std::string quote(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result.push_back('\\');
      result.push_back(c);
    } else if (code < 0x20 || code == 0x7f) {
      fmt::format_to(std::back_inserter(result), "\\{:03o}", code);
    } else {
      result.push_back(c);
    }
  }
  result.push_back('"');
  return result;
}

}  // namespace gspmd
