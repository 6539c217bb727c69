#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// Inference as the elementwise ops that it is.
Node* batch_norm_inference_form(Node& node);

}  // namespace gspmd
