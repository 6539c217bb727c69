#pragma once

#include <optional>

#include "gspmd/mesh/sharding.h"
#include "ops/common/completion.h"

namespace gspmd {

struct ImproveOptions {
  bool merge_partial = false;   // merge partially tiled shardings (level > 0, SPMD)
  bool reshard_freely = false;  // the value has one reader, so another layout costs little
};

// The sharding that an array gets when a neighbour proposes `candidate`, nullopt when it stays as
// it is. Merges, or takes what is more specific and refines what is there
// (docs/spec/completion.md 5). Two shardings that name mesh axes also merge where the axes of a dim
// continue each other (docs/spec/sharding.md 4.3).
std::optional<Sharding> improve_sharding(const Shape& shape,
                                         const std::optional<Sharding>& existing,
                                         const Sharding& candidate, const ImproveOptions& options);

}  // namespace gspmd
