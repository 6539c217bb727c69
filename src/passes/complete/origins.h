#pragma once

#include <vector>

#include "gspmd/ir/module.h"

namespace gspmd {

// Looking up where digits of completed shardings came from. Digits over one order of the devices
// name the same part of a rank everywhere, and those of one value are disjoint, so that a digit
// finds its place in a neighbour by itself.

// A digit, or a part of one that is put together from several, and where it came from.
struct OriginPart {
  Digit digit;
  const Origin* origin = nullptr;
};

// The parts of `digit` that leaf `leaf` (-1: any) of a node has, with their origins there.
std::vector<OriginPart> origin_parts(const Node& node, int64_t leaf, const Digit& digit);

// The same for what `speaker`, a neighbour, said of dim `dim` of a value. Digits of `said` are over
// its own order, `digit` over `order`.
std::vector<OriginPart> parts_behind(const Node& speaker, int64_t leaf, const Sharding& said,
                                     int64_t dim, const Digit& digit, DeviceOrder order);

}  // namespace gspmd
