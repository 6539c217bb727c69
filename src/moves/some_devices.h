#pragma once

#include "gspmd/mesh/sharding.h"

// Values on some of the devices: tiled over fewer devices than the program has, or `{maximal}`.

namespace gspmd {

// Of a tuple: whether a leaf is.
bool is_partial(const Sharding& s, int64_t num_devices);

// The layout on all devices nearest to it: the tiles again on the other devices where their number
// divides; else at least as many tiles per dim as the number of devices has left; whole for
// `{maximal}`.
Sharding on_all_devices(const Sharding& s, int64_t num_devices);

}  // namespace gspmd
