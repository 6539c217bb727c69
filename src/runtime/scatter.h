#pragma once

#include "gspmd/mesh/sharding.h"
#include "gspmd/runtime/executor.h"

namespace gspmd {

// As scatter_to_devices, into a buffer of that shape, whatever it held.
void scatter_into(const Array& global, const Sharding& sharding, DeviceBuffer& buffer);

}  // namespace gspmd
