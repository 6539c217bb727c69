#include "ops/reduce/combiner_structure.h"

#include <algorithm>
#include <map>
#include <vector>

#include "gspmd/ops/builders.h"

namespace gspmd {
namespace {

std::vector<const Node*> results_of(const Computation& combiner) {
  const Node* root = combiner.root();
  if (!root->shape.is_tuple) return {root};
  if (!root->is(Opcode::tuple)) return {};
  return {root->operands().begin(), root->operands().end()};
}

// What x was before conversions between float types.
const Node* through_floats(const Node* x) {
  while (x->is(Opcode::convert) && is_floating(x->shape.dtype) &&
         is_floating(x->operand(0)->shape.dtype))
    x = x->operand(0);
  return x;
}

bool is_joining(Opcode opcode) {
  switch (opcode) {
    case Opcode::add:
    case Opcode::multiply:
    case Opcode::maximum:
    case Opcode::minimum:
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
      return true;
    default:
      return false;
  }
}

bool joins_each_alone(const Computation& combiner) {
  const std::vector<const Node*> results = results_of(combiner);
  const auto count = static_cast<int64_t>(results.size());
  if (std::ssize(combiner.parameters()) != 2 * count) return false;
  for (int64_t i = 0; i < count; ++i) {
    const Node* op = through_floats(results[static_cast<size_t>(i)]);
    if (!is_joining(op->opcode())) return false;
    const Node* a = through_floats(op->operand(0));
    const Node* b = through_floats(op->operand(1));
    if (!a->is(Opcode::parameter) || !b->is(Opcode::parameter)) return false;
    if (a->attrs.index > b->attrs.index) std::swap(a, b);
    if (a->attrs.index != i || b->attrs.index != i + count) return false;
  }
  return count > 0;
}

constexpr int kCombinedNan = -1;  // among the small numbers below

// A combiner that only compares and selects, run on small numbers. Three elements have at most
// three different numbers in a place, and only those of one place are compared: {0, 1, 2} stand for
// all.
class Selection {
 public:
  static std::optional<Selection> of(const Computation& combiner) {
    Selection s;
    s.results_ = results_of(combiner);
    const size_t count = s.results_.size();
    if (count == 0 || count > 3 || combiner.parameters().size() != 2 * count) return std::nullopt;
    s.count_ = count;
    for (const auto& node : combiner.nodes())
      if (!node->is(Opcode::tuple) && !s.take(*node)) return std::nullopt;
    for (size_t i = 0; i < count; ++i)
      if (!s.place_.contains(s.results_[i]) ||
          (s.place_.at(s.results_[i]) != kAny && s.place_.at(s.results_[i]) != int64_t(i)))
        return std::nullopt;
    return s;
  }

  std::optional<ExtremePlace> extreme_place() const {
    if (count_ != 2 || compares_bits_) return std::nullopt;
    const DType value = results_[0]->shape.dtype, place = results_[1]->shape.dtype;
    if (value == DType::pred || !is_integer(place)) return std::nullopt;
    for (const bool greatest : {true, false})
      for (const bool least_place : {true, false})
        if (is_extreme_place({greatest, least_place}, is_floating(value) ? kCombinedNan : 0))
          return ExtremePlace{greatest, least_place};
    return std::nullopt;
  }

  CombinerLaws laws() const {
    const std::vector<Values> all = elements();
    CombinerLaws laws{true, true};
    for (const Values& a : all)
      for (const Values& b : all) {
        const Values ab = run(a, b);
        laws.commutative = laws.commutative && ab == run(b, a);
        for (const Values& c : all)
          if (run(ab, c) != run(a, run(b, c))) return {};
      }
    return laws;
  }

 private:
  using Values = std::vector<int>;
  static constexpr int64_t kAny = -1;  // a truth value

  // Adds the node's step where it compares or hands on; the places of what it reads must agree.
  bool take(const Node& node) {
    if (node.shape.is_tuple || node.rank() != 0 || is_complex(node.shape.dtype)) return false;
    const bool is_truth = node.shape.dtype == DType::pred;
    int64_t place = kAny;
    switch (node.opcode()) {
      case Opcode::parameter:
        place = node.attrs.index % static_cast<int64_t>(count_);
        break;
      case Opcode::compare:
        if (place_.at(node.operand(0)) != place_.at(node.operand(1))) return false;
        compares_bits_ |= node.attrs.compare_type == "TOTALORDER";
        break;
      case Opcode::select:
        place = place_.at(node.operand(1));
        if (place != place_.at(node.operand(2))) return false;
        break;
      case Opcode::maximum:
      case Opcode::minimum:
        place = place_.at(node.operand(0));
        if (place != place_.at(node.operand(1))) return false;
        break;
      case Opcode::copy:
        place = place_.at(node.operand(0));
        break;
      case Opcode::and_:
      case Opcode::or_:
      case Opcode::xor_:
      case Opcode::not_:
        if (!is_truth) return false;
        break;
      default:
        return false;
    }
    place_[&node] = is_truth ? kAny : place;
    steps_.push_back(&node);
    return true;
  }

  // On values from `least` and places that are less, equal and greater.
  bool is_extreme_place(const ExtremePlace& wanted, int least) const {
    const auto better = [&](int a, int b) {
      if (a == kCombinedNan || b == kCombinedNan) return b != kCombinedNan;
      return wanted.greatest ? a > b : a < b;
    };
    for (int a = least; a < 3; ++a)
      for (int b = least; b < 3; ++b)
        for (int i = 0; i < 3; ++i)
          for (int j = 0; j < 3; ++j) {
            const bool first = a == b ? i <= j || !wanted.least_place : better(a, b);
            // Two NaN meet in the order of their places.
            if (a == kCombinedNan && b == kCombinedNan && i >= j) continue;
            if (run({a, i}, {b, j}) != (first ? Values{a, i} : Values{b, j})) return false;
          }
    return true;
  }

