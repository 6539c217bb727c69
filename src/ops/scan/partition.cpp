// Scans along a split dim: what the steps of each part come to, what the parts before a device come
// to, and then the device's own steps from there.

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "mesh/manual_digits.h"
#include "ops/emission/collectives.h"
#include "ops/emission/exchange.h"
#include "ops/emission/factor_sharding.h"
#include "ops/emission/index.h"
#include "ops/scan/scan.h"

namespace gspmd {
namespace {

// The combiner by which step i makes the next carry of its input and carry.
std::optional<Combiner> combiner_of_carry(const Node& scan, const ScanParts& parts, int64_t i) {
  const Computation& body = *scan.called.at(0);
  const Node* next = body.root();
  if (next->is(Opcode::tuple)) next = next->operand(parts.outputs + i);
  if (next->shape.is_tuple || next->operands().size() != 2) return std::nullopt;
  const Node* input = body.parameters().at(static_cast<size_t>(i));
  const Node* carry = body.parameters().at(static_cast<size_t>(parts.inputs + i));
  const bool in_order = next->operand(0) == input && next->operand(1) == carry;
  if (!in_order && !(next->operand(0) == carry && next->operand(1) == input)) return std::nullopt;
  return combiner_of(next->opcode(), next->shape.dtype);
}

// Steps that can be grouped: carries are as one step of the inputs, and the user says that the
// computation is associative, or it is known to be.
bool is_associative(const Node& scan, const ScanParts& parts) {
  if (parts.carries != parts.inputs) return false;
  bool known = true;
  for (int64_t i = 0; i < parts.inputs; ++i) {
    Shape step = scan.operand(i)->shape;
    step.dims.erase(step.dims.begin() + parts.dim);
    const Shape& carry = scan.operand(parts.inputs + i)->shape;
    if (step.dtype != carry.dtype || step.dims != carry.dims) return false;
    known = known && combiner_of_carry(scan, parts, i).has_value();
  }
  return scan.attrs.scalar->is_associative.value_or(known);
}

std::vector<int64_t> sizes_of_parts(const FactorRule& rule, const FactorDigits& spread) {
  std::vector<int64_t> sizes;
  for (size_t f = 0; f < spread.size(); ++f)
    sizes.push_back(ceil_div(rule.factors[f].size, tile_count(spread[f])));
  return sizes;
}

// The computation of a scan on parts of these sizes, by factor.
Computation* scan_body(PartitionContext& spmd, const Node& scan, const FactorRule& rule,
                       const std::vector<int64_t>& sizes) {
  bool cut = false;
  for (size_t f = 0; f < sizes.size(); ++f)
    cut |= rule.factors[f].kind == FactorKind::pass && sizes[f] != rule.factors[f].size;
  if (!cut) return spmd.local_computation(*scan.called.at(0));
  return scan_body_on_parts(scan, sizes, spmd.local().module(), [&](const Computation& called) {
    return spmd.local_computation(called);
  });
}

class ScanInParts {
 public:
  ScanInParts(PartitionContext& spmd, Node& node, const FactorRule& rule, FactorDigits spread,
              const Sharding& home)
      : spmd_(spmd),
        node_(node),
        rule_(rule),
        spread_(std::move(spread)),
        home_(home),
        parts_(scan_parts(node)),
        along_(static_cast<size_t>(rule.operands.at(0).at(static_cast<size_t>(parts_.dim)))),
        tiles_(tile_count(spread_[along_])),
        part_(ceil_div(parts_.length, tiles_)),
        reverse_(node.attrs.scalar->is_reverse),
        body_(scan_body(spmd, node, rule, sizes_of_parts(rule, spread_))) {
    for (int64_t i = 0; i < parts_.inputs; ++i) {
      const auto combiner = combiner_of_carry(node, parts_, i);
      if (combiner) combiners_.push_back(*combiner);
    }
  }

  Partitioned run() {
    std::vector<Node*> inputs, starts;
    std::vector<Sharding> results;
    for (int64_t i = 0; i < parts_.inputs + parts_.carries; ++i)
      (i < parts_.inputs ? inputs : starts)
          .push_back(
              spmd_.reshard(node_.operand(i), layout(rule_.operands[static_cast<size_t>(i)])));
    std::vector<Shape> shapes = leaf_shapes(node_.shape);
    for (size_t l = 0; l < shapes.size(); ++l) {
      results.push_back(layout(rule_.results[l]));
      shapes[l] = local_shape(shapes[l], results[l]);
    }
    std::vector<Node*> totals = this->totals(inputs);
    for (Node*& total : totals) {
      Dims one = total->dims();
      one.insert(one.begin(), 1);
      total = gather_along(spmd_, hlo::reshape(total, one), 0, home_.order(), spread_[along_]);
    }
    const std::vector<Node*> begins = carried(totals, starts, tile());
    const std::vector<Node*> ends = carried(totals, starts, number(reverse_ ? -1 : tiles_));

    std::vector<Node*> leaves;
    if (parts_.outputs > 0) {
      Node* scan = own_steps(inputs, begins, shapes);
      for (int64_t l = 0; l < parts_.outputs; ++l)
        leaves.push_back(hlo::get_tuple_element(scan, l));
    }
    leaves.insert(leaves.end(), ends.begin(), ends.end());
    if (!node_.shape.is_tuple) return {leaves.at(0), results.at(0)};
    return {hlo::tuple(spmd_.local(), leaves), Sharding::tuple(results)};
  }

