#pragma once

#include "api/emit.h"
#include "gspmd/api/nn.h"

namespace gspmd::detail {

// The parts of a numerically safe softmax over one axis.
struct Exponentials {
  Node* shifted;  // x - max(x)
  Node* powers;   // exp(shifted)
  Node* max;      // without the axis
  Node* sum;      // without the axis
};
// No gradient flows through the maximum: it cancels.
Exponentials exponentials(Node* x, int64_t axis);

// The axis of a floating tensor that a softmax runs along. UserError: it has no elements.
int64_t softmax_axis(Node* x, const AxisOptions& options);

}  // namespace gspmd::detail
