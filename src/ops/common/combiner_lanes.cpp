#include "ops/common/combiner_lanes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ops/common/loop_lowering.h"

namespace gspmd {
namespace {

template <size_t kSize>
void gather_lanes(std::byte* to, const std::byte* from, const int64_t* offsets, size_t count) {
  for (size_t lane = 0; lane < count; ++lane)
    std::memcpy(to + lane * kSize, from + offsets[lane] * static_cast<int64_t>(kSize), kSize);
}

}  // namespace

PreparedKernel prepare_combiner_loop(const Computation& combiner, int64_t lanes) {
  const Node& root = *combiner.root();
  std::vector<const Node*> nodes, results{&root};
  std::map<const Node*, int64_t> inputs;
  for (const auto& node : combiner.nodes()) {
    nodes.push_back(node.get());
    if (node->is(Opcode::parameter)) inputs[node.get()] = node->attrs.index;
  }
  if (root.is(Opcode::tuple)) results.assign(root.operands().begin(), root.operands().end());
  // A loop writes each of its values once.
  if (std::set<const Node*>(results.begin(), results.end()).size() != results.size()) return {};
  std::optional<LoopProgram> program = LoopLowering({}, {}, inputs).lower(nodes, results);
  if (!program) return {};
  program->dims = {lanes};
  for (LoopValue& value : program->values)
    if (value.op == LoopOp::operand) value.strides = {1};
  PreparedKernel kernel = prepare_loop(*program);
  return kernel.run && kernel.parts == 1 && !kernel.prepare ? kernel : PreparedKernel{};
}

CombinerLanes::CombinerLanes(const Computation& combiner, const PreparedKernel& loop, size_t lanes)
    : loop_(loop), scratch_(static_cast<size_t>(loop.scratch_bytes) + 64) {
  for (const Shape& leaf : leaf_shapes(combiner.root()->shape)) {
    inputs_.push_back({static_cast<size_t>(dtype_size(leaf.dtype)), {}, {}, {}});
    Input& input = inputs_.back();
    for (auto* room : {&input.sums, &input.values, &input.before}) room->resize(lanes * input.size);
  }
  if (!loop.run) program_ = std::make_unique<ScalarProgram>(combiner, interpreter_.call(), lanes);
}

void CombinerLanes::fill(size_t i, const std::byte* element, size_t count) {
  for (size_t lane = 0; lane < count; ++lane)
    std::memcpy(sums(i) + lane * size(i), element, size(i));
}

void CombinerLanes::gather(size_t i, const std::byte* from, const std::vector<int64_t>& offsets,
                           size_t count) {
  std::byte* const to = values(i);
  switch (size(i)) {
    case 1:
      return gather_lanes<1>(to, from, offsets.data(), count);
    case 2:
      return gather_lanes<2>(to, from, offsets.data(), count);
    case 4:
      return gather_lanes<4>(to, from, offsets.data(), count);
    case 8:
      return gather_lanes<8>(to, from, offsets.data(), count);
    default:
      return gather_lanes<16>(to, from, offsets.data(), count);
  }
}

void CombinerLanes::combine(size_t count) {
  const size_t n = inputs_.size();
  if (program_ == nullptr) {
    std::vector<const std::byte*> operands(2 * n);
    std::vector<std::byte*> results(n);
    for (size_t i = 0; i < n; ++i) {
      operands[i] = inputs_[i].sums.data();
      operands[n + i] = inputs_[i].values.data();
      results[i] = inputs_[i].before.data();
    }
    const size_t beyond = reinterpret_cast<uintptr_t>(scratch_.data()) % 64;
    loop_.run({operands.data(), results.data(), scratch_.data() + (64 - beyond) % 64});
  } else {
    for (size_t i = 0; i < n; ++i) {
      const size_t bytes = count * inputs_[i].size;
      std::memcpy(program_->lanes(i), inputs_[i].sums.data(), bytes);
      std::memcpy(program_->lanes(n + i), inputs_[i].values.data(), bytes);
    }
    program_->run(count);
    for (size_t i = 0; i < n; ++i)
      std::memcpy(inputs_[i].before.data(), program_->result(i), count * inputs_[i].size);
  }
  for (Input& input : inputs_) std::swap(input.sums, input.before);
}

void CombinerLanes::take_back(size_t lane, size_t count) {
  for (Input& input : inputs_)
    std::memcpy(input.sums.data() + lane * input.size, input.before.data() + lane * input.size,
                count * input.size);
}

}  // namespace gspmd
