#include "moves/reshard_detour.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "moves/pieces.h"

namespace gspmd {
namespace {

// The prime factors of n where these are two different ones.
std::optional<std::pair<int64_t, int64_t>> two_primes(int64_t n) {
  int64_t prime = 2;
  while (prime * prime < n && n % prime != 0) ++prime;
  if (prime * prime >= n) return std::nullopt;
  const int64_t other = n / prime;
  for (int64_t p = 2; p * p <= other; ++p)
    if (other % p == 0) return std::nullopt;
  return std::pair(prime, other);
}

// All layouts that place the digits left, or some of them, behind what the dims have.
void place(DeviceOrder order, const Digits& left, std::vector<Digits>& dims,
           std::vector<Sharding>& out) {
  const Sharding s = Sharding::tiled(order, dims);
  if (std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
  for (size_t i = 0; i < left.size(); ++i) {
    Digits rest = left;
    rest.erase(rest.begin() + static_cast<int64_t>(i));
    for (Digits& dim : dims) {
      dim.push_back(left[i]);
      place(order, rest, dims, out);
      dim.pop_back();
    }
  }
}

// A value that one of the tiles of a dim has all of goes out to all devices at once, also on the
// way to other devices than those that it is on.
bool goes_out_whole(const Shape& global, const Sharding& from, const Sharding& to) {
  if (!from.is_tiled() || !from.unreduced().empty() || !from.manual_digits().empty() ||
      to.is_replicated() || from.order() == to.order())
    return false;
  for (int64_t d = 0; d < global.rank(); ++d)
    if (global.dims[static_cast<size_t>(d)] == 1 && from.tiles(d) > 2) return true;
  return false;
}

}  // namespace

std::vector<Sharding> detours(const Shape& global, const Sharding& from, const Sharding& to,
                              int64_t num_devices, int64_t below) {
  if (goes_out_whole(global, from, to)) return {Sharding::replicated()};
  constexpr int64_t kMostDevices = 16;
  constexpr int64_t kMostDims = 4;
  const DeviceOrder order = from.order() ? from.order() : to.order();
  const bool plain = order && order->count <= kMostDevices && global.rank() <= kMostDims &&
                     from.is_tiled() && to.is_tiled() && from.unreduced().empty() &&
                     from.manual_digits().empty();
  if (!plain || (to.order() && to.order() != order)) return {};
  const auto primes = two_primes(order->count);
  if (!primes) return {};
  const std::vector<HeldBox> have = held_boxes(global, from, num_devices);
  const std::vector<HeldBox> want = held_boxes(global, to, num_devices);
  const int64_t size = dtype_size(global.dtype);
  if (saturating_multiply(elements_needed(have, want), size) >= below) return {};
  std::vector<Sharding> all;
  std::vector<Digits> dims(static_cast<size_t>(global.rank()));
  for (const auto& [major, minor] : {*primes, std::pair(primes->second, primes->first)})
    place(order, {{major, minor}, {minor, 1}}, dims, all);
  std::vector<std::pair<int64_t, Sharding>> likely;
  for (Sharding& via : all) {
    const std::vector<HeldBox> boxes = held_boxes(global, via, num_devices);
    const int64_t least = saturating_multiply(
        saturating_add(elements_needed(have, boxes), elements_needed(boxes, want)), size);
    if (least < below && !equivalent(via, from) && !equivalent(via, to))
      likely.emplace_back(least, std::move(via));
  }
  std::stable_sort(likely.begin(), likely.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Sharding> result;
  for (auto& [bytes, via] : likely) result.push_back(std::move(via));
  return result;
}

ReshardPlan joined(ReshardPlan first, const ReshardPlan& second) {
  first.steps.insert(first.steps.end(), second.steps.begin(), second.steps.end());
  first.cost.bytes = saturating_add(first.cost.bytes, second.cost.bytes);
  first.cost.steps += second.cost.steps;
  first.full_rematerialization = first.full_rematerialization || second.full_rematerialization;
  return first;
}

}  // namespace gspmd
