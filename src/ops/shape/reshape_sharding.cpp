#include "ops/shape/reshape_sharding.h"

#include <deque>
#include <numeric>

namespace gspmd {
namespace {

// A stretch of a row-major index, major to minor: split over devices (digit) or held whole (gap).
struct Stretch {
  int64_t size = 1;
  bool is_digit = false;
  Digit digit;
};

std::deque<Stretch> stretches(const Dims& from, std::span<const size_t> dims, const Sharding& s) {
  std::deque<Stretch> result;
  for (const size_t d : dims) {
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

// Fills target dims from the stretches; stops where a boundary falls inside a stretch that it does
// not divide, after the part of a digit that still fits.
void fill(std::deque<Stretch> source, const Dims& to, std::span<const size_t> dims_to_fill,
          std::vector<Digits>& dims) {
  for (const size_t d : dims_to_fill) {
    int64_t rest = to[d];
    bool behind_gap = false;  // a digit below an unsplit part would not be a contiguous block
    while (rest > 1) {
      while (!source.empty() && source.front().size == 1) source.pop_front();
      if (source.empty()) return;
      Stretch& next = source.front();
      const int64_t part = std::gcd(rest, next.size);
      const bool aligned = part == rest || part == next.size;
      if (!aligned && !next.is_digit) return;
      if (next.is_digit && !behind_gap && part > 1)
        dims[d].push_back({part, next.digit.stride * (next.size / part)});
      else
        behind_gap = true;
      if (!aligned) return;
      next.size /= part;
      next.digit.size = next.size;
      rest /= part;
    }
  }
}

}  // namespace

Sharding reshape_sharding(const Dims& from, const Dims& to, const Sharding& sharding) {
  if (!sharding.is_tiled() || !sharding.order()) return Sharding::replicated();
  std::vector<Digits> dims(to.size());
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    // Dims of one element that meet are one dim; digits of one that goes away are replicated.
    if (from[i] == 1 && to[j] == 1) {
      dims[j++] = sharding.dim(static_cast<int64_t>(i++));
      continue;
    }
    if (from[i] == 1 || to[j] == 1) {
      ++(to[j] == 1 ? j : i);
      continue;
    }
    // The smallest groups of equal size.
    std::vector<size_t> source{i++}, target{j++};
    int64_t a = from[source[0]], b = to[target[0]];
    while (a != b && (a < b ? i < from.size() : j < to.size())) {
      const bool from_source = a < b;
      const size_t next = from_source ? i++ : j++;
      const int64_t size = from_source ? from[next] : to[next];
      if (size == 1) continue;
      (from_source ? source : target).push_back(next);
      (from_source ? a : b) = saturating_multiply(from_source ? a : b, size);
    }
    if (a != b) break;  // only sizes of zero are left on one side
    if (source.size() == 1 && target.size() == 1)
      dims[target[0]] = sharding.dim(static_cast<int64_t>(source[0]));
    else if (a > 0)
      fill(stretches(from, source, sharding), to, target, dims);
  }
  return Sharding::tiled(sharding.order(), std::move(dims), sharding.manual_digits())
      .with_mesh(sharding.mesh());
}

bool carries_all(const Dims& from, const Dims& to, const Sharding& sharding) {
  return reshape_sharding(from, to, sharding).num_tiles() == sharding.num_tiles();
}

}  // namespace gspmd
