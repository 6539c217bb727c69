#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "gspmd/base/array.h"
#include "stablehlo/text/cursor.h"

namespace gspmd::stablehlo {

// One element as text to `out`: "1.5", "-2", "0x7FC0" (bits of the type's width), "true". Errors
// stand at `position`.
void read_float_element(Cursor& cursor, std::string_view text, DType dtype, size_t position,
                        std::byte* out);

// "0x0000803F" to `bytes` as they are. Whether all are hex digits and as many as the bytes need.
bool decode_hex(std::string_view digits, std::span<std::byte> bytes);

// The elements of a literal, "[[1, 2], [3, 4]]", "(1.0,2.0)": all of `shape`, or one: is_splat.
Array read_elements(Cursor& cursor, const Shape& shape, bool& is_splat);

// The raw bytes of a literal, "0x...", little endian; one element's worth is a splat.
Array read_hex_elements(Cursor& cursor, std::string_view hex, const Shape& shape, size_t position,
                        bool& is_splat);

// Whether all elements have the same bits.
bool has_one_value(const Array& array);

// A literal as MLIR prints it, "dense<...> : tensor<...>".
std::string dense_text(const Array& array);
// Whether its text is large, and then the same piece by piece.
bool is_large_text(const Array& array);
void print_dense(const Array& array, const std::function<void(std::string_view)>& write);

}  // namespace gspmd::stablehlo
