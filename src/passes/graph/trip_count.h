#pragma once

#include <optional>
#include <unordered_map>

#include "gspmd/ir/module.h"

namespace gspmd {

// How often a while loop's body runs, where the text says so (known_trip_count in backend_config)
// or where a counter runs from a constant by a constant step to a constant bound.
std::optional<int64_t> trip_count(const Node& loop);

// How often one run of the module runs each computation that the entry reaches; loops without a
// known trip count count once. Saturates at INT64_MAX.
std::unordered_map<const Computation*, int64_t> run_counts(const Module& module);

}  // namespace gspmd