 private:
  IndexNode number(int64_t v) { return {spmd_.local(), v}; }
  IndexNode tile() { return IndexNode(spmd_.digits_index(home_.order(), spread_[along_])); }

  Sharding layout(const std::vector<int64_t>& dims) const {
    return with_manual(project(home_.order(), dims, spread_), home_.order(), home_.manual_digits());
  }

  // Positions [0, count), s32.
  IndexNode positions(int64_t count) {
    return IndexNode(hlo::iota(spmd_.local(), Shape(DType::s32, {count}), 0));
  }

  // How many elements of the dim the device has, s32[].
  IndexNode filled() { return minimum(parts_.length - tile() * part_, part_); }

  // The device's steps from the carries before them. Backward, what lies behind the end comes
  // first and must not be counted.
  Node* own_steps(const std::vector<Node*>& inputs, const std::vector<Node*>& begins,
                  const std::vector<Shape>& shapes) {
    if (reverse_ && part_ * tiles_ != parts_.length)
      return masked_scan(inputs, compare(positions(part_), filled(), Direction::lt), parts_.dim,
                         begins, {shapes.begin(), shapes.begin() + parts_.outputs});
    std::vector<Node*> operands = inputs;
    operands.insert(operands.end(), begins.begin(), begins.end());
    return spmd_.emit(Opcode::scan, Shape::tuple(shapes), operands, node_.attrs, {body_});
  }

  // What the carries of the steps of a part come to, without a start. Behind the end of the dim
  // there are no steps.
  std::vector<Node*> totals(const std::vector<Node*>& inputs) {
    const IndexNode at = positions(part_), count = filled();
    if (combiners_.size() == inputs.size())
      return combined(inputs, compare(at, count, Direction::lt), parts_.dim, {});
    // From the element that comes first, by the others.
    const IndexNode begin = reverse_ ? maximum(count + -1, 0) : number(0);
    std::vector<Node*> starts;
    for (Node* input : inputs) {
      Dims sizes = input->dims();
      sizes.erase(sizes.begin() + parts_.dim);
      starts.push_back(hlo::reshape(cut(input, parts_.dim, begin, 1), sizes));
    }
    Node* taken = compare(at, count, Direction::lt);
    taken = hlo::binary(Opcode::and_, taken, compare(at, begin, Direction::ne));
    return stepped(inputs, taken, parts_.dim, starts);
  }

  // The carries before the part of tile `before`, from what all parts come to.
  std::vector<Node*> carried(const std::vector<Node*>& totals, const std::vector<Node*>& starts,
                             IndexNode before) {
    const IndexNode at = positions(tiles_);
    const int64_t filled = ceil_div(parts_.length, part_);
    Node* taken = compare(at, before, reverse_ ? Direction::gt : Direction::lt);
    if (filled < tiles_)
      taken = hlo::binary(Opcode::and_, taken, compare(at, number(filled), Direction::lt));
    return combiners_.size() == totals.size() ? combined(totals, taken, 0, starts)
                                              : stepped(totals, taken, 0, starts);
  }

  // Elements of `values` along `dim` where `taken`, and `starts` where given, put together.
  std::vector<Node*> combined(const std::vector<Node*>& values, Node* taken, int64_t dim,
                              const std::vector<Node*>& starts) {
    std::vector<Node*> results;
    for (size_t i = 0; i < values.size(); ++i) {
      const DType type = values[i]->shape.dtype;
      const Dims& dims = values[i]->dims();
      Node* neutral = hlo::scalar(spmd_.local(), type, neutral_contribution(combiners_[i], type));
      Node* kept = hlo::select(hlo::broadcast(taken, dims, {dim}), values[i],
                               hlo::broadcast(neutral, dims, {}));
      const Opcode opcode = combiner_opcode(combiners_[i]);
      Node* all = hlo::reduce(kept, neutral, {dim},
                              binary_computation(spmd_.local().module(), opcode, type));
      results.push_back(starts.empty() ? all : hlo::binary(opcode, all, starts[i]));
    }
    return results;
  }

  // The scan of `values` along `dim` in which steps that are not `taken` keep the carries.
  Node* masked_scan(const std::vector<Node*>& values, Node* taken, int64_t dim,
                    const std::vector<Node*>& starts, std::vector<Shape> outputs) {
    Attributes attrs = node_.attrs;
    attrs.dimensions = {dim};
    attrs.scalar.edit().num_carries = parts_.carries;
    std::vector<Node*> operands = values;
    for (Node* value : values) operands.push_back(hlo::broadcast(taken, value->dims(), {dim}));
    Computation* body = masked_body(!outputs.empty());
    for (Node* start : starts) {
      operands.push_back(start);
      outputs.push_back(start->shape);
    }
    return spmd_.emit(Opcode::scan, outputs.size() == 1 ? outputs[0] : Shape::tuple(outputs),
                      operands, attrs, {body});
  }

