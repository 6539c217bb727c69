#pragma once

#include <functional>
#include <limits>

#include "api/emit.h"
#include "gspmd/api/control.h"

namespace gspmd::detail {

// What optimizers and averages of weights share: leaves beside leaves, and rates.

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A number of the options: finite and inside [low, high). UserError names the call in progress.
void check_number(const char* what, double value, double low, double high);

// A tree of leaves beside the parameters: gradients, or a part of the state.
struct Beside {
  const char* one;   // "velocity"
  const char* many;  // "velocities"
  const PathLeaves& leaves;
  bool like_params = true;  // of the parameters' shapes
};
// The new values of a leaf: the parameter, then each part of the state.
using LeafNodes = std::vector<Node*>;
using LeafUpdate = std::function<LeafNodes(Node* param, const LeafNodes& beside)>;
// Every leaf of the parameters and what is beside it through `update`; results[j] has the leaves
// of its j-th value. UserError at `site`: trees that differ, a leaf that is not floating or not of
// its parameter's shape.
std::vector<std::vector<Tensor>> update_leaves(const char* op, const PathLeaves& params,
                                               const std::vector<Beside>& beside, Site site,
                                               const LeafUpdate& update);

// A scalar over the parameter's dims.
Node* over(Node* scalar, const Node* param);
// rate * old + (1 - rate) * value
Node* moving_average(Node* old, Node* value, double rate);
// The number of updates so far and one more. UserError: no integer.
Node* counted(const Tensor& step);
// 1 - rate^step, without dims.
Node* start_correction(Node* step, double rate, DType dtype);
Node* sum_of_all(Node* x);

}  // namespace gspmd::detail
