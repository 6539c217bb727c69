// Scores that a program turns on the way, as einsum does where it is asked for another order of
// dims, come out of their product turned; all that follows keeps one order of dims, without dims of
// size 1, and what products sum is read as it is.

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_set>

#include "gspmd/ops/builders.h"
#include "ops/dot/row_blocks.h"
#include "ops/dot/space_labels.h"

namespace gspmd {
namespace {

using Labels = SpaceLabels::Labels;
using Replaced = std::vector<std::pair<Node*, Node*>>;

constexpr int64_t kDeepest = 16;  // ops between a value of a space and what it reads

Node* named_as(Node* made, const Node& model) {
  made->metadata = model.metadata;
  made->backward = model.backward;
  return made;
}

// `x` with the dims of `kept`, which are all but dims of size 1, in this order.
Node* view_of(Node* x, const Dims& kept, const Node& model) {
  Dims sorted = kept, sizes, permutation;
  std::sort(sorted.begin(), sorted.end());
  for (const int64_t d : sorted) sizes.push_back(x->dim(d));
  for (const int64_t d : kept)
    permutation.push_back(std::lower_bound(sorted.begin(), sorted.end(), d) - sorted.begin());
  if (sizes != x->dims()) x = named_as(hlo::reshape(x, std::move(sizes)), model);
  return kept == sorted ? x : named_as(hlo::transpose(x, std::move(permutation)), model);
}

// Rewrites the values of one space.
class SpaceTurner {
 public:
  // `done`: nodes that are replaced, and products that replace others.
  SpaceTurner(const SpaceLabels& labels, const SpaceLabels::Space& space,
              std::set<const Node*>& done)
      : labels_(labels),
        space_(space),
        done_(done),
        members_(space.values.begin(), space.values.end()) {
    for (const int64_t label : space.order) position_[label] = std::ssize(position_);
  }

  void run(Replaced& replaced) {
    for (Node* value : space_.values) in_order(value, roots_of(value), 0);
    for (Node* value : space_.values) {
      bool is_read = false;
      const std::vector<Node*> users(value->users().begin(), value->users().end());
      for (Node* user : users) {
        if (members_.contains(user)) continue;
        Node* const sum = done_.contains(user) ? nullptr : sum_of(user, value);
        is_read |= sum == nullptr;
        if (sum == nullptr) continue;
        done_.insert(user);
        replaced.emplace_back(user, sum);
      }
      if (is_read && done_.insert(value).second) replaced.emplace_back(value, as_it_was(value));
    }
  }

 private:
  Labels roots_of(const Node* value) const { return labels_.roots(*labels_.find(value)); }
  int64_t position(int64_t label) const { return position_.at(label); }

