// Which annotations the digits of a completed module hang on: they are taken away, and the module
// is completed again.

#include "gspmd/passes/explain/sharding_sources.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
#include "ops/common/completion.h"
#include "passes/complete/origins.h"
#include "passes/explain/annotation_graph.h"
#include "passes/explain/concurrently.h"
#include "passes/shardy/annotation.h"

namespace gspmd {
namespace {

using Set = std::vector<int32_t>;  // of annotations, by number, ascending

bool includes(const Set& all, const Set& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

Set with(Set set, int32_t one) {
  const auto at = std::lower_bound(set.begin(), set.end(), one);
  if (at == set.end() || *at != one) set.insert(at, one);
  return set;
}

Set without(Set set, int32_t one) {
  std::erase(set, one);
  return set;
}

// One origin of one node.
struct Entry {
  const Node* node = nullptr;
  const Origin* origin = nullptr;
  Set set;                  // without all of which the digit is gone
  std::vector<Set> others;  // that are no part of it, nor it of them
  bool seen = false;
};

// What a module without some annotations has of the digits of the one with all.
struct Outcome {
  bool same = true;        // nothing is laid out otherwise
  std::vector<bool> gone;  // by entry
  // By entry that is still there: annotations that it is ascribed to now.
  std::unordered_map<size_t, Set> ascribed;
};

using NodesByPlace = std::unordered_map<std::string, const Node*>;

std::string place_key(const Node& node) { return node.parent().name() + "/" + node.name(); }

NodesByPlace nodes_by_place(const Module& module) {
  NodesByPlace nodes;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) nodes.emplace(place_key(*node), node.get());
  return nodes;
}

// Whether `node` has the digit where `entry` has it.
bool has_digit(const Node& node, const Entry& entry) {
  const Origin& origin = *entry.origin;
  const Sharding* const now = leaf_sharding(node, origin.leaf);
  const Sharding* const before = leaf_sharding(*entry.node, origin.leaf);
  if (now == nullptr || before == nullptr) return false;
  if (!now->is_tiled() || !before->is_tiled()) return *now == *before;
  if (now->order() != before->order() || origin.dim >= now->rank()) return *now == *before;
  const auto covers = [&](const Digits& digits) {
    const auto rest = difference({origin.digit}, digits);
    return rest && rest->empty();
  };
  if (origin.dim >= 0) return covers(now->dim(origin.dim));
  return covers(now->manual_digits()) || now->unreduced() == before->unreduced();
}

}  // namespace

class ShardingSources::Removals {
 public:
  Removals(const Module& given, const Module& completed, const SourcesOptions& options)
      : given_(given), options_(options) {
    options_.propagate.stats = nullptr;
    int64_t size = 1;
    for (const auto& computation : given.computations())
      size += static_cast<int64_t>(computation->nodes().size());
    runs_ = options.max_instructions / size;
    number_annotations();
    collect_entries(completed);
    find_sets();
    take_smaller_sets();
    drop_needless();
  }

  const Entry& entry(const Node& node, size_t origin) const {
    return entries_.at(first_.at(&node) + origin);
  }
  bool same_without(const std::vector<std::string>& annotations) {
    Set set;
    for (const std::string& annotation : annotations) {
      const auto found = numbers_.find(annotation);
      if (found == numbers_.end()) return false;
      set = with(std::move(set), found->second);
    }
    const Outcome* const after = outcome(set);
    return after != nullptr && after->same;
  }
  const std::string& name(int32_t annotation) const {
    return names_.at(static_cast<size_t>(annotation));
  }

 private:
  void number_annotations() {
    for (const auto& computation : given_.computations())
      for (const auto& node : computation->nodes())
        if (is_annotated(*node)) number(node->name());
    removable_ = names_.size();
  }

  int32_t number(const std::string& name) {
    const auto [at, is_new] = numbers_.emplace(name, static_cast<int32_t>(names_.size()));
    if (is_new) names_.push_back(name);
    return at->second;
  }

