#include "ops/dot/hidden_columns.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "gspmd/ops/builders.h"
#include "ops/dot/row_blocks.h"

namespace gspmd {
namespace {

constexpr int64_t kColumnMultiple = 64;  // strips of operands begin there, and lanes of sums
constexpr int64_t kColumnSteps = 16;     // how many numbers of columns there are at most
constexpr double kFarBelow = 110;        // exp(-104) is zero in f32

bool is_widest(const Node& node) { return node.shape.dtype == DType::f64; }

std::optional<double> scalar_of(const Node& node) {
  if (!node.is(Opcode::constant) || node.attrs.literal.empty() ||
      node.shape.elements_count() != 1 || is_complex(node.shape.dtype))
    return std::nullopt;
  return node.attrs.literal.at(0);
}

// How the operand of a reshape that only moves dims of size 1 lies; -1: such a dim.
std::vector<int64_t> reshaped(const Node& x, const std::vector<int64_t>& embedding) {
  std::vector<int64_t> inner;
  size_t at = 0;
  for (const int64_t size : x.operand(0)->dims()) {
    while (size != 1 && x.dims()[at] == 1) ++at;
    inner.push_back(size == 1 ? -1 : embedding[at++]);
  }
  return inner;
}

// The value of rows behind dims of size 1 that come and go.
const Node& without_views(const Node& x) {
  const Node* at = &x;
  while (moves_ones(*at)) at = at->operand(0);
  return *at;
}

// The least float that is `kFarBelow` above a number.
float far_above(double number) {
  auto least = static_cast<float>(number + kFarBelow);
  if (std::isinf(number)) return std::numeric_limits<float>::lowest();
  while (!(static_cast<double>(least) - number >= kFarBelow))
    least = std::nextafter(least, std::numeric_limits<float>::infinity());
  return least;
}

struct Range {
  double low, high;
};
enum class Truth : uint8_t { no, yes, unknown };

Truth is_less(const Range& a, const Range& b, bool or_equal) {
  if (or_equal ? a.high <= b.low : a.high < b.low) return Truth::yes;
  if (or_equal ? a.low > b.high : a.low >= b.high) return Truth::no;
  return Truth::unknown;
}

Truth compared(Direction direction, const Range& a, const Range& b) {
  switch (direction) {
    case Direction::lt:
    case Direction::le:
      return is_less(a, b, direction == Direction::le);
    case Direction::gt:
    case Direction::ge:
      return is_less(b, a, direction == Direction::ge);
    default: {
      const bool are_apart = a.high < b.low || b.high < a.low;
      const bool are_one = a.low == a.high && b.low == b.high && a.low == b.low;
      if (!are_apart && !are_one) return Truth::unknown;
      return are_one == (direction == Direction::eq) ? Truth::yes : Truth::no;
    }
  }
}

}  // namespace

HiddenColumns::HiddenColumns(const Computation& fused, Dims space, std::vector<const Node*> summed)
    : fused_(fused), space_(std::move(space)), summed_(std::move(summed)) {
  rows_.assign(space_.begin(), space_.end() - 1);
  whole_.resize(space_.size());
  std::iota(whole_.begin(), whole_.end(), int64_t{0});
  of_rows_.assign(whole_.begin(), whole_.end() - 1);
}

size_t HiddenColumns::number_of(const Embedding& embedding) {
  const auto found = std::find(embeddings_.begin(), embeddings_.end(), embedding);
  const auto number = static_cast<size_t>(found - embeddings_.begin());
  if (found == embeddings_.end()) embeddings_.push_back(embedding);
  return number;
}

BlockColumns HiddenColumns::live(int64_t first, int64_t last) {
  const int64_t columns = space_.back();
  const int64_t step = ceil_div(ceil_div(columns, kColumnSteps), kColumnMultiple) * kColumnMultiple;
  box_.clear();
  for (const int64_t size : space_) box_.emplace_back(0, size);
  box_[box_.size() - 2] = {first, last};
  BlockColumns live{0, columns};
  // The fewest steps behind which nothing counts, then the most before which nothing does.
  int64_t low = 1, high = ceil_div(columns, step);
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (add_nothing(middle * step, columns))
      high = middle;
    else
      low = middle + 1;
  }
  live.last = std::min(columns, high * step);
  low = 0, high -= 1;
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (add_nothing(0, middle * step))
      low = middle;
    else
      high = middle - 1;
  }
  live.first = low * step;
  if (live.last < columns) add_nothing(live.last, columns);
  if (live.last < columns) guards_.insert(found_.begin(), found_.end());
  if (live.first > 0) add_nothing(0, live.first);
  if (live.first > 0) guards_.insert(found_.begin(), found_.end());
  return live;
}

