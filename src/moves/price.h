#pragma once

#include <cstdint>

#include "gspmd/moves/reshard.h"

namespace gspmd {

// What a whole reshard costs, of the plan that is chosen: plan_reshard() in gspmd/moves/reshard.h,
// whose steps are priced here.

// The one price of bytes: what one device of a group of `group` sends in a collective, given the
// bytes that it has before and after (docs/spec/partitioning.md). Reductions and gathers go round a
// ring: each device keeps one of `group` shares. Rounded up; INT64_MAX, too many to count, stays.
int64_t sent_bytes(ReshardKind kind, int64_t before, int64_t after, int64_t group);

// The same on a mesh whose size is not to matter: of sizes per axis rather than real ones.
double sent_bytes(ReshardKind kind, double before, double after, double group);

}  // namespace gspmd
