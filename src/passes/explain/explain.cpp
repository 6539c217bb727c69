#include "gspmd/passes/explain/explain.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
#include "gspmd/ir/place.h"
#include "ops/common/completion.h"

namespace gspmd {
namespace {

constexpr size_t kNeighbours = 4096;  // nodes looked at in search of annotations
constexpr size_t kShown = 4;          // annotations named for one collective

using Nodes = std::unordered_map<std::string, Node*>;

// By name; the entry's nodes win over those of computations with the same names.
Nodes nodes_by_name(const Module& module) {
  Nodes nodes;
  for (const std::unique_ptr<Computation>& computation : module.computations())
    for (const std::unique_ptr<Node>& node : computation->nodes())
      if (computation.get() == module.entry())
        nodes.insert_or_assign(node->name(), node.get());
      else
        nodes.emplace(node->name(), node.get());
  return nodes;
}

Node* find(const Nodes& nodes, const std::string& name) {
  const auto found = nodes.find(name);
  return found == nodes.end() ? nullptr : found->second;
}

std::string text_of(const Node* node) {
  return node != nullptr && node->sharding ? to_string(*node->sharding) : "{replicated}";
}

int64_t total_bytes(const std::vector<CollectiveStats>& all) {
  int64_t bytes = 0;
  for (const CollectiveStats& c : all) bytes += std::min(c.bytes, INT64_MAX - bytes);
  return bytes;
}

// The collectives that stand for one cause are the same before and after a change of annotations
// when kind, op, tensor and groups agree.
int64_t bytes_of(const std::vector<CollectiveStats>& all, const CollectiveStats& one) {
  int64_t bytes = 0;
  for (const CollectiveStats& c : all)
    if (c.kind == one.kind && c.instruction == one.instruction && c.tensor == one.tensor &&
        c.groups == one.groups && c.backward == one.backward)
      bytes += c.bytes + 1;  // also those that move nothing
  return bytes;
}

// Another annotation on a node; nullopt: none.
struct Candidate {
  std::string node;
  std::optional<Sharding> sharding;
};

class Explainer {
 public:
  Explainer(const Module& module, const PipelineOptions& pipeline, const ExplainOptions& options)
      : module_(module), pipeline_(pipeline), given_(nodes_by_name(module)) {
    pipeline_.combine = pipeline_.fuse = false;
    pipeline_.keep_uncombined = true;
    for (const char* pass : {"keep-local", "normalize", "plan-memory"})  // nothing here runs
      pipeline_.disabled.emplace_back(pass);
    pipeline_.dump = nullptr;
    pipeline_.on_pass = nullptr;
    pipeline_.dump_after.clear();
    int64_t size = 1;
    for (const auto& computation : module.computations())
      size += static_cast<int64_t>(computation->nodes().size());
    tries_ = std::min(options.max_candidates, options.max_instructions / size);
    checks_ = tries_;
  }

  std::vector<Explanation> run() {
    const CompiledModule base = run_pipeline(module_, pipeline_);
    completed_ = nodes_by_name(*base.completed);
    mesh_ = mesh_of_annotations();
    collectives_ = collective_stats(*base.uncombined, mesh_.get());
    total_ = total_bytes(collectives_);
    std::vector<Explanation> all;
    for (const CollectiveStats& collective : collectives_) all.push_back(describe(collective));
    std::stable_sort(all.begin(), all.end(), [](const Explanation& a, const Explanation& b) {
      return a.collective.bytes > b.collective.bytes;
    });
    for (Explanation& explanation : all) keep_decisive(explanation);
    for (Explanation& explanation : all) search(explanation);
    return all;
  }

 private:
  std::shared_ptr<const Mesh> mesh_of_annotations() const {
    for (const auto& computation : module_.computations())
      for (const auto& node : computation->nodes()) {
        if (!node->sharding) continue;
        const Sharding& s = *node->sharding;
        if (!s.is_tuple() && s.mesh()) return s.mesh();
        if (s.is_tuple())
          for (const Sharding& leaf : s.elements())
            if (leaf.mesh()) return leaf.mesh();
      }
    return nullptr;
  }

  Explanation describe(const CollectiveStats& collective) const {
    Explanation e;
    e.collective = collective;
    const Node* const op = find(completed_, collective.instruction);
    const Node* const tensor = find(completed_, collective.tensor);
    e.tensor_sharding = text_of(tensor);
    e.op_sharding = text_of(op);
    std::vector<const Node*> nodes = {tensor, op};
    if (op != nullptr) nodes.insert(nodes.end(), op->operands().begin(), op->operands().end());
    std::set<std::string> seen;
    const auto add_annotation = [&](const std::string& name) {
      if (is_annotated(name) && seen.insert(name).second) e.annotations.push_back(named(name));
    };
    for (const Node* node : nodes) {
      if (node == nullptr) continue;
      add_annotation(node->name());
      for (const Origin& origin : node->origins) add_annotation(origin.annotation);
    }
    for (const Node* node : neighbourhood(nodes)) add_annotation(node->name());
    return e;
  }

