#pragma once

// Gather and scatter: slices of an array at computed places.

#include <vector>

#include "gspmd/base/dtype.h"
#include "gspmd/base/export.h"
#include "gspmd/base/shape.h"
#include "gspmd/kernels/prepared_kernel.h"
#include "gspmd/kernels/strided_copy.h"

namespace gspmd {

// Slices of an array at starts read from indices: one slice per index of `counts`. All strides in
// elements.
struct IndexedSlices {
  // What one element of an index vector says.
  struct Component {
    int64_t element = 0;  // of the index vector, from its first
    int64_t stride = 0;   // in the sliced array
    int64_t last = 0;     // largest start that keeps the slice inside
  };
  // Of the slices; of the indices, an integer type.
  DType dtype = DType::f32, index_dtype = DType::s32;
  Dims counts;                              // of slices
  Dims batch, batch_indices, batch_origin;  // steps per count: dense side, indices, sliced side
  std::vector<Component> components;        // one per element of an index vector
  // One slice: source = the sliced array, target = the dense side.
  StridedCopy window;
};

// Operands: sliced array, indices; result: the slices. Starts are clamped.
GSPMD_API PreparedKernel prepare_gather(IndexedSlices slices);

// What an update does to the element that it meets; `update`: takes its place.
enum class ScatterCombiner : uint8_t { sum, product, max, min, logical_and, logical_or, update };
// Operands: array, indices, updates; result: the array (of `elements`) with the updates combined
// into it, slice after slice. A slice that is not wholly inside is dropped. The result may be the
// array itself.
GSPMD_API PreparedKernel prepare_scatter(IndexedSlices slices, ScatterCombiner combiner,
                                         int64_t elements);

// Reads element i of an integer array; values beyond int64 as its largest.
using IndexReader = int64_t (*)(const std::byte* indices, int64_t i);
GSPMD_API IndexReader index_reader(DType dtype);  // nullptr for types that are no integers

}  // namespace gspmd
