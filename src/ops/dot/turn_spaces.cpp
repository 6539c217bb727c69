// Scores that a program turns, as einsum does where it is asked for another order of dims, come out
// of their product turned, from turned queries; and what products sum is read as it is.

#include <algorithm>
#include <limits>
#include <set>

#include "gspmd/ops/builders.h"
#include "ops/dot/row_blocks.h"

namespace gspmd {
namespace {

// Which dim of the operand each dim of a transpose is, or of a reshape that moves dims of size 1;
// empty for other nodes.
Dims permutation_of(const Node& view) {
  if (view.is(Opcode::transpose)) return view.attrs.dimensions;
  if (!view.is(Opcode::reshape) || view.rank() != view.operand(0)->rank()) return {};
  const Dims& from = view.operand(0)->dims();
  Dims ones, others, permutation;
  for (size_t d = 0; d < from.size(); ++d)
    (from[d] == 1 ? ones : others).push_back(static_cast<int64_t>(d));
  size_t one = 0, other = 0;
  for (const int64_t size : view.dims()) {
    const Dims& list = size == 1 ? ones : others;
    size_t& next = size == 1 ? one : other;
    if (next == list.size() || from[static_cast<size_t>(list[next])] != size) return {};
    permutation.push_back(list[next++]);
  }
  return permutation;
}

// A view of a space that keeps the columns where they are, last.
Dims turn_of(const Node& view) {
  Dims permutation = permutation_of(view);
  if (permutation.empty() || permutation.back() + 1 != view.rank()) return {};
  return permutation;
}

Node* named_as(Node* made, const Node& model) {
  made->metadata = model.metadata;
  made->backward = model.backward;
  return made;
}

Node* transposed_to(Node* x, const Dims& order, const Node& model) {
  if (std::is_sorted(order.begin(), order.end())) return x;
  return named_as(hlo::transpose(x, order), model);
}

std::vector<Node*> dots_of(const Computation& c) {
  std::vector<Node*> dots;
  for (const auto& node : c.nodes())
    if (node->is(Opcode::dot)) dots.push_back(node.get());
  return dots;
}

// The product whose result is that of `dot` with dims in the order `turn`; nullptr: batches and
// rows would mix.
Node* turned_product(Node* dot, const Dims& turn) {
  const DotDims& dims = *dot->attrs.dot;
  const size_t batch = dims.lhs_batch.size();
  const Dims free = free_dims(dot->operand(0)->rank(), dims.lhs_batch, dims.lhs_contracting);
  DotDims made;
  Dims order;  // of the left operand
  for (size_t d = 0; d + 1 < turn.size(); ++d) {
    const auto from = static_cast<size_t>(turn[d]);
    if ((d < batch) != (from < batch)) return nullptr;
    order.push_back(d < batch ? dims.lhs_batch[from] : free[from - batch]);
    if (d >= batch) continue;
    made.lhs_batch.push_back(static_cast<int64_t>(d));
    made.rhs_batch.push_back(dims.rhs_batch[from]);
  }
  order.push_back(dims.lhs_contracting[0]);
  made.lhs_contracting = {std::ssize(order) - 1};
  made.rhs_contracting = dims.rhs_contracting;
  Attributes attrs = dot->attrs;
  attrs.dot = std::move(made);
  Shape shape = dot->shape;
  for (size_t d = 0; d < turn.size(); ++d) shape.dims[d] = dot->dim(turn[d]);
  Node* const lhs = transposed_to(dot->operand(0), order, *dot);
  return named_as(dot->parent().append(Opcode::dot, std::move(shape), {lhs, dot->operand(1)},
                                       std::move(attrs), dot->name()),
                  *dot);
}

// The product with what operand `side` is a view of, as a view with the dims that `dot` has.
Node* product_of_whole(Node* dot, int64_t side, const Dims& turn) {
  const DotDims& given = *dot->attrs.dot;
  const Dims& batch = side == 0 ? given.lhs_batch : given.rhs_batch;
  const Dims& summed = side == 0 ? given.lhs_contracting : given.rhs_contracting;
  Dims free = free_dims(std::ssize(turn), batch, summed);
  const int64_t first = side == 0 ? std::ssize(batch) : dot->rank() - std::ssize(free);
  for (int64_t& d : free) d = turn.at(static_cast<size_t>(d));
  Dims sorted = free;
  std::sort(sorted.begin(), sorted.end());
  // Where each dim of the result is in that of the new product.
  Dims place;
  for (int64_t d = 0; d < dot->rank(); ++d) place.push_back(d);
  for (size_t i = 0; i < free.size(); ++i)
    place[static_cast<size_t>(first) + i] =
        first + (std::find(sorted.begin(), sorted.end(), free[i]) - sorted.begin());
  Attributes attrs = dot->attrs;
  DotDims made = given;
  for (Dims* list : {side == 0 ? &made.lhs_batch : &made.rhs_batch,
                     side == 0 ? &made.lhs_contracting : &made.rhs_contracting})
    for (int64_t& d : *list) d = turn.at(static_cast<size_t>(d));
  attrs.dot = std::move(made);
  Shape shape = dot->shape;
  for (size_t d = 0; d < place.size(); ++d)
    shape.dims[static_cast<size_t>(place[d])] = dot->dim(static_cast<int64_t>(d));
  std::vector<Node*> operands = dot->operands();
  Node*& turned = operands[static_cast<size_t>(side)];
  turned = turned->operand(0);
  Node* const product = dot->parent().append(Opcode::dot, std::move(shape), std::move(operands),
                                             std::move(attrs), dot->name());
  return transposed_to(named_as(product, *dot), place, *dot);
}

// Whether a sum starts from zero, a maximum from the least number.
bool starts_neutral(const Node& reduce) {
  const Node& start = *reduce.operand(1);
  if (!start.is(Opcode::constant) || start.attrs.literal.empty() || !is_floating(start.shape.dtype))
    return false;
  const double number = start.attrs.literal.at(0);
  const std::optional<Combiner> combiner = recognize_combiner(*reduce.called.at(0));
  return (combiner == Combiner::sum && number == 0) ||
         (combiner == Combiner::max && number == -std::numeric_limits<double>::infinity());
}

void replace(Computation& c, const std::vector<std::pair<Node*, Node*>>& replaced) {
  c.replace_uses(replaced);
  c.remove_dead();
  c.sort();
}

}  // namespace

bool drop_reductions_of_one(Computation& c) {
  std::vector<std::pair<Node*, Node*>> replaced;
  std::vector<Node*> reductions;
  for (const auto& node : c.nodes())
    if (node->is(Opcode::reduce) && !node->shape.is_tuple &&
        node->shape.elements_count() == node->operand(0)->shape.elements_count() &&
        node->shape.dtype == node->operand(0)->shape.dtype && node->shape.elements_count() > 0 &&
        starts_neutral(*node))
      reductions.push_back(node.get());
  for (Node* node : reductions)
    replaced.emplace_back(node, named_as(hlo::reshape(node->operand(0), node->dims()), *node));
  if (replaced.empty()) return false;
  replace(c, replaced);
  return true;
}

bool turn_spaces(Computation& c) {
  std::vector<std::pair<Node*, Node*>> replaced;
  std::set<Dims> spaces;
  for (Node* dot : dots_of(c)) {
    if (!makes_space(*dot) || dot->users().size() != 1 || dot->is_root()) continue;
    Node* const view = dot->users()[0];
    const Dims turn = turn_of(*view);
    Node* const made = turn.empty() ? nullptr : turned_product(dot, turn);
    if (made == nullptr) continue;
    spaces.insert(made->dims());
    replaced.emplace_back(view, made);
  }
  if (replaced.empty()) return false;
  replace(c, replaced);
  replaced.clear();
  for (Node* dot : dots_of(c))
    for (const int64_t side : {0, 1}) {
      const Node& view = *dot->operand(side);
      const Dims turn = turn_of(view);
      if (turn.empty() || !spaces.contains(view.operand(0)->dims())) continue;
      replaced.emplace_back(dot, product_of_whole(dot, side, turn));
      break;
    }
  replace(c, replaced);
  return true;
}

}  // namespace gspmd