  // Nodes of the same computation, nearest first.
  static std::vector<const Node*> neighbourhood(std::vector<const Node*> from) {
    std::erase(from, nullptr);
    std::set<const Node*> seen(from.begin(), from.end());
    for (size_t i = 0; i < from.size() && from.size() < kNeighbours; ++i) {
      for (const std::vector<Node*>* next : {&from[i]->operands(), &from[i]->users()})
        for (const Node* node : *next)
          if (seen.insert(node).second) from.push_back(node);
    }
    return from;
  }

  // Leaves the annotations without which, or with replication in whose place, the collective is
  // another one or gone; nearest first, at most kShown.
  void keep_decisive(Explanation& e) {
    std::vector<NamedSharding> decisive;
    for (const NamedSharding& annotation : e.annotations) {
      if (decisive.size() == kShown) break;
      for (const std::optional<Sharding>& instead :
           {std::optional<Sharding>(), std::optional<Sharding>(Sharding::replicated())}) {
        if (instead && find(given_, annotation.node)->shape.is_tuple) continue;
        const auto* const after = collectives_with({{annotation.node, instead}}, checks_);
        if (after == nullptr || same_in(*after, e.collective)) continue;
        decisive.push_back(annotation);
        break;
      }
    }
    if (!decisive.empty()) {
      e.annotations = std::move(decisive);
      e.evidence = Evidence::each;
    } else if (changes_without(e, e.annotations)) {
      drop_needless(e);
      e.evidence = Evidence::together;
    } else if (e.annotations.size() > kShown) {
      e.annotations.resize(kShown);
    }
  }

  bool changes_without(const Explanation& e, const std::vector<NamedSharding>& annotations) {
    std::vector<Candidate> none;
    for (const NamedSharding& annotation : annotations) none.push_back({annotation.node, {}});
    const auto* const after = collectives_with(none, checks_);
    return after != nullptr && !same_in(*after, e.collective);
  }

  // Of annotations without all of which the collective changes, those that it takes: the nearest
  // ones first, in halves, then one by one from the farthest.
  void drop_needless(Explanation& e) {
    while (e.annotations.size() > 2) {
      std::vector<NamedSharding> nearest(
          e.annotations.begin(),
          e.annotations.begin() + static_cast<int64_t>(e.annotations.size() / 2));
      if (!changes_without(e, nearest)) break;
      e.annotations = std::move(nearest);
    }
    for (size_t i = e.annotations.size(); i-- > 0 && e.annotations.size() > 2;) {
      std::vector<NamedSharding> fewer = e.annotations;
      fewer.erase(fewer.begin() + static_cast<int64_t>(i));
      if (changes_without(e, fewer)) e.annotations = std::move(fewer);
    }
  }

  static bool same_in(const std::vector<CollectiveStats>& all, const CollectiveStats& one) {
    return std::any_of(all.begin(), all.end(), [&](const CollectiveStats& c) {
      return c.kind == one.kind && c.instruction == one.instruction && c.tensor == one.tensor &&
             c.groups == one.groups && c.bytes == one.bytes && c.count == one.count &&
             c.backward == one.backward;
    });
  }

  bool is_annotated(const std::string& name) const {
    const Node* const node = find(given_, name);
    return node != nullptr && node->sharding.has_value();
  }

  NamedSharding named(const std::string& name) const {
    const Node* const node = find(given_, name);
    return {name, text_of(node), source_line(node->metadata)};
  }

  static void add(std::vector<Candidate>& list, const Node* node,
                  std::optional<Sharding> sharding) {
    if (node == nullptr || !sharding || node->shape.is_tuple || sharding->is_tuple()) return;
    if (node->sharding && *node->sharding == *sharding) return;
    for (const Candidate& known : list)
      if (known.node == node->name() && known.sharding == *sharding) return;
    list.push_back({node->name(), std::move(*sharding)});
  }

