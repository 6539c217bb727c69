#include "ops/reduce/called_reduce.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "ops/common/check.h"
#include "ops/common/combiner_lanes.h"
#include "ops/common/loops.h"

namespace gspmd {
namespace {

constexpr int64_t kReduceLanes = 128;  // results that are put together at once
constexpr int64_t kFewResults = 16;

}  // namespace

CalledReduce::CalledReduce(const Node& reduce)
    : node_(reduce), loop_(prepare_combiner_loop(*reduce.called[0], kReduceLanes)) {
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
  static const PreparedKernel kNone;  // of few results a loop would make many that nobody wants
  CombinerLanes lanes(*node_.called[0], last - first < kFewResults ? kNone : loop_, kReduceLanes);
  const size_t inputs = lanes.inputs();
  for (int64_t begin = first; begin < last; begin += kReduceLanes) {
    const auto count = static_cast<size_t>(std::min(last - begin, kReduceLanes));
    std::vector<int64_t> offsets;
    bool side_by_side = true;
    for (size_t r = 0; r < count; ++r) {
      offsets.push_back(offset_of(begin + int64_t(r)));
      side_by_side &= offsets[r] == offsets[0] + int64_t(r);
    }
    for (size_t i = 0; i < inputs; ++i) lanes.fill(i, args.operands[inputs + i], count);
    for_each_offset<1>(reduced_, {reduced_strides_}, {0}, [&](const std::array<int64_t, 1>& at) {
      for (size_t i = 0; i < inputs; ++i) {
        const std::byte* const from = args.operands[i] + at[0] * int64_t(lanes.size(i));
        if (side_by_side)
          std::memcpy(lanes.values(i), from + offsets[0] * int64_t(lanes.size(i)),
                      count * lanes.size(i));
        else
          lanes.gather(i, from, offsets, count);
      }
      lanes.combine(count);
    });
    for (size_t i = 0; i < inputs; ++i)
      std::memcpy(args.results[i] + begin * int64_t(lanes.size(i)), lanes.sums(i),
                  count * lanes.size(i));
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
