#pragma once

#include <string>

#include "gspmd/api/operand.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

// The sharding of a device array; host arrays are {replicated}.
Sharding sharding_of(const Array& array);
bool on_devices(const Array& array);

// A text picture of which device holds which part: of a device-resident array, or of an annotated
// tensor while tracing (others are not decided before compilation: the text says so).
std::string visualize(const Array& array);
std::string visualize(const Tensor& tensor, Site site = Site::here());

}  // namespace gspmd
