#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "ir/call_nesting.h"
#include "ir/equal_in_order.h"
#include "ir/sdy_names.h"
#include "passes/shardy/prepare.h"
#include "passes/shardy/program_builder.h"

namespace gspmd {
namespace {

constexpr int64_t kMostCopiedNodes = 10'000'000;
bool is_function_call(const Node& node) {
  return node.is(Opcode::call) && !is_manual_body(node) &&
         !node.frontend_attributes.contains(kSdyNamed);
}

// Whether the called computations are part of the caller.
bool is_part(const Node& node, bool calls) {
  if (node.is(Opcode::while_) || node.is(Opcode::conditional)) return true;
  return node.is(Opcode::call) && (calls || !is_function_call(node));
}

Computation* copy_computation(Module& module, const Computation& source, std::string name) {
  Computation* const copy = module.add_computation(std::move(name));
  copy->attributes = source.attributes;
  std::map<const Node*, Node*> copies;
  for (const auto& node : source.nodes()) {
    std::vector<Node*> operands;
    for (const Node* operand : node->operands()) operands.push_back(copies.at(operand));
    Node* const made = copy->append_as(node->name(), node->opcode(), node->shape,
                                       std::move(operands), node->attrs);
    copy_annotations(*node, *made);
    made->called = node->called;
    copies.emplace(node.get(), made);
  }
  copy->set_root(copies.at(source.root()));
  return copy;
}

// Whether two copies of one computation ended up the same, names apart.
bool alike(const Computation& a, const Computation& b) {
  return equal_in_order(a, b, [](const Node& x, const Node& y) {
    return x.is(y.opcode()) && x.shape == y.shape && x.called == y.called &&
           x.frontend_attributes == y.frontend_attributes && x.sharding == y.sharding &&
           equal(x.attrs, y.attrs);
  });
}

// Calls of the first of each pair become calls of the second; the first go.
void replace_called(Module& module, const std::map<Computation*, Computation*>& replaced) {
  if (replaced.empty()) return;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      for (Computation*& called : node->called) {
        const auto found = replaced.find(called);
        if (found != replaced.end()) called = found->second;
      }
  for (const auto& [gone, kept] : replaced) module.remove_computation(gone);
}

// Gives each reader of a constant expression one of its own: the expression itself to its first
// reader, a copy to every other. What an expression reads twice is one value in each copy.
class ConstantSplitter {
 public:
  explicit ConstantSplitter(Module& module) : module_(module) {
    constexpr int64_t kFew = 200'000;
    int64_t nodes = 0;
    for (const auto& computation : module.computations()) nodes += std::ssize(computation->nodes());
    left_ = std::max(kFew, 2 * nodes);
  }

  // The copies of each node, itself first.
  std::vector<std::vector<Node*>> run() {
    for (const auto& computation : module_.computations()) split(*computation);
    if (left_ < 0)
      fmt::print(stderr,
                 "gspmd: warning: sdy: a copy of each constant expression per reader would be too "
                 "many; some readers share one, and so one sharding\n");
    return std::move(copies_);
  }

 private:
  void split(Computation& computation) {
    const size_t count = computation.nodes().size();
    constants_.clear();
    std::vector<const Node*> broadcasts;  // of scalars: they are no part of expressions
    for (size_t i = 0; i < count; ++i) {
      const Node& node = *computation.nodes()[i];
      if (is_sdy_constant(node, constants_))
        constants_.insert(&node);
      else if (is_sdy_scalar_broadcast(node))
        broadcasts.push_back(&node);
    }
    constants_.insert(broadcasts.begin(), broadcasts.end());
    const int64_t before = left_;
    for (size_t i = 0; i < count; ++i) {
      Node* const node = computation.nodes()[i].get();
      if (constants_.contains(node)) continue;
      for (int64_t k = 0; k < std::ssize(node->operands()); ++k)
        if (constants_.contains(node->operand(k))) node->set_operand(k, own(node->operand(k)));
    }
    if (left_ != before) computation.sort();
  }

  // The expression that `root` is the value of, operands first.
  std::vector<Node*> expression(Node* root) const {
    std::vector<Node*> nodes;
    std::vector<std::pair<Node*, size_t>> stack{{root, 0}};  // and how many operands are done
    std::set<const Node*> seen{root};
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next == node->operands().size()) {
        nodes.push_back(node);
        stack.pop_back();
        continue;
      }
      Node* const operand = node->operands()[next++];
      if (constants_.contains(operand) && seen.insert(operand).second)
        stack.emplace_back(operand, 0);
    }
    return nodes;
  }

