#pragma once

#include <cstddef>
#include <cstdint>

namespace gspmd {

// Zeroed pages straight from the system, huge where it can. ExecutionError when there are none.
std::byte* map_pages(int64_t bytes);
void unmap_pages(std::byte* memory, int64_t bytes);

}  // namespace gspmd
