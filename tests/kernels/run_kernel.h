#pragma once

#include <cstring>
#include <memory>

#include "gspmd/base/array.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// Runs all parts, last one first, with scratch full of rubbish; results start as 77.
inline std::vector<Array> run_kernel(const PreparedKernel& kernel,
                                     const std::vector<Array>& operands,
                                     const std::vector<Shape>& results) {
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  std::vector<Array> arrays;
  for (const Array& a : operands) in.push_back(a.bytes().data());
  for (const Shape& shape : results) {
    arrays.push_back(Array::full(shape, 77));
    out.push_back(arrays.back().bytes().data());
  }
  std::vector<std::byte> scratch(size_t(kernel.scratch_bytes) + 64);
  void* base = scratch.data();
  size_t space = scratch.size();
  std::align(64, size_t(kernel.scratch_bytes), base, space);
  for (int64_t part = kernel.parts; part-- > 0;) {
    std::memset(base, 0xff, size_t(kernel.scratch_bytes));
    kernel.run({in.data(), out.data(), static_cast<std::byte*>(base), 0, part});
  }
  return arrays;
}

}  // namespace gspmd
