#pragma once

#include <optional>

#include "gspmd/ir/module.h"

namespace gspmd {

// How often a while loop's body runs, where the text says so (known_trip_count in backend_config) or
// where a counter runs from a constant by a constant step to a constant bound.
std::optional<int64_t> trip_count(const Node& loop);

}  // namespace gspmd
