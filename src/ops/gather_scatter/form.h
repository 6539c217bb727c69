#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// A scatter whose updates need their order, or of several arrays.
Node* scatter_form(Node& node);

}  // namespace gspmd
