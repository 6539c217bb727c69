#include "api/contraction.h"

#include <bit>
#include <limits>
#include <numeric>

#include "api/emit.h"

namespace gspmd::detail {

bool has(const Labels& labels, char label) { return labels.find(label) != Labels::npos; }

Labelled sum_lonely(Labelled x, const Labels& others) {
  Dims summed;
  Labels kept;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (has(others, x.labels[i]))
      kept += x.labels[i];
    else
      summed.push_back(static_cast<int64_t>(i));
  }
  if (!summed.empty()) x.node = hlo::reduce_sum(x.node, summed);
  x.labels = kept;
  return x;
}

Node* arrange(const Labelled& x, const Labels& labels) {
  if (x.labels == labels) return x.node;
  Dims permutation;
  for (const char label : labels) permutation.push_back(static_cast<int64_t>(x.labels.find(label)));
  return hlo::transpose(x.node, permutation);
}

namespace {

// The labels of `order` that are in `labels`.
Labels restrict_to(const Labels& order, const Labels& labels) {
  Labels result;
  for (const char label : order)
    if (has(labels, label)) result += label;
  return result;
}

Dims places_of(const Labels& labels, const Labels& in) {
  Dims places;
  for (const char label : labels) places.push_back(static_cast<int64_t>(in.find(label)));
  return places;
}

// No label is contracted: a product of broadcasts.
Node* multiply_broadcast(const Labelled& a, const Labelled& b, const Labels& result) {
  Dims dims;
  for (const char label : result) {
    const Labelled& from = has(a.labels, label) ? a : b;
    dims.push_back(from.node->dim(static_cast<int64_t>(from.labels.find(label))));
  }
  const auto spread = [&](const Labelled& x) {
    const Labels order = restrict_to(result, x.labels);
    Node* arranged = arrange(x, order);
    return order == result ? arranged : hlo::broadcast(arranged, dims, places_of(order, result));
  };
  return multiply(spread(a), spread(b));
}

}  // namespace

Node* contract(Labelled a, Labelled b, const Labels& result) {
  Labels contracted;
  for (const char label : a.labels)
    if (has(b.labels, label) && !has(result, label)) contracted += label;
  if (contracted.empty()) return multiply_broadcast(a, b, result);
  const auto free_of = [&](const Labelled& x, const Labelled& other) {
    Labels free;
    for (const char label : x.labels)
      if (!has(other.labels, label)) free += label;
    return free;
  };
  Labels batch;
  for (const char label : result)
    if (has(a.labels, label) && has(b.labels, label)) batch += label;
  // The dot gives batch, free of a, free of b; swapped operands may save a transpose.
  if (batch + free_of(a, b) + free_of(b, a) != result &&
      batch + free_of(b, a) + free_of(a, b) == result)
    std::swap(a, b);
  DotDims dims;
  dims.lhs_batch = places_of(batch, a.labels);
  dims.rhs_batch = places_of(batch, b.labels);
  dims.lhs_contracting = places_of(contracted, a.labels);
  dims.rhs_contracting = places_of(contracted, b.labels);
  const Labels labels = batch + free_of(a, b) + free_of(b, a);
  return arrange({hlo::dot(a.node, b.node, dims), labels}, result);
}

Labels product_labels(const Labels& a, const Labels& b, const Labels& others) {
  Labels result;
  for (const bool shared : {true, false})
    for (const char label : a)
      if (has(others, label) && has(b, label) == shared) result += label;
  for (const char label : b)
    if (has(others, label) && !has(a, label)) result += label;
  return result;
}

