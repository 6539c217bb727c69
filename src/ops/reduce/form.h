#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

Node* reduce_form(Node& node);  // of other combiners, and of several arrays

// A reduce of several arrays whose combiner joins each by itself (separate_ops), as the tuple of
// one reduce for each; nullptr of others.
Node* separate_reductions(Node& node);

}  // namespace gspmd
