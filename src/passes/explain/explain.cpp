#include "gspmd/passes/explain/explain.h"

#include <algorithm>
#include <map>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
#include "gspmd/ir/place.h"
#include "gspmd/passes/explain/sharding_sources.h"
#include "ops/common/completion.h"
#include "ops/control/control.h"
#include "passes/explain/trials.h"
#include "passes/shardy/annotation.h"
#include "passes/shardy/import_shardings.h"

namespace gspmd {
namespace {

constexpr size_t kNeighbours = 4096;  // nodes looked at in search of annotations
constexpr size_t kShown = 4;          // annotations named for one collective

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

class Explainer {
 public:
  Explainer(const Module& module, const PipelineOptions& pipeline, const ExplainOptions& options)
      : module_(module),
        pipeline_(pipeline),
        given_(nodes_by_name(module)),
        trials_(module, pipeline_, 0) {
    pipeline_.combine = pipeline_.fuse = false;
    pipeline_.keep_uncombined = true;
    pipeline_.memory_limit = INT64_MAX;
    for (const char* pass : {"keep-local", "normalize", "plan-memory"})  // nothing here runs
      pipeline_.disabled.emplace_back(pass);
    pipeline_.dump = nullptr;
    pipeline_.on_pass = nullptr;
    pipeline_.on_note = nullptr;
    pipeline_.dump_after.clear();
    int64_t size = 1;
    for (const auto& computation : module.computations())
      size += static_cast<int64_t>(computation->nodes().size());
    tries_ = std::min(options.max_candidates, options.max_instructions / size);
    checks_ = tries_ > 0 ? options.max_checked_instructions / size : 0;
    sources_.propagate = pipeline_.propagate;
    sources_.max_instructions = std::min(sources_.max_instructions, checks_ * size);
  }

  std::vector<Explanation> run() {
    const CompiledModule base = run_pipeline(module_, pipeline_);
    completed_module_ = base.completed.get();
    completed_ = nodes_by_name(*base.completed);
    collect_mirrors();
    if (checks_ > 0) hangs_on_.emplace(module_, *completed_module_, sources_);
    mesh_ = mesh_of_annotations();
    trials_.name_axes_by(mesh_);
    trials_.allow_more(checks_);
    collectives_ = collective_stats(*base.uncombined, mesh_.get());
    total_ = total_bytes(collectives_);
    std::vector<Explanation> all;
    for (const CollectiveStats& collective : collectives_) all.push_back(describe(collective));
    std::stable_sort(all.begin(), all.end(), [](const Explanation& a, const Explanation& b) {
      return a.collective.bytes > b.collective.bytes;
    });
    try_without(all);
    for (Explanation& explanation : all) keep_decisive(explanation);
    trials_.allow_more(tries_);
    for (Explanation& explanation : all) search(explanation);
    return all;
  }

 private:
  void collect_mirrors() {
    for (const auto& computation : module_.computations())
      for (const auto& node : computation->nodes()) {
        const auto found = node->frontend_attributes.find(kMirrors);
        if (found != node->frontend_attributes.end() && gspmd::is_annotated(*node))
          mirrors_[found->second].push_back(node->name());
      }
  }

