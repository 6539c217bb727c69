#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gspmd/base/array.h"
#include "ir/lexer.h"

namespace gspmd {

// The value inside constant(...) of the declared shape: "1.5", "{{1,2},{3,4}}", "true", "nan",
// "0x1p-3", "f32[2] {1,2}"; one value for all elements of an array; "{...}", elements that were
// left out: an empty Array. Elements are counted before anything of the shape's size is allocated.
Array parse_literal(Lexer& lexer, const Shape& shape);
// Of a tuple "(1, {2,3})", elements with or without their shapes before them: the leaves in order.
std::vector<Array> parse_tuple_literal(Lexer& lexer, const Shape& shape);

using PieceWriter = std::function<void(std::string_view)>;
inline constexpr size_t kPiece = size_t{1} << 20;  // characters that are handed on at once
// Behind `text`, which is handed on and cleared where it gets long, if there is a writer.
void print_literal(std::string& text, const Array& literal, const PieceWriter& write);

}  // namespace gspmd
