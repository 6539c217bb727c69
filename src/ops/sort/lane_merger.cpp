#include "ops/sort/lane_merger.h"

#include <algorithm>
#include <complex>
#include <numeric>

namespace gspmd {
namespace {

constexpr size_t kRun = 8;  // elements of the runs that insertion makes, as in evaluate_sort

// to[side[i]][i] = element elements[i] of a column.
template <class T>
void fetch_column(const MergeColumn& column, std::byte* left, std::byte* right, size_t count,
                  const uint32_t* elements, const uint8_t* side) {
  T* const to[] = {reinterpret_cast<T*>(left), reinterpret_cast<T*>(right)};
  if (column.step == static_cast<int64_t>(sizeof(T))) {
    const auto* const in = reinterpret_cast<const T*>(column.first);
    for (size_t i = 0; i < count; ++i) to[side[i]][i] = in[elements[i]];
  } else {
    for (size_t i = 0; i < count; ++i)
      to[side[i]][i] = *reinterpret_cast<const T*>(column.first + elements[i] * column.step);
  }
}

}  // namespace

LaneMerger::LaneMerger(const Computation& comparator, const CallComputation& call)
    : compare_(comparator, call, kLanes) {}

void LaneMerger::fetch(size_t count) {
  for (size_t c = 0; c < columns_.size(); ++c) {
    std::byte* const left = compare_.lanes(2 * c);
    std::byte* const right = compare_.lanes(2 * c + 1);
    const auto run = [&]<class T>(T) {
      fetch_column<T>(columns_[c], left, right, count, element_.data(), side_.data());
    };
    switch (columns_[c].size) {
      case 1:
        run(uint8_t{});
        break;
      case 2:
        run(uint16_t{});
        break;
      case 4:
        run(uint32_t{});
        break;
      case 8:
        run(uint64_t{});
        break;
      default:
        run(std::complex<double>{});
    }
  }
}

// Each lane makes the run [out, end): the element at `at` + 1, which is being inserted, is compared
// with that at `at`.
void LaneMerger::insert_runs(std::vector<uint32_t>& order) {
  const size_t n = order.size();
  for (size_t first = 0; first < n; first += kRun * kLanes) {
    const size_t count = std::min(kLanes, (n - first + kRun - 1) / kRun);
    size_t busy = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t begin = first + i * kRun, end = std::min(n, begin + kRun);
      lanes_[i] = {{begin, begin + 2}, {0, end}, begin, begin + 1 < end};
      busy += lanes_[i].busy ? 1 : 0;
    }
    while (busy > 0) {
      for (uint8_t side = 0; side < 2; ++side) {
        side_.fill(side);
        for (size_t i = 0; i < count; ++i)
          element_[i] = order[std::min(lanes_[i].head[0] + (side == 0 ? 1 : 0), n - 1)];
        fetch(count);
      }
      compare_.run(count);
      const std::byte* const less = compare_.result(0);
      for (size_t i = 0; i < count; ++i) {
        Lane& lane = lanes_[i];
        if (!lane.busy) continue;
        auto& [at, next] = lane.head;
        if (less[i] != std::byte{0}) {
          std::swap(order[at], order[at + 1]);
          if (at > lane.out) {
            --at;
            continue;
          }
        }
        lane.busy = next < lane.end[1];
        busy -= lane.busy ? 0 : 1;
        if (lane.busy) at = next++ - 1;
      }
    }
  }
}

void LaneMerger::merge_lanes(const std::vector<uint32_t>& from, std::vector<uint32_t>& to,
                             size_t count) {
  for (uint8_t side = 0; side < 2; ++side) {
    side_.fill(side);
    for (size_t i = 0; i < count; ++i) element_[i] = from[lanes_[i].head[side]];
    fetch(count);
  }
  for (size_t busy = count; busy > 0;) {
    compare_.run(count);
    const std::byte* const less = compare_.result(0);
    for (size_t i = 0; i < count; ++i) {
      Lane& lane = lanes_[i];
      if (!lane.busy) continue;
      const size_t side = less[i] == std::byte{0} ? 1 : 0;
      to[lane.out++] = from[lane.head[side]++];
      side_[i] = static_cast<uint8_t>(side);
      if (lane.head[side] < lane.end[side]) {
        element_[i] = from[lane.head[side]];
        continue;
      }
      const size_t other = 1 - side;
      std::copy(from.begin() + static_cast<std::ptrdiff_t>(lane.head[other]),
                from.begin() + static_cast<std::ptrdiff_t>(lane.end[other]),
                to.begin() + static_cast<std::ptrdiff_t>(lane.out));
      lane.busy = false;
      --busy;
    }
    fetch(count);
  }
}

void LaneMerger::merge_runs(const std::vector<uint32_t>& from, std::vector<uint32_t>& to,
                            size_t width) {
  const size_t n = from.size();
  for (size_t begin = 0; begin < n;) {
    size_t count = 0;
    for (; count < kLanes && begin < n; begin += 2 * width) {
      const size_t middle = std::min(n, begin + width), end = std::min(n, begin + 2 * width);
      if (middle == end)
        std::copy(from.begin() + static_cast<std::ptrdiff_t>(begin), from.end(),
                  to.begin() + static_cast<std::ptrdiff_t>(begin));
      else
        lanes_[count++] = {{middle, begin}, {end, middle}, begin, true};
    }
    merge_lanes(from, to, count);
  }
}

void LaneMerger::order(const std::vector<MergeColumn>& columns, std::vector<uint32_t>& order) {
  columns_ = columns;
  std::iota(order.begin(), order.end(), uint32_t{0});
  if (order.size() < 2) return;
  insert_runs(order);
  std::vector<uint32_t> other(order.size());
  for (size_t width = kRun; width < order.size(); width *= 2) {
    merge_runs(order, other, width);
    order.swap(other);
  }
}

}  // namespace gspmd