  // The dims that are not of size 1, as the space orders them.
  Dims order_of(const Labels& roots) const {
    Dims dims;
    for (size_t d = 0; d < roots.size(); ++d)
      if (roots[d] >= 0) dims.push_back(static_cast<int64_t>(d));
    std::sort(dims.begin(), dims.end(), [&](int64_t a, int64_t b) {
      return position(roots[static_cast<size_t>(a)]) < position(roots[static_cast<size_t>(b)]);
    });
    return dims;
  }
  // Where each dim of a value is in the ordered one; -1: nowhere.
  Dims places_of(const Labels& roots) const {
    Dims places(roots.size(), -1);
    const Dims order = order_of(roots);
    for (size_t i = 0; i < order.size(); ++i)
      places[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    return places;
  }
  static Dims sizes(const Node& x, const Dims& dims) {
    Dims sizes;
    for (const int64_t d : dims) sizes.push_back(x.dim(d));
    return sizes;
  }

  // --- Values

  // A value under the labels of its dims, with the order of the space.
  Node* in_order(Node* x, const Labels& roots, int64_t depth) {
    if (x->rank() == 0) return x;
    Node*& made = made_[{x, roots}];
    if (made != nullptr) return made;
    const bool is_member = members_.contains(x);
    const bool is_made_again =
        is_member ? roots_of(x) == roots
                  : labels_.find(x) == nullptr && depth < kDeepest && is_made_for_reader(*x, depth);
    Node* const ordered = is_made_again ? remade(x, roots, depth + 1) : nullptr;
    return made_[{x, roots}] = ordered != nullptr ? ordered : view_of(x, order_of(roots), *x);
  }

  // Of no space: what costs nothing where it is read, or is read only by values of this one.
  bool is_made_for_reader(const Node& x, int64_t depth) const {
    if (is_positional(x, depth)) return true;
    if (!x.is(Opcode::broadcast) && !x.op().has(kElementwise) && !x.is(Opcode::transpose) &&
        !moves_ones(x))
      return false;
    return !x.is_root() && (x.users().size() == 1 ||
                            std::all_of(x.users().begin(), x.users().end(),
                                        [&](const Node* user) { return members_.contains(user); }));
  }
  // Made of positions and constants.
  static bool is_positional(const Node& x, int64_t depth) {
    if (x.is(Opcode::iota)) return true;
    if (x.rank() == 0) return x.is(Opcode::constant);
    if (depth >= kDeepest || !(x.is(Opcode::broadcast) || x.op().has(kElementwise))) return false;
    return std::all_of(x.operands().begin(), x.operands().end(),
                       [&](const Node* operand) { return is_positional(*operand, depth + 1); });
  }

  Node* remade(Node* x, const Labels& roots, int64_t depth) {
    if (may_make_space(*x)) return ordered_product(x, roots);
    if (x->is(Opcode::broadcast)) return ordered_broadcast(x, roots, depth);
    if (x->is(Opcode::iota)) return ordered_iota(*x, roots);
    if (x->is(Opcode::reduce)) return ordered_reduce(x, depth);
    if (x->is(Opcode::transpose)) {
      Labels from(roots.size());
      for (size_t d = 0; d < roots.size(); ++d)
        from[static_cast<size_t>(x->attrs.dimensions[d])] = roots[d];
      return in_order(x->operand(0), from, depth);
    }
    if (moves_ones(*x)) {
      Labels from;
      auto next = roots.begin();
      for (const int64_t size : x->operand(0)->dims()) {
        if (size != 1) next = std::find_if(next, roots.end(), [](int64_t l) { return l >= 0; });
        from.push_back(size == 1 ? -1 : *next++);
      }
      return in_order(x->operand(0), from, depth);
    }
    return x->called.empty() ? ordered_elementwise(x, roots, depth) : nullptr;
  }

  Node* append(const Node& model, Dims dims, std::vector<Node*> operands, Attributes attrs) {
    Shape shape = model.shape;
    shape.dims = std::move(dims);
    Node* const made = model.parent().append(model.opcode(), std::move(shape), std::move(operands),
                                             std::move(attrs), model.name());
    made->called = model.called;
    return named_as(made, model);
  }

  Node* ordered_elementwise(Node* x, const Labels& roots, int64_t depth) {
    std::vector<Node*> operands;
    for (Node* operand : x->operands()) {
      if (operand->rank() > 0 && operand->dims() != x->dims()) return nullptr;
      operands.push_back(in_order(operand, roots, depth));
    }
    return append(*x, sizes(*x, order_of(roots)), std::move(operands), x->attrs);
  }

  Node* ordered_broadcast(Node* x, const Labels& roots, int64_t depth) {
    const Dims places = places_of(roots);
    Labels from;
    Attributes attrs = x->attrs;
    attrs.dimensions.clear();
    for (const int64_t d : x->attrs.dimensions) {
      from.push_back(roots[static_cast<size_t>(d)]);
      if (from.back() >= 0) attrs.dimensions.push_back(places[static_cast<size_t>(d)]);
    }
    Node* source = in_order(x->operand(0), from, depth);
    const Dims dims = sizes(*x, order_of(roots));
    if (source->dims() == dims) return source;
    std::sort(attrs.dimensions.begin(), attrs.dimensions.end());
    return append(*x, dims, {source}, std::move(attrs));
  }

  Node* ordered_iota(const Node& x, const Labels& roots) {
    const int64_t place = places_of(roots)[static_cast<size_t>(x.attrs.index)];
    if (place < 0) return nullptr;
    Attributes attrs = x.attrs;
    attrs.index = place;
    return append(x, sizes(x, order_of(roots)), {}, std::move(attrs));
  }

  Node* ordered_reduce(Node* x, int64_t depth) {
    const Labels from = roots_of(x->operand(0));
    const Dims places = places_of(from);
    Attributes attrs = x->attrs;
    attrs.dimensions.clear();
    for (const int64_t d : x->attrs.dimensions)
      if (places[static_cast<size_t>(d)] >= 0)
        attrs.dimensions.push_back(places[static_cast<size_t>(d)]);
    std::sort(attrs.dimensions.begin(), attrs.dimensions.end());
    Node* const operand = in_order(x->operand(0), from, depth);
    return append(*x, sizes(*x, order_of(roots_of(x))), {operand, x->operand(1)}, std::move(attrs));
  }

  // Batches, rows and the column, from operands with only these and what is summed.
  Node* ordered_product(Node* dot, const Labels& roots) {
    const DotDims& dims = *dot->attrs.dot;
    const int64_t column = space_.order.back();
    const Labels left = operand_labels(*dot, 0, roots);
    const int64_t columns = std::find(left.begin(), left.end(), column) != left.end() ? 0 : 1;
    DotDims made;
    for (int64_t b = 0; b < space_.batches; ++b) {
      made.lhs_batch.push_back(b);
      made.rhs_batch.push_back(b);
    }
    std::vector<Node*> operands;
    for (const int64_t side : {1 - columns, columns}) {
      Labels labels = operand_labels(*dot, side, roots);
      const int64_t summed = side == 0 ? dims.lhs_contracting[0] : dims.rhs_contracting[0];
      Dims kept;  // the columns' operand as it is, the other turned
      for (size_t d = 0; d < labels.size(); ++d)
        if (labels[d] >= 0 || static_cast<int64_t>(d) == summed)
          kept.push_back(static_cast<int64_t>(d));
      const auto place = [&](int64_t d) {
        return d == summed ? std::ssize(space_.order) : position(labels[static_cast<size_t>(d)]);
      };
      Dims ordered = kept;
      std::sort(ordered.begin(), ordered.end(),
                [&](int64_t a, int64_t b) { return place(a) < place(b); });
      if (side != columns) {
        made.lhs_contracting = {std::ssize(kept) - 1};
        operands.push_back(view_of(dot->operand(side), ordered, *dot));
        continue;
      }
      const auto index = [&](int64_t d) {
        return std::find(kept.begin(), kept.end(), d) - kept.begin();
      };
      for (int64_t b = 0; b < space_.batches; ++b)
        made.rhs_batch[static_cast<size_t>(b)] = index(ordered[static_cast<size_t>(b)]);
      made.rhs_contracting = {index(summed)};
      operands.push_back(view_of(dot->operand(side), kept, *dot));
    }
    Attributes attrs = dot->attrs;
    attrs.dot = std::move(made);
    return append(*dot, sizes(*dot, order_of(roots)), std::move(operands), std::move(attrs));
  }

  // A value with the dims that it had, from the ordered one.
  Node* as_it_was(Node* x) {
    const Labels roots = roots_of(x);
    return put_back(in_order(x, roots, 0), order_of(roots), *x);
  }
  // `made` has the dims `order` of `x`, which lacks only dims of size 1.
  static Node* put_back(Node* made, const Dims& order, const Node& x) {
    Dims sorted = order, permutation;
    std::sort(sorted.begin(), sorted.end());
    for (const int64_t d : sorted)
      permutation.push_back(std::find(order.begin(), order.end(), d) - order.begin());
    if (sorted != order) made = named_as(hlo::transpose(made, std::move(permutation)), x);
    return made->dims() == x.dims() ? made : named_as(hlo::reshape(made, x.dims()), x);
  }

  // --- Products that read values

  struct SideDims {
    Dims batch, summed;
  };
  static SideDims side_dims(const Node& dot, int64_t side) {
    const DotDims& dims = *dot.attrs.dot;
    if (side == 0) return {dims.lhs_batch, dims.lhs_contracting};
    return {dims.rhs_batch, dims.rhs_contracting};
  }

  // The same result from the ordered value, which comes first; nullptr: not a product, or not of
  // all dims.
  Node* sum_of(Node* dot, Node* value) {
    if (!dot->is(Opcode::dot) || dot->is_root()) return nullptr;
    const Labels roots = roots_of(value);
    const Dims places = places_of(roots);
    if (order_of(roots).size() < space_.order.size()) return nullptr;
    const int64_t side = dot->operand(0) == value ? 0 : 1;
    const SideDims mine = side_dims(*dot, side), others = side_dims(*dot, 1 - side);
    Node* const other = dot->operand(1 - side);
    SideDims made, made_other;
    std::set<int64_t> dropped;  // dims of the other operand that meet dims of size 1
    // Which of the pairs stay.
    const auto meet = [&](const Dims& dims, const Dims& met, Dims& to, Dims& to_met) {
      Dims stay;
      for (size_t i = 0; i < dims.size(); ++i) {
        const int64_t place = places[static_cast<size_t>(dims[i])];
        if (place < 0) {
          dropped.insert(met[i]);
          continue;
        }
        to.push_back(place);
        to_met.push_back(met[i]);
        stay.push_back(static_cast<int64_t>(i));
      }
      return stay;
    };
    // Of the dot's dims, those that the new one has.
    Dims result = meet(mine.batch, others.batch, made.batch, made_other.batch);
    meet(mine.summed, others.summed, made.summed, made_other.summed);
    if (made.summed.empty()) return nullptr;
    Dims kept;
    for (int64_t d = 0; d < other->rank(); ++d)
      if (!dropped.contains(d)) kept.push_back(d);
    for (Dims* list : {&made_other.batch, &made_other.summed})
      for (int64_t& d : *list) d = std::lower_bound(kept.begin(), kept.end(), d) - kept.begin();
    add_free(*dot, side, &places, result);
    add_free(*dot, 1 - side, nullptr, result);
    Attributes attrs = dot->attrs;
    attrs.dot = DotDims{made.batch, made_other.batch, made.summed, made_other.summed};
    Node* const sum =
        append(*dot, sizes(*dot, result), {in_order(value, roots, 0), view_of(other, kept, *dot)},
               std::move(attrs));
    done_.insert(sum);
    return put_back(sum, result, *dot);
  }

  // Adds the dims of the result that come from one operand only: those of the ordered value, where
  // `places` are given, as it has them.
  static void add_free(const Node& dot, int64_t side, const Dims* places, Dims& result) {
    const SideDims dims = side_dims(dot, side);
    const Dims free = free_dims(dot.operand(side)->rank(), dims.batch, dims.summed);
    int64_t next = side == 0 ? std::ssize(dims.batch) : dot.rank() - std::ssize(free);
    std::vector<std::pair<int64_t, int64_t>> found;  // its place, and the dim of the result
    for (const int64_t d : free) {
      const int64_t place = places == nullptr ? d : (*places)[static_cast<size_t>(d)];
      if (place >= 0) found.emplace_back(place, next);
      ++next;
    }
    std::sort(found.begin(), found.end());
    for (const auto& [place, d] : found) result.push_back(d);
  }

  const SpaceLabels& labels_;
  const SpaceLabels::Space& space_;
  std::set<const Node*>& done_;
  std::unordered_set<const Node*> members_;
  std::map<int64_t, int64_t> position_;  // of labels in the order of the space
  std::map<std::pair<const Node*, Labels>, Node*> made_;
};

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

void replace(Computation& c, const Replaced& replaced) {
  c.replace_uses(replaced);
  c.remove_dead();
  c.sort();
}

}  // namespace

bool drop_reductions_of_one(Computation& c) {
  Replaced replaced;
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
  const SpaceLabels labels(c);
  Replaced replaced;
  std::set<const Node*> done;
  std::set<const Node*> sums;
  for (const SpaceLabels::Space& space : labels.spaces()) {
    // What sums values of one space may make another; it is turned for the first.
    const bool is_free = std::none_of(space.products.begin(), space.products.end(),
                                      [&](const Node* dot) { return sums.contains(dot); });
    if (!is_free) continue;
    if (space.is_turned) SpaceTurner(labels, space, done).run(replaced);
    sums.insert(space.sums.begin(), space.sums.end());
  }
  if (replaced.empty()) return false;
  replace(c, replaced);
  return true;
}

}  // namespace gspmd
