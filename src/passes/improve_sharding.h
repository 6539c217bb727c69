#pragma once

#include <optional>

#include "gspmd/mesh/sharding.h"

namespace gspmd {

struct ImproveOptions {
  bool merge_partial = false;  // merge partially tiled shardings (level > 0, SPMD)
  bool reshard_freely = false;  // the value has one reader, so another layout costs little
};

// The sharding that an array gets when a neighbour proposes `candidate`, nullopt when it stays as it is.
// Merges, or takes what is more specific and refines what is there (semantics.md 2.5).
std::optional<Sharding> improve_sharding(const Shape& shape, const std::optional<Sharding>& existing,
                                         const Sharding& candidate, const ImproveOptions& options);

// Manual over tiled over replicated over one device; among tiled ones more tiles.
bool more_specific(const Sharding& a, const Sharding& b);

// Whether a neighbour may take this sharding over: everything but single-device and unknown ones.
bool propagates(const Sharding& sharding);

}  // namespace gspmd
