#include "passes/partition/factor_sharding_memo.h"

#include <mutex>
#include <optional>

#include "gspmd/moves/reshard.h"

namespace gspmd {
namespace {

// All that a search looks at.
class Key {
 public:
  explicit Key(const FactorShardingProblem& p) {
    constexpr size_t kUsual = 128;
    numbers_.reserve(kUsual);
    add(reinterpret_cast<std::intptr_t>(p.order));
    add(p.num_devices);
    add(static_cast<int64_t>(p.node->opcode()));
    add(std::ssize(p.rule->sums));
    add(p.taken);
    add(p.joins_initial ? 1 : 0);
    add(p.one_of_few ? 1 : 0);
    add(std::ssize(p.rule->factors));
    for (const Factor& f : p.rule->factors) {
      add(f.size);
      add(static_cast<int64_t>(f.kind));
      add(static_cast<int64_t>(f.combiner));
    }
    add(std::ssize(p.operands));
    for (size_t i = 0; i < p.operands.size(); ++i) {
      add(p.node->operand(static_cast<int64_t>(i))->shape, p.rule->operands[i]);
      add(p.operands[i]);
      if (p.held.empty()) continue;  // of a node without sums
      add(p.held[i]);
      add(p.sends_nothing[i] ? 1 : 0);
      add(p.repeats[i]);
      add(std::ssize(p.known[i]));
      for (const Sharding& known : p.known[i]) add(known);
    }
    if (p.node->shape.is_tuple)
      add(leaf_shapes(p.node->shape).at(0), p.rule->results[0]);
    else
      add(p.node->shape, p.rule->results[0]);
    add(p.result);
    if (p.shared_sum) {
      add(p.shared_sum->first);
      add(p.shared_sum->second);
    }
  }

  FactorShardingKey take() { return std::move(numbers_); }

 private:
  void add(int64_t number) { numbers_.push_back(number); }
  void add(const Digits& digits) {
    add(std::ssize(digits));
    for (const Digit& digit : digits) {
      add(digit.size);
      add(digit.stride);
    }
  }
  void add(const Shape& shape, const std::vector<int64_t>& loops) {
    add(static_cast<int64_t>(shape.dtype));
    add(shape.rank());
    for (const int64_t dim : shape.dims) add(dim);
    for (const int64_t loop : loops) add(loop);
  }
  void add(const Sharding& s) {
    add(reinterpret_cast<std::intptr_t>(s.order()));
    add(static_cast<int64_t>(s.kind()));
    add(s.rank());
    for (int64_t d = 0; d < s.rank(); ++d) add(s.dim(d));
    for (const Unreduced& u : s.unreduced()) {
      add(u.digits);
      add(static_cast<int64_t>(u.combiner));
    }
  }

  FactorShardingKey numbers_;
};

// The searches of all programs, by key: orders are never destroyed, so that no key comes to mean
// another layout.
class SearchedFactorShardings {
 public:
  std::optional<CheapestFactorSharding> find(const FactorShardingKey& key) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(key);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }
  void keep(const FactorShardingKey& key, const CheapestFactorSharding& spread) {
    constexpr size_t kMost = 1 << 14;  // of some kilobytes each
    const std::lock_guard lock(mutex_);
    if (known_.size() >= kMost) known_.clear();
    known_.emplace(key, spread);
  }

 private:
  std::mutex mutex_;
  FactorShardingTable<CheapestFactorSharding> known_;
};

bool asks_for_more(const FactorShardingProblem& problem) {
  // Exchanges depend on the node's window as well.
  for (const bool exchanged : problem.exchanged)
    if (exchanged) return true;
  return problem.fetch && problem.rule->factors.size() > problem.exchanged.size();
}

}  // namespace

size_t FactorShardingKeyHash::operator()(const FactorShardingKey& key) const {
  uint64_t hash = key.size();
  for (const int64_t number : key) {
    hash = (hash ^ static_cast<uint64_t>(number)) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 32;
  }
  return static_cast<size_t>(hash);
}

FactorDigits FactorShardingMemo::chosen_without_sums(
    const FactorShardingProblem& problem, FactorDigits (*search)(const FactorShardingProblem&)) {
  if (asks_for_more(problem)) return search(problem);
  FactorShardingKey key = Key(problem).take();
  key.push_back(reinterpret_cast<std::intptr_t>(&problem.node->op()));  // more than the opcode says
  const auto [at, is_new] = without_sums_.try_emplace(std::move(key));
  if (is_new) at->second = search(problem);
  return at->second;
}

CheapestFactorSharding FactorShardingMemo::chosen(
    const FactorShardingProblem& problem,
    CheapestFactorSharding (*search)(const FactorShardingProblem&)) {
  static auto* const searched = new SearchedFactorShardings;
  if (asks_for_more(problem)) return search(problem);
  const auto [at, is_new] = chosen_.try_emplace(Key(problem).take());
  if (!is_new) return at->second;
  if (std::optional<CheapestFactorSharding> found = searched->find(at->first)) {
    at->second = std::move(*found);
  } else {
    at->second = search(problem);
    searched->keep(at->first, at->second);
  }
  return at->second;
}

}  // namespace gspmd
