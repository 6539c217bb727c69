#include "mutate_stablehlo.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "stablehlo/row.h"

namespace gspmd::fuzz {
namespace {

using Random = std::minstd_rand;

size_t pick(Random& random, size_t n) { return n == 0 ? 0 : random() % n; }

// A piece of the text: [begin, end).
struct Piece {
  size_t begin = 0, end = 0;
};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

std::string_view view(const std::string& text, Piece piece) {
  return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
}

// Runs of characters of words, with the mark before them that says what they name.
std::vector<Piece> words(const std::string& text) {
  std::vector<Piece> found;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    if (std::string_view("%@#!^").find(text[i]) != std::string_view::npos) ++i;
    while (i < text.size() && is_word(text[i])) ++i;
    if (i > begin) found.push_back({begin, i});
    if (i == begin) ++i;
  }
  return found;
}

// The words that `keep` holds of.
template <class Keep>
std::vector<Piece> words_where(const std::string& text, Keep keep) {
  std::vector<Piece> kept;
  for (const Piece word : words(text))
    if (keep(view(text, word))) kept.push_back(word);
  return kept;
}

// Numbers: those that stand alone, and the sizes of a type, "2x3xf32".
std::vector<Piece> numbers(const std::string& text) {
  std::vector<Piece> found;
  const auto is_digit = [&](size_t i) {
    return i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0;
  };
  for (const Piece word : words(text)) {
    if (!is_digit(word.begin)) continue;
    for (size_t i = word.begin; i < word.end;) {
      const size_t begin = i;
      while (i < word.end && is_digit(i)) ++i;
      if (i > begin && (begin == word.begin || text[begin - 1] == 'x')) found.push_back({begin, i});
      if (i == begin) ++i;
    }
  }
  return found;
}

void replace(std::string& text, Piece piece, std::string_view with) {
  text.replace(piece.begin, piece.end - piece.begin, with);
}

void replace_one(std::string& text, const std::vector<Piece>& pieces, Random& random,
                 std::string_view with) {
  if (!pieces.empty()) replace(text, pieces[pick(random, pieces.size())], with);
}

std::string a_number(Random& random) {
  constexpr const char* kOdd[] = {"-1",          "-2",         "63",
                                  "64",          "65536",      "2147483647",
                                  "-2147483648", "4294967296", "9223372036854775807"};
  if (pick(random, 8) == 0) return kOdd[pick(random, std::size(kOdd))];
  return std::to_string(pick(random, 10));
}

void change_number(std::string& text, Random& random) {
  replace_one(text, numbers(text), random, a_number(random));
}

// One size everywhere: types stay consistent.
void change_size(std::string& text, Random& random) {
  const std::vector<Piece> all = numbers(text);
  if (all.empty()) return;
  const std::string from(view(text, all[pick(random, all.size())]));
  const std::string to = pick(random, 8) == 0 ? "?" : std::to_string(pick(random, 12));
  for (size_t i = all.size(); i-- > 0;)
    if (view(text, all[i]) == from) replace(text, all[i], to);
}

std::string_view an_op(Random& random) {
  using namespace stablehlo;
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> names;
    for (const auto rows : {elementwise_rows, shape_rows, contraction_rows, region_rows,
                            indexing_rows, control_rows, call_rows, collective_rows, host_rows,
                            dynamic_rows, chlo_rows, sdy_rows, check_rows, builtin_rows})
      for (const OpRow& row : rows()) names.push_back(row.name);
    return names;
  }();
  return kNames[pick(random, kNames.size())];
}

void change_op(std::string& text, Random& random) {
  const auto is_op = [](std::string_view word) { return stablehlo::find_row(word) != nullptr; };
  replace_one(text, words_where(text, is_op), random, an_op(random));
}

