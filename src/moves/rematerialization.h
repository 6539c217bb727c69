#pragma once

#include <string>

#include "gspmd/mesh/sharding.h"

namespace gspmd {

// What to write so that the value `tensor`, held as `from`, need not be gathered whole for
// `reader`, which wants it as `to`: a layout of either that is no coarser and is reached by fewer
// bytes, each tried by planning with it. The layouts tried have the same digits on other dims.
std::string how_to_avoid(const Shape& shape, const Sharding& from, const Sharding& to,
                         const std::string& tensor, const std::string& reader, int64_t num_devices);

}  // namespace gspmd
