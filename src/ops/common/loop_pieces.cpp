// Loops whose steps read one operand of a concatenation or pad or another, as pieces.
#include <algorithm>
#include <set>

#include "ops/common/loop_lowering.h"

namespace gspmd {

LoopView loop_view(const Node& node) {
  if (node.is(Opcode::slice)) return LoopView::slice;
  if (node.is(Opcode::concatenate) || node.is(Opcode::pad)) return LoopView::join;
  if (!node.is(Opcode::reshape)) return LoopView::none;
  const auto others = [](const Node& of) {
    Dims dims = of.dims();
    std::erase(dims, 1);
    return dims;
  };
  return others(node) == others(*node.operand(0)) ? LoopView::unit_reshape : LoopView::none;
}

namespace {

constexpr size_t kMostPieces = 16;

// Both parts of a box, or all classes.
std::vector<LoopBox> parts_of(const LoopBox& box, const LoopCut& cut) {
  std::vector<LoopBox> parts;
  const int64_t count = box.count[cut.dim];
  if (cut.classes == 1) {
    parts = {box, box};
    parts[0].count[cut.dim] = cut.at;
    parts[1].count[cut.dim] = count - cut.at;
    parts[1].first[cut.dim] += cut.at * box.step[cut.dim];
    return parts;
  }
  for (int64_t k = 0; k < std::min(cut.classes, count); ++k) {
    parts.push_back(box);
    parts.back().first[cut.dim] += k * box.step[cut.dim];
    parts.back().count[cut.dim] = ceil_div(count - k, cut.classes);
    parts.back().step[cut.dim] *= cut.classes;
  }
  return parts;
}

// Classes of a dim cut where others of them begin or end, so that pieces that stand in turn have as
// many steps; the next box last.
std::vector<LoopBox> aligned(std::vector<LoopBox> boxes) {
  const size_t rank = boxes.at(0).count.size();
  for (size_t d = 0; d < rank; ++d) {
    std::map<int64_t, std::set<int64_t>> bounds;  // of the boxes by step, within their class
    for (const LoopBox& box : boxes) {
      const int64_t begin = box.first[d] / box.step[d];
      bounds[box.step[d]].insert({begin, begin + box.count[d]});
    }
    for (size_t b = 0; b < boxes.size(); ++b) {  // what is behind a cut is cut on
      const LoopBox box = boxes[b];
      const int64_t begin = box.first[d] / box.step[d];
      const auto bound = bounds.at(box.step[d]).upper_bound(begin);
      if (box.step[d] == 1 || *bound >= begin + box.count[d]) continue;
      const std::vector<LoopBox> parts = parts_of(box, {d, *bound - begin, 1});
      boxes[b] = parts[0];
      boxes.push_back(parts[1]);
    }
  }
  std::reverse(boxes.begin(), boxes.end());
  return boxes;
}

// Over what a loop goes.
struct Space {
  Dims dims;
  std::vector<bool> reduced;
};

std::optional<Space> space_of(const std::vector<const Node*>& nodes,
                              const std::vector<const Node*>& outputs,
                              const std::map<const Node*, int64_t>& inputs) {
  Space space{outputs.at(0)->dims(), {}};
  for (const Node* output : outputs) {
    if (output->shape.is_tuple) return std::nullopt;
    if (output->shape.elements_count() > Shape(DType::pred, space.dims).elements_count())
      space.dims = output->dims();
  }
  space.reduced.assign(space.dims.size(), false);
  for (const Node* node : nodes) {
    if (!node->is(Opcode::reduce) || inputs.count(node) > 0) continue;
    space.dims = node->operand(0)->dims();
    space.reduced.assign(space.dims.size(), false);
    for (const int64_t d : node->attrs.dimensions) space.reduced[static_cast<size_t>(d)] = true;
  }
  return space;
}

// Programs that write the outputs piece by piece; none where they are no loops.
std::vector<LoopProgram> lower_pieces(const std::vector<const Node*>& nodes,
                                      const std::vector<const Node*>& outputs,
                                      const std::map<const Node*, int64_t>& inputs) {
  const std::optional<Space> space = space_of(nodes, outputs, inputs);
  if (!space) return {};
  const size_t rank = space->dims.size();
  std::vector<LoopBox> pending{{Dims(rank, 0), space->dims, Dims(rank, 1)}};  // the next one last
  for (const bool is_aligned : {false, true}) {
    std::vector<LoopProgram> programs;
    std::vector<LoopBox> boxes;
    while (!pending.empty()) {
      if (boxes.size() + pending.size() > kMostPieces) return {};
      const LoopBox box = std::move(pending.back());
      pending.pop_back();
      LoopLowering lowering(space->dims, box, space->reduced, inputs);
      if (std::optional<LoopProgram> program = lowering.lower(nodes, outputs)) {
        programs.push_back(std::move(*program));
        boxes.push_back(box);
      } else if (lowering.cut()) {
        const std::vector<LoopBox> parts = parts_of(box, *lowering.cut());
        pending.insert(pending.end(), parts.rbegin(), parts.rend());
      } else {
        return {};
      }
    }
    pending = aligned(boxes);
    if (is_aligned || pending.size() == boxes.size() || pending.size() > kMostPieces)
      return programs;
  }
  return {};
}

constexpr size_t kMostValues = 96;  // of pieces that become one

bool is_same(const LoopValue& a, const LoopValue& b) {
  const bool constants = a.op == LoopOp::constant && b.op == LoopOp::constant;
  return a.op == b.op && a.dtype == b.dtype && a.a == b.a && a.b == b.b && a.c == b.c &&
         a.operand == b.operand && a.strides == b.strides && a.offset == b.offset &&
         (!constants || bitwise_equal(a.constant, b.constant));
}

// Whether both read an operand at most a line apart in each step.
bool reads_near(const LoopValue& a, const LoopValue& b) {
  constexpr int64_t kNear = 16;
  return a.op == LoopOp::operand && b.op == LoopOp::operand && a.operand == b.operand &&
         a.strides == b.strides && std::abs(a.offset - b.offset) <= kNear;
}

// Puts the values and outputs of `from`, over as many steps, behind those of `into`, what both have
// once. False, and nothing is changed, where they read no operand at almost the same places.
bool merge(LoopProgram& into, const LoopProgram& from) {
  if (into.dims != from.dims || into.values.size() + from.values.size() > kMostValues) return false;
  LoopProgram both = into;
  std::vector<int> at;  // of the values of `from`
  bool shares = false;
  for (LoopValue value : from.values) {
    for (int* input : {&value.a, &value.b, &value.c})
      if (*input >= 0) *input = at[static_cast<size_t>(*input)];
    const auto found = std::find_if(both.values.begin(), both.values.end(),
                                    [&](const LoopValue& v) { return is_same(v, value); });
    shares |= std::any_of(into.values.begin(), into.values.end(),
                          [&](const LoopValue& v) { return reads_near(v, value); });
    at.push_back(static_cast<int>(found - both.values.begin()));
    if (found == both.values.end()) both.values.push_back(std::move(value));
  }
  for (LoopOutput output : from.outputs) {
    output.value = at[static_cast<size_t>(output.value)];
    both.outputs.push_back(std::move(output));
  }
  if (shares) into = std::move(both);
  return shares;
}

// Pieces that go through the same operands in as many steps become one.
std::vector<LoopProgram> merged(std::vector<LoopProgram> pieces) {
  std::vector<LoopProgram> result;
  for (LoopProgram& piece : pieces) {
    for (size_t o = 0; o < piece.outputs.size(); ++o)
      piece.outputs[o].result = static_cast<int64_t>(o);
    const bool done = std::any_of(result.begin(), result.end(),
                                  [&](LoopProgram& into) { return merge(into, piece); });
    if (!done) result.push_back(std::move(piece));
  }
  return result;
}

PreparedKernel prepare(const std::vector<const Node*>& nodes,
                       const std::vector<const Node*>& outputs,
                       const std::map<const Node*, int64_t>& inputs) {
  std::vector<LoopProgram> pieces = lower_pieces(nodes, outputs, inputs);
  return pieces.empty() ? PreparedKernel{} : prepare_loop_pieces(merged(std::move(pieces)));
}

// A fused computation as lists.
struct Fused {
  std::vector<const Node*> nodes, outputs;
  std::map<const Node*, int64_t> inputs;
};

Fused lists_of(const Computation& fused) {
  Fused lists;
  for (const auto& inner : fused.nodes()) {
    lists.nodes.push_back(inner.get());
    if (inner->is(Opcode::parameter)) lists.inputs[inner.get()] = inner->attrs.index;
  }
  lists.outputs = {fused.root()};
  if (fused.root()->is(Opcode::tuple))
    lists.outputs.assign(fused.root()->operands().begin(), fused.root()->operands().end());
  return lists;
}

}  // namespace

PreparedKernel lower_loop_node(const Node& node) {
  std::vector<const Node*> nodes;
  std::map<const Node*, int64_t> inputs;
  for (size_t i = 0; i < node.operands().size(); ++i) {
    if (inputs.emplace(node.operands()[i], static_cast<int64_t>(i)).second)
      nodes.push_back(node.operands()[i]);
  }
  nodes.push_back(&node);
  return prepare(nodes, {&node}, inputs);
}

PreparedKernel lower_loop_fusion(const Node& node) {
  const Fused fused = lists_of(*node.called.at(0));
  return prepare(fused.nodes, fused.outputs, fused.inputs);
}

bool is_loop_program(const Computation& fused) {
  const Fused lists = lists_of(fused);
  return !lower_pieces(lists.nodes, lists.outputs, lists.inputs).empty();
}

}  // namespace gspmd
