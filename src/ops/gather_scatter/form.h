#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// A scatter whose updates need their order, or of several arrays (differentiable_form.h).
Node* scatter_form(Node& node);

}  // namespace gspmd
