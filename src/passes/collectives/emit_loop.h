#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gspmd/ir/module.h"

namespace gspmd {

// What one iteration leaves in the state, given the state and the number of the iteration (s32[],
// from 0), both nodes of the body. As many values as the state has, of the same shapes.
using LoopStep = std::function<std::vector<Node*>(
    Computation& body, const std::vector<Node*>& state, Node* iteration)>;

// Emits a while loop of `trips` iterations behind the nodes of `outer`; returns the state after it.
std::vector<Node*> emit_loop(Computation& outer, const std::string& name, int64_t trips,
                             std::vector<Node*> state, const LoopStep& step);

}  // namespace gspmd
