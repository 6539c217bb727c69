#include "ops/common/loop_lowering.h"

#include <algorithm>
#include <numeric>

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
    {Opcode::popcnt, LoopOp::popcnt},
    {Opcode::count_leading_zeros, LoopOp::count_leading_zeros},
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
    {Opcode::tan, LoopOp::tan},
    {Opcode::erf, LoopOp::erf},
    {Opcode::cbrt, LoopOp::cbrt},
    {Opcode::floor, LoopOp::floor},
    {Opcode::ceil, LoopOp::ceil},
    {Opcode::round_nearest_afz, LoopOp::round_nearest_afz},
    {Opcode::round_nearest_even, LoopOp::round_nearest_even},
    {Opcode::is_finite, LoopOp::is_finite},
    {Opcode::add, LoopOp::add},
    {Opcode::subtract, LoopOp::subtract},
    {Opcode::multiply, LoopOp::multiply},
    {Opcode::divide, LoopOp::divide},
    {Opcode::remainder, LoopOp::remainder},
    {Opcode::maximum, LoopOp::maximum},
    {Opcode::minimum, LoopOp::minimum},
    {Opcode::power, LoopOp::power},
    {Opcode::atan2, LoopOp::atan2},
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

// To a format that holds all numbers of the type, or to that of bf16.
std::optional<LoopOp> precision_op(const Node& node) {
  const ScalarAttributes& attrs = node.attrs.scalar;
  const int64_t exponent = attrs.exponent_bits, mantissa = attrs.mantissa_bits;
  const auto holds = [&](int64_t e, int64_t m) { return exponent >= e && mantissa >= m; };
  const bool is_float = node.shape.dtype == DType::f32;
  if (is_float && exponent >= 8 && mantissa == 7) return LoopOp::round_to_bf16;
  const bool keeps = (is_float && holds(8, 23)) || (node.shape.dtype == DType::bf16 && holds(8, 7));
  return keeps ? std::optional(LoopOp::copy) : std::nullopt;
}

// xor(a, b): no Combiner, as no collective has it.
bool is_xor(const Computation& combiner) {
  const Node& root = *combiner.root();
  const auto& parameters = combiner.parameters();
  if (!root.is(Opcode::xor_) || parameters.size() != 2) return false;
  const Node *a = root.operand(0), *b = root.operand(1);
  return a != b && a->is(Opcode::parameter) && b->is(Opcode::parameter);
}

