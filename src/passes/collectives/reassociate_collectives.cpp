#include <algorithm>
#include <optional>

#include "gspmd/ops/builders.h"
#include "gspmd/passes/collectives/collective_motion.h"
#include "passes/graph/rewrite.h"

namespace gspmd {
namespace {

// The collective sums one array: adding before or after it is the same.
bool sums_one_array(const Node& node) {
  if (!node.is(Opcode::all_reduce) && !node.is(Opcode::reduce_scatter)) return false;
  return node.operands().size() == 1 && !node.shape.is_tuple && node.called.size() == 1 &&
         recognize_combiner(*node.called[0]) == Combiner::sum;
}

bool same_collective(const Node& a, const Node& b) {
  Attributes attrs = a.attrs;
  attrs.channel_id = b.attrs.channel_id;
  return a.opcode() == b.opcode() && a.shape == b.shape && a.backward == b.backward &&
         equal(attrs, b.attrs);
}

bool read_only_by(const Node& node, const Node& reader) {
  return node.users().size() == 1 && node.users()[0] == &reader && !node.is_root();
}

// The terms of a sum: through additions that nothing else reads.
void collect_terms(Node* sum, const Node& top, std::vector<Node*>& terms,
                   std::vector<const Node*>& readers) {
  std::vector<Node*> stack = {sum};
  while (!stack.empty()) {
    Node* const node = stack.back();
    stack.pop_back();
    const bool inner = node == &top || (is_sum(*node) && node->users().size() == 1 &&
                                        !node->is_root() && node->shape == top.shape);
    if (!is_sum(*node) || !inner) continue;
    for (int64_t side = 1; side >= 0; --side) {
      Node* const operand = node->operand(side);
      const bool goes_on =
          is_sum(*operand) && read_only_by(*operand, *node) && node->operand(0) != node->operand(1);
      if (goes_on) {
        stack.push_back(operand);
      } else {
        terms.push_back(operand);
        readers.push_back(node);
      }
    }
  }
}

bool is_inner_term(const Node& add) {
  return add.users().size() == 1 && !add.is_root() && is_sum(*add.users()[0]) &&
         add.users()[0]->operand(0) != add.users()[0]->operand(1);
}

bool rewrite(Node& top) {
  if (is_inner_term(top)) return false;  // its reader's turn
  std::vector<Node*> terms;
  std::vector<const Node*> readers;
  collect_terms(&top, top, terms, readers);
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (!sums_one_array(*terms[i]) || !read_only_by(*terms[i], *readers[i])) continue;
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) {
      return same_collective(*terms[g.front()], *terms[i]);
    });
    if (group == groups.end())
      groups.push_back({i});
    else
      group->push_back(i);
  }
  bool changed = false;
  Computation& computation = top.parent();
  for (const std::vector<size_t>& group : groups) {
    if (group.size() < 2) continue;
    changed = true;
    const Node& first = *terms[group[0]];
    const EmissionScope scope(first.metadata, first.backward);
    Node* sum = first.operand(0);
    for (size_t k = 1; k < group.size(); ++k) sum = hlo::add(sum, terms[group[k]]->operand(0));
    Node* const joined = computation.append(first.opcode(), first.shape, {sum}, first.attrs);
    copy_annotations(first, *joined);
    joined->called = first.called;
    for (const size_t i : group) terms[i] = nullptr;
    terms[group[0]] = joined;
  }
  if (!changed) return false;
  std::erase(terms, nullptr);
  const EmissionScope scope(top.metadata, top.backward);
  Node* sum = terms.at(0);
  for (size_t i = 1; i < terms.size(); ++i) sum = hlo::add(sum, terms[i]);
  computation.replace_uses(&top, sum);
  return true;
}

}  // namespace

bool reassociate_collectives(Module& module) {
  return rewrite_each(module, [](Computation& computation) {
    bool changed = false;
    for (size_t i = computation.nodes().size(); i-- > 0;)
      if (Node& node = *computation.nodes()[i]; is_sum(node)) changed |= rewrite(node);
    return changed;
  });
}

}  // namespace gspmd
