// Updates combined into the elements that indices name, slice after slice.
#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>

#include "gspmd/base/error.h"
#include "gspmd/kernels/indexed_slices.h"
#include "kernels/extrema.h"
#include "kernels/loop_functions.h"
#include "kernels/slice_walk.h"

namespace gspmd {
namespace {

constexpr int64_t kScatterBlock = 1024;  // slices whose places are found before they are combined

// out[places[i]] with updates[i * step], in order, but for places below 0; all in elements.
using ScatterElements = void (*)(std::byte* out, const std::byte* updates, int64_t step,
                                 const int64_t* places, int64_t count);
// A row of n updates into as many elements.
using ScatterRow = void (*)(std::byte* out, const std::byte* updates, int64_t n);

template <class T, class F>
void scatter_elements(std::byte* out, const std::byte* updates, int64_t step, const int64_t* places,
                      int64_t count) {
  auto* const to = reinterpret_cast<T*>(out);
  const auto* const from = reinterpret_cast<const T*>(updates);
  for (int64_t i = 0; i < count; ++i)
    if (places[i] >= 0) to[places[i]] = F::apply(to[places[i]], from[i * step]);
}

template <class T, class F>
void scatter_row(std::byte* out, const std::byte* updates, int64_t n) {
  auto* const to = reinterpret_cast<T*>(out);
  const auto* const from = reinterpret_cast<const T*>(updates);
  for (int64_t i = 0; i < n; ++i) to[i] = F::apply(to[i], from[i]);
}

struct ScatterFunctions {
  ScatterElements elements = nullptr;
  ScatterRow row = nullptr;
};
template <class T, class F>
constexpr ScatterFunctions kScatterFunctions{scatter_elements<T, F>, scatter_row<T, F>};

// 16-bit floats are combined in f32 and rounded each time; integers wrap around.
template <class T>
using Combined = std::conditional_t<sizeof(T) == 2 && !std::is_integral_v<T>, float, T>;

struct Added {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return T(Combined<T>(a) + Combined<T>(b));
  }
};
struct Multiplied {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return T(Combined<T>(a) * Combined<T>(b));
  }
};
// NaN where either is NaN, and -0 below +0.
struct Larger {
  template <class T>
  static T apply(T a, T b) {
    const Combined<T> x(a), y(b);
    if (x > y) return a;  // most often, later on: predicted
    return y > x ? b : T(larger(x, y));
  }
};
struct Smaller {
  template <class T>
  static T apply(T a, T b) {
    const Combined<T> x(a), y(b);
    if (x < y) return a;
    return y < x ? b : T(smaller(x, y));
  }
};
struct Both {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Either {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Updated {
  template <class T>
  static T apply(T, T b) {
    return b;
  }
};

template <class T>
ScatterFunctions combining_functions(ScatterCombiner combiner) {
  switch (combiner) {
    case ScatterCombiner::sum:
      return kScatterFunctions<T, Added>;
    case ScatterCombiner::product:
      return kScatterFunctions<T, Multiplied>;
    case ScatterCombiner::max:
      return kScatterFunctions<T, Larger>;
    case ScatterCombiner::min:
      return kScatterFunctions<T, Smaller>;
    case ScatterCombiner::logical_and:
      if constexpr (std::is_integral_v<T>) return kScatterFunctions<T, Both>;
      return {};
    case ScatterCombiner::logical_or:
      if constexpr (std::is_integral_v<T>) return kScatterFunctions<T, Either>;
      return {};
    case ScatterCombiner::update:
      break;
  }
  return {};
}

struct ScatterBits128 {  // c128
  uint64_t low, high;
};

ScatterFunctions updating_functions(int64_t size) {
  switch (size) {
    case 1:
      return kScatterFunctions<uint8_t, Updated>;
    case 2:
      return kScatterFunctions<uint16_t, Updated>;
    case 4:
      return kScatterFunctions<uint32_t, Updated>;
    case 8:
      return kScatterFunctions<uint64_t, Updated>;
    case 16:
      return kScatterFunctions<ScatterBits128, Updated>;
    default:
      return {};
  }
}

ScatterFunctions scatter_functions(ScatterCombiner combiner, DType dtype) {
  if (combiner == ScatterCombiner::update) return updating_functions(dtype_size(dtype));
  switch (dtype) {
    case DType::pred:
    case DType::u8:
      return combining_functions<uint8_t>(combiner);
    case DType::s8:
      return combining_functions<int8_t>(combiner);
    case DType::u16:
      return combining_functions<uint16_t>(combiner);
    case DType::s16:
      return combining_functions<int16_t>(combiner);
    case DType::u32:
      return combining_functions<uint32_t>(combiner);
    case DType::s32:
      return combining_functions<int32_t>(combiner);
    case DType::u64:
      return combining_functions<uint64_t>(combiner);
    case DType::s64:
      return combining_functions<int64_t>(combiner);
    case DType::bf16:
      return combining_functions<bfloat16>(combiner);
    case DType::f16:
      return combining_functions<float16>(combiner);
    case DType::f32:
      return combining_functions<float>(combiner);
    case DType::f64:
      return combining_functions<double>(combiner);
    default:
      return {};
  }
}

// The vector loop for long rows.
LoopFunction row_loop(ScatterCombiner combiner, DType dtype) {
  if (combiner == ScatterCombiner::update || !has_loop_functions(dtype)) return nullptr;
  constexpr LoopOp kOps[] = {LoopOp::add,     LoopOp::multiply, LoopOp::maximum,
                             LoopOp::minimum, LoopOp::and_,     LoopOp::or_};
  return find_loop_function(kOps[static_cast<size_t>(combiner)], dtype, dtype);
}

// Of the slices of a run: where they begin in the array; -1: outside. Starts are unsigned here, so
// that one below 0 is beyond the last too.
template <class I>
void find_places(const IndexedSlices& s, const std::byte* indices, int64_t origin, int64_t index,
                 int64_t count, int64_t* places) {
  const size_t inner = s.counts.size() - 1;
  const int64_t step = s.batch_indices[inner], origin_step = s.batch_origin[inner];
  for (int64_t i = 0; i < count; ++i) places[i] = origin + i * origin_step;
  for (const IndexedSlices::Component& c : s.components) {
    const I* const starts = reinterpret_cast<const I*>(indices) + index + c.element;
    const auto last = static_cast<uint64_t>(c.last);
    for (int64_t i = 0; i < count; ++i) {
      const auto start = static_cast<uint64_t>(static_cast<int64_t>(starts[i * step]));
      // What is outside stays below 0: no array has so many elements.
      places[i] = start <= last && places[i] >= 0
                      ? places[i] + static_cast<int64_t>(start) * c.stride
                      : int64_t{-1};
    }
  }
}

using FindPlaces = void (*)(const IndexedSlices& s, const std::byte* indices, int64_t origin,
                            int64_t index, int64_t count, int64_t* places);
FindPlaces place_finder(DType dtype) {
  if (!is_integer(dtype)) return nullptr;
  return visit_dtype(dtype, [](auto tag) -> FindPlaces {
    using I = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<I> && !std::is_same_v<I, bool>) return find_places<I>;
    return nullptr;
  });
}

struct Scatter {
  IndexedSlices slices;
  FindPlaces find = nullptr;
  ScatterFunctions functions;
  LoopFunction loop = nullptr;
  IndexedSlices runs;  // of slices that follow each other along the last dim of the counts
  int64_t count = 0;   // of slices
  int64_t bytes = 0;   // of the array