  // What the factor rule of `op` says: its operands laid out as its result wants them and the other
  // way round, operands like each other.
  static void add_by_rule(std::vector<Candidate>& list, const Node& op) {
    if (op.op().factors == nullptr || op.shape.is_tuple) return;
    const FactorRule rule = op.op().factors(op);
    const auto count = static_cast<int64_t>(op.operands().size());
    const auto carry = [&](const Node& to, const std::vector<int64_t>& to_dims, const Node& from,
                           std::vector<int64_t> from_dims) {
      for (int64_t& f : from_dims)  // what must be whole is no candidate
        if (f >= 0 && rule.factors[static_cast<size_t>(f)].kind == FactorKind::blocked) f = -1;
      if (const Sharding* const s = tiled_leaf(from))
        add(list, &to, carry_sharding(from_dims, *s, to_dims));
    };
    for (int64_t i = 0; i < count; ++i) {
      const Node& operand = *op.operand(i);
      if (operand.shape.is_tuple) return;
      const std::vector<int64_t>& dims = rule.operands.at(static_cast<size_t>(i));
      carry(operand, dims, op, rule.results.at(0));
      carry(op, rule.results.at(0), operand, dims);
      for (int64_t j = 0; j < count; ++j)
        if (i != j) carry(operand, dims, *op.operand(j), rule.operands.at(static_cast<size_t>(j)));
    }
  }

  std::vector<Candidate> candidates(const Explanation& e) const {
    std::vector<Candidate> list;
    const Node* const op = find(completed_, e.collective.instruction);
    const Node* const tensor = find(completed_, e.collective.tensor);
    if (op != nullptr) add_by_rule(list, *op);
    if (tensor != nullptr && tensor != op) {
      if (op != nullptr && op->shape == tensor->shape) {
        add(list, tensor, op->sharding);
        add(list, op, tensor->sharding);
      }
      add_by_rule(list, *tensor);
    }
    // An annotation behind it, without one of its split dims.
    for (const NamedSharding& annotation : e.annotations) {
      const Node& node = *find(given_, annotation.node);
      if (node.sharding->is_tuple() || !node.sharding->is_tiled() ||
          !node.sharding->manual_digits().empty())
        continue;
      for (int64_t d = 0; d < node.sharding->rank(); ++d)
        if (!node.sharding->dim(d).empty()) {
          const Sharding& s = *node.sharding;
          add(list, &node, s.with_dim(d, {}, s.rank(), s.order()));
        }
    }
    add(list, tensor, Sharding::replicated());
    return list;
  }

  void search(Explanation& e) {
    for (const Candidate& candidate : candidates(e)) {
      if (find(given_, candidate.node) == nullptr) continue;
      const std::vector<CollectiveStats>* const after = collectives_with({candidate}, tries_);
      if (after == nullptr || bytes_of(*after, e.collective) > 0) continue;
      const int64_t bytes = total_bytes(*after);
      if (e.suggestion && e.suggestion->bytes_after <= bytes) continue;
      NamedSharding annotation = named(candidate.node);
      annotation.sharding = to_string(*candidate.sharding);
      e.suggestion = {std::move(annotation), is_annotated(candidate.node), total_, bytes};
    }
  }

  // The program's collectives with other annotations; nullptr where it cannot be compiled or the
  // tries are used up.
  const std::vector<CollectiveStats>* collectives_with(const std::vector<Candidate>& candidates,
                                                       int64_t& tries) {
    std::string key;
    for (const Candidate& c : candidates)
      key += fmt::format("{} {};", c.node, c.sharding ? to_string(*c.sharding) : "");
    const auto known = tried_.find(key);
    if (known != tried_.end()) return known->second ? &*known->second : nullptr;
    if (tries <= 0) return nullptr;
    --tries;
    std::optional<std::vector<CollectiveStats>>& result = tried_[key];
    std::unique_ptr<Module> changed = module_.clone();
    const Nodes nodes = nodes_by_name(*changed);
    for (const Candidate& c : candidates) find(nodes, c.node)->sharding = c.sharding;
    try {
      const CompiledModule compiled = run_pipeline(std::move(changed), pipeline_);
      result = collective_stats(*compiled.uncombined, mesh_.get());
    } catch (const Error&) {
      return nullptr;
    }
    return &*result;
  }

  const Module& module_;
  PipelineOptions pipeline_;
  Nodes given_;
  Nodes completed_;
  std::shared_ptr<const Mesh> mesh_;
  std::vector<CollectiveStats> collectives_;
  int64_t total_ = 0;
  int64_t tries_ = 0, checks_ = 0;  // programs that may still be compiled
  std::map<std::string, std::optional<std::vector<CollectiveStats>>> tried_;
};

}  // namespace

std::vector<Explanation> explain(const Module& module, const PipelineOptions& pipeline,
                                 const ExplainOptions& options) {
  return Explainer(module, pipeline, options).run();
}

}  // namespace gspmd