std::optional<LoopOp> reduce_op(const Node& node) {
  if (node.shape.is_tuple) return std::nullopt;
  const std::optional<Combiner> combiner = recognize_combiner(*node.called.at(0));
  if (!combiner) return is_xor(*node.called[0]) ? std::optional(LoopOp::reduce_xor) : std::nullopt;
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

bool is_view(Opcode opcode) {
  return opcode == Opcode::broadcast || opcode == Opcode::transpose || opcode == Opcode::reshape ||
         opcode == Opcode::slice || opcode == Opcode::concatenate || opcode == Opcode::pad;
}

bool is_reduced(const Node& reduce, int64_t dim) {
  const Dims& dims = reduce.attrs.dimensions;
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

}  // namespace

std::optional<LoopOp> loop_op(const Node& node) {
  if (node.is(Opcode::compare)) return compare_op(node);
  if (node.is(Opcode::reduce)) return reduce_op(node);
  if (node.is(Opcode::reduce_precision)) return precision_op(node);
  if (node.is(Opcode::power) && !is_floating(node.shape.dtype)) return std::nullopt;  // no loop
  for (const LoopLoweringRow& row : kLoopLoweringRows) {
    if (row.opcode == node.opcode()) return row.op;
  }
  return std::nullopt;
}

const Dims* loop_steps(const Node& node) {
  if (node.op().has(kElementwise)) return &node.dims();
  return node.is(Opcode::reduce) && !node.shape.is_tuple ? &node.operand(0)->dims() : nullptr;
}

LoopLowering::LoopLowering(Dims space, std::vector<bool> reduced,
                           std::map<const Node*, int64_t> inputs)
    : LoopLowering(space, {Dims(space.size(), 0), space, Dims(space.size(), 1)}, std::move(reduced),
                   std::move(inputs)) {}

LoopLowering::LoopLowering(Dims space, LoopBox box, std::vector<bool> reduced,
                           std::map<const Node*, int64_t> inputs)
    : space_(std::move(space)), box_(std::move(box)), inputs_(std::move(inputs)) {
  program_.dims = box_.count;
  program_.reduced = std::move(reduced);
  for (size_t d = 0; d < space_.size(); ++d) {
    whole_.push_back({static_cast<int64_t>(d), box_.step[d], box_.first[d]});
    if (program_.reduced[d]) continue;
    kept_.push_back(whole_.back());
    kept_dims_.push_back(space_[d]);
  }
}

// Only dims of size 1 come or go.
std::optional<LoopLowering::Embedding> LoopLowering::reshaped(const Node& node,
                                                              const Embedding& embedding) const {
  Embedding out;
  size_t from = 0;
  for (const int64_t size : node.operand(0)->dims()) {
    while (from < embedding.size() && node.dims()[from] == 1) ++from;
    if (size == 1) {
      out.push_back({});
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
    case Opcode::slice:
      for (size_t d = 0; d < embedding.size(); ++d) {
        const int64_t step = node.attrs.strides.empty() ? 1 : node.attrs.strides[d];
        const Place& at = embedding[d];
        out.push_back({at.dim, at.scale * step, at.start * step + node.attrs.starts[d]});
      }
      return out;
    case Opcode::reshape:
      return reshaped(node, embedding);
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

int64_t LoopLowering::last(const Place& place) const {
  if (place.dim < 0) return place.start;
  return place.start + place.scale * (box_.count[static_cast<size_t>(place.dim)] - 1);
}

// At the first step whose index is not below this one.
void LoopLowering::cut_before(const Place& place, int64_t index) {
  cut_ = LoopCut{static_cast<size_t>(place.dim), ceil_div(index - place.start, place.scale), 1};
}

std::optional<std::vector<LoopLowering::Reading>> LoopLowering::concatenated(
    const Node& node, const Embedding& embedding) {
  const auto dim = static_cast<size_t>(node.attrs.dimensions.at(0));
  const Place& at = embedding.at(dim);
  int64_t begin = 0;
  for (size_t i = 0; i < node.operands().size(); ++i) {
    const int64_t end = begin + node.operands()[i]->dims()[dim];
    if (at.start >= begin && at.start < end) {
      if (last(at) >= end) {
        cut_before(at, end);
        return std::nullopt;
      }
      Embedding inner = embedding;
      inner[dim].start -= begin;
      return std::vector<Reading>{{static_cast<int64_t>(i), std::move(inner)}};
    }
    begin = end;
  }
  return std::nullopt;
}

std::optional<std::vector<LoopLowering::Reading>> LoopLowering::padded(const Node& node,
                                                                       const Embedding& embedding) {
  const Dims& dims = node.operand(0)->dims();
  const std::vector<Reading> padding{{1, {}}};
  Embedding inner = embedding;
  std::optional<LoopCut> cut;
  const auto wants = [&](const Place& place, int64_t index) {
    cut_before(place, index);
    cut = cut_;
    cut_.reset();
  };
  for (size_t d = 0; d < embedding.size(); ++d) {
    const PaddingDim& padding_of = node.attrs.padding.at(d);
    const int64_t low = padding_of.low, apart = padding_of.interior + 1;
    const int64_t end = low + (dims[d] - 1) * apart;  // the last element
    const Place& at = embedding[d];
    if (last(at) < low || at.start > end) return padding;
    if (at.scale % apart != 0) {
      cut = LoopCut{static_cast<size_t>(at.dim), 0, apart / std::gcd(at.scale, apart)};
    } else if ((at.start - low) % apart != 0) {
      return padding;
    } else if (at.start < low) {
      wants(at, low);
    } else if (last(at) > end) {
      wants(at, end + 1);
    } else {
      inner[d] = {at.dim, at.scale / apart, (at.start - low) / apart};
    }
  }
  if (!cut) return std::vector<Reading>{{0, std::move(inner)}};
  cut_ = cut;
  return std::nullopt;
}

// What is read of which operands.
std::optional<std::vector<LoopLowering::Reading>> LoopLowering::readings(
    const Node& node, const Embedding& embedding) {
  if (node.is(Opcode::concatenate)) return concatenated(node, embedding);
  if (node.is(Opcode::pad)) return padded(node, embedding);
  std::vector<Reading> all;
  for (size_t i = 0; i < node.operands().size(); ++i) {
    const auto operand = static_cast<int64_t>(i);
    std::optional<Embedding> inner = operand_embedding(node, operand, embedding);
    if (!inner) return std::nullopt;
    all.push_back({operand, std::move(*inner)});
  }
  return all;
}

bool LoopLowering::demand(const Node& node, const Embedding& embedding) {
  demanded_[&node].insert(embedding);
  return !node.shape.is_tuple && is_loop_dtype(node.shape.dtype);
}

bool LoopLowering::demand_operands(const Node& node, const Embedding& embedding) {
  const std::optional<std::vector<Reading>> all = readings(node, embedding);
  return all && std::all_of(all->begin(), all->end(), [&](const Reading& r) {
           return demand(*node.operand(r.operand), r.embedding);
         });
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
    const Place& at = embedding[d];
    v.offset += at.start * strides[d];
    if (at.dim >= 0 && node.dims()[d] != 1)
      v.strides[static_cast<size_t>(at.dim)] += at.scale * strides[d];
  }
  return v;
}

LoopValue LoopLowering::iota(const Node& node, const Place& place) const {
  LoopValue v;
  v.dtype = node.shape.dtype;
  if (place.dim < 0) {
    v.op = LoopOp::constant;
    v.constant = Array::full(Shape(node.shape.dtype, {}), static_cast<double>(place.start));
    return v;
  }
  v.op = LoopOp::iota;
  v.operand = place.dim;
  v.offset = place.start;
  if (place.scale == 1) return v;
  v.strides.assign(program_.dims.size(), 0);
  v.strides[static_cast<size_t>(place.dim)] = place.scale;
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
    v = iota(node, embedding.at(static_cast<size_t>(node.attrs.index)));
  } else if (is_view(node.opcode())) {
    const Reading read = readings(node, embedding)->at(0);
    values_[{&node, embedding}] = value_of(*node.operand(read.operand), read.embedding);
    return true;
  } else {
    const std::optional<LoopOp> op = loop_op(node);
    if (!op || node.operands().size() > 3) return false;
    v.op = *op;
    int* const slots[] = {&v.a, &v.b, &v.c};
    const std::optional<std::vector<Reading>> all = readings(node, embedding);
    for (const Reading& read : *all)
      *slots[read.operand] = value_of(*node.operand(read.operand), read.embedding);
  }
  const bool rounds = v.op == LoopOp::round_to_bf16;
  const int x = v.a;
  program_.values.push_back(std::move(v));
  if (rounds) keep_nans(x);
  values_[{&node, embedding}] = static_cast<int>(program_.values.size()) - 1;
  return true;
}

// The last value, but x where that is NaN, of which reduce-precision changes no bit.
void LoopLowering::keep_nans(int x) {
  const int rounded = static_cast<int>(program_.values.size()) - 1;
  program_.values.push_back({LoopOp::ne, DType::pred, x, x});
  program_.values.push_back({LoopOp::select, DType::f32, rounded + 1, x, rounded});
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

// Over the whole space, or over the kept dims, between which dims of size 1 may stand.
std::optional<LoopLowering::Embedding> LoopLowering::place_of_output(const Node& node) const {
  if (node.dims() == space_) return whole_;
  if (box_.count != space_) return std::nullopt;
  Embedding place;
  size_t kept = 0;
  for (const int64_t size : node.dims()) {
    if (kept < kept_dims_.size() && size == kept_dims_[kept])
      place.push_back(kept_[kept++]);
    else if (size == 1)
      place.push_back({});
    else
      return std::nullopt;
  }
  return kept == kept_dims_.size() ? std::optional(std::move(place)) : std::nullopt;
}

std::optional<LoopProgram> LoopLowering::lower(const std::vector<const Node*>& nodes,
                                               const std::vector<const Node*>& outputs) {
  for (const Node* output : outputs) {
    const std::optional<Embedding> place = place_of_output(*output);
    if (!place || !demand(*output, *place)) return std::nullopt;
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
  for (const Node* node : outputs) program_.outputs.push_back(output(*node));
  return program_;
}

LoopOutput LoopLowering::output(const Node& node) const {
  const bool whole = node.dims() == space_;
  LoopOutput out{value_of(node, *place_of_output(node)), !whole, {}, 0};
  if (box_.count == space_) return out;
  out.strides = row_major_strides(space_);
  for (size_t d = 0; d < space_.size(); ++d) {
    out.offset += box_.first[d] * out.strides[d];
    out.strides[d] *= box_.step[d];
  }
  return out;
}

}  // namespace gspmd
