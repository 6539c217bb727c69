#include <algorithm>
#include <cstring>

#include "gspmd/kernels/pool.h"

namespace gspmd {
namespace {

// Largest block of elements i that is worked on at once: the best so far lives on the stack.
constexpr int64_t kBlock = 256;

template <class T>
struct Best {
  T value[kBlock];
  int64_t offset[kBlock];
  bool any = false;
};

// Keeps, per i, the first largest element of the windows of axes [axis, end): a later one takes
// over unless the kept one is at least as large (NaN is at least as large as nothing).
template <class T>
void find_best(const PoolSpec& spec, const std::vector<int64_t>& index, size_t axis, const T* input,
               int64_t from, int64_t size, Best<T>& best) {
  if (axis < spec.axes.size()) {
    const PoolAxis& a = spec.axes[axis];
    const PoolRun& run = a.positions[static_cast<size_t>(index[axis])];
    from += run.first * a.step;
    for (int64_t i = 0; i < run.count; ++i, from += run.step * a.step)
      find_best(spec, index, axis + 1, input, from, size, best);
    return;
  }
  for (int64_t i = 0; i < size; ++i) {
    const T later = input[from + i];
    const bool stays = best.any && best.value[i] >= later;
    best.value[i] = stays ? best.value[i] : later;
    best.offset[i] = stays ? best.offset[i] : from + i;
  }
  best.any = true;
}

template <class T>
void run_part(const PoolSpec& spec, int64_t begin, int64_t end, const T* input, const T* source,
              T* out) {
  std::vector<int64_t> index(spec.axes.size(), 0);
  int64_t rest = begin;
  for (size_t d = index.size(); d-- > 0;) {
    const auto size = static_cast<int64_t>(spec.axes[d].positions.size());
    index[d] = rest % size;
    rest /= size;
  }
  Best<T> best;
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t block = 0; block < spec.inner; block += kBlock) {
      const int64_t size = std::min(kBlock, spec.inner - block);
      best.any = false;
      find_best(spec, index, 0, input, block, size, best);
      if (!best.any) continue;
      const T* const added = source + n * spec.inner + block;
      for (int64_t i = 0; i < size; ++i) out[best.offset[i]] += added[i];
    }
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < static_cast<int64_t>(spec.axes[d].positions.size())) break;
      index[d] = 0;
    }
  }
}

// Whether position n of the outermost axis reads element n and nothing else, and every element is
// read.
bool is_apart(const PoolAxis& axis, int64_t elements) {
  if (axis.step * static_cast<int64_t>(axis.positions.size()) != elements) return false;
  for (size_t n = 0; n < axis.positions.size(); ++n) {
    const PoolRun& run = axis.positions[n];
    if (run.count != 1 || run.first != static_cast<int64_t>(n)) return false;
  }
  return true;
}

template <class T>
PreparedKernel prepare_typed(PoolSpec spec, int64_t elements) {
  int64_t rows = 1;
  double work = static_cast<double>(spec.inner);
  for (const PoolAxis& axis : spec.axes) {
    rows *= static_cast<int64_t>(axis.positions.size());
    double reads = 0;
    for (const PoolRun& run : axis.positions) reads += static_cast<double>(run.count);
    work *= reads;
  }
  const bool apart = !spec.axes.empty() && is_apart(spec.axes[0], elements);
  // Positions of the first axis are cut into parts where each has elements of its own.
  const int64_t positions = apart ? static_cast<int64_t>(spec.axes[0].positions.size()) : 1;
  PreparedKernel kernel;
  kernel.cost = 100 + 2 * work;
  kernel.parts = work > 1e5 ? std::min<int64_t>(positions, 8) : 1;
  kernel.run = [spec = std::move(spec), rows, elements, positions,
                parts = kernel.parts](const KernelArgs& args) {
    const int64_t begin = args.part * positions / parts, end = (args.part + 1) * positions / parts;
    auto* const out = reinterpret_cast<T*>(args.results[0]);
    T init;
    std::memcpy(&init, args.operands[2], sizeof(T));
    std::fill(out + begin * (elements / positions), out + end * (elements / positions), init);
    run_part(spec, begin * (rows / positions), end * (rows / positions),
             reinterpret_cast<const T*>(args.operands[0]),
             reinterpret_cast<const T*>(args.operands[1]), out);
  };
  return kernel;
}

}  // namespace

PreparedKernel prepare_pool_gradient(PoolSpec spec, int64_t elements) {
  switch (spec.dtype) {
    case DType::f32:
      return prepare_typed<float>(std::move(spec), elements);
    case DType::f64:
      return prepare_typed<double>(std::move(spec), elements);
    default:
      return {};
  }
}

}  // namespace gspmd
