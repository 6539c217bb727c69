#include "ops/reshape_sharding.h"

#include <deque>

namespace gspmd {
namespace {

// A stretch of a row-major index, major to minor: split over devices (digit) or held whole (gap).
struct Stretch {
  int64_t size = 1;
  bool is_digit = false;
  Digit digit;
};

std::deque<Stretch> stretches(const Dims& from, size_t begin, size_t end, const Sharding& s) {
  std::deque<Stretch> result;
  for (size_t d = begin; d < end; ++d) {
    const auto dim = static_cast<int64_t>(d);
    int64_t rest = from[d];
    if (rest % s.tiles(dim) == 0)
      for (const Digit& digit : s.dim(dim)) {
        result.push_back({digit.size, true, digit});
        rest /= digit.size;
      }
    result.push_back({rest, false, {}});
  }
  return result;
}

// Fills target dims [begin, end) from the stretches; stops where a boundary falls inside a gap that
// does not divide.
void fill(std::deque<Stretch> source, const Dims& to, size_t begin, size_t end,
          std::vector<Digits>& dims) {
  for (size_t d = begin; d < end; ++d) {
    int64_t rest = to[d];
    bool behind_gap = false;  // a digit below an unsplit part would not be a contiguous block
    while (rest > 1) {
      while (!source.empty() && source.front().size == 1) source.pop_front();
      if (source.empty()) return;
      Stretch& next = source.front();
      const int64_t part = rest % next.size == 0 ? next.size : next.size % rest == 0 ? rest : 0;
      if (part == 0) return;
      if (next.is_digit && !behind_gap)
        dims[d].push_back({part, next.digit.stride * (next.size / part)});
      else
        behind_gap = true;
      next.size /= part;
      next.digit.size = next.size;
      rest /= part;
    }
  }
}

}  // namespace

Sharding reshape_sharding(const Dims& from, const Dims& to, const Sharding& sharding) {
  if (sharding.is_replicated() || !sharding.is_tiled()) return Sharding::replicated();
  std::vector<Digits> dims(to.size());
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    // The smallest groups [i, i2) and [j, j2) of equal size.
    size_t i2 = i, j2 = j;
    int64_t a = 1, b = 1;
    if (i2 < from.size()) a = from[i2++];
    if (j2 < to.size()) b = to[j2++];
    while (a != b) {
      if (a < b && i2 < from.size()) a = saturating_multiply(a, from[i2++]);
      else if (b < a && j2 < to.size()) b = saturating_multiply(b, to[j2++]);
      else break;
    }
    if (a != b) break;  // only size-1 or size-0 dims are left on one side
    if (i2 - i == 1 && j2 - j == 1) dims[j] = sharding.dim(static_cast<int64_t>(i));
    else if (a > 0) fill(stretches(from, i, i2, sharding), to, j, j2, dims);
    i = i2;
    j = j2;
  }
  return Sharding::tiled(sharding.order(), std::move(dims));
}

}  // namespace gspmd
