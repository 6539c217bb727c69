#pragma once

// Loops with a known number of steps.

#include <functional>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// Emits one step of a loop into its body: the state before it and the number of the step, s32[]
// from 0, to the state behind it.
using LoopStep = std::function<std::vector<Node*>(
    Computation& body, const std::vector<Node*>& state, Node* iteration)>;

// Emits a while loop of `trips` steps behind the nodes of `outer`, whose state is the number of the
// step (element 0) and `state`. `name`: of its computations.
GSPMD_API Node* emit_loop(Computation& outer, const std::string& name, int64_t trips,
                          std::vector<Node*> state, const LoopStep& step);

// As emit_loop; returns the state behind it.
GSPMD_API std::vector<Node*> state_after_loop(Computation& outer, const std::string& name,
                                              int64_t trips, std::vector<Node*> state,
                                              const LoopStep& step);

// --- Slices along dim 0, one for each step. `step`: an integer scalar

// Slice `step` of `all`, of shape `slice`: without dim 0.
GSPMD_API Node* read_step(Node* all, const Shape& slice, Node* step);
// `all` with slice `step` replaced by `slice`.
GSPMD_API Node* write_step(Node* all, Node* slice, Node* step);

}  // namespace gspmd
