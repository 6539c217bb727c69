#pragma once

// Element type and dims of a value.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/base/dtype.h"
#include "gspmd/base/export.h"
#include "gspmd/base/rare.h"

namespace gspmd {

using Dims = std::vector<int64_t>;  // sizes per dim, major first

// The type of a value: an element type and dims, or a tuple of shapes. Scalars have no dims.
struct GSPMD_API Shape {
  DType dtype = DType::f32;     // of an array
  Dims dims;                    // of an array, major first
  std::vector<Shape> elements;  // of a tuple
  bool is_tuple = false;        // whether `elements` counts
  // f32[<=8]: dims that are upper bounds; empty: none; no part of ==
  Rare<std::vector<bool>> dynamic_dims;
  Rare<std::string> layout;  // as written, "{1,0:T(8,128)}"; kept for printing, no part of ==

  Shape();
  Shape(DType type, Dims sizes);                    // of an array
  static Shape tuple(std::vector<Shape> elements);  // of these elements
  // --- Not in this header: every user's file would compile them
  Shape(const Shape& other);
  Shape(Shape&& other) noexcept;
  Shape& operator=(const Shape& other);
  Shape& operator=(Shape&& other) noexcept;
  ~Shape();

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }  // number of dims
  int64_t elements_count() const;                                     // product of dims; tuples: 0
  int64_t bytes() const;                                              // of all leaves
  bool operator==(const Shape& other) const;  // same dtype and dims, or equal elements
};

// The array shapes inside, in order: itself, or the leaves of a tuple of any depth.
GSPMD_API std::vector<Shape> leaf_shapes(const Shape& shape);
GSPMD_API int64_t leaf_count(const Shape& shape);  // number of leaf_shapes
// The position among the leaves of `tuple` where those of its element begin.
GSPMD_API int64_t first_leaf(const Shape& tuple, int64_t element);

// "f32[2,3]", "(f32[2], s32[])", without layouts.
GSPMD_API std::string to_string(const Shape& shape);

// Strides in elements of a row-major array.
GSPMD_API Dims row_major_strides(const Dims& dims);

// a*b, or InternalError-free saturation at INT64_MAX for sizes nobody can have.
GSPMD_API int64_t saturating_multiply(int64_t a, int64_t b);
GSPMD_API int64_t saturating_add(int64_t a, int64_t b);  // the same of sums

// A / b rounded up; both positive.
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace gspmd
