#pragma once

#include <vector>

#include "api/trace_state.h"

namespace gspmd::detail {

// Building blocks of the composites: nodes of the running trace in, nodes out.

// The dims that a and b broadcast to; UserError names both shapes.
Dims broadcast_dims(const Node* a, const Node* b);
// numpy's broadcast of x to `dims`; x itself when nothing changes.
Node* broadcast_node(Node* x, const Dims& dims);
// A value without the dims in `reduced` (sorted) stretched back over `dims`.
Node* stretch(Node* reduced_value, const Dims& dims, const std::vector<int64_t>& reduced);
Node* splat_like(const Node* like, double value);

Node* add(Node* a, Node* b);
Node* subtract(Node* a, Node* b);
Node* multiply(Node* a, Node* b);
Node* divide(Node* a, Node* b);
// With a number of the same dtype.
Node* add(Node* a, double b);
Node* multiply(Node* a, double b);
Node* divide(Node* a, double b);

// A copy that stops gradients.
Node* stop_gradient_node(Node* x);

// `axis` counted from the end when negative; UserError when outside the rank of x.
int64_t checked_axis(int64_t axis, const Node* x);
// Sorted, without repetition; UserError names a repeated axis.
std::vector<int64_t> checked_axes(const std::vector<int64_t>& axes, const Node* x);
void need_floating(const Node* x);
void need_number(const Node* x);  // integers or floating
void need_integer(const Node* x, const char* what);

}  // namespace gspmd::detail