  Node* own(Node* root) {
    if (left_ < 0) return root;
    std::map<Node*, Node*> made;
    const auto now = [&](Node* operand) {
      const auto found = made.find(operand);
      return found == made.end() ? operand : found->second;
    };
    for (Node* node : expression(root)) {
      if (taken_.insert(node).second) {
        for (int64_t k = 0; k < std::ssize(node->operands()); ++k)
          if (now(node->operand(k)) != node->operand(k))
            node->set_operand(k, now(node->operand(k)));
        continue;
      }
      std::vector<Node*> operands;
      for (Node* operand : node->operands()) operands.push_back(now(operand));
      Node* const copy =
          node->parent().append(node->opcode(), node->shape, operands, node->attrs, node->name());
      copy_annotations(*node, *copy);
      made[node] = copy;
      constants_.insert(copy);
      taken_.insert(copy);
      const auto [found, is_new] = group_.emplace(node, copies_.size());
      if (is_new) copies_.push_back({node});
      copies_[found->second].push_back(copy);
      --left_;
    }
    return now(root);
  }

  Module& module_;
  int64_t left_ = 0;                         // copies that may be made
  std::set<const Node*> constants_, taken_;  // `constants_` of the computation at hand
  std::map<Node*, size_t> group_;
  std::vector<std::vector<Node*>> copies_;
};

}  // namespace

std::vector<std::vector<Computation*>> give_each_call_its_own(Module& module, bool calls) {
  check_nesting(module);
  std::vector<std::vector<Computation*>> copies;
  std::map<Computation*, size_t> group;
  std::set<Computation*> taken;
  int64_t copied = 0;
  // Callers first: a copy's own callees are met again, in the copy.
  std::vector<Computation*> work;
  for (const auto& computation : module.computations()) work.push_back(computation.get());
  std::reverse(work.begin(), work.end());
  for (size_t i = 0; i < work.size(); ++i) {
    const size_t count = work[i]->nodes().size();
    for (size_t n = 0; n < count; ++n) {
      Node& node = *work[i]->nodes()[n];
      if (!is_part(node, calls)) continue;
      for (Computation*& called : node.called) {
        if (taken.insert(called).second) continue;
        copied += std::ssize(called->nodes());
        if (copied > kMostCopiedNodes)
          user_error(
              "sdy: a copy of each function per call would have more than {} instructions; "
              "call fewer functions, or complete with --strategy gspmd",
              kMostCopiedNodes);
        const auto [found, is_new] = group.emplace(called, copies.size());
        if (is_new) copies.push_back({called});
        Computation* const copy =
            copy_computation(module, *called, fmt::format("{}.copy", called->name()));
        copies[found->second].push_back(copy);
        group.emplace(copy, found->second);
        taken.insert(copy);
        called = copy;
        work.push_back(copy);
      }
    }
  }
  if (!copies.empty()) module.sort_computations();
  return copies;
}

void merge_copies(Module& module, std::vector<std::vector<Computation*>> copies) {
  // What calls copies that were merged may be alike then.
  for (bool merged = true; merged;) {
    merged = false;
    for (std::vector<Computation*>& group : copies) {
      std::vector<Computation*> distinct;
      std::map<Computation*, Computation*> replaced;
      for (Computation* copy : group) {
        const auto same = std::find_if(distinct.begin(), distinct.end(),
                                       [&](Computation* other) { return alike(*copy, *other); });
        if (same == distinct.end())
          distinct.push_back(copy);
        else
          replaced[copy] = *same;
      }
      replace_called(module, replaced);
      merged |= !replaced.empty();
      group = std::move(distinct);
    }
  }
  for (const std::vector<Computation*>& group : copies) {
    std::map<Computation*, Computation*> named;
    for (size_t i = 1; i < group.size(); ++i)
      named[group[i]] =
          copy_computation(module, *group[i], fmt::format("{}_{}", group[0]->name(), i - 1));
    replace_called(module, named);
  }
  if (!copies.empty()) module.sort_computations();
}

void remove_unused_functions(Module& module) {
  const std::pair<std::string, std::string> is_private{kVisibility, "private"};
  while (true) {
    std::set<const Computation*> called{module.entry()};
    for (const auto& computation : module.computations())
      for (const auto& node : computation->nodes())
        called.insert(node->called.begin(), node->called.end());
    std::vector<Computation*> unused;
    for (const auto& computation : module.computations()) {
      const auto& attributes = computation->attributes;
      if (!called.contains(computation.get()) &&
          std::find(attributes.begin(), attributes.end(), is_private) != attributes.end())
        unused.push_back(computation.get());
    }
    if (unused.empty()) return;
    for (Computation* computation : unused) module.remove_computation(computation);
  }
}

std::vector<std::vector<Node*>> split_constants(Module& module) {
  return ConstantSplitter(module).run();
}

void merge_constants(const std::vector<std::vector<Node*>>& copies) {
  for (const std::vector<Node*>& group : copies) {
    std::map<std::string, Node*> kept;
    for (Node* node : group) {
      if (!node->is(Opcode::constant)) continue;
      const std::string* text = attribute(*node, kSdySharding);
      const auto [found, is_new] = kept.emplace(text == nullptr ? "" : *text, node);
      if (is_new) continue;
      node->parent().replace_uses(node, found->second);
      node->frontend_attributes[kRemoved] = "true";
    }
  }
}

}  // namespace gspmd
