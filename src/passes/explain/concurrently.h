#pragma once

#include <cstddef>
#include <functional>

namespace gspmd {

// Calls run(0) to run(count - 1), several at a time on the machine's cores, and returns when all
// are done. The calls share nothing that they write. What one throws is rethrown then.
void run_concurrently(size_t count, const std::function<void(size_t)>& run);

}  // namespace gspmd
