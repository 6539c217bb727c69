#pragma once

// Which device holds which part, as text.

#include <string>

#include "gspmd/api/operand.h"
#include "gspmd/base/export.h"
#include "gspmd/mesh/sharding.h"
#include "gspmd/mesh/visualize.h"

namespace gspmd {

class ExecutableBase;

// The sharding of a device array; host arrays are {replicated}. Of one that lies flat
// (WeightUpdate), that of its elements in row-major order.
GSPMD_API Sharding sharding_of(const Array& array);
// Whether its elements live on the devices of a mesh.
GSPMD_API bool on_devices(const Array& array);

// A text picture of which device holds which part: of a device-resident array, or of an annotated
// tensor while tracing (others are not decided before compilation: the text says so).
GSPMD_API std::string visualize(const Array& array);
GSPMD_API std::string visualize(const Tensor& tensor, Site site = Site::here());

// The same as a page for a browser (gspmd/mesh/visualize.h): of one array, and of all parameters
// and results of a compiled function, by path.
GSPMD_API std::string visualize_html(const Array& array);
GSPMD_API std::string visualize_html(const ExecutableBase& executable);

}  // namespace gspmd
