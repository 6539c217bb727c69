#pragma once

// What the backward part of a differentiated body reads of its forward part.

#include <functional>
#include <unordered_set>
#include <vector>

#include "passes/differentiate/leaf_form.h"
#include "passes/differentiate/reverse.h"

namespace gspmd {

// A body in leaf form with its pull-back emitted behind it.
struct PulledBack {
  LeafForm form;
  std::vector<size_t> wanted;               // parameters whose cotangents are asked for
  std::vector<size_t> given;                // results whose cotangents come in
  std::vector<Node*> cotangents;            // parameters of the computation, of `given`
  std::vector<Node*> gradients;             // of `wanted`; zeros where none reaches one
  std::unordered_set<const Node*> forward;  // nodes that are no part of the pull-back
};

// Differentiates a copy of `body`. UserError as Reverse::run().
PulledBack pull_back_body(const Computation& body, std::vector<size_t> wanted,
                          std::vector<size_t> given);

// Where the backward part runs elsewhere.
struct Residuals {
  std::vector<Node*> kept;         // forward values to be stored
  std::vector<size_t> parameters;  // of the body, which can be read there as they are
};

// Parameters in `free` hold the same there. With `recompute`, what depends on them, on constants,
// on integer scalars and on `saved` values alone is made again there instead of being stored.
// Without `saved`, so is what goes element by element or only moves data, where that stores less.
Residuals residuals_of(const PulledBack& body, const std::vector<bool>& free, bool recompute,
                       const std::function<bool(const Node&)>& saved = {});

}  // namespace gspmd
