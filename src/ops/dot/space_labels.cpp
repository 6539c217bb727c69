#include "ops/dot/space_labels.h"

#include <algorithm>
#include <map>

#include "gspmd/ir/op.h"
#include "ops/dot/row_blocks.h"

namespace gspmd {
namespace {

using Labels = SpaceLabels::Labels;

Labels without_ones(Labels labels) {
  std::erase(labels, -1);
  return labels;
}

Labels sorted(Labels labels) {
  std::sort(labels.begin(), labels.end());
  return labels;
}

// Labels of the dims that only one operand has.
Labels free_labels(const Node& dot, int64_t side, const Labels& of_result) {
  const DotDims& dims = *dot.attrs.dot;
  const Labels labels = operand_labels(dot, side, of_result);
  Labels free;
  for (const int64_t d : free_dims(std::ssize(labels), side == 0 ? dims.lhs_batch : dims.rhs_batch,
                                   side == 0 ? dims.lhs_contracting : dims.rhs_contracting))
    if (labels[static_cast<size_t>(d)] >= 0) free.push_back(labels[static_cast<size_t>(d)]);
  return free;
}

Labels batch_labels(const Node& dot, const Labels& of_result) {
  const auto batches = static_cast<std::ptrdiff_t>(dot.attrs.dot->lhs_batch.size());
  return without_ones({of_result.begin(), of_result.begin() + batches});
}

}  // namespace

Dims operand_labels(const Node& dot, int64_t side, const Dims& of_result) {
  Dims labels(static_cast<size_t>(dot.operand(side)->rank()), -1);
  const DotDims& dims = *dot.attrs.dot;
  const Dims& batch = side == 0 ? dims.lhs_batch : dims.rhs_batch;
  const Dims free =
      free_dims(std::ssize(labels), batch, side == 0 ? dims.lhs_contracting : dims.rhs_contracting);
  for (size_t i = 0; i < batch.size(); ++i) labels[static_cast<size_t>(batch[i])] = of_result[i];
  const size_t first = side == 0 ? batch.size() : of_result.size() - free.size();
  for (size_t i = 0; i < free.size(); ++i)
    labels[static_cast<size_t>(free[i])] = of_result[first + i];
  return labels;
}

SpaceLabels::SpaceLabels(const Computation& computation) {
  for (const auto& owned : computation.nodes()) {
    Node* const node = owned.get();
    if (may_make_space(*node)) {
      add_product(node);
    } else if (std::optional<Labels> labels = labels_of(*node)) {
      labels_[node] = std::move(*labels);
      values_.push_back(node);
    }
  }
}

const Labels* SpaceLabels::find(const Node* node) const { return labels_.find(node); }

int64_t SpaceLabels::root(int64_t label) const {
  while (parent_[static_cast<size_t>(label)] != label) label = parent_[static_cast<size_t>(label)];
  return label;
}

Labels SpaceLabels::roots(Labels labels) const {
  for (int64_t& label : labels)
    if (label >= 0) label = root(label);
  return labels;
}

void SpaceLabels::add_product(Node* dot) {
  Labels& labels = labels_[dot];
  for (const int64_t size : dot->dims()) {
    labels.push_back(size == 1 ? -1 : std::ssize(parent_));
    if (size == 1) continue;
    parent_.push_back(labels.back());
    products_of_.push_back({products_});
  }
  ++products_;
  values_.push_back(dot);
}

std::optional<Labels> SpaceLabels::labels_of(const Node& node) {
  if (node.is_root() || node.shape.is_tuple || node.operands().empty()) return std::nullopt;
  if (node.op().has(kElementwise)) return elementwise_labels(node);
  const Labels* const from = find(node.operand(0));
  if (from == nullptr) return std::nullopt;
  Labels labels;
  if (node.is(Opcode::transpose)) {
    for (const int64_t d : node.attrs.dimensions)
      labels.push_back(from->at(static_cast<size_t>(d)));
    return labels;
  }
  if (moves_ones(node)) {
    const Labels kept = without_ones(*from);
    auto next = kept.begin();
    for (const int64_t size : node.dims()) labels.push_back(size == 1 ? -1 : *next++);
    return labels;
  }
  if (!node.is(Opcode::reduce)) return std::nullopt;
  const Dims& folded = node.attrs.dimensions;
  for (size_t d = 0; d < from->size(); ++d)
    if (std::find(folded.begin(), folded.end(), static_cast<int64_t>(d)) == folded.end())
      labels.push_back((*from)[d]);
  if (without_ones(labels).size() == without_ones(*from).size()) return std::nullopt;
  return labels;
}

// The labels of an operand; those of all others are the same.
std::optional<Labels> SpaceLabels::elementwise_labels(const Node& node) {
  if (!node.called.empty()) return std::nullopt;
  const Labels* labels = nullptr;
  for (const Node* operand : node.operands()) {
    if (operand->rank() == 0) continue;
    if (operand->dims() != node.dims()) return std::nullopt;
    const Labels* const found = find(operand);
    if (found == nullptr) continue;
    if (labels == nullptr) labels = found;
    if (!join(*labels, *found)) return std::nullopt;
  }
  if (labels == nullptr) return std::nullopt;
  return *labels;
}

// Whether two dims of one product would become the same.
bool SpaceLabels::share_product(int64_t a, int64_t b) const {
  const std::vector<int64_t>*few = &products_of_[static_cast<size_t>(a)],
        *many = &products_of_[static_cast<size_t>(b)];
  if (few->size() > many->size()) std::swap(few, many);
  return std::any_of(few->begin(), few->end(), [&](int64_t product) {
    return std::binary_search(many->begin(), many->end(), product);
  });
}

bool SpaceLabels::join(const Labels& a, const Labels& b) {
  for (size_t d = 0; d < a.size(); ++d) {
    if (a[d] < 0) continue;
    int64_t into = root(a[d]), from = root(b[d]);
    if (into == from) continue;
    if (share_product(into, from)) return false;
    // The smaller goes into the larger, so that no way to a root is long.
    if (products_of_[static_cast<size_t>(into)].size() <
        products_of_[static_cast<size_t>(from)].size())
      std::swap(into, from);
    parent_[static_cast<size_t>(from)] = into;
    std::vector<int64_t>&all = products_of_[static_cast<size_t>(into)],
    &more = products_of_[static_cast<size_t>(from)];
    const auto middle = all.insert(all.end(), more.begin(), more.end());
    std::inplace_merge(all.begin(), middle, all.end());
    more.clear();
  }
  return true;
}

std::vector<SpaceLabels::Space> SpaceLabels::spaces() const {
  std::map<int64_t, Space> by_first;  // by the first product
  for (Node* value : values_) {
    const Labels labels = without_ones(roots(labels_.at(value)));
    if (labels.empty()) continue;
    Space& space = by_first[products_of_[static_cast<size_t>(labels[0])].front()];
    space.values.push_back(value);
    if (may_make_space(*value)) space.products.push_back(value);
  }
  std::vector<Space> spaces;
  for (auto& [first, space] : by_first)
    if (!space.products.empty() && set_order(space)) spaces.push_back(std::move(space));
  std::stable_partition(spaces.begin(), spaces.end(),
                        [](const Space& space) { return space.is_reduced; });
  return spaces;
}

// What is reduced along, or the last dim of the first product.
int64_t SpaceLabels::column_of(Space& space) const {
  const Node& first = *space.products[0];
  const Labels labels = roots(labels_.at(&first)), batches = batch_labels(first, labels);
  for (const Node* value : space.values) {
    if (!value->is(Opcode::reduce)) continue;
    const Labels from = without_ones(roots(labels_.at(value->operand(0)))),
                 to = roots(labels_.at(value));
    Labels folded;
    for (const int64_t label : from)
      if (std::find(to.begin(), to.end(), label) == to.end()) folded.push_back(label);
    if (folded.size() == 1 && std::find(batches.begin(), batches.end(), folded[0]) == batches.end())
      return folded[0];
  }
  const Labels free = free_labels(first, 1, labels);
  return free.size() == 1 ? free[0] : -1;
}

bool SpaceLabels::set_order(Space& space) const {
  const Node& first = *space.products[0];
  const Labels labels = roots(labels_.at(&first));
  const int64_t column = column_of(space);
  space.order = batch_labels(first, labels);
  space.batches = std::ssize(space.order);
  // The most rows last: blocks are made of them.
  int64_t most = 0;
  Labels rows;
  for (size_t d = first.attrs.dot->lhs_batch.size(); d < labels.size(); ++d) {
    if (labels[d] < 0 || labels[d] == column) continue;
    const int64_t size = first.dims()[d];
    rows.insert(size >= most ? rows.end() : rows.end() - 1, labels[d]);
    most = std::max(most, size);
  }
  space.order.insert(space.order.end(), rows.begin(), rows.end());
  space.order.push_back(column);
  if (!std::all_of(space.products.begin(), space.products.end(),
                   [&](const Node* dot) { return fits(space, *dot); }) ||
      !find_sums(space))
    return false;
  space.is_turned = std::any_of(space.values.begin(), space.values.end(),
                                [&](const Node* value) { return is_turned(space, *value); });
  return true;
}

// Whether a product has the batches of the space, and one operand only its columns.
bool SpaceLabels::fits(const Space& space, const Node& dot) const {
  const Labels labels = roots(labels_.at(&dot));
  const auto rows = space.order.begin() + space.batches;
  if (sorted(batch_labels(dot, labels)) != sorted({space.order.begin(), rows})) return false;
  const Labels column{space.order.back()}, others = sorted({rows, space.order.end() - 1});
  for (const int64_t side : {0, 1})
    if (free_labels(dot, side, labels) == column &&
        sorted(free_labels(dot, 1 - side, labels)) == others)
      return true;
  return false;
}

// Products that sum a value over its columns or all rows, batch by batch; whether there are any.
bool SpaceLabels::find_sums(Space& space) const {
  const auto rows = space.order.begin() + space.batches;
  const Labels batches = sorted({space.order.begin(), rows}), column{space.order.back()},
               all_rows = sorted({rows, space.order.end() - 1});
  for (const Node* value : space.values) {
    const Labels labels = roots(labels_.at(value));
    if (without_ones(labels).size() < space.order.size()) continue;
    const auto of = [&](const Dims& dims) {
      Labels found;
      for (const int64_t d : dims) found.push_back(labels[static_cast<size_t>(d)]);
      return sorted(without_ones(found));
    };
    for (const Node* user : value->users()) {
      if (!user->is(Opcode::dot)) continue;
      const DotDims& dims = *user->attrs.dot;
      const bool is_left = user->operand(0) == value;
      const Labels summed = of(is_left ? dims.lhs_contracting : dims.rhs_contracting);
      if (of(is_left ? dims.lhs_batch : dims.rhs_batch) == batches &&
          (summed == column || summed == all_rows))
        space.sums.push_back(user);
    }
  }
  return !space.sums.empty();
}

bool SpaceLabels::is_turned(const Space& space, const Node& value) const {
  const Labels labels = roots(labels_.at(&value)), kept = without_ones(labels);
  if (kept.size() < space.order.size()) return false;
  if (kept != space.order || value.is(Opcode::transpose) || moves_ones(value)) return true;
  return labels.size() < 2 || labels[labels.size() - 2] < 0 || labels.back() < 0;
}

}  // namespace gspmd
