#pragma once

#include "gspmd/ir/attributes.h"
#include "ir/lexer.h"

namespace gspmd {

void read_window(Lexer& lexer, Attributes& attrs);  // {size=3x3 stride=2x2 pad=0_1x0_1}
std::string print_window(const Attributes& attrs);
// b01f_01io->b01f. Labels with dims of no part ('?') are kept as written as well, in
// Attributes::other.
void read_dim_labels(Lexer& lexer, Attributes& attrs);
std::string print_dim_labels(const Attributes& attrs);

}  // namespace gspmd
