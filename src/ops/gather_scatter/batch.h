#pragma once

#include "ops/common/batch.h"

namespace gspmd {

// Rows' `batch` (batch.cpp).
std::vector<BatchLeaf> batch_gather(BatchContext& context, const Node& node);
std::vector<BatchLeaf> batch_scatter(BatchContext& context, const Node& node);

}  // namespace gspmd