bool HiddenColumns::add_nothing(int64_t first_column, int64_t last_column) {
  box_.back() = {first_column, last_column};
  states_.clear();
  found_.clear();
  for (const auto& node : fused_.nodes())
    if (node->is(Opcode::reduce) && node->operand(0)->dims() == space_ && !reduces_to_same(*node))
      return false;
  return std::all_of(summed_.begin(), summed_.end(),
                     [&](const Node* node) { return state_of(*node, whole_).kind == State::zero; });
}

// Whether the result is the same without the columns.
bool HiddenColumns::reduces_to_same(const Node& reduce) {
  const std::optional<Combiner> combiner = recognize_combiner(*reduce.called.at(0));
  const State state = state_of(*reduce.operand(0), whole_);
  if (combiner == Combiner::sum) return state.kind == State::zero;
  if (combiner != Combiner::max) return false;
  if (state.kind != State::number && state.kind != State::zero) return false;
  const double number = state.kind == State::zero ? 0 : state.number_is;
  found_.insert({&reduce, static_cast<float>(number), false});
  return static_cast<double>(static_cast<float>(number)) == number;
}

HiddenColumns::State HiddenColumns::state_of(const Node& node, const Embedding& embedding) {
  const auto key = std::pair(&node, number_of(embedding));
  if (const auto found = states_.find(key); found != states_.end()) return found->second;
  State state = computed_state(node, embedding);
  if (state.kind == State::number && state.number_is == 0) state = {State::zero, 0, nullptr};
  states_.emplace(key, state);
  return state;
}

HiddenColumns::State HiddenColumns::computed_state(const Node& node, const Embedding& embedding) {
  if (const std::optional<double> number = scalar_of(node)) return {State::number, *number, {}};
  const bool is_small_float = node.shape.dtype == DType::f32 || node.shape.dtype == DType::bf16;
  if (node.dims() == rows_ && embedding == of_rows_) {
    const Node& row = without_views(node);
    return is_small_float && row.dims() == rows_ ? State{State::row, 0, &row} : State{};
  }
  if (is_widest(node)) return {};
  const auto operand = [&](int64_t i) { return state_of(*node.operand(i), embedding); };
  switch (node.opcode()) {
    case Opcode::broadcast: {
      Embedding inner;
      for (const int64_t d : node.attrs.dimensions)
        inner.push_back(embedding.at(static_cast<size_t>(d)));
      return state_of(*node.operand(0), inner);
    }
    case Opcode::select: {
      if (node.operand(0)->dims() != node.dims()) return {};
      const Interval chosen = interval_of(*node.operand(0), embedding);
      if (chosen.is_known && chosen.low == chosen.high) return operand(chosen.low != 0 ? 1 : 2);
      const bool both = operand(1).kind == State::zero && operand(2).kind == State::zero;
      return both ? State{State::zero, 0, nullptr} : State{};
    }
    case Opcode::multiply:
      return product_state(operand(0), operand(1));
    case Opcode::divide:
      return quotient_state(operand(0), operand(1));
    case Opcode::subtract:
      return difference_state(operand(0), operand(1));
    case Opcode::add: {
      const bool both = operand(0).kind == State::zero && operand(1).kind == State::zero;
      return both ? State{State::zero, 0, nullptr} : State{};
    }
    case Opcode::exponential:
      return operand(0).kind == State::low ? State{State::zero, 0, nullptr} : State{};
    case Opcode::negate:
      return operand(0).kind == State::zero ? operand(0) : State{};
    case Opcode::convert:
    case Opcode::copy: {
      const State state = operand(0);
      const bool stays = state.kind == State::low || state.kind == State::zero;
      return stays && is_small_float ? state : State{};
    }
    default:
      return {};
  }
}

HiddenColumns::State HiddenColumns::product_state(const State& a, const State& b) {
  if (a.kind == State::zero || b.kind == State::zero) return {State::zero, 0, nullptr};
  if (a.kind != State::number || b.kind != State::number) return {};
  const float product = static_cast<float>(a.number_is) * static_cast<float>(b.number_is);
  return {State::number, product, nullptr};
}

