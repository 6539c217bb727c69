#include "ops/sort/lane_merger.h"

#include <algorithm>
#include <complex>
#include <numeric>

namespace gspmd {
namespace {

constexpr size_t kRun = 8;  // elements of the runs that insertion makes, as in evaluate_sort

// f(i, element i of those at elements[...] of a column) for i < count.
template <class T, class F>
void for_elements(const MergeColumn& column, size_t count, const uint32_t* elements, F&& f) {
  if (column.step == static_cast<int64_t>(sizeof(T))) {
    const auto* const in = reinterpret_cast<const T*>(column.first);
    for (size_t i = 0; i < count; ++i) f(i, in[elements[i]]);
  } else {
    for (size_t i = 0; i < count; ++i)
      f(i, *reinterpret_cast<const T*>(column.first + elements[i] * column.step));
  }
}

// f of a value of the type whose elements have so many bytes.
template <class F>
void with_size(int64_t size, F&& f) {
  switch (size) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      return f(std::complex<double>{});
  }
}

}  // namespace

LaneMerger::LaneMerger(const Computation& comparator, const CallComputation& call)
    : compare_(comparator, call, kLanes) {}

// Of each lane the next element of the side that it has taken one of.
void LaneMerger::fetch_taken(size_t count) {
  for (size_t c = 0; c < columns_.size(); ++c)
    with_size(columns_[c].size, [&]<class T>(T) {
      T* const to[] = {reinterpret_cast<T*>(compare_.lanes(2 * c)),
                       reinterpret_cast<T*>(compare_.lanes(2 * c + 1))};
      for_elements<T>(columns_[c], count, element_.data(),
                      [&](size_t i, T value) { to[side_[i]][i] = value; });
    });
}

void LaneMerger::fetch(size_t count, size_t side) {
  for (size_t c = 0; c < columns_.size(); ++c)
    with_size(columns_[c].size, [&]<class T>(T) {
      T* const to = reinterpret_cast<T*>(compare_.lanes(2 * c + side));
      for_elements<T>(columns_[c], count, element_.data(),
                      [&](size_t i, T value) { to[i] = value; });
    });
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
      for (size_t side = 0; side < 2; ++side) {
        for (size_t i = 0; i < count; ++i)
          element_[i] = order[std::min(lanes_[i].head[0] + (side == 0 ? 1 : 0), n - 1)];
        fetch(count, side);
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
  for (size_t side = 0; side < 2; ++side) {
    for (size_t i = 0; i < count; ++i) element_[i] = from[lanes_[i].head[side]];
    fetch(count, side);
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
        const uint32_t soon = from[std::min(lane.head[side] + 2, lane.end[side] - 1)];
        for (const MergeColumn& column : columns_)
          __builtin_prefetch(column.first + soon * column.step);
        continue;
      }
      end_merge(lane, 1 - side, from, to);
      --busy;
    }
    fetch_taken(count);
  }
}

// Of each lane the next elements of both sides, each of one beside each of the other; those behind
// them are asked for.
void LaneMerger::fetch_blocks(const std::vector<uint32_t>& from, size_t count, size_t most) {
  for (size_t c = 0; c < columns_.size(); ++c)
    with_size(columns_[c].size, [&]<class T>(T) {
      T* left = reinterpret_cast<T*>(compare_.lanes(2 * c));
      T* right = reinterpret_cast<T*>(compare_.lanes(2 * c + 1));
      const auto element = [&](const Lane& lane, size_t side, size_t i) {
        const size_t at = std::min(lane.head[side] + i, lane.end[side] - 1);
        return columns_[c].first + from[at] * columns_[c].step;
      };
      for (size_t l = 0; l < count; ++l) {
        const Lane& lane = lanes_[l];
        T* const first = right;
        for (size_t i = 0; i < most; ++i, left += most, right += most) {
          std::fill_n(left, most, *reinterpret_cast<const T*>(element(lane, 0, i)));
          first[i] = *reinterpret_cast<const T*>(element(lane, 1, i));
          for (size_t side = 0; side < 2; ++side)
            __builtin_prefetch(element(lane, side, i + 2 * most));
        }
        for (size_t i = 1; i < most; ++i) std::copy_n(first, most, first + i * most);
      }
    });
}

// Few merges compare the next elements of both their sides, each with each, and go on as far as
// that says.
void LaneMerger::merge_blocks(const std::vector<uint32_t>& from, std::vector<uint32_t>& to,
                              size_t count) {
  size_t most = 2;  // elements of a side at once
  while ((most + 1) * (most + 1) * count <= kLanes) ++most;
  const size_t pairs = most * most;
  for (size_t busy = count; busy > 0;) {
    fetch_blocks(from, count, most);
    compare_.run(count * pairs);
    for (size_t i = 0; i < count; ++i) {
      if (!lanes_[i].busy) continue;
      take_block(lanes_[i], compare_.result(0) + i * pairs, most, from, to);
      busy -= lanes_[i].busy ? 0 : 1;
    }
  }
}

// less[i * most + j]: whether the i-th next element of side 0 comes before the j-th of side 1.
void LaneMerger::take_block(Lane& lane, const std::byte* less, size_t most,
                            const std::vector<uint32_t>& from, std::vector<uint32_t>& to) {
  std::array<size_t, 2> taken{};
  const std::array<size_t, 2> room = {std::min(most, lane.end[0] - lane.head[0]),
                                      std::min(most, lane.end[1] - lane.head[1])};
  while (taken[0] < room[0] && taken[1] < room[1]) {
    const size_t side = less[taken[0] * most + taken[1]] == std::byte{0} ? 1 : 0;
    to[lane.out++] = from[lane.head[side] + taken[side]++];
  }
  for (size_t side = 0; side < 2; ++side) lane.head[side] += taken[side];
  for (size_t side = 0; side < 2; ++side)
    if (lane.head[side] == lane.end[side]) end_merge(lane, 1 - side, from, to);
}

// What is left of one side, behind all of the other one.
void LaneMerger::end_merge(Lane& lane, size_t side, const std::vector<uint32_t>& from,
                           std::vector<uint32_t>& to) {
  std::copy(from.begin() + static_cast<std::ptrdiff_t>(lane.head[side]),
            from.begin() + static_cast<std::ptrdiff_t>(lane.end[side]),
            to.begin() + static_cast<std::ptrdiff_t>(lane.out));
  lane.busy = false;
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
    if (count > 0 && 4 * count <= kLanes && compare_.compiled())
      merge_blocks(from, to, count);
    else
      merge_lanes(from, to, count);
  }
}

void LaneMerger::order(const std::vector<MergeColumn>& columns, std::vector<uint32_t>& order,
                       uint32_t first) {
  columns_ = columns;
  std::iota(order.begin(), order.end(), first);
  if (order.size() < 2) return;
  insert_runs(order);
  merge(columns, order, kRun);
}

void LaneMerger::merge(const std::vector<MergeColumn>& columns, std::vector<uint32_t>& order,
                       size_t width) {
  columns_ = columns;
  std::vector<uint32_t> other(order.size());
  for (; width < order.size(); width *= 2) {
    merge_runs(order, other, width);
    order.swap(other);
  }
}

int64_t LaneMerger::block_of(int64_t size, int64_t most) {
  int64_t block = kRun;
  while (block * most < size) block *= 2;
  return block;
}

}  // namespace gspmd
