#pragma once

#include "gspmd/base/array.h"

namespace gspmd::io {

// The type in which files hold a type's elements: s8 and u8 for narrow integers, else itself.
DType storage_type(DType dtype);
// One-byte elements as elements of a one-byte type: the bits of floats, the values of integers
// modulo their range.
Array narrow_array(const Array& bytes, DType dtype);
// What files hold of an array: narrow integers as s8 or u8 values, all else as it is.
Array widened(const Array& array);

}  // namespace gspmd::io
