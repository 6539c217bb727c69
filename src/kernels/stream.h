#pragma once

#include <cstddef>
#include <cstdint>

namespace gspmd {

// Copies past the caches: of results so large that nobody finds them there. Call flush_stream()
// behind the last one of a part, before another thread reads.
using StreamFunction = void (*)(std::byte* to, const std::byte* from, int64_t bytes);
StreamFunction stream_function();
void flush_stream();

// Whether a result of so many bytes is written past the caches.
constexpr bool is_streamed(int64_t bytes) { return bytes >= int64_t{8} << 20; }

}  // namespace gspmd
