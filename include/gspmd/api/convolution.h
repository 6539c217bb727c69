#pragma once

// Convolutions, pools and other windows that slide over an array.

#include <string_view>
#include <utility>
#include <vector>

#include "gspmd/api/reductions.h"
#include "gspmd/base/export.h"

namespace gspmd {

// What stands around the dims that a window slides over.
class GSPMD_API Padding {
 public:
  // `valid`: nothing; `same`: as much as gives ceil(size / stride) positions, the odd one behind.
  enum Rule : uint8_t { valid, same };
  using Amounts = std::vector<std::pair<int64_t, int64_t>>;  // before and behind, per dim

  // --- A rule, or amounts, which may be negative
  Padding(Rule rule);
  Padding(Amounts amounts);
  Padding(std::initializer_list<std::pair<int64_t, int64_t>> amounts);
  Padding(const Padding& other);
  Padding(Padding&& other) noexcept;
  Padding& operator=(const Padding& other);
  Padding& operator=(Padding&& other) noexcept;
  ~Padding();

  bool given() const { return given_; }                // amounts, no rule
  Rule rule() const { return rule_; }                  // where !given()
  const Amounts& amounts() const { return amounts_; }  // where given()

 private:
  Rule rule_ = valid;
  Amounts amounts_;
  bool given_ = false;
};

// How conv() slides; lists have an entry per spatial dim, in the input's order, or are empty:
// all 1.
struct ConvOptions {
  Dims strides = {};                 // steps of the kernel
  Padding padding = Padding::valid;  // around the input's spatial dims, behind input_dilation
  Dims dilation = {};                // distance of the kernel's elements; jax: rhs_dilation
  Dims input_dilation = {};          // distance of the input's elements; jax: lhs_dilation
  int64_t groups = 1;                // of features: kernel I is input C / groups; depthwise: C
  int64_t batch_groups = 1;          // of the batch, as batch_group_count of HLO
};
// What jax.lax.conv_general_dilated gives; the kernel is not flipped. `layout`: a letter per dim of
// input, kernel and result, "NHWC,HWIO->NHWC": N the batch, C features, I and O the kernel's input
// and output features, all other letters spatial dims, as many as you like.
GSPMD_API Tensor conv(Operand x, Operand kernel, std::string_view layout,
                      const ConvOptions& options = {});

// How conv_transpose() slides; lists as of ConvOptions.
struct ConvTransposeOptions {
  Dims strides = {};                // by how much the result is larger
  Padding padding = Padding::same;  // of the convolution that this undoes; amounts: as conv()'s
  Dims dilation = {};               // distance of the kernel's elements
  // The kernel is that of the convolution undone: its spatial dims are flipped, I and O swapped.
  bool transpose_kernel = false;
};
// A convolution of the input with `strides` - 1 zeros between its elements. As
// jax.lax.conv_transpose.
GSPMD_API Tensor conv_transpose(Operand x, Operand kernel, std::string_view layout,
                                const ConvTransposeOptions& options = {});

// How reduce_window() slides; an entry per dim of the array, or empty: all 1.
struct WindowOptions {
  Dims strides = {};                 // steps of the window
  Padding padding = Padding::valid;  // with the initial value
  Dims base_dilation = {};           // distance of the array's elements
  Dims window_dilation = {};         // distance of the window's elements
};
// The elements under the window, of sizes `window`, and `init` joined by `f` at each position. As
// jax.lax.reduce_window.
GSPMD_API Tensor reduce_window(Operand x, Operand init, const ScalarFunction& f, Dims window,
                               const WindowOptions& options = {});

// How pools slide; lists have an entry per spatial dim, or are empty: all 1.
struct PoolOptions {
  Dims strides = {};                 // steps of the window
  Padding padding = Padding::valid;  // around the spatial dims
  Dims dilation = {};                // distance of the window's elements
  // A letter per dim, N batch, C features, others spatial; empty: N, spatial dims, C.
  std::string_view layout = {};
  bool count_include_pad = true;  // avg_pool divides by the window's size, over padding too
};
// --- The greatest element, or the mean, under a window of sizes `window` over the spatial dims. As
// flax.linen's.
GSPMD_API Tensor max_pool(Operand x, Dims window, const PoolOptions& options = {});
GSPMD_API Tensor avg_pool(Operand x, Dims window, const PoolOptions& options = {});

}  // namespace gspmd
