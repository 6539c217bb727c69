#pragma once

// Activations, softmax and normalisation, composed of simpler operations.

#include "gspmd/api/operand.h"
#include "gspmd/base/export.h"

namespace gspmd {

GSPMD_API Tensor relu(Operand x);  // max(x, 0)
GSPMD_API Tensor gelu(Operand x);  // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
GSPMD_API Tensor silu(Operand x);  // x sigmoid(x)

// The dim a function runs along.
struct AxisOptions {
  int64_t axis = -1;  // negative counts from the end
};
GSPMD_API Tensor softmax(Operand x,
                         const AxisOptions& options = {});  // subtracts the maximum first
GSPMD_API Tensor log_softmax(Operand x, const AxisOptions& options = {});  // x - logsumexp(x)
GSPMD_API Tensor logsumexp(Operand x, const AxisOptions& options = {});    // drops the axis

// Normalisation over the last dim; `scale` and `bias` have its size.
struct NormOptions {
  double eps = 1e-6;  // added to the mean of squares or the variance
};
// x / sqrt(mean(x^2) + eps) * scale: one sum over the last dim forward, one backward.
GSPMD_API Tensor rms_norm(Operand x, Operand scale, const NormOptions& options = {});
// (x - mean) / sqrt(variance + eps) * scale + bias: two sums forward (the variance is that of
// centred values), two backward that do not depend on each other.
GSPMD_API Tensor layer_norm(Operand x, Operand scale, const NormOptions& options = {});
GSPMD_API Tensor layer_norm(Operand x, Operand scale, Operand bias,
                            const NormOptions& options = {});

// What replaces the scores of later keys.
struct CausalMaskOptions {
  double value = 0;        // used when `has_value`; else half the lowest number of the dtype
  bool has_value = false;  // whether `value` is used
};
// Scores [..., q, k]: keys after the query are replaced (the last query sees every key).
GSPMD_API Tensor causal_mask(Operand scores, const CausalMaskOptions& options = {});

}  // namespace gspmd
