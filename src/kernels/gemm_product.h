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

// Sizes, and steps in elements; rows of c are contiguous.
struct PackedExtents {
  int64_t rows = 1, n = 1, k = 1;
  int64_t a_row = 0, a_k = 0, b_k = 0, b_n = 0, c_row = 0;
};

// f32 over any strides.
std::unique_ptr<GemmProduct> packed_product(const PackedExtents& extents);
int64_t packed_lanes();  // floats in a vector of this processor

// f32 to f32, or bf16 to bf16 or f32; nullptr where the library or the processor has none.
std::unique_ptr<GemmProduct> library_product(DType operand, DType result,
                                             const GemmExtents& extents);
// The library's, of f32 or of bf16 to bf16 or f32, for which `prepack` has laid out b; nullptr
// where the library or the processor has none that reads that layout.
std::unique_ptr<GemmProduct> prepacked_product(DType operand, DType result,
                                               const GemmExtents& extents);
constexpr int64_t kStripOfLibrary = 64;  // columns
// Of b, `halves`: of bf16.
int64_t prepacked_bytes(int64_t n, int64_t k, bool halves);
// Strips `first` to `last` of b, whose n, k and steps `extents` has; `to`: of strip 0.
void prepack(const PackedExtents& extents, bool halves, const std::byte* b, int64_t first,
             int64_t last, std::byte* to);
// b not transposed; of types that are computed as they are stored.
std::unique_ptr<GemmProduct> loop_product(DType dtype, const GemmExtents& extents);
// Around a product of f32: reads 16-bit floats into f32 first, and rounds the result.
std::unique_ptr<GemmProduct> widened_product(std::unique_ptr<GemmProduct> product, DType operand,
                                             DType result, const GemmExtents& extents);

}  // namespace gspmd
