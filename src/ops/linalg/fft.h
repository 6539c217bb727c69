#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// A complex transform of a dim that stays split, in three exchanges.
std::optional<Partitioned> partition_fft(PartitionContext& context, Node& node);

}  // namespace gspmd
