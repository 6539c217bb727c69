#include "gspmd/api/einsum.h"

#include <algorithm>
#include <map>

#include "api/emit.h"

namespace gspmd {

using namespace detail;

namespace {

using Labels = std::string;  // one letter per dim

struct Labelled {
  Node* node = nullptr;
  Labels labels;
};

bool has(const Labels& labels, char label) { return labels.find(label) != Labels::npos; }

struct Spec {
  std::vector<Labels> operands;
  Labels result;
};

Spec parse(std::string_view text, int operands) {
  if (const char* problem = einsum_spec_problem(text, operands))
    call_error("spec \"{}\": {}; write it like \"ab,bc->ac\"", text, problem);
  Spec spec;
  const size_t arrow = text.find("->");
  std::string_view inputs = text.substr(0, arrow);
  for (size_t comma; (comma = inputs.find(',')) != std::string_view::npos;) {
    spec.operands.emplace_back(inputs.substr(0, comma));
    inputs.remove_prefix(comma + 1);
  }
  spec.operands.emplace_back(inputs);
  spec.result = Labels(text.substr(arrow + 2));
  return spec;
}

void check_sizes(std::string_view text, const std::vector<Labelled>& operands) {
  std::map<char, std::pair<int64_t, const Node*>> sizes;
  for (const Labelled& operand : operands) {
    const Node* node = operand.node;
    if (static_cast<int64_t>(operand.labels.size()) != node->rank())
      call_error("spec \"{}\" gives \"{}\" to {}, which has rank {}; one letter per dim", text,
                 operand.labels, describe(node), node->rank());
    for (int64_t i = 0; i < node->rank(); ++i) {
      const char label = operand.labels[static_cast<size_t>(i)];
      const auto [at, is_new] = sizes.try_emplace(label, node->dim(i), node);
      if (!is_new && at->second.first != node->dim(i))
        call_error("label '{}' of \"{}\" is {} in {} and {} in {}; sizes must be equal", label,
                   text, at->second.first, describe(at->second.second), node->dim(i),
                   describe(node));
    }
  }
}

// Repeated labels within one operand become one: the elements off the diagonal count as 0.
Labelled take_diagonals(Labelled x) {
  for (size_t i = 0; i < x.labels.size(); ++i) {
    for (size_t j; (j = x.labels.find(x.labels[i], i + 1)) != Labels::npos;) {
      const Shape counts(DType::s32, x.node->dims());
      Computation& c = x.node->parent();
      Node* on_diagonal =
          hlo::compare(hlo::iota(c, counts, static_cast<int64_t>(i)),
                       hlo::iota(c, counts, static_cast<int64_t>(j)), Direction::eq);
      x.node = hlo::reduce_sum(hlo::select(on_diagonal, x.node, splat_like(x.node, 0)),
                               {static_cast<int64_t>(j)});
      x.labels.erase(j, 1);
    }
  }
  return x;
}

// Sums over labels that nobody else has.
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

// Dims in the order of `labels`, which are those of x in another order.
Node* arrange(const Labelled& x, const Labels& labels) {
  if (x.labels == labels) return x.node;
  Dims permutation;
  for (const char label : labels) permutation.push_back(static_cast<int64_t>(x.labels.find(label)));
  return hlo::transpose(x.node, permutation);
}

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

}  // namespace

Tensor einsum(const EinsumSpec<1>& spec, Operand x) {
  return call("einsum", x.site(), [&] {
    const Spec parsed = parse(spec.text(), 1);
    Labelled operand{node_of(x), parsed.operands[0]};
    check_sizes(spec.text(), {operand});
    need_number(operand.node);
    operand = sum_lonely(take_diagonals(operand), parsed.result);
    return tensor_of(arrange(operand, parsed.result));
  });
}

Tensor einsum(const EinsumSpec<2>& spec, Operand a, Operand b) {
  return call("einsum", a.site(), [&] {
    const Spec parsed = parse(spec.text(), 2);
    const auto [left, right] = nodes_of(a, b);
    Labelled lhs{left, parsed.operands[0]};
    Labelled rhs{right, parsed.operands[1]};
    check_sizes(spec.text(), {lhs, rhs});
    need_number(left);
    lhs = sum_lonely(take_diagonals(lhs), parsed.operands[1] + parsed.result);
    rhs = sum_lonely(take_diagonals(rhs), parsed.operands[0] + parsed.result);
    return tensor_of(contract(lhs, rhs, parsed.result));
  });
}

}  // namespace gspmd
