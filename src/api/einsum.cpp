#include "gspmd/api/einsum.h"

#include <algorithm>
#include <map>

#include "api/contraction.h"
#include "api/emit.h"

namespace gspmd {

using namespace detail;

namespace {

constexpr std::string_view kEllipsis = "...";
// Names of the dims that "..." stands for, from the last one on: no letters.
constexpr std::string_view kUnnamed = "0123456789";

struct Spec {
  std::vector<std::string> operands;
  std::string result;
};

const char* words_of(SpecProblem problem) {
  switch (problem) {
    case SpecProblem::arrow:
      return "no '->' before the result's labels";
    case SpecProblem::operand:
      return "labels of operands must be letters or one \"...\", operands separated by ','";
    case SpecProblem::count:
      return "the number of operands differs from the number given";
    case SpecProblem::result:
      return "labels of the result must be letters or one \"...\"";
    case SpecProblem::dots:
      return "\"...\" of the result is in no operand";
    case SpecProblem::unknown:
      return "a label of the result is in no operand";
    default:
      return "a label is repeated in the result";
  }
}

Spec parse(std::string_view text, int operands) {
  const SpecProblem problem = einsum_spec_problem(text, operands);
  if (problem != SpecProblem::none)
    call_error("spec \"{}\": {}; write it like \"ab,bc->ac\"", text, words_of(problem));
  Spec spec;
  const size_t arrow = text.find("->");
  std::string_view inputs = text.substr(0, arrow);
  for (size_t comma; (comma = inputs.find(',')) != std::string_view::npos;) {
    spec.operands.emplace_back(inputs.substr(0, comma));
    inputs.remove_prefix(comma + 1);
  }
  spec.operands.emplace_back(inputs);
  spec.result = std::string(text.substr(arrow + 2));
  return spec;
}

Labels unnamed(int64_t count) {
  Labels labels(kUnnamed.substr(0, static_cast<size_t>(count)));
  std::reverse(labels.begin(), labels.end());
  return labels;
}

// The labels of one operand, those of "..." among them.
Labels labels_of(std::string part, const Node* x, std::string_view text) {
  const size_t dots = part.find(kEllipsis);
  const auto letters = static_cast<int64_t>(part.size() - (dots == std::string::npos ? 0 : 3));
  const int64_t rest = x->rank() - letters;
  if (dots == std::string::npos ? rest != 0 : rest < 0)
    call_error("spec \"{}\" gives \"{}\" to {}, which has rank {}; one letter per dim", text, part,
               describe(x), x->rank());
  if (rest > std::ssize(kUnnamed))
    call_error("\"...\" of \"{}\" stands for {} dims of {}; name all but {} of them", text, rest,
               describe(x), kUnnamed.size());
  if (dots != std::string::npos) part.replace(dots, kEllipsis.size(), unnamed(rest));
  return part;
}

bool is_unnamed(char label) { return kUnnamed.find(label) != std::string_view::npos; }

// The size of every label. UserError: two sizes, but for 1 of unnamed dims.
LabelSizes check_sizes(std::string_view text, const std::vector<Labelled>& operands) {
  std::map<char, std::pair<int64_t, const Node*>> sizes;
  for (const Labelled& operand : operands) {
    const Node* node = operand.node;
    for (int64_t i = 0; i < node->rank(); ++i) {
      const char label = operand.labels[static_cast<size_t>(i)];
      const auto [at, is_new] = sizes.try_emplace(label, node->dim(i), node);
      if (is_new || at->second.first == node->dim(i)) continue;
      if (is_unnamed(label) && node->dim(i) == 1) continue;
      if (is_unnamed(label) && at->second.first == 1) {
        at->second = {node->dim(i), node};
        continue;
      }
      if (is_unnamed(label))
        call_error(
            "\"...\" of \"{}\": dim {} from its end is {} in {} and {} in {}; sizes must be "
            "equal or 1",
            text, label - kUnnamed[0] + 1, at->second.first, describe(at->second.second),
            node->dim(i), describe(node));
      call_error("label '{}' of \"{}\" is {} in {} and {} in {}; sizes must be equal", label, text,
                 at->second.first, describe(at->second.second), node->dim(i), describe(node));
    }
  }
  LabelSizes result;
  for (const auto& [label, size] : sizes) result[label] = size.first;
  return result;
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

// Without the unnamed dims of size 1 that others have larger.
Labelled drop_stretched(Labelled x, const LabelSizes& sizes) {
  Dims dims;
  Labels labels;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (x.node->dims()[i] != sizes.at(x.labels[i])) continue;
    dims.push_back(x.node->dims()[i]);
    labels += x.labels[i];
  }
  if (labels != x.labels) x.node = hlo::reshape(x.node, dims);
  x.labels = labels;
  return x;
}

// The result's labels: those of "..." are as many as the operand with most of them has.
Labels result_labels(const Spec& spec, std::string_view text,
                     const std::vector<Labelled>& operands) {
  int64_t most = 0;
  for (const Labelled& x : operands)
    most = std::max<int64_t>(most, std::count_if(x.labels.begin(), x.labels.end(), is_unnamed));
  Labels result = spec.result;
  const size_t dots = result.find(kEllipsis);
  if (dots == std::string::npos && most > 0)
    call_error(
        "spec \"{}\": \"...\" stands for dims but is not in the result; write it there, or "
        "letters, which are summed",
        text);
  if (dots != std::string::npos) result.replace(dots, kEllipsis.size(), unnamed(most));
  return result;
}

Labels labels_but(const std::vector<Labelled>& values, std::initializer_list<size_t> but,
                  Labels labels) {
  for (size_t i = 0; i < values.size(); ++i)
    if (std::find(but.begin(), but.end(), i) == but.end()) labels += values[i].labels;
  return labels;
}

Node* einsum_of(std::string_view text, const std::vector<Node*>& nodes) {
  const Spec spec = parse(text, static_cast<int>(nodes.size()));
  std::vector<Labelled> values;
  for (size_t i = 0; i < nodes.size(); ++i)
    values.push_back({nodes[i], labels_of(spec.operands[i], nodes[i], text)});
  const LabelSizes sizes = check_sizes(text, values);
  const Labels result = result_labels(spec, text, values);
  need_number(nodes[0]);
  for (Labelled& x : values) x = drop_stretched(take_diagonals(x), sizes);
  std::vector<Labels> labels;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = sum_lonely(values[i], labels_but(values, {i}, result));
    labels.push_back(values[i].labels);
  }
  for (const auto& [a, b] : contraction_order(labels, result, sizes)) {
    const bool last = values.size() + 1 == 2 * nodes.size() - 1;
    const Labels kept = last ? result
                             : product_labels(values[a].labels, values[b].labels,
                                              labels_but(values, {a, b}, result));
    values.push_back({contract(values[a], values[b], kept), kept});
    values[a].labels.clear();  // used up
    values[b].labels.clear();
  }
  return arrange(values.back(), result);
}

// Operands of one dtype; C++ numbers and arrays among them.
Tensor einsum_call(std::string_view text, std::initializer_list<const Operand*> operands) {
  return call("einsum", (*operands.begin())->site(), [&] {
    const Operand* typed = *operands.begin();  // numbers take its dtype
    for (const Operand* operand : operands)
      if (typed->is_scalar()) typed = operand;
    std::vector<Node*> nodes;
    for (const Operand* operand : operands) nodes.push_back(nodes_of(*typed, *operand).second);
    return tensor_of(einsum_of(text, nodes));
  });
}

}  // namespace

Tensor einsum(const EinsumSpec<1>& spec, Operand x) {
  return call("einsum", x.site(), [&] { return tensor_of(einsum_of(spec.text(), {node_of(x)})); });
}
Tensor einsum(const EinsumSpec<2>& spec, Operand a, Operand b) {
  return einsum_call(spec.text(), {&a, &b});
}
Tensor einsum(const EinsumSpec<3>& spec, Operand a, Operand b, Operand c) {
  return einsum_call(spec.text(), {&a, &b, &c});
}
Tensor einsum(const EinsumSpec<4>& spec, Operand a, Operand b, Operand c, Operand d) {
  return einsum_call(spec.text(), {&a, &b, &c, &d});
}

Tensor einsum(const EinsumSpec<-1>& spec, std::vector<Tensor> operands, Site site) {
  return call("einsum", site, [&] {
    if (operands.empty()) call_error("there are no operands; give at least one");
    std::vector<Node*> nodes;
    for (const Tensor& operand : operands) nodes.push_back(nodes_of(operands[0], operand).second);
    return tensor_of(einsum_of(spec.text(), nodes));
  });
}

}  // namespace gspmd
