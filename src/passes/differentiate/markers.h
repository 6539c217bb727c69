#pragma once

// Custom-calls that say how what they call is differentiated. Operands are arrays, results tuples
// of arrays; called[0] is the function itself, of all its operands.

#include "gspmd/ir/module.h"

namespace gspmd {

enum class Marker : uint8_t { none, checkpoint, custom_vjp, custom_jvp };
Marker marker_of(const Node& node);

// Whether the policy of a checkpoint keeps this value of its function.
bool is_saved(const Node& checkpoint, const Node& value);
// Whether it keeps all of them.
bool saves_everything(const Node& checkpoint);

// The operands of a marker by who reads them: its function's arguments, then what the functions it
// calls read from around them, one after the other.
struct MarkerOperands {
  std::vector<Node*> arguments;
  std::vector<std::vector<Node*>> captured;  // of each called computation
};
MarkerOperands operands_of(const Node& marker);

}  // namespace gspmd
