#pragma once

#include "gspmd/base/shape.h"
#include "ir/lexer.h"

namespace gspmd {

// "f32[2,3]{1,0}", "f32[<=8]", "(f32[2], s32[])": whether a shape comes next, and reading it.
bool sees_shape(Lexer& lexer);
bool sees_array_shape(Lexer& lexer);
Shape parse_shape(Lexer& lexer);

// "f32[<=2,3]{1,0}", with the layouts as kept or without them.
std::string shape_text(const Shape& shape, bool layouts = true);

}  // namespace gspmd
