#include "gspmd/kernels/pool.h"

#include <cstring>

#include "kernels/extrema.h"

namespace gspmd {
namespace {

template <PoolOp kOp, class T>
T pooled(T a, T b) {
  if constexpr (kOp == PoolOp::max) return larger(a, b);
  if constexpr (kOp == PoolOp::min) return smaller(a, b);
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  else
    return a + b;
}

template <PoolOp kOp, class T>
void pool_rows(T* __restrict to, const T* __restrict from, int64_t inner) {
  for (int64_t i = 0; i < inner; ++i) to[i] = pooled<kOp>(to[i], from[i]);
}

// Adds the elements of the windows of axes [axis, end) to the row `to`.
template <PoolOp kOp, class T>
void pool_window(const PoolSpec& spec, const std::vector<int64_t>& index, size_t axis,
                 const T* from, T* to) {
  if (axis == spec.axes.size()) {
    pool_rows<kOp>(to, from, spec.inner);
    return;
  }
  const PoolAxis& a = spec.axes[axis];
  const PoolRun& run = a.positions[static_cast<size_t>(index[axis])];
  from += run.first * a.step;
  for (int64_t i = 0; i < run.count; ++i, from += run.step * a.step)
    pool_window<kOp>(spec, index, axis + 1, from, to);
}

template <PoolOp kOp, class T>
void pool_part(const PoolSpec& spec, int64_t begin, int64_t end, const T* input, T init, T* out) {
  std::vector<int64_t> index(spec.axes.size(), 0);
  int64_t rest = begin;
  for (size_t d = index.size(); d-- > 0;) {
    const auto size = static_cast<int64_t>(spec.axes[d].positions.size());
    index[d] = rest % size;
    rest /= size;
  }
  for (int64_t n = begin; n < end; ++n) {
    T* const to = out + n * spec.inner;
    for (int64_t i = 0; i < spec.inner; ++i) to[i] = init;
    pool_window<kOp>(spec, index, 0, input, to);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < static_cast<int64_t>(spec.axes[d].positions.size())) break;
      index[d] = 0;
    }
  }
}

template <class T>
PreparedKernel prepare_typed(PoolSpec spec) {
  int64_t rows = 1;
  double work = static_cast<double>(spec.inner);
  for (const PoolAxis& axis : spec.axes) {
    rows *= static_cast<int64_t>(axis.positions.size());
    double reads = 0;
    for (const PoolRun& run : axis.positions) reads += static_cast<double>(run.count);
    work *= reads;
  }
  PreparedKernel kernel;
  kernel.cost = 100 + work;
  kernel.parts = work > 1e5 ? std::min<int64_t>(rows, 8) : 1;
  kernel.run = [spec = std::move(spec), rows, parts = kernel.parts](const KernelArgs& args) {
    const int64_t begin = args.part * rows / parts, end = (args.part + 1) * rows / parts;
    const auto* const input = reinterpret_cast<const T*>(args.operands[0]);
    T init;
    std::memcpy(&init, args.operands[1], sizeof(T));
    auto* const out = reinterpret_cast<T*>(args.results[0]);
    switch (spec.op) {
      case PoolOp::sum:
        return pool_part<PoolOp::sum>(spec, begin, end, input, init, out);
      case PoolOp::max:
        return pool_part<PoolOp::max>(spec, begin, end, input, init, out);
      case PoolOp::min:
        return pool_part<PoolOp::min>(spec, begin, end, input, init, out);
    }
  };
  return kernel;
}

}  // namespace

PreparedKernel prepare_pool(PoolSpec spec) {
  switch (spec.dtype) {
    case DType::f32:
      return prepare_typed<float>(std::move(spec));
    case DType::f64:
      return prepare_typed<double>(std::move(spec));
    case DType::s32:
      return prepare_typed<int32_t>(std::move(spec));
    default:
      return {};
  }
}

}  // namespace gspmd
