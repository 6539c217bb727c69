#include "ir/sharding_text.h"

#include <charconv>

#include "gspmd/base/error.h"

namespace gspmd {
namespace {

struct Piece {
  size_t offset;
  std::string_view text;
};

// "/*index=5*/" as blanks of the same length, so columns stay.
std::string without_comments(std::string_view text) {
  std::string result(text);
  for (size_t at = result.find("/*"); at != std::string::npos; at = result.find("/*", at)) {
    const size_t end = std::min(result.find("*/", at + 2), result.size() - 2) + 2;
    std::fill(result.begin() + static_cast<int64_t>(at), result.begin() + static_cast<int64_t>(end),
              ' ');
  }
  return result;
}

bool is_tuple_text(std::string_view text) {
  const size_t inner = text.find_first_not_of(" \t\r\n", 1);
  return !text.empty() && text[0] == '{' && inner != std::string_view::npos &&
         (text[inner] == '{' || text[inner] == '}');
}

// The elements of "{{..}, {..}}".
std::vector<Piece> split_tuple(std::string_view text) {
  std::vector<Piece> pieces;
  int depth = 0;
  size_t start = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '{' || c == '[' || c == '(') {
      if (c == '{' && depth == 1) start = at;
      ++depth;
    } else if (c == '}' || c == ']' || c == ')') {
      --depth;
      if (c == '}' && depth == 1) pieces.push_back({start, text.substr(start, at + 1 - start)});
    }
  }
  return pieces;
}

Sharding parse_piece(const Piece& piece, int64_t rank) {
  try {
    return parse_sharding(piece.text, rank);
  } catch (const UserError& error) {
    // The caret goes to the column that the message names.
    const std::string message = error.what();
    size_t column = 0;
    const std::string_view mark = "at column ";
    if (const size_t at = message.rfind(mark); at != std::string::npos)
      std::from_chars(message.data() + at + mark.size(), message.data() + message.size(), column);
    throw ShardingTextError{piece.offset + std::min(column, piece.text.size()), message};
  }
}

}  // namespace

Sharding sharding_of(std::string_view source, const Shape& shape) {
  const std::string text = without_comments(source);
  if (!shape.is_tuple) {
    if (is_tuple_text(text) && shape.dtype == DType::token) {
      // Of an outfeed: what it reads, one sharding per operand leaf.
      std::vector<Sharding> elements;
      for (const Piece& piece : split_tuple(text)) elements.push_back(parse_piece(piece, -1));
      return Sharding::tuple(std::move(elements));
    }
    if (is_tuple_text(text))
      throw ShardingTextError{0, fmt::format("sharding: a tuple of shardings on the array {}; give "
                                             "one sharding without the inner braces",
                                             to_string(shape))};
    return parse_piece({0, text}, shape.rank());
  }
  const std::vector<Shape> leaves = leaf_shapes(shape);
  std::vector<Sharding> elements;
  if (!is_tuple_text(text)) {
    if (leaves.empty()) return parse_piece({0, text}, -1);
    for (const Shape& leaf : leaves) elements.push_back(parse_piece({0, text}, leaf.rank()));
    return Sharding::tuple(std::move(elements));
  }
  const std::vector<Piece> pieces = split_tuple(text);
  // XLA writes one sharding for an empty tuple.
  if (leaves.empty() && pieces.size() <= 1) return Sharding::tuple({});
  if (pieces.size() != leaves.size())
    throw ShardingTextError{0, fmt::format("sharding: {} elements for the {} leaves of {}",
                                           pieces.size(), leaves.size(), to_string(shape))};
  for (size_t i = 0; i < pieces.size(); ++i)
    elements.push_back(parse_piece(pieces[i], leaves[i].rank()));
  return Sharding::tuple(std::move(elements));
}

}  // namespace gspmd
