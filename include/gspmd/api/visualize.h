#pragma once

// Which device holds which part, as text.

#include <string>

#include "gspmd/api/operand.h"
#include "gspmd/base/export.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

// The sharding of a device array; host arrays are {replicated}.
GSPMD_API Sharding sharding_of(const Array& array);
GSPMD_API bool on_devices(
    const Array& array);  // whether its elements live on the devices of a mesh

// A text picture of which device holds which part: of a device-resident array, or of an annotated
// tensor while tracing (others are not decided before compilation: the text says so).
GSPMD_API std::string visualize(const Array& array);
GSPMD_API std::string visualize(const Tensor& tensor, Site site = Site::here());

}  // namespace gspmd
