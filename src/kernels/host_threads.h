#pragma once

#include <cstdint>
#include <functional>

namespace gspmd {

// Work on the host beside programs, as filling and copying large arrays: f(begin, end) of ranges of
// `least` (the last may be shorter) that make up [0, n), some of them at once, on threads made for
// it. The ranges do not depend on how many there are. `f` does not throw.
void in_ranges(int64_t n, int64_t least, const std::function<void(int64_t, int64_t)>& f);

}  // namespace gspmd
