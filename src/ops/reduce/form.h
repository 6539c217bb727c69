#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

Node* reduce_form(Node& node);  // of other combiners, and of several arrays

}  // namespace gspmd
