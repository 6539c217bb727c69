#pragma once

#include <complex>
#include <cstdint>
#include <variant>

#include "gspmd/base/array.h"

namespace gspmd::tools {

// One element of an array of any type but token and opaque.
using Element = std::variant<bool, int64_t, uint64_t, double, std::complex<double>>;
Element element_at(const Array& array, int64_t index);
// The element nearest to a number; `imaginary` is read for complex types only.
void set_element(const Array& array, int64_t index, double real, double imaginary = 0);

// Whether elements of the type can be read and written: not token and opaque.
bool has_elements(DType dtype);
// Parts of a number: 2 for complex types.
int64_t part_count(DType dtype);
double part_of(const Element& element, int64_t part);

}  // namespace gspmd::tools
