#pragma once

#include <random>
#include <string>

namespace gspmd::fuzz {

// StableHLO text with one change that often leaves it a module: another size in one or in all
// types, another number, element type, op, value or sharding, a word of it in place of another, a
// line twice or not at all.
std::string mutate_stablehlo(std::string text, std::minstd_rand& random);

}  // namespace gspmd::fuzz
