#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

Node* map_form(Node& node);  // elementwise ops on arrays

}  // namespace gspmd