// Of one type, or of all of an element type.
void change_element(std::string& text, Random& random) {
  constexpr std::string_view kElements[] = {
      "i1",     "i2",       "i4",        "i8",           "i16",          "i32",
      "i64",    "ui2",      "ui4",       "ui8",          "ui16",         "ui32",
      "ui64",   "f16",      "bf16",      "f32",          "f64",          "f4E2M1FN",
      "f8E5M2", "f8E4M3FN", "f8E8M0FNU", "complex<f32>", "complex<f64>", "index"};
  const std::string_view from = kElements[pick(random, std::size(kElements))];
  const std::string_view to = kElements[pick(random, std::size(kElements))];
  const bool all = pick(random, 2) == 0;
  for (size_t at = pick(random, text.size()); (at = text.find(from, at)) != std::string::npos;) {
    const bool is_element = at > 0 && (text[at - 1] == 'x' || text[at - 1] == '<');
    if (is_element) text.replace(at, from.size(), to);
    at += is_element ? to.size() : from.size();
    if (is_element && !all) return;
  }
}

// A word by another with the same mark: a value by a value, a function by a function.
void change_word(std::string& text, Random& random) {
  const std::vector<Piece> all = words(text);
  if (all.empty()) return;
  const Piece word = all[pick(random, all.size())];
  const char mark = text[word.begin];
  const auto is_alike = [&](std::string_view other) {
    return other[0] == mark || (is_word(mark) && is_word(other[0]));
  };
  const std::vector<Piece> alike = words_where(text, is_alike);
  replace(text, word, std::string(view(text, alike[pick(random, alike.size())])));
}

void change_line(std::string& text, Random& random) {
  std::vector<Piece> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    lines.push_back({begin, end});
    begin = end;
  }
  if (lines.empty()) return;
  const Piece line = lines[pick(random, lines.size())];
  const std::string copy(view(text, line));
  if (pick(random, 2) == 0)
    replace(text, line, "");
  else
    text.insert(lines[pick(random, lines.size())].begin, copy);
}

// Before the type of an op, or behind that of an argument.
void add_sharding(std::string& text, Random& random) {
  constexpr std::string_view kShardings[] = {
      R"( {mhlo.sharding = "{replicated}"})",
      R"( {mhlo.sharding = "{devices=[2,1]<=[2]}"})",
      R"( {mhlo.sharding = "{devices=[1,2]<=[2] last_tile_dims={manual}}"})",
      R"( {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})",
      R"( {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}p1, {"y":(1)2}], replicated={"z"}>})",
      R"( {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {?}]>]>})",
      R"( {mhlo.frontend_attributes = {_xla_compute_type = "host"}})",
      R"( {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=2, j=3}>})"};
  const std::string_view sharding = kShardings[pick(random, std::size(kShardings))];
  const bool of_argument = pick(random, 2) == 0;
  const size_t at = text.find(of_argument ? ">," : " : ", pick(random, text.size()));
  if (at != std::string::npos) text.insert(of_argument ? at + 1 : at, sharding);
}

// Brackets and marks.
void change_mark(std::string& text, Random& random) {
  constexpr std::string_view kMarks = "()[]{}<>,:=\"%@#!^-?x";
  const size_t at = text.find(kMarks[pick(random, kMarks.size())], pick(random, text.size()));
  if (at == std::string::npos) return;
  if (pick(random, 2) == 0)
    text.erase(at, 1);
  else
    text.insert(at, 1, kMarks[pick(random, kMarks.size())]);
}

}  // namespace

std::string mutate_stablehlo(std::string text, std::minstd_rand& random) {
  using Change = void (*)(std::string&, Random&);
  constexpr Change kChanges[] = {change_number,  change_number, change_size, change_size,
                                 change_op,      change_op,     change_word, change_word,
                                 change_element, change_line,   change_line, add_sharding,
                                 change_mark};
  if (!text.empty()) kChanges[pick(random, std::size(kChanges))](text, random);
  return text;
}

}  // namespace gspmd::fuzz