namespace {

using Order = std::vector<std::pair<size_t, size_t>>;

double cost_of(const Labels& a, const Labels& b, const LabelSizes& sizes) {
  double cost = 1;
  for (const char label : a) cost *= static_cast<double>(sizes.at(label));
  for (const char label : b)
    if (!has(a, label)) cost *= static_cast<double>(sizes.at(label));
  return cost;
}

// What is multiplied last for every set of operands, by sets of growing numbers.
Order best_order(const std::vector<Labels>& operands, const Labels& result,
                 const LabelSizes& sizes) {
  const size_t count = operands.size(), sets = size_t(1) << count;
  std::vector<Labels> labels(sets);  // of the product of a set
  std::vector<double> cost(sets, std::numeric_limits<double>::infinity());
  std::vector<size_t> left(sets, 0);
  for (size_t set = 1; set < sets; ++set) {
    Labels inside, outside = result;
    for (size_t i = 0; i < count; ++i) ((set >> i & 1) ? inside : outside) += operands[i];
    for (const char label : inside)
      if (has(outside, label) && !has(labels[set], label)) labels[set] += label;
    if ((set & (set - 1)) == 0) {
      cost[set] = 0;
      labels[set] = operands[static_cast<size_t>(std::countr_zero(set))];
      continue;
    }
    // Each split once: the part with the first operand of the set.
    for (size_t part = (set - 1) & set; part > 0; part = (part - 1) & set) {
      if ((part & (set & (~set + 1))) == 0) continue;
      const size_t rest = set ^ part;
      const double total = cost[part] + cost[rest] + cost_of(labels[part], labels[rest], sizes);
      if (total < cost[set]) {
        cost[set] = total;
        left[set] = part;
      }
    }
  }
  Order order;
  const auto emit_set = [&](auto& self, size_t set) -> size_t {
    if ((set & (set - 1)) == 0) return static_cast<size_t>(std::countr_zero(set));
    const size_t a = self(self, left[set]), b = self(self, set ^ left[set]);
    order.emplace_back(a, b);
    return count + order.size() - 1;
  };
  emit_set(emit_set, sets - 1);
  return order;
}

// The labels that the values still open and the result have, but for two values.
Labels others_of(const std::vector<Labels>& values, const std::vector<size_t>& open, size_t a,
                 size_t b, const Labels& result) {
  Labels others = result;
  for (const size_t value : open)
    if (value != a && value != b) others += values[value];
  return others;
}

Order greedy_order(std::vector<Labels> values, const Labels& result, const LabelSizes& sizes) {
  Order order;
  std::vector<size_t> open(values.size());
  std::iota(open.begin(), open.end(), size_t(0));
  while (open.size() > 1) {
    std::pair<size_t, size_t> best{open[0], open[1]};
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < open.size(); ++i)
      for (size_t j = i + 1; j < open.size(); ++j) {
        const double cost = cost_of(values[open[i]], values[open[j]], sizes);
        if (cost >= least) continue;
        least = cost;
        best = {open[i], open[j]};
      }
    const size_t a = best.first, b = best.second;
    values.push_back(product_labels(values[a], values[b], others_of(values, open, a, b, result)));
    std::erase_if(open, [&](size_t value) { return value == a || value == b; });
    open.push_back(values.size() - 1);
    order.push_back(best);
  }
  return order;
}

}  // namespace

Order contraction_order(const std::vector<Labels>& operands, const Labels& result,
                        const LabelSizes& sizes) {
  if (operands.size() < 2) return {};
  return operands.size() <= kExhaustive ? best_order(operands, result, sizes)
                                        : greedy_order(operands, result, sizes);
}

double contraction_cost(const std::vector<Labels>& operands, const Labels& result,
                        const LabelSizes& sizes, const Order& order) {
  std::vector<Labels> values = operands;
  std::vector<size_t> open(values.size());
  std::iota(open.begin(), open.end(), size_t(0));
  double cost = 0;
  for (const std::pair<size_t, size_t>& pair : order) {
    const size_t a = pair.first, b = pair.second;
    cost += cost_of(values[a], values[b], sizes);
    values.push_back(product_labels(values[a], values[b], others_of(values, open, a, b, result)));
    std::erase_if(open, [&](size_t value) { return value == a || value == b; });
    open.push_back(values.size() - 1);
  }
  return cost;
}

}  // namespace gspmd::detail