  // The carries after the steps of `values` along `dim` where `taken`.
  std::vector<Node*> stepped(const std::vector<Node*>& values, Node* taken, int64_t dim,
                             const std::vector<Node*>& starts) {
    Node* scan = masked_scan(values, taken, dim, starts, {});
    if (!scan->shape.is_tuple) return {scan};
    std::vector<Node*> results;
    for (int64_t i = 0; i < parts_.carries; ++i) results.push_back(hlo::get_tuple_element(scan, i));
    return results;
  }

  // (inputs..., one mask like each input..., carries...) -> outputs where wanted, and the next
  // carries where the mask is set, else these.
  Computation* masked_body(bool outputs) {
    Computation*& made = masked_[outputs ? 1 : 0];
    if (made) return made;
    made = body_->module().add_computation(body_->name());
    std::vector<Node*> arguments, masks, results;
    for (int64_t i = 0; i < parts_.inputs + parts_.carries; ++i) {
      const Node& parameter = *body_->parameters().at(static_cast<size_t>(i));
      if (i == parts_.inputs)
        for (int64_t j = 0; j < parts_.inputs; ++j)
          masks.push_back(
              hlo::parameter(*made, parts_.inputs + j,
                             Shape(DType::pred, arguments[static_cast<size_t>(j)]->dims())));
      arguments.push_back(hlo::parameter(*made, i < parts_.inputs ? i : i + parts_.inputs,
                                         parameter.shape, parameter.name()));
    }
    Node* root = inline_computation(*body_, *made, arguments);
    const auto leaf = [&](int64_t i) {
      return root->shape.is_tuple ? hlo::get_tuple_element(root, i) : root;
    };
    for (int64_t i = 0; outputs && i < parts_.outputs; ++i) results.push_back(leaf(i));
    for (int64_t i = 0; i < parts_.carries; ++i)
      results.push_back(hlo::select(masks[static_cast<size_t>(i)], leaf(parts_.outputs + i),
                                    arguments[static_cast<size_t>(parts_.inputs + i)]));
    made->set_root(results.size() == 1 ? results[0] : hlo::tuple(*made, results));
    return made;
  }

  PartitionContext& spmd_;
  Node& node_;
  const FactorRule& rule_;
  const FactorDigits spread_;
  const Sharding home_;
  const ScanParts parts_;
  const size_t along_;
  const int64_t tiles_, part_;
  const bool reverse_;
  Computation* body_;
  Computation* masked_[2] = {nullptr, nullptr};  // by whether there are outputs
  std::vector<Combiner> combiners_;              // of all carries, where all are known
};

}  // namespace

std::vector<Computation*> scan_called_on_part(PartitionContext& spmd, const Node& scan,
                                              const NodePart& part) {
  const FactorRule rule = scan.op().factors(scan);
  std::vector<int64_t> sizes(rule.factors.size());
  const auto take = [&](const std::vector<std::vector<int64_t>>& values,
                        const std::vector<Shape>& shapes) {
    for (size_t i = 0; i < values.size(); ++i)
      for (size_t d = 0; d < values[i].size(); ++d)
        sizes[static_cast<size_t>(values[i][d])] = shapes.at(i).dims.at(d);
  };
  take(rule.operands, part.operands);
  take(rule.results, part.results);
  return {scan_body(spmd, scan, rule, sizes)};
}

std::optional<Partitioned> partition_scan(PartitionContext& spmd, Node& node) {
  const ScanParts parts = scan_parts(node);
  if (parts.length == 0 || parts.carries == 0 || !is_associative(node, parts)) return std::nullopt;
  const FactorRule rule = node.op().factors(node);
  // As the first output is wanted; a scan for its last carries alone goes where its input is.
  Sharding home = spmd.sharding(node);
  if (parts.outputs == 0)
    home = spmd.sharding(*node.operand(0));
  else if (home.is_tuple())
    home = home.elements().at(0);
  if (!home.is_tiled() || !home.order() || home.dim(parts.dim).empty()) return std::nullopt;
  FactorDigits spread(rule.factors.size());
  const std::vector<int64_t>& dims = parts.outputs > 0 ? rule.results[0] : rule.operands[0];
  for (size_t d = 0; d < dims.size(); ++d)
    if (static_cast<int64_t>(d) == parts.dim ||
        rule.factors[static_cast<size_t>(dims[d])].kind == FactorKind::pass)
      spread[static_cast<size_t>(dims[d])] = home.dim(static_cast<int64_t>(d));
  constexpr int64_t kMost = int64_t(1) << 28;
  if (parts.length >= kMost || home.tiles(parts.dim) >= kMost) return std::nullopt;
  return ScanInParts(spmd, node, rule, spread, home).run();
}

}  // namespace gspmd
