#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace gspmd::fuzz {

// HLO text with one change that often leaves it a module: another size in one or in all shapes,
// another number in an attribute, another opcode, operand, element type or sharding, a line twice
// or not at all.
std::string mutate_text(std::string text, std::minstd_rand& random);

}  // namespace gspmd::fuzz
