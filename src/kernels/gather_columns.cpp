#include "kernels/gather_columns.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/slice_walk.h"
#include "kernels/stream.h"

namespace gspmd {
namespace {

constexpr int64_t kGatheredChunk = 4096;  // bytes of the result that are gathered before they leave

// Rows of the result: for each run of slices that are side by side, one per element of a slice.
struct Columns {
  IndexedSlices slices;
  IndexReader reader = nullptr;
  int64_t count = 0, run = 0;  // slices; those of a run
  int64_t inside = 0;          // elements of a slice
  int64_t reach = 0;           // largest origin
  bool streamed = false;

  int64_t elements() const { return count * inside; }

  template <class Origin>
  void find_origins(const KernelArgs& args, int64_t first, int64_t last) const {
    auto* to = reinterpret_cast<Origin*>(args.shared) + first;
    for_each_slice(slices, first, last, [&](int64_t, int64_t origin, int64_t place) {
      *to++ = static_cast<Origin>(clamped_origin(slices, reader, args.operands[1], origin, place));
    });
  }

  // Where element i of a slice lies in the sliced array and in the result.
  std::pair<int64_t, int64_t> offsets(int64_t i) const {
    const StridedCopy& w = slices.window;
    int64_t source = 0, target = 0;
    for (size_t d = w.dims.size(); d-- > 0; i /= w.dims[d]) {
      source += i % w.dims[d] * w.source[d];
      target += i % w.dims[d] * w.target[d];
    }
    return {source, target};
  }

  int64_t dense_offset(int64_t slice) const {
    int64_t offset = 0;
    for_each_slice(slices, slice, slice + 1,
                   [&](int64_t dense, int64_t, int64_t) { offset = dense; });
    return offset;
  }

  // Elements [first, last) of all rows.
  template <class T, class Origin>
  void gather(const KernelArgs& args, int64_t first, int64_t last) const {
    const auto* const in = reinterpret_cast<const T*>(args.operands[0]);
    auto* const out = reinterpret_cast<T*>(args.results[0]);
    const auto* const origins = reinterpret_cast<const Origin*>(args.shared);
    while (first < last) {
      const int64_t row = first / run, begin = first % run;
      const int64_t n = std::min(run - begin, last - first), slice = row / inside * run;
      const auto [source, target] = offsets(row % inside);
      const bool has_next = row % inside + 1 < inside;
      gather_row(in + source, has_next ? in + offsets(row % inside + 1).first : nullptr,
                 origins + slice + begin, n, out + dense_offset(slice) + target + begin);
      first += n;
    }
  }

  // Meanwhile the row of the sliced array that is read next comes near, where most of it is read.
  template <class T, class Origin>
  void gather_row(const T* in, const T* next, const Origin* origins, int64_t n, T* out) const {
    constexpr int64_t kLine = 64 / int64_t{sizeof(T)}, kMost = kGatheredChunk / int64_t{sizeof(T)};
    constexpr int64_t kNear = 1 << 19;  // bytes
    const int64_t lines = reach / kLine + 1;
    if (lines > n || lines * 64 > kNear) next = nullptr;
    const StreamFunction stream = streamed ? stream_function() : nullptr;
    alignas(64) T chunk[kMost];
    int64_t fetched = 0;
    for (int64_t i = 0; i < n;) {
      const auto past =
          static_cast<int64_t>(reinterpret_cast<uintptr_t>(out + i) / sizeof(T)) % kLine;
      const int64_t m = std::min(n - i, kMost - past);
      if (next != nullptr)
        for (const int64_t end = lines * (i + m) / n; fetched < end; ++fetched)
          __builtin_prefetch(next + fetched * kLine);
      T* const to = streamed ? chunk : out + i;
      for (int64_t j = 0; j < m; ++j) to[j] = in[origins[i + j]];
      if (streamed)
        stream(reinterpret_cast<std::byte*>(out + i), reinterpret_cast<const std::byte*>(chunk),
               m * int64_t{sizeof(T)});
      i += m;
    }
  }

  template <class Origin>
  void gather_any(const KernelArgs& args, int64_t first, int64_t last) const {
    switch (slices.window.element_size) {
      case 1:
        return gather<uint8_t, Origin>(args, first, last);
      case 2:
        return gather<uint16_t, Origin>(args, first, last);
      case 4:
        return gather<uint32_t, Origin>(args, first, last);
      default:
        return gather<uint64_t, Origin>(args, first, last);
    }
  }
};

template <class Origin>
PreparedKernel kernel_of(Columns columns) {
  constexpr int64_t kOrigins = 16384, kPartBytes = 1 << 18;
  const int64_t bytes = columns.elements() * columns.slices.window.element_size;
  PreparedKernel kernel;
  kernel.shared_bytes = ceil_div(columns.count * int64_t{sizeof(Origin)}, 64) * 64;
  kernel.prepare_parts = std::clamp<int64_t>(columns.count / kOrigins, 1, 8);
  kernel.parts = std::clamp<int64_t>(bytes / kPartBytes, 1, 16);
  kernel.cost =
      50 + 2.0 * static_cast<double>(columns.count) + 0.6 * static_cast<double>(columns.elements());
  kernel.prepare = [columns, parts = kernel.prepare_parts](const KernelArgs& args) {
    columns.find_origins<Origin>(args, args.part * columns.count / parts,
                                 (args.part + 1) * columns.count / parts);
  };
  kernel.run = [columns, parts = kernel.parts](const KernelArgs& args) {
    const int64_t n = columns.elements();
    columns.gather_any<Origin>(args, args.part * n / parts, (args.part + 1) * n / parts);
    if (columns.streamed) flush_stream();
  };
  return kernel;
}

}  // namespace

PreparedKernel prepare_gather_columns(const IndexedSlices& slices) {
  constexpr int64_t kShort = 4, kMostOrigins = int64_t{1} << 21;
  Columns columns{slices, index_reader(slices.index_dtype), 1, 1, 1};
  for (size_t d = 0; d < slices.counts.size(); ++d) {
    columns.count = saturating_multiply(columns.count, slices.counts[d]);
    if (slices.counts[d] > 1) columns.run = slices.counts[d];
    columns.reach += (slices.counts[d] - 1) * slices.batch_origin[d];
  }
  for (const int64_t n : slices.window.dims)
    columns.inside = saturating_multiply(columns.inside, n);
  for (const IndexedSlices::Component& c : slices.components) columns.reach += c.last * c.stride;
  if (columns.inside < kShort || columns.count > kMostOrigins) return {};
  columns.streamed = is_streamed(columns.elements() * slices.window.element_size);
  return columns.reach <= std::numeric_limits<int32_t>::max() ? kernel_of<int32_t>(columns)
                                                              : kernel_of<int64_t>(columns);
}

}  // namespace gspmd