  std::shared_ptr<const Mesh> mesh_of_annotations() const {
    for (const Module* module : {&module_, completed_module_})
      for (const auto& computation : module->computations())
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

  // Leaves the annotations that it is seen to hang on, nearest first, at most kShown alone.
  void keep_decisive(Explanation& e) {
    std::vector<NamedSharding> decisive;
    for (const NamedSharding& annotation : e.annotations) {
      if (decisive.size() == kShown) break;
      if (changes_without(e, {annotation})) decisive.push_back(annotation);
    }
    e.evidence = Evidence::each;
    if (decisive.empty()) {
      decisive = decisive_set(e);
      e.evidence = Evidence::together;
    }
    if (!decisive.empty()) {
      e.annotations = std::move(decisive);
      return;
    }
    e.evidence = Evidence::none;
    if (e.annotations.size() > kShown) e.annotations.resize(kShown);
  }

  // Of several annotations that keep it only together, the first set that is found: an annotation
  // with what differentiation made of it; what a digit of a value beside it hangs on; all.
  std::vector<NamedSharding> decisive_set(const Explanation& e) {
    for (const NamedSharding& annotation : e.annotations) {
      const std::vector<NamedSharding> set = with_mirrors(annotation.node);
      if (set.size() > 1 && changes_without(e, set)) return needed(e, set);
    }
    for (const std::vector<std::string>& names : sets_beside(e)) {
      std::vector<NamedSharding> set;
      for (const std::string& name : names)
        if (is_annotated(name)) set.push_back(named(name));
      if (set.size() > 1 && changes_without(e, set)) return set;
    }
    if (e.annotations.size() > 1 && changes_without(e, e.annotations))
      return needed(e, e.annotations);
    return {};
  }

  std::vector<NamedSharding> with_mirrors(const std::string& name) const {
    const std::string& first = find(given_, name)->frontend_attributes.contains(kMirrors)
                                   ? find(given_, name)->frontend_attributes.at(kMirrors)
                                   : name;
    std::vector<NamedSharding> set;
    const auto found = mirrors_.find(first);
    if (found == mirrors_.end()) return set;
    if (is_annotated(first)) set.push_back(named(first));
    for (const std::string& mirror : found->second) set.push_back(named(mirror));
    return set;
  }

  // What the digits of the op, of what it reads and of what is moved hang on, small sets first.
  std::vector<std::vector<std::string>> sets_beside(const Explanation& e) const {
    std::vector<std::vector<std::string>> sets;
    if (!hangs_on_) return sets;
    const auto add_node = [&](const Node* node) {
      for (size_t i = 0; node != nullptr && i < node->origins.size(); ++i) {
        sets.push_back(hangs_on_->annotations(*node, i));
        for (std::vector<std::string>& other : hangs_on_->others(*node, i))
          sets.push_back(std::move(other));
      }
    };
    const Node* const op = find(completed_, e.collective.instruction);
    add_node(find(completed_, e.collective.tensor));
    add_node(op);
    for (size_t i = 0; op != nullptr && i < op->operands().size(); ++i) add_node(op->operands()[i]);
    for (size_t i = 0; op != nullptr && i < op->users().size(); ++i) add_node(op->users()[i]);
    const auto smaller = [](const auto& a, const auto& b) {
      return std::pair(a.size(), a) < std::pair(b.size(), b);
    };
    std::sort(sets.begin(), sets.end(), smaller);
    sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
    return sets;
  }

  // What is looked at for sure, all at once.
  void try_without(const std::vector<Explanation>& all) {
    std::set<std::vector<std::string>> sets;
    for (const Explanation& e : all) {
      for (const NamedSharding& annotation : e.annotations) sets.insert({annotation.node});
      for (std::vector<std::string>& set : sets_beside(e)) sets.insert(std::move(set));
    }
    std::vector<std::vector<Candidate>> wanted;
    for (const std::vector<std::string>& set : sets)
      if (may_change_without(set)) wanted.push_back(none_of(set));
    trials_.run(wanted);
  }

  static std::vector<Candidate> none_of(const std::vector<std::string>& annotations) {
    std::vector<Candidate> none;
    for (const std::string& annotation : annotations) none.push_back({annotation, {}});
    return none;
  }

  bool may_change_without(const std::vector<std::string>& annotations) const {
    const auto annotated = [&](const std::string& name) { return is_annotated(name); };
    return hangs_on_ && std::all_of(annotations.begin(), annotations.end(), annotated) &&
           !hangs_on_->same_without(annotations);
  }

  bool changes_without(const Explanation& e, const std::vector<NamedSharding>& annotations) {
    std::vector<std::string> removed;
    for (const NamedSharding& annotation : annotations) removed.push_back(annotation.node);
    if (!may_change_without(removed)) return false;
    const std::vector<Candidate> none = none_of(removed);
    const auto* const after = trials_.collectives(none);
    return after != nullptr && !same_in(*after, e.collective);
  }

  // Of annotations without all of which the collective changes, those that it takes: the nearest
  // ones first, in halves, then one by one from the farthest.
  std::vector<NamedSharding> needed(const Explanation& e, std::vector<NamedSharding> set) {
    while (set.size() > 3) {
      std::vector<NamedSharding> nearest(set.begin(),
                                         set.begin() + static_cast<int64_t>(set.size() / 2));
      if (!changes_without(e, nearest)) break;
      set = std::move(nearest);
    }
    for (size_t i = set.size(); i-- > 0 && set.size() > 2;) {
      std::vector<NamedSharding> fewer = set;
      fewer.erase(fewer.begin() + static_cast<int64_t>(i));
      if (changes_without(e, fewer)) set = std::move(fewer);
    }
    return set;
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
    return node != nullptr && gspmd::is_annotated(*node);
  }

  NamedSharding named(const std::string& name) const {
    const Node* const node = find(given_, name);
    const std::string text = annotation_text(*node);
    return {name, text.empty() ? text_of(node) : text, source_line(node->metadata)};
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
      const Node* const completed = find(completed_, annotation.node);
      const Node& given = *find(given_, annotation.node);
      if (!given.sharding && (completed == nullptr || !completed->sharding)) continue;
      const Node& node = given.sharding ? given : *completed;
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
      const std::vector<CollectiveStats>* const after = trials_.collectives({candidate});
      if (after == nullptr || bytes_of(*after, e.collective) > 0) continue;
      const int64_t bytes = total_bytes(*after);
      if (bytes >= (e.suggestion ? e.suggestion->bytes_after : total_)) continue;
      NamedSharding annotation = named(candidate.node);
      annotation.sharding = to_string(*candidate.sharding);
      e.suggestion = {std::move(annotation), is_annotated(candidate.node), total_, bytes};
    }
  }

  const Module& module_;
  PipelineOptions pipeline_;
  Nodes given_;
  const Module* completed_module_ = nullptr;
  Nodes completed_;
  std::map<std::string, std::vector<std::string>> mirrors_;  // of annotations, by name
  SourcesOptions sources_;
  std::optional<ShardingSources> hangs_on_;  // nullopt: nothing is tried
  std::shared_ptr<const Mesh> mesh_;
  std::vector<CollectiveStats> collectives_;
  int64_t total_ = 0;
  int64_t tries_ = 0, checks_ = 0;  // programs that may be compiled
  Trials trials_;
};

}  // namespace

std::vector<Explanation> explain(const Module& module, const PipelineOptions& pipeline,
                                 const ExplainOptions& options) {
  const std::unique_ptr<Module> given = module.clone();
  if (given->entry() != nullptr) read_tuple_shardings(*given);
  return Explainer(*given, pipeline, options).run();
}

}  // namespace gspmd
