#pragma once

#include "ops/common/batch.h"

namespace gspmd {

// Rows' `batch` (batch.cpp).
std::vector<BatchLeaf> batch_while(BatchContext& context, const Node& node);
std::vector<BatchLeaf> batch_conditional(BatchContext& context, const Node& node);
std::vector<BatchLeaf> batch_call(BatchContext& context, const Node& node);  // call and fusion
std::vector<BatchLeaf> batch_opt_barrier(BatchContext& context, const Node& node);

// batch_custom_call.cpp
std::vector<BatchLeaf> batch_custom_call(BatchContext& context, const Node& node);

// The elements of `on_true` where `pred`, an element for each of the batch, holds; both batched.
Node* select_in_batch(Node* pred, Node* on_true, Node* on_false);

}  // namespace gspmd