  void combine_window(size_t dim, std::byte* array, const std::byte* updates) const {
    const StridedCopy& w = slices.window;
    constexpr int64_t kFirst = 0;
    if (dim == w.dims.size()) return functions.elements(array, updates, 1, &kFirst, 1);
    if (dim + 1 == w.dims.size() && w.source[dim] == 1 && w.target[dim] == 1) {
      if (loop != nullptr) return loop(array, array, updates, nullptr, w.dims[dim], 0);
      return functions.row(array, updates, w.dims[dim]);
    }
    for (int64_t i = 0; i < w.dims[dim]; ++i)
      combine_window(dim + 1, array + i * w.source[dim] * w.element_size,
                     updates + i * w.target[dim] * w.element_size);
  }

  // `n` slices that follow each other along the last dim of the counts.
  void combine_run(const KernelArgs& args, int64_t dense, int64_t origin, int64_t index,
                   int64_t n) const {
    const size_t inner = slices.counts.size() - 1;
    const int64_t step = slices.batch[inner], size = slices.window.element_size;
    int64_t places[kScatterBlock];
    for (int64_t first = 0; first < n; first += kScatterBlock) {
      const int64_t some = std::min(kScatterBlock, n - first);
      find(slices, args.operands[1], origin + first * slices.batch_origin[inner],
           index + first * slices.batch_indices[inner], some, places);
      const std::byte* const updates = args.operands[2] + (dense + first * step) * size;
      if (slices.window.dims.empty()) {
        functions.elements(args.results[0], updates, step, places, some);
        continue;
      }
      for (int64_t i = 0; i < some; ++i)
        if (places[i] >= 0)
          combine_window(0, args.results[0] + places[i] * size, updates + i * step * size);
    }
  }

  void run(const KernelArgs& args) const {
    if (args.results[0] != args.operands[0] && bytes > 0)
      std::memcpy(args.results[0], args.operands[0], static_cast<size_t>(bytes));
    if (count == 0) return;
    const int64_t n = slices.counts.back();
    for_each_slice(runs, 0, count / n, [&](int64_t dense, int64_t origin, int64_t index) {
      combine_run(args, dense, origin, index, n);
    });
  }
};

int64_t count_of(const Dims& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n = saturating_multiply(n, d);
  return n;
}

}  // namespace

PreparedKernel prepare_scatter(IndexedSlices slices, ScatterCombiner combiner, int64_t elements) {
  Scatter scatter;
  scatter.find = place_finder(slices.index_dtype);
  scatter.functions = scatter_functions(combiner, slices.dtype);
  if (scatter.find == nullptr || scatter.functions.elements == nullptr) return {};
  scatter.loop = row_loop(combiner, slices.dtype);
  slices.window = simplified(std::move(slices.window));
  if (slices.counts.empty()) {  // one slice is a run of one
    for (Dims* dims : {&slices.batch, &slices.batch_indices, &slices.batch_origin})
      dims->push_back(0);
    slices.counts.push_back(1);
  }
  const int64_t window = count_of(slices.window.dims);
  // An array without elements has room for no update, though the starts of all are 0.
  const bool none = window == 0 || elements == 0 ||
                    std::any_of(slices.components.begin(), slices.components.end(),
                                [](const IndexedSlices::Component& c) { return c.last < 0; });
  scatter.count = none ? 0 : count_of(slices.counts);
  scatter.bytes = elements * slices.window.element_size;
  scatter.runs = slices;
  scatter.runs.counts.back() = 1;
  scatter.slices = std::move(slices);
  PreparedKernel kernel;
  kernel.cost = 50 + 0.05 * static_cast<double>(scatter.bytes) +
                static_cast<double>(scatter.count) * (2 + 0.3 * static_cast<double>(window));
  kernel.run = [scatter = std::move(scatter)](const KernelArgs& args) { scatter.run(args); };
  return kernel;
}

}  // namespace gspmd
