#include "kernels/pad.h"

#include <algorithm>
#include <cstring>

#include "gspmd/base/shape.h"

namespace gspmd {
namespace {

bool is_copied_whole(const PadDim& dim) {
  return dim.low == 0 && dim.step == 1 && dim.in == dim.out;
}

// Rows: of the last dim that is padded, in blocks of `block` elements.
struct PadPlan {
  std::vector<PadDim> outer;
  PadDim row;
  int64_t block = 1, rows = 1;
  int64_t first = 0, last = 0;  // elements of a row that have places

  // The row of the input for row `index` of the result; -1: none.
  int64_t source_row(const std::vector<int64_t>& index) const {
    int64_t source = 0;
    for (size_t d = 0; d < outer.size(); ++d) {
      const PadDim& dim = outer[d];
      const int64_t from_low = index[d] - dim.low, element = from_low / dim.step;
      if (from_low < 0 || from_low % dim.step != 0 || element >= dim.in) return -1;
      source = source * dim.in + element;
    }
    return source;
  }

  template <class T>
  void put_row(const T* in, T value, T* out) const {
    if (in == nullptr || first >= last) {
      std::fill_n(out, row.out * block, value);
      return;
    }
    const int64_t begin = row.low + first * row.step, end = row.low + (last - 1) * row.step + 1;
    std::fill_n(out, begin * block, value);
    put_elements(in + first * block, last - first, value, out + begin * block);
    std::fill_n(out + end * block, (row.out - end) * block, value);
  }

  template <class T>
  void put_elements(const T* in, int64_t count, T value, T* out) const {
    if (row.step == 1) {
      std::memcpy(out, in, static_cast<size_t>(count * block) * sizeof(T));
    } else if (row.step == 2 && block == 1) {
      for (int64_t i = 0; i + 1 < count; ++i) {
        out[2 * i] = in[i];
        out[2 * i + 1] = value;
      }
      out[2 * count - 2] = in[count - 1];
    } else {
      for (int64_t i = 0; i < count; ++i) {
        T* const to = out + i * row.step * block;
        std::copy_n(in + i * block, block, to);
        if (i + 1 < count) std::fill_n(to + block, (row.step - 1) * block, value);
      }
    }
  }

  template <class T>
  void run(const KernelArgs& args, int64_t begin, int64_t end) const {
    const auto* const in = reinterpret_cast<const T*>(args.operands[0]);
    auto* const out = reinterpret_cast<T*>(args.results[0]);
    T value;
    std::memcpy(&value, args.operands[1], sizeof(T));
    std::vector<int64_t> index(outer.size(), 0);
    int64_t rest = begin;
    for (size_t d = outer.size(); d-- > 0; rest /= outer[d].out) index[d] = rest % outer[d].out;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t source = source_row(index);
      put_row(source < 0 ? nullptr : in + source * row.in * block, value,
              out + r * row.out * block);
      for (size_t d = outer.size(); d-- > 0;) {
        if (++index[d] < outer[d].out) break;
        index[d] = 0;
      }
    }
  }
};

}  // namespace

PreparedKernel prepare_pad(int64_t element_size, std::vector<PadDim> dims) {
  PadPlan plan;
  while (!dims.empty() && is_copied_whole(dims.back())) {
    plan.block *= dims.back().in;
    dims.pop_back();
  }
  if (!dims.empty()) {
    plan.row = dims.back();
    dims.pop_back();
  }
  plan.outer = std::move(dims);
  for (const PadDim& dim : plan.outer) plan.rows *= dim.out;
  const PadDim& row = plan.row;
  plan.first = row.low >= 0 ? 0 : ceil_div(-row.low, row.step);
  plan.last = row.out <= row.low ? 0 : std::min((row.out - row.low - 1) / row.step + 1, row.in);
  const double elements = static_cast<double>(plan.rows) * static_cast<double>(row.out) *
                          static_cast<double>(plan.block);
  PreparedKernel kernel;
  kernel.cost = 50 + 0.2 * elements;
  kernel.parts = elements > 65536 ? std::clamp<int64_t>(plan.rows, 1, 8) : 1;
  if (elements == 0) {
    kernel.run = [](const KernelArgs&) {};
    return kernel;
  }
  kernel.run = [plan = std::move(plan), element_size,
                parts = kernel.parts](const KernelArgs& args) {
    const int64_t begin = args.part * plan.rows / parts, end = (args.part + 1) * plan.rows / parts;
    if (element_size == 1) plan.run<uint8_t>(args, begin, end);
    if (element_size == 2) plan.run<uint16_t>(args, begin, end);
    if (element_size == 4) plan.run<uint32_t>(args, begin, end);
    if (element_size == 8) plan.run<uint64_t>(args, begin, end);
  };
  return kernel;
}

}  // namespace gspmd