HiddenColumns::State HiddenColumns::quotient_state(const State& a, const State& b) {
  if (a.kind != State::zero) return {};
  if (b.kind == State::number) return a;
  if (b.kind != State::row) return {};
  found_.insert({b.row_value, 0, true});
  return a;
}

// A number far below what it is compared with: nothing is left of its exponential.
HiddenColumns::State HiddenColumns::difference_state(const State& a, const State& b) {
  if (a.kind == State::zero && b.kind == State::zero) return a;
  if (a.kind != State::number || b.kind != State::row) return {};
  found_.insert({b.row_value, far_above(a.number_is), false});
  return {State::low, 0, nullptr};
}

// Of what operands are, whatever it is combined with where that decides.
HiddenColumns::Interval HiddenColumns::combined_truth(const Node& node, const Interval& a,
                                                      const Interval& b) const {
  if (node.shape.dtype != DType::pred) return {};
  const double decides = node.is(Opcode::and_) ? 0 : 1;
  for (const Interval& x : {a, b})
    if (x.is_known && x.low == decides && x.high == decides) return x;
  if (!a.is_known || !b.is_known) return {};
  if (node.is(Opcode::and_)) return {true, std::min(a.low, b.low), std::min(a.high, b.high)};
  return {true, std::max(a.low, b.low), std::max(a.high, b.high)};
}

HiddenColumns::Interval HiddenColumns::chosen_interval(const Node& select,
                                                       const Embedding& embedding) const {
  if (select.operand(0)->dims() != select.dims()) return {};
  const Interval by = interval_of(*select.operand(0), embedding);
  if (by.is_known && by.low == by.high)
    return interval_of(*select.operand(by.low != 0 ? 1 : 2), embedding);
  const Interval a = interval_of(*select.operand(1), embedding);
  const Interval b = interval_of(*select.operand(2), embedding);
  return {a.is_known && b.is_known, std::min(a.low, b.low), std::max(a.high, b.high)};
}

HiddenColumns::Interval HiddenColumns::interval_of(const Node& node,
                                                   const Embedding& embedding) const {
  if (const std::optional<double> number = scalar_of(node)) return {true, *number, *number};
  if (node.is(Opcode::broadcast)) {
    Embedding inner;
    for (const int64_t d : node.attrs.dimensions)
      inner.push_back(embedding.at(static_cast<size_t>(d)));
    return interval_of(*node.operand(0), inner);
  }
  if (node.is(Opcode::reshape) && moves_ones(node))
    return interval_of(*node.operand(0), reshaped(node, embedding));
  if (node.is(Opcode::not_) && node.shape.dtype == DType::pred) {
    const Interval x = interval_of(*node.operand(0), embedding);
    return {x.is_known, 1 - x.high, 1 - x.low};
  }
  if (node.is(Opcode::select)) return chosen_interval(node, embedding);
  if (node.is(Opcode::iota)) {
    const int64_t d = embedding.at(static_cast<size_t>(node.attrs.index));
    if (d < 0) return {true, 0, 0};
    const auto [first, last] = box_.at(static_cast<size_t>(d));
    if (dtype_size(node.shape.dtype) < 4) return {};
    return {true, static_cast<double>(first), static_cast<double>(last - 1)};
  }
  if (node.operands().size() != 2 || node.operand(0)->dims() != node.operand(1)->dims()) return {};
  const Interval a = interval_of(*node.operand(0), embedding);
  const Interval b = interval_of(*node.operand(1), embedding);
  if (node.is(Opcode::and_) || node.is(Opcode::or_)) return combined_truth(node, a, b);
  // Exact in every type of 32 bits that positions may have.
  const auto is_exact = [](const Interval& x) {
    return x.is_known && std::fabs(x.low) < (1 << 24) && std::fabs(x.high) < (1 << 24);
  };
  if (!is_exact(a) || !is_exact(b)) return {};
  if (node.is(Opcode::compare)) {
    const Truth truth = compared(node.attrs.direction, {a.low, a.high}, {b.low, b.high});
    const double number = truth == Truth::yes ? 1 : 0;
    return {truth != Truth::unknown, number, number};
  }
  Interval result;
  if (node.is(Opcode::add)) result = {true, a.low + b.low, a.high + b.high};
  if (node.is(Opcode::subtract)) result = {true, a.low - b.high, a.high - b.low};
  const bool wraps = is_unsigned_integer(node.shape.dtype) && result.low < 0;
  return is_exact(result) && !wraps ? result : Interval{};
}

}  // namespace gspmd
