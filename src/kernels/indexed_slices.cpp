#include "gspmd/kernels/indexed_slices.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "gspmd/base/error.h"
#include "kernels/gather_columns.h"
#include "kernels/slice_walk.h"

namespace gspmd {
namespace {

template <class T>
int64_t read_index(const std::byte* indices, int64_t i) {
  const T value = reinterpret_cast<const T*>(indices)[i];
  if constexpr (std::is_same_v<T, uint64_t>) {
    return static_cast<int64_t>(std::min<uint64_t>(value, std::numeric_limits<int64_t>::max()));
  } else {
    return static_cast<int64_t>(value);
  }
}

int64_t product_of_dims(const Dims& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n = saturating_multiply(n, d);
  return n;
}

// An element of each of the slices that begin at `origins`, side by side; then the next one of all.
template <class T>
void gather_elements(const StridedCopy& w, size_t dim, const T* in, const int64_t* origins,
                     int64_t count, T* out) {
  if (dim == w.dims.size()) {
    for (int64_t i = 0; i < count; ++i) out[i] = in[origins[i]];
    return;
  }
  for (int64_t i = 0; i < w.dims[dim]; ++i)
    gather_elements(w, dim + 1, in + i * w.source[dim], origins, count, out + i * w.target[dim]);
}

void gather_beside(const StridedCopy& w, const std::byte* in, const int64_t* origins, int64_t count,
                   std::byte* out) {
  const auto run = [&]<class T>(const T* from) {
    gather_elements(w, 0, from, origins, count, reinterpret_cast<T*>(out));
  };
  switch (w.element_size) {
    case 1:
      return run(reinterpret_cast<const uint8_t*>(in));
    case 2:
      return run(reinterpret_cast<const uint16_t*>(in));
    case 4:
      return run(reinterpret_cast<const uint32_t*>(in));
    default:
      return run(reinterpret_cast<const uint64_t*>(in));
  }
}

// Whether elements of neighbouring slices are neighbours in the result, and those of one are not.
bool are_beside(const IndexedSlices& s) {
  int64_t step = 0;  // from one slice to the next
  for (size_t d = 0; d < s.counts.size(); ++d)
    if (s.counts[d] > 1) step = s.batch[d];
  const int64_t size = s.window.element_size;
  return step == 1 && (size == 1 || size == 2 || size == 4 || size == 8) &&
         std::all_of(s.window.target.begin(), s.window.target.end(),
                     [](int64_t target) { return target > 1; });
}

}  // namespace

IndexReader index_reader(DType dtype) {
  if (!is_integer(dtype)) return nullptr;
  return visit_dtype(dtype, [&](auto tag) -> IndexReader {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) return read_index<T>;
    return nullptr;
  });
}

constexpr int64_t kBeside = 16384;  // slices that wait for each other

PreparedKernel prepare_gather(IndexedSlices slices) {
  const IndexReader reader = index_reader(slices.index_dtype);
  if (reader == nullptr) return {};
  slices.window = simplified(std::move(slices.window));
  const int64_t count = product_of_dims(slices.counts);
  const int64_t bytes =
      saturating_multiply(count, product_of_dims(slices.window.dims)) * slices.window.element_size;
  PreparedKernel kernel;
  kernel.parts =
      std::min(std::max<int64_t>(count, 1), std::clamp<int64_t>(bytes / (1 << 18), 1, 8));
  kernel.cost = 50 + 10.0 * static_cast<double>(count) + 0.1 * static_cast<double>(bytes);
  if (bytes == 0) {
    kernel.run = [](const KernelArgs&) {};
    return kernel;
  }
  const bool beside = are_beside(slices);
  if (beside)
    if (PreparedKernel columns = prepare_gather_columns(slices); columns.run) return columns;
  if (beside) kernel.scratch_bytes = kBeside * static_cast<int64_t>(sizeof(int64_t));
  kernel.run = [s = std::move(slices), reader, count, beside,
                parts = kernel.parts](const KernelArgs& args) {
    const int64_t size = s.window.element_size;
    auto* const origins = reinterpret_cast<int64_t*>(args.scratch);
    int64_t waiting = 0, place = 0;  // slices whose elements are side by side from `place` on
    const auto give = [&] {
      if (waiting > 0)
        gather_beside(s.window, args.operands[0], origins, waiting, args.results[0] + place * size);
      waiting = 0;
    };
    for_each_slice(s, args.part * count / parts, (args.part + 1) * count / parts,
                   [&](int64_t dense, int64_t origin, int64_t index) {
                     origin = clamped_origin(s, reader, args.operands[1], origin, index);
                     if (!beside)
                       return run_copy(s.window, args.operands[0] + origin * size,
                                       args.results[0] + dense * size);
                     if (waiting == kBeside || dense != place + waiting) give();
                     if (waiting == 0) place = dense;
                     origins[waiting++] = origin;
                   });
    give();
  };
  return kernel;
}

}  // namespace gspmd
