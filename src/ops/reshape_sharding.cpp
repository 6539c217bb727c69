#include "ops/reshape_sharding.h"

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

// Dims that are not of size one; a split dim of size one has its digits replicated.
std::vector<size_t> real_dims(const Dims& dims) {
  std::vector<size_t> result;
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] != 1) result.push_back(d);
  return result;
}

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
  const std::vector<size_t> source = real_dims(from), target = real_dims(to);
  size_t i = 0, j = 0;
  while (i < source.size() && j < target.size()) {
    // The smallest groups [i, i2) and [j, j2) of equal size.
    size_t i2 = i + 1, j2 = j + 1;
    int64_t a = from[source[i]], b = to[target[j]];
    while (a != b) {
      if (a < b && i2 < source.size())
        a = saturating_multiply(a, from[source[i2++]]);
      else if (b < a && j2 < target.size())
        b = saturating_multiply(b, to[target[j2++]]);
      else
        break;
    }
    if (a != b) break;  // only sizes of zero are left on one side
    if (i2 - i == 1 && j2 - j == 1)
      dims[target[j]] = sharding.dim(static_cast<int64_t>(source[i]));
    else if (a > 0)
      fill(stretches(from, std::span(source).subspan(i, i2 - i), sharding), to,
           std::span(target).subspan(j, j2 - j), dims);
    i = i2;
    j = j2;
  }
  return Sharding::tiled(sharding.order(), std::move(dims), sharding.manual_digits())
      .with_mesh(sharding.mesh());
}

}  // namespace gspmd
