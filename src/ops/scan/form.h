#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

Node* scan_form(Node& node);  // a while loop

}  // namespace gspmd
