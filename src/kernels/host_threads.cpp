#include "kernels/host_threads.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "gspmd/base/shape.h"

namespace gspmd {

void in_ranges(int64_t n, int64_t least, const std::function<void(int64_t, int64_t)>& f) {
  constexpr int64_t kMostThreads = 16;
  static const int64_t cores = std::thread::hardware_concurrency();  // takes 20 us to ask
  const int64_t ranges = ceil_div(n, least);
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t i = next.fetch_add(1); i < ranges; i = next.fetch_add(1))
      f(i * least, std::min(n, (i + 1) * least));
  };
  const int64_t threads = std::min({ranges, kMostThreads, cores});
  std::vector<std::jthread> others;
  try {
    for (int64_t i = 1; i < threads; ++i) others.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads to be had: with those that there are
  }
  work();
}

}  // namespace gspmd
