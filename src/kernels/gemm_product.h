#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gspmd/base/dtype.h"

namespace gspmd {

// c[rows,n] = a[rows,k] * b[k,n] (b stored [n,k] if `b_transposed`), all dense. Reentrant.
class GemmProduct {
 public:
  virtual ~GemmProduct() = default;
  virtual int64_t scratch_bytes() const = 0;
  virtual void run(const std::byte* a, const std::byte* b, std::byte* c,
                   std::byte* scratch) const = 0;
};

struct GemmExtents {
  int64_t rows = 1, n = 1, k = 1;
  bool b_transposed = false;
};

std::unique_ptr<GemmProduct> library_product(const GemmExtents& extents);  // f32
// b not transposed.
std::unique_ptr<GemmProduct> loop_product(DType dtype, const GemmExtents& extents);

}  // namespace gspmd
