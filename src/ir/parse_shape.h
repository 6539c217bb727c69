#pragma once

#include "gspmd/base/shape.h"
#include "ir/lexer.h"

namespace gspmd {

// Where a layout may stand: behind blanks too, "f32[2,3] {1,0}", or right behind the shape only,
// because a value may follow: "f32[2] {1,2}".
enum class LayoutPlace : uint8_t { behind_blanks, adjacent };

// "f32[2,3]{1,0}", "f32[<=8]", "(f32[2], s32[])": whether a shape comes next, and reading it.
bool sees_shape(Lexer& lexer);
bool sees_array_shape(Lexer& lexer);
Shape parse_shape(Lexer& lexer, LayoutPlace place = LayoutPlace::behind_blanks);

// "f32[<=2,3]{1,0}", with the layouts as kept or without them.
std::string shape_text(const Shape& shape, bool layouts = true);
void put_shape(std::string& text, const Shape& shape, bool layouts = true);

}  // namespace gspmd
