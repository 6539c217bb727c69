#pragma once

#include "gspmd/ir/module.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// A debug call, which says which device it is on.
PreparedKernel debug_kernel(const Node& node);

// A collective by its reference kernel: operands[device][i], results[device][i] are leaf buffers of
// the active devices (ascending ids); no results where they are nullptr.
void reference_collective(const Node& node, const std::vector<int64_t>& devices,
                          int64_t num_devices, const std::vector<const std::byte* const*>& operands,
                          const std::vector<std::byte* const*>& results);

}  // namespace gspmd
