#include "ops/reduce/called_reduce.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "ops/common/check.h"
#include "ops/common/loops.h"
#include "ops/common/scalar_program.h"
#include "ops/evaluate/interpreter.h"

namespace gspmd {
namespace {

constexpr int64_t kReduceLanes = 128;  // results that are put together at once

}  // namespace

// The combiner on the accumulators and the elements of so many results.
class CalledReduce::Lanes {
 public:
  Lanes(const Node& node, const KernelArgs& args)
      : args_(args),
        inputs_(node.operands().size() / 2),
        program_(*node.called[0], interpreter_.call(), kReduceLanes) {
    for (size_t i = 0; i < inputs_; ++i) {
      sizes_.push_back(static_cast<size_t>(dtype_size(node.operand(int64_t(i))->shape.dtype)));
      kept_.emplace_back(kReduceLanes * sizes_.back());
    }
  }

  void start(size_t count) {
    for (size_t i = 0; i < inputs_; ++i)
      for (size_t lane = 0; lane < count; ++lane)
        std::memcpy(program_.lanes(i) + lane * sizes_[i], args_.operands[inputs_ + i], sizes_[i]);
  }

  // One more element of each, `at` behind its first.
  void add(const std::vector<int64_t>& first, bool in_step, int64_t at) {
    const size_t count = first.size();
    for (size_t i = 0; i < inputs_; ++i) {
      const auto size = static_cast<int64_t>(sizes_[i]);
      const std::byte* x = args_.operands[i];
      if (in_step) {
        const int64_t step = count > 1 ? first[1] - first[0] : 1;
        program_.set_lanes(inputs_ + i, x + (first[0] + at) * size, step * size, count);
        continue;
      }
      for (size_t lane = 0; lane < count; ++lane)
        std::memcpy(program_.lanes(inputs_ + i) + lane * sizes_[i], x + (first[lane] + at) * size,
                    sizes_[i]);
    }
    program_.run(count);
    // A result may be a parameter, or read one that another is.
    for (size_t i = 0; i < inputs_; ++i)
      std::memcpy(kept_[i].data(), program_.result(i), count * sizes_[i]);
    for (size_t i = 0; i < inputs_; ++i)
      std::memcpy(program_.lanes(i), kept_[i].data(), count * sizes_[i]);
  }

  void finish(int64_t result, size_t count) {
    for (size_t i = 0; i < inputs_; ++i)
      std::memcpy(args_.results[i] + result * static_cast<int64_t>(sizes_[i]), program_.lanes(i),
                  count * sizes_[i]);
  }

 private:
  const KernelArgs& args_;
  size_t inputs_;
  Interpreter interpreter_;
  ScalarProgram program_;
  std::vector<size_t> sizes_;
  std::vector<std::vector<std::byte>> kept_;
};

CalledReduce::CalledReduce(const Node& reduce) : node_(reduce) {
  const Dims& dims = reduce.operand(0)->dims();
  const Dims strides = row_major_strides(dims);
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool is_reduced = contains(reduce.attrs.dimensions, static_cast<int64_t>(d));
    (is_reduced ? reduced_ : kept_).push_back(dims[d]);
    (is_reduced ? reduced_strides_ : kept_strides_).push_back(strides[d]);
    if (!is_reduced) count_ *= dims[d];
  }
}

int64_t CalledReduce::offset_of(int64_t result) const {
  int64_t offset = 0;
  for (size_t d = kept_.size(); d-- > 0; result /= kept_[d])
    offset += result % kept_[d] * kept_strides_[d];
  return offset;
}

void CalledReduce::run(const KernelArgs& args, int64_t first, int64_t last) const {
  Lanes lanes(node_, args);
  for (int64_t begin = first; begin < last; begin += kReduceLanes) {
    const int64_t end = std::min(last, begin + kReduceLanes);
    std::vector<int64_t> offsets;
    for (int64_t r = begin; r < end; ++r) offsets.push_back(offset_of(r));
    bool in_step = true;
    for (size_t i = 2; i < offsets.size(); ++i)
      in_step &= offsets[i] - offsets[i - 1] == offsets[1] - offsets[0];
    lanes.start(offsets.size());
    for_each_offset<1>(reduced_, {reduced_strides_}, {0}, [&](const std::array<int64_t, 1>& at) {
      lanes.add(offsets, in_step, at[0]);
    });
    lanes.finish(begin, offsets.size());
  }
}

PreparedKernel prepare_called_reduce(const Node& reduce) {
  const auto all = std::make_shared<CalledReduce>(reduce);
  const int64_t elements = reduce.operand(0)->shape.elements_count();
  PreparedKernel kernel;
  if (elements == 0) return kernel;
  kernel.parts = std::clamp<int64_t>(all->results() / kReduceLanes, 1, 16);
  kernel.cost = 2e3 * static_cast<double>(kernel.parts) + 5.0 * static_cast<double>(elements);
  kernel.run = [all, parts = kernel.parts](const KernelArgs& args) {
    const int64_t n = all->results();
    all->run(args, args.part * n / parts, (args.part + 1) * n / parts);
  };
  return kernel;
}

}  // namespace gspmd
