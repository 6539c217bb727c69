#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// --- As a dot
Node* scaled_dot_form(Node& node);
Node* ragged_dot_form(Node& node);

}  // namespace gspmd
