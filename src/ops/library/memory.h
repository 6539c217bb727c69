#pragma once

#include <optional>
#include <string>

#include "gspmd/ir/op.h"

namespace gspmd::library {

// How a library sees the values of a call: as memory. Where the call states layouts, they say in
// which order the elements lie; else matrices are column-major, as LAPACK has them, batches in
// front of them row-major, and so is everything else.

inline constexpr const char* kStatedLayouts = "operand_layout_constraints";

// "{1,0}", dims from minor to major; nullopt: none is there.
std::string layout_text(const Dims& minor_to_major);
// Of an operand, as the call states it; nullopt: it states none, or one that does not fit.
std::optional<Dims> stated_layout(const Node& node, int64_t operand);
// Of a leaf of the result: counts only where the call states layouts.
std::optional<Dims> stated_result_layout(const Node& node, int64_t leaf);

Dims row_major_layout(int64_t rank);
Dims column_major_layout(int64_t rank);  // of the last two dims

// The elements in the order in which they lie in memory, and back.
Array to_memory(const Array& array, const Dims& minor_to_major);
Array from_memory(const Array& memory, const Shape& shape, const Dims& minor_to_major);

}  // namespace gspmd::library