  // Each with a first guess.
  void collect_entries(const Module& completed) {
    const AnnotationGraph graph(completed);
    for (const auto& computation : completed.computations())
      for (const auto& node : computation->nodes()) {
        first_[node.get()] = entries_.size();
        for (size_t i = 0; i < node->origins.size(); ++i) {
          Entry entry{node.get(), &node->origins[i], {}, {}};
          for (const std::string& name : graph.annotations(*node, i))
            entry.set = with(std::move(entry.set), number(name));
          entries_.push_back(std::move(entry));
        }
      }
  }

  // The module without these, completed; nullptr where it cannot be, or no runs are left.
  const Outcome* outcome(const Set& set) {
    find_outcomes({&set, 1});
    const auto known = outcomes_.find(set);
    return known != outcomes_.end() && known->second ? &*known->second : nullptr;
  }

  // All that are not known yet, several at a time.
  void find_outcomes(std::span<const Set> sets) {
    std::vector<std::pair<const Set*, std::optional<Outcome>*>> wanted;
    for (const Set& set : sets) {
      if (runs_ <= 0) break;
      const auto [at, is_new] = outcomes_.try_emplace(set);
      if (!is_new) continue;
      --runs_;
      wanted.emplace_back(&at->first, &at->second);
    }
    run_concurrently(wanted.size(),
                     [&](size_t i) { *wanted[i].second = completed_without(*wanted[i].first); });
  }

  std::optional<Outcome> completed_without(const Set& set) const {
    const std::unique_ptr<Module> module = given_.clone();
    for (const auto& computation : module->computations())
      for (const auto& node : computation->nodes()) {
        const auto found = numbers_.find(node->name());
        if (found != numbers_.end() && std::binary_search(set.begin(), set.end(), found->second))
          annotate_instead(*node, std::nullopt);
      }
    try {
      propagate(*module, options_.propagate);
    } catch (const Error&) {  // the border of a region, say, has to say something
      return std::nullopt;
    }
    return compared(*module);
  }

  Outcome compared(const Module& after) const {
    Outcome result;
    result.gone.resize(entries_.size());
    const NodesByPlace nodes = nodes_by_place(after);
    for (const auto& [node, first] : first_) {
      const auto found = nodes.find(place_key(*node));
      result.same &= found != nodes.end() && found->second->sharding == node->sharding;
    }
    for (size_t e = 0; e < entries_.size(); ++e) {
      const Entry& entry = entries_[e];
      const auto found = nodes.find(place_key(*entry.node));
      result.gone[e] = found == nodes.end() || !has_digit(*found->second, entry);
      if (result.gone[e]) continue;
      Set& ascribed = result.ascribed[e];
      for (const OriginPart& part :
           origin_parts(*found->second, entry.origin->leaf, entry.origin->digit)) {
        const auto annotation = numbers_.find(part.origin->annotation);
        if (annotation != numbers_.end()) ascribed = with(std::move(ascribed), annotation->second);
      }
    }
    return result;
  }

  bool is_removable(const Set& set) const {
    return set.empty() || static_cast<size_t>(set.back()) < removable_;
  }

  // Adds what brings a digit back, until it stays away.
  void find_sets() {
    std::map<Set, std::vector<size_t>> waiting;
    for (size_t e = 0; e < entries_.size(); ++e) waiting[entries_[e].set].push_back(e);
    while (!waiting.empty()) {
      std::vector<Set> sets;
      for (const auto& [set, entries] : waiting)
        if (is_removable(set)) sets.push_back(set);
      find_outcomes(sets);
      std::map<Set, std::vector<size_t>> next;
      for (const auto& [set, entries] : waiting)
        if (const Outcome* const after = is_removable(set) ? outcome(set) : nullptr)
          for (const size_t e : entries) add_what_brings_back(e, set, *after, next);
      waiting = std::move(next);
    }
  }

  void add_what_brings_back(size_t e, const Set& set, const Outcome& after,
                            std::map<Set, std::vector<size_t>>& next) {
    Entry& entry = entries_[e];
    entry.seen = after.gone[e];
    if (entry.seen) return;
    Set more = set;
    for (const int32_t annotation : after.ascribed.at(e)) more = with(std::move(more), annotation);
    if (more == set) return;
    entry.set = more;
    next[std::move(more)].push_back(e);
  }

