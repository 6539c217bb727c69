#include "mutate_text.h"

#include <cctype>
#include <string_view>
#include <vector>

#include "gspmd/base/dtype.h"
#include "gspmd/ir/opcode.h"

namespace gspmd::fuzz {
namespace {

using Random = std::minstd_rand;

size_t below(Random& random, size_t n) { return n == 0 ? 0 : random() % n; }

// A piece of the text: [begin, end).
struct Token {
  size_t begin = 0, end = 0;
};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

std::vector<Token> words(const std::string& text) {
  std::vector<Token> tokens;
  for (size_t i = 0; i < text.size();) {
    if (!is_word(text[i])) {
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && is_word(text[i])) ++i;
    tokens.push_back({begin, i});
  }
  return tokens;
}

std::string_view view(const std::string& text, Token token) {
  return std::string_view(text).substr(token.begin, token.end - token.begin);
}

bool is_number(std::string_view word) {
  const size_t digits = word[0] == '-' ? 1 : 0;
  return word.size() > digits &&
         word.find_first_not_of("0123456789", digits) == std::string_view::npos;
}

std::string a_number(Random& random) {
  constexpr const char* kOdd[] = {"-1",
                                  "-2",
                                  "63",
                                  "64",
                                  "127",
                                  "255",
                                  "65536",
                                  "2147483647",
                                  "-2147483648",
                                  "4294967296",
                                  "9223372036854775807"};
  if (below(random, 8) == 0) return kOdd[below(random, std::size(kOdd))];
  return std::to_string(below(random, 10));
}

// The words that `keep` holds of.
template <class Keep>
std::vector<Token> words_where(const std::string& text, Keep keep) {
  std::vector<Token> kept;
  for (const Token token : words(text))
    if (keep(view(text, token))) kept.push_back(token);
  return kept;
}

void replace(std::string& text, Token token, const std::string& with) {
  text.replace(token.begin, token.end - token.begin, with);
}

void change_number(std::string& text, Random& random) {
  const std::vector<Token> numbers = words_where(text, is_number);
  if (numbers.empty()) return;
  replace(text, numbers[below(random, numbers.size())], a_number(random));
}

// One size everywhere: shapes stay consistent.
void change_size(std::string& text, Random& random) {
  const std::vector<Token> numbers = words_where(text, is_number);
  if (numbers.empty()) return;
  const std::string from(view(text, numbers[below(random, numbers.size())]));
  const std::string to = std::to_string(below(random, 12));
  for (size_t i = numbers.size(); i-- > 0;)
    if (view(text, numbers[i]) == from) replace(text, numbers[i], to);
}

void change_opcode(std::string& text, Random& random) {
  const auto is_opcode = [](std::string_view word) { return opcode_from_name(word).has_value(); };
  const std::vector<Token> opcodes = words_where(text, is_opcode);
  if (opcodes.empty()) return;
  const auto other = static_cast<Opcode>(below(random, static_cast<size_t>(opcode_count())));
  replace(text, opcodes[below(random, opcodes.size())], std::string(opcode_name(other)));
}

void change_dtype(std::string& text, Random& random) {
  const auto is_dtype = [](std::string_view word) { return dtype_from_name(word).has_value(); };
  const std::vector<Token> dtypes = words_where(text, is_dtype);
  if (dtypes.empty()) return;
  const std::string from(view(text, dtypes[below(random, dtypes.size())]));
  const std::string to(
      dtype_name(static_cast<DType>(below(random, static_cast<size_t>(DType::opaque)))));
  const bool all = below(random, 3) != 0;
  const size_t only = below(random, dtypes.size());
  for (size_t i = dtypes.size(); i-- > 0;)
    if (all ? view(text, dtypes[i]) == from : i == only) replace(text, dtypes[i], to);
}

void change_word(std::string& text, Random& random) {
  const std::vector<Token> tokens = words(text);
  if (tokens.empty()) return;
  const std::string with(view(text, tokens[below(random, tokens.size())]));
  replace(text, tokens[below(random, tokens.size())], with);
}

void change_line(std::string& text, Random& random) {
  std::vector<Token> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    lines.push_back({begin, end});
    begin = end;
  }
  if (lines.empty()) return;
  const Token line = lines[below(random, lines.size())];
  const std::string copy(view(text, line));
  if (below(random, 2) == 0)
    replace(text, line, "");
  else
    text.insert(lines[below(random, lines.size())].begin, copy);
}

void change_sharding(std::string& text, Random& random) {
  constexpr const char* kShardings[] = {"{replicated}",
                                        "{devices=[2]<=[2]}",
                                        "{devices=[1,2]<=[2]}",
                                        "{devices=[2,1]<=[2]}",
                                        "{devices=[2,2]<=[4]}",
                                        "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
                                        "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
                                        "{devices=[1,1,2]<=[2]}",
                                        "{devices=[2]1,0}",
                                        "{maximal device=1}",
                                        "{manual}",
                                        "{devices=[1,2]<=[2] last_tile_dims={manual}}",
                                        "{devices=[1,2]<=[2] last_tile_dims={unreduced}}"};
  const std::string with = kShardings[below(random, std::size(kShardings))];
  const std::string mark = "sharding=";
  size_t at = text.find(mark, below(random, text.size()));
  if (at != std::string::npos && at + mark.size() < text.size() && text[at + mark.size()] == '{') {
    const size_t end = text.find('}', at);
    if (end != std::string::npos) text.replace(at + mark.size(), end + 1 - at - mark.size(), with);
    return;
  }
  at = text.find(")\n", below(random, text.size()));
  if (at != std::string::npos) text.insert(at + 1, ", sharding=" + with);
}

}  // namespace

std::string mutate_text(std::string text, std::minstd_rand& random) {
  using Change = void (*)(std::string&, Random&);
  constexpr Change kChanges[] = {change_number, change_number,  change_size, change_size,
                                 change_opcode, change_dtype,   change_word, change_word,
                                 change_line,   change_sharding};
  if (!text.empty()) kChanges[below(random, std::size(kChanges))](text, random);
  return text;
}

}  // namespace gspmd::fuzz
