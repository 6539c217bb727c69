#pragma once

#include "ops/common/batch.h"

namespace gspmd {

// Training or gradient of batch normalisation as the sums and elementwise ops that it is, in f32 at
// least: a tuple like the result. nullptr where the input has no elements.
Node* expand_batch_norm(Node& node);
std::vector<BatchLeaf> batch_batch_norm(BatchContext& context, const Node& node);

}  // namespace gspmd