  // Every annotation alone, two of few, and every set that one digit hangs on, for all digits.
  void take_smaller_sets() {
    std::set<Set> tried;
    for (const Entry& entry : entries_)
      if (entry.seen) tried.insert(entry.set);
    constexpr int32_t kFew = 12;
    const auto count = static_cast<int32_t>(removable_);
    for (int32_t annotation = 0; annotation < count; ++annotation) {
      tried.insert({annotation});
      for (int32_t second = annotation + 1; second < count && count <= kFew; ++second)
        tried.insert({annotation, second});
    }
    find_outcomes(std::vector<Set>(tried.begin(), tried.end()));
    for (const Set& set : tried)
      if (const Outcome* const after = outcome(set)) take(set, *after);
  }

  void take(const Set& set, const Outcome& after) {
    for (size_t e = 0; e < entries_.size(); ++e) {
      Entry& entry = entries_[e];
      if (!after.gone[e] || includes(set, entry.set)) {
        if (after.gone[e] && set == entry.set) entry.seen = true;
        continue;
      }
      if (includes(entry.set, set)) {
        entry.set = set;
        entry.seen = true;
        std::erase_if(entry.others, [&](const Set& other) { return includes(other, set); });
        continue;
      }
      const auto smaller = [&](const Set& other) { return includes(set, other); };
      if (std::any_of(entry.others.begin(), entry.others.end(), smaller)) continue;
      std::erase_if(entry.others, [&](const Set& other) { return includes(other, set); });
      entry.others.push_back(set);
    }
  }

  // Sets without one of their annotations, until each is needed.
  void drop_needless() {
    std::set<Set> done;
    for (bool changed = true; changed;) {
      changed = false;
      std::set<Set> sets;
      for (const Entry& entry : entries_)
        if (entry.seen && entry.set.size() > 1) sets.insert(entry.set);
      std::vector<Set> fewer;
      for (const Set& set : sets) {
        if (!done.insert(set).second) continue;
        for (const int32_t annotation : set) fewer.push_back(gspmd::without(set, annotation));
      }
      find_outcomes(fewer);
      for (const Set& set : fewer)
        if (const Outcome* const after = outcome(set)) take(set, *after);
      changed = !fewer.empty();
    }
  }

  const Module& given_;
  SourcesOptions options_;
  int64_t runs_ = 0;  // that are left
  std::unordered_map<std::string, int32_t> numbers_;
  std::vector<std::string> names_;
  size_t removable_ = 0;  // the annotations before this number are shardings of nodes
  std::unordered_map<const Node*, size_t> first_;
  std::vector<Entry> entries_;
  std::map<Set, std::optional<Outcome>> outcomes_;
};

ShardingSources::ShardingSources(const Module& given, const Module& completed,
                                 const SourcesOptions& options)
    : removals_(std::make_unique<Removals>(given, completed, options)) {}

ShardingSources::~ShardingSources() = default;

std::vector<std::string> ShardingSources::annotations(const Node& node, size_t origin) const {
  const Entry& entry = removals_->entry(node, origin);
  std::vector<std::string> result;
  for (const int32_t annotation : entry.set) result.push_back(removals_->name(annotation));
  const auto own = std::find(result.begin(), result.end(), entry.origin->annotation);
  if (own != result.end()) std::rotate(result.begin(), own, own + 1);
  return result;
}

std::vector<std::vector<std::string>> ShardingSources::others(const Node& node,
                                                              size_t origin) const {
  std::vector<std::vector<std::string>> result;
  for (const Set& set : removals_->entry(node, origin).others) {
    std::vector<std::string>& names = result.emplace_back();
    for (const int32_t annotation : set) names.push_back(removals_->name(annotation));
    std::sort(names.begin(), names.end());
  }
  return result;
}

bool ShardingSources::same_without(const std::vector<std::string>& annotations) const {
  return removals_->same_without(annotations);
}

bool ShardingSources::seen(const Node& node, size_t origin) const {
  return removals_->entry(node, origin).seen;
}

}  // namespace gspmd
