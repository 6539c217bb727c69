#include "ops/common/loop_lowering.h"

#include <algorithm>

#include "gspmd/ops/builders.h"

namespace gspmd {
namespace {

struct LoopLoweringRow {
  Opcode opcode;
  LoopOp op;
};
constexpr LoopLoweringRow kLoopLoweringRows[] = {
    {Opcode::copy, LoopOp::copy},
    {Opcode::convert, LoopOp::convert},
    {Opcode::negate, LoopOp::negate},
    {Opcode::abs, LoopOp::abs},
    {Opcode::sign, LoopOp::sign},
    {Opcode::not_, LoopOp::not_},
    {Opcode::exponential, LoopOp::exp},
    {Opcode::exponential_minus_one, LoopOp::expm1},
    {Opcode::log, LoopOp::log},
    {Opcode::log_plus_one, LoopOp::log1p},
    {Opcode::tanh, LoopOp::tanh},
    {Opcode::logistic, LoopOp::logistic},
    {Opcode::sqrt, LoopOp::sqrt},
    {Opcode::rsqrt, LoopOp::rsqrt},
    {Opcode::sine, LoopOp::sine},
    {Opcode::cosine, LoopOp::cosine},
    {Opcode::floor, LoopOp::floor},
    {Opcode::ceil, LoopOp::ceil},
    {Opcode::is_finite, LoopOp::is_finite},
    {Opcode::add, LoopOp::add},
    {Opcode::subtract, LoopOp::subtract},
    {Opcode::multiply, LoopOp::multiply},
    {Opcode::divide, LoopOp::divide},
    {Opcode::remainder, LoopOp::remainder},
    {Opcode::maximum, LoopOp::maximum},
    {Opcode::minimum, LoopOp::minimum},
    {Opcode::power, LoopOp::power},
    {Opcode::and_, LoopOp::and_},
    {Opcode::or_, LoopOp::or_},
    {Opcode::xor_, LoopOp::xor_},
    {Opcode::shift_left, LoopOp::shift_left},
    {Opcode::shift_right_arithmetic, LoopOp::shift_right_arithmetic},
    {Opcode::shift_right_logical, LoopOp::shift_right_logical},
    {Opcode::select, LoopOp::select},
    {Opcode::clamp, LoopOp::clamp},
};

std::optional<LoopOp> compare_op(const Node& node) {
  if (node.attrs.compare_type == "TOTALORDER") return std::nullopt;
  switch (node.attrs.direction) {
    case Direction::eq:
      return LoopOp::eq;
    case Direction::ne:
      return LoopOp::ne;
    case Direction::ge:
      return LoopOp::ge;
    case Direction::gt:
      return LoopOp::gt;
    case Direction::le:
      return LoopOp::le;
    case Direction::lt:
      return LoopOp::lt;
  }
  return std::nullopt;
}

std::optional<LoopOp> reduce_op(const Node& node) {
  if (node.shape.is_tuple) return std::nullopt;
  const std::optional<Combiner> combiner = recognize_combiner(*node.called.at(0));
  if (!combiner) return std::nullopt;
  switch (*combiner) {
    case Combiner::sum:
      return LoopOp::reduce_sum;
    case Combiner::product:
      return LoopOp::reduce_product;
    case Combiner::max:
      return LoopOp::reduce_max;
    case Combiner::min:
      return LoopOp::reduce_min;
    case Combiner::logical_and:
      return LoopOp::reduce_and;
    case Combiner::logical_or:
      return LoopOp::reduce_or;
  }
  return std::nullopt;
}

bool is_reduced(const Node& reduce, int64_t dim) {
  const Dims& dims = reduce.attrs.dimensions;
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

}  // namespace

std::optional<LoopOp> loop_op(const Node& node) {
  if (node.is(Opcode::compare)) return compare_op(node);
  if (node.is(Opcode::reduce)) return reduce_op(node);
  for (const LoopLoweringRow& row : kLoopLoweringRows) {
    if (row.opcode == node.opcode()) return row.op;
  }
  return std::nullopt;
}

LoopLowering::LoopLowering(Dims space, std::vector<bool> reduced,
                           std::map<const Node*, int64_t> inputs)
    : inputs_(std::move(inputs)) {
  program_.dims = std::move(space);
  program_.reduced = std::move(reduced);
  for (size_t d = 0; d < program_.dims.size(); ++d) {
    whole_.push_back(static_cast<int64_t>(d));
    if (!program_.reduced[d]) kept_.push_back(static_cast<int64_t>(d));
  }
}

// How an operand lies in the space when the node lies as `embedding` says.
std::optional<LoopLowering::Embedding> LoopLowering::operand_embedding(
    const Node& node, int64_t operand, const Embedding& embedding) const {
  const Node& x = *node.operand(operand);
  Embedding out;
  switch (node.opcode()) {
    case Opcode::broadcast:
      for (const int64_t d : node.attrs.dimensions)
        out.push_back(embedding.at(static_cast<size_t>(d)));
      return out;
    case Opcode::transpose:
      out.resize(embedding.size());
      for (size_t d = 0; d < embedding.size(); ++d) {
        out[static_cast<size_t>(node.attrs.dimensions.at(d))] = embedding[d];
      }
      return out;
    case Opcode::reshape: {  // only dims of size 1 come or go
      size_t from = 0;
      for (const int64_t size : x.dims()) {
        while (from < embedding.size() && node.dims()[from] == 1) ++from;
        if (size == 1) {
          out.push_back(-1);
        } else if (from < embedding.size() && node.dims()[from] == size) {
          out.push_back(embedding[from++]);
        } else {
          return std::nullopt;
        }
      }
      while (from < embedding.size() && node.dims()[from] == 1) ++from;
      if (from != embedding.size()) return std::nullopt;
      return out;
    }
    case Opcode::reduce: {
      if (operand == 1) return Embedding{};
      if (embedding != kept_ || x.dims() != program_.dims) return std::nullopt;
      for (size_t d = 0; d < program_.dims.size(); ++d) {
        if (is_reduced(node, static_cast<int64_t>(d)) != program_.reduced[d]) return std::nullopt;
      }
      return whole_;
    }
    default:
      if (!node.op().has(kElementwise)) return std::nullopt;
      if (x.dims() == node.dims()) return embedding;
      return x.rank() == 0 ? std::optional(Embedding{}) : std::nullopt;
  }
}

bool LoopLowering::demand(const Node& node, const Embedding& embedding) {
  demanded_[&node].insert(embedding);
  return !node.shape.is_tuple && is_loop_dtype(node.shape.dtype);
}

bool LoopLowering::demand_operands(const Node& node, const Embedding& embedding) {
  for (size_t i = 0; i < node.operands().size(); ++i) {
    const auto operand = static_cast<int64_t>(i);
    const std::optional<Embedding> inner = operand_embedding(node, operand, embedding);
    if (!inner || !demand(*node.operand(operand), *inner)) return false;
  }
  return true;
}

int LoopLowering::value_of(const Node& node, const Embedding& embedding) const {
  return values_.at({&node, embedding});
}

LoopValue LoopLowering::input(const Node& node, int64_t number, const Embedding& embedding) const {
  LoopValue v;
  v.op = LoopOp::operand;
  v.dtype = node.shape.dtype;
  v.operand = number;
  v.strides.assign(program_.dims.size(), 0);
  const Dims strides = row_major_strides(node.dims());
  for (size_t d = 0; d < embedding.size(); ++d) {
    if (embedding[d] >= 0 && node.dims()[d] != 1)
      v.strides[static_cast<size_t>(embedding[d])] += strides[d];
  }
  return v;
}

bool LoopLowering::emit(const Node& node, const Embedding& embedding) {
  LoopValue v;
  v.dtype = node.shape.dtype;
  if (const auto found = inputs_.find(&node); found != inputs_.end()) {
    v = input(node, found->second, embedding);
  } else if (node.is(Opcode::constant)) {
    if (node.shape.elements_count() != 1 || node.attrs.literal.empty()) return false;
    v.op = LoopOp::constant;
    v.constant = node.attrs.literal;
  } else if (node.is(Opcode::iota)) {
    v.op = LoopOp::iota;
    v.operand = embedding.at(static_cast<size_t>(node.attrs.index));
    if (v.operand < 0) {  // a dim of size 1
      v.op = LoopOp::constant;
      v.constant = Array(Shape(node.shape.dtype, {}));
    }
  } else if (node.is(Opcode::broadcast) || node.is(Opcode::transpose) || node.is(Opcode::reshape)) {
    values_[{&node, embedding}] =
        value_of(*node.operand(0), *operand_embedding(node, 0, embedding));
    return true;
  } else {
    const std::optional<LoopOp> op = loop_op(node);
    if (!op || node.operands().size() > 3) return false;
    v.op = *op;
    int* const slots[] = {&v.a, &v.b, &v.c};
    for (size_t i = 0; i < node.operands().size(); ++i) {
      const auto operand = static_cast<int64_t>(i);
      *slots[i] = value_of(*node.operand(operand), *operand_embedding(node, operand, embedding));
    }
  }
  values_[{&node, embedding}] = static_cast<int>(program_.values.size());
  program_.values.push_back(std::move(v));
  return true;
}

// An output is written where its value stands, into the place of an operand that is read before the
// node, but not before what the node is another view of.
void LoopLowering::put_here(const Node& node, const Embedding& embedding) {
  int& value = values_.at({&node, embedding});
  if (value + 1 == std::ssize(program_.values)) return;
  LoopValue copy;
  copy.op = LoopOp::copy;
  copy.dtype = node.shape.dtype;
  copy.a = value;
  value = static_cast<int>(program_.values.size());
  program_.values.push_back(std::move(copy));
}

std::optional<LoopProgram> LoopLowering::lower(const std::vector<const Node*>& nodes,
                                               const std::vector<const Node*>& outputs) {
  Dims kept_dims;
  for (const int64_t d : kept_) kept_dims.push_back(program_.dims[static_cast<size_t>(d)]);
  for (const Node* output : outputs) {
    const bool whole = output->dims() == program_.dims;
    if (!whole && output->dims() != kept_dims) return std::nullopt;
    if (!demand(*output, whole ? whole_ : kept_)) return std::nullopt;
  }
  for (size_t i = nodes.size(); i-- > 0;) {
    if (inputs_.count(nodes[i]) > 0) continue;
    const auto found = demanded_.find(nodes[i]);
    if (found == demanded_.end()) continue;
    for (const Embedding& embedding : std::set<Embedding>(found->second)) {
      if (!demand_operands(*nodes[i], embedding)) return std::nullopt;
    }
  }
  for (const Node* node : nodes) {
    const auto found = demanded_.find(node);
    if (found == demanded_.end()) continue;
    const bool is_output = std::find(outputs.begin(), outputs.end(), node) != outputs.end();
    for (const Embedding& embedding : found->second) {
      if (!emit(*node, embedding)) return std::nullopt;
      if (is_output) put_here(*node, embedding);
    }
  }
  for (const Node* output : outputs) {
    const bool whole = output->dims() == program_.dims;
    program_.outputs.push_back({value_of(*output, whole ? whole_ : kept_), !whole});
  }
  return program_;
}

namespace {

PreparedKernel prepare(const std::vector<const Node*>& nodes,
                       const std::vector<const Node*>& outputs,
                       std::map<const Node*, int64_t> inputs) {
  Dims space = outputs.at(0)->dims();
  for (const Node* output : outputs) {
    if (output->shape.is_tuple) return {};
    if (output->shape.elements_count() > Shape(DType::pred, space).elements_count())
      space = output->dims();
  }
  std::vector<bool> reduced(space.size(), false);
  for (const Node* node : nodes) {
    if (!node->is(Opcode::reduce) || inputs.count(node) > 0) continue;
    space = node->operand(0)->dims();
    reduced.assign(space.size(), false);
    for (const int64_t d : node->attrs.dimensions) reduced[static_cast<size_t>(d)] = true;
  }
  const std::optional<LoopProgram> program =
      LoopLowering(space, std::move(reduced), std::move(inputs)).lower(nodes, outputs);
  return program ? prepare_loop(*program) : PreparedKernel{};
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
  return prepare(nodes, {&node}, std::move(inputs));
}

PreparedKernel lower_loop_fusion(const Node& node) {
  const Computation& fused = *node.called.at(0);
  std::vector<const Node*> nodes;
  std::map<const Node*, int64_t> inputs;
  for (const auto& inner : fused.nodes()) {
    nodes.push_back(inner.get());
    if (inner->is(Opcode::parameter)) inputs[inner.get()] = inner->attrs.index;
  }
  std::vector<const Node*> outputs{fused.root()};
  if (fused.root()->is(Opcode::tuple)) {
    outputs.assign(fused.root()->operands().begin(), fused.root()->operands().end());
  }
  return prepare(nodes, outputs, std::move(inputs));
}

}  // namespace gspmd