  std::vector<Values> elements() const {
    std::vector<Values> all{{}};
    for (size_t i = 0; i < count_; ++i) {
      const int most = results_[i]->shape.dtype == DType::pred ? 2 : 3;
      std::vector<Values> longer;
      for (const Values& before : all)
        for (int v = 0; v < most; ++v) {
          longer.push_back(before);
          longer.back().push_back(v);
        }
      all = std::move(longer);
    }
    return all;
  }

  Values run(const Values& first, const Values& second) const {
    std::map<const Node*, int> value;
    for (const Node* node : steps_) {
      const auto of = [&](int64_t i) { return value.at(node->operand(i)); };
      int& result = value[node];
      switch (node->opcode()) {
        case Opcode::parameter: {
          const auto i = static_cast<size_t>(node->attrs.index);
          result = i < count_ ? first[i] : second[i - count_];
          break;
        }
        case Opcode::compare:
          result = compared(node->attrs.direction, of(0), of(1));
          break;
        case Opcode::select:
          result = of(0) ? of(1) : of(2);
          break;
        case Opcode::maximum:
          result = of(0) == kCombinedNan || of(1) == kCombinedNan ? kCombinedNan
                                                                  : std::max(of(0), of(1));
          break;
        case Opcode::minimum:
          result = std::min(of(0), of(1));  // kCombinedNan is the least
          break;
        case Opcode::and_:
          result = of(0) & of(1);
          break;
        case Opcode::or_:
          result = of(0) | of(1);
          break;
        case Opcode::xor_:
          result = of(0) ^ of(1);
          break;
        case Opcode::not_:
          result = 1 - of(0);
          break;
        default:
          result = of(0);
          break;
      }
    }
    Values results;
    for (const Node* node : results_) results.push_back(value.at(node));
    return results;
  }

  static int compared(Direction direction, int a, int b) {
    if (a == kCombinedNan || b == kCombinedNan) return direction == Direction::ne;
    switch (direction) {
      case Direction::eq:
        return a == b;
      case Direction::ne:
        return a != b;
      case Direction::lt:
        return a < b;
      case Direction::le:
        return a <= b;
      case Direction::gt:
        return a > b;
      default:
        return a >= b;
    }
  }

  size_t count_ = 0;
  bool compares_bits_ = false;  // NaN and both zeros are numbers like others
  std::vector<const Node*> results_, steps_;
  std::map<const Node*, int64_t> place_;  // the value that a node hands on is of this place
};

}  // namespace

CombinerLaws laws_of(const Computation& combiner) {
  if (joins_each_alone(combiner)) return {true, true};
  const auto selection = Selection::of(combiner);
  return selection ? selection->laws() : CombinerLaws{};
}

std::vector<Opcode> separate_ops(const Computation& combiner) {
  const std::vector<const Node*> results = results_of(combiner);
  const std::vector<Node*>& parameters = combiner.parameters();
  std::vector<Opcode> ops;
  if (parameters.size() != 2 * results.size()) return ops;
  for (size_t i = 0; i < results.size(); ++i) {
    const Node& op = *results[i];
    const Node *const a = parameters[i], *const b = parameters[results.size() + i];
    const std::optional<Combiner> named = combiner_of(op.opcode(), op.shape.dtype);
    if (!named || (is_complex(op.shape.dtype) && named != Combiner::sum)) return {};
    if (!(a->shape == op.shape) || !(b->shape == op.shape)) return {};
    const bool in_order = op.operand(0) == a && op.operand(1) == b;
    if (!in_order && !(op.operand(0) == b && op.operand(1) == a)) return {};
    ops.push_back(op.opcode());
  }
  return ops;
}

std::optional<ExtremePlace> extreme_place_of(const Computation& combiner) {
  const auto selection = Selection::of(combiner);
  return selection ? selection->extreme_place() : std::nullopt;
}

Computation* with_flag(Computation& combiner) {
  const EmissionScope scope(Metadata{}, false);
  Computation* made = combiner.module().add_computation(combiner.name());
  const size_t count = combiner.parameters().size() / 2;
  std::vector<Node*> arguments, flags;
  for (size_t side = 0; side < 2; ++side) {
    const auto first = static_cast<int64_t>(side * (count + 1));
    for (size_t i = 0; i < count; ++i) {
      const Node& parameter = *combiner.parameters()[side * count + i];
      arguments.push_back(hlo::parameter(*made, first + static_cast<int64_t>(i), parameter.shape));
    }
    flags.push_back(
        hlo::parameter(*made, first + static_cast<int64_t>(count), Shape(DType::pred, {})));
  }
  Node* both = inline_computation(combiner, *made, arguments);
  std::vector<Node*> results;
  for (size_t i = 0; i < count; ++i) {
    Node* joined =
        both->shape.is_tuple ? hlo::get_tuple_element(both, static_cast<int64_t>(i)) : both;
    Node* behind = hlo::select(flags[1], joined, arguments[i]);
    results.push_back(hlo::select(flags[0], behind, arguments[count + i]));
  }
  results.push_back(hlo::binary(Opcode::or_, flags[0], flags[1]));
  made->set_root(hlo::tuple(*made, results));
  return made;
}

}  // namespace gspmd
