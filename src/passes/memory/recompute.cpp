#include "gspmd/passes/memory/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "gspmd/ir/effects.h"
#include "gspmd/ir/op.h"
#include "passes/graph/alias.h"
#include "passes/graph/node_cost.h"
#include "passes/memory/plan_memory_buffers.h"
#include "passes/memory/value_reads.h"

namespace gspmd {
namespace {

constexpr size_t kMostMadeAgain = 16;  // instructions for one value
constexpr int64_t kMostTries = 256;    // values looked at for one: the ways double with each
constexpr int kMostRounds = 300;
constexpr int kMostInVain = 8;  // in a row

// Whether a second run of the instruction gives the same bits and nobody else notices.
bool may_run_twice(const Node& node) {
  const OpInfo& op = node.op();
  if (op.has(kCollective) || op.has(kSideEffect) || has_side_effect(node) || is_alias(node))
    return false;
  if (node.is(Opcode::parameter) || node.is(Opcode::custom_call) || node.is(Opcode::while_) ||
      node.is(Opcode::call) || node.is(Opcode::conditional))
    return false;
  const std::string_view name = opcode_name(node.opcode());
  return !name.ends_with("-start") && !name.ends_with("-update") && !name.ends_with("-done");
}

// Where in a computation the peak is: at an instruction of it, or inside of one.
struct PeakPlace {
  Computation* computation = nullptr;
  const Node* at = nullptr;
};

// The instruction at the peak and those whose computations hold it, outwards.
std::vector<PeakPlace> places_of_peak(const Module& module, const MemoryPlan& plan) {
  std::vector<PeakPlace> places;
  std::set<const Computation*> inside;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) {
      const auto live = plan.live_bytes.find(node->id());
      if (!places.empty() || live == plan.live_bytes.end() || node->name() != plan.peak_op ||
          live->second != plan.peak_live_bytes)
        continue;
      places.push_back({computation.get(), node.get()});
      inside.insert(computation.get());
    }
  // Callers are behind what they call.
  for (const auto& computation : module.computations()) {
    if (places.empty()) break;
    for (const auto& node : computation->nodes())
      if (std::any_of(node->called.begin(), node->called.end(),
                      [&](const Computation* called) { return inside.contains(called); })) {
        places.push_back({computation.get(), node.get()});
        inside.insert(computation.get());
      }
  }
  return places;
}

// A value kept over the peak, and what making it again takes.
struct Candidate {
  Node* node = nullptr;           // that makes it
  std::vector<int64_t> values;    // its leaves that are not kept
  int64_t first_reader = 0;       // position of the first that reads it made again
  std::vector<Node*> made_again;  // it and what it is made of, operands first
  std::vector<int64_t> relied;    // values that other readers hold until then
  int64_t freed = 0;              // bytes at the peak
  NodeCost cost;
  double seconds_per_byte() const { return seconds_of(cost) / static_cast<double>(freed); }
};

// The candidates at one place of the peak.
class Candidates {
 public:
  Candidates(const PeakPlace& place, const MemoryPlan& plan)
      : plan_(plan), reads_(*place.computation), peak_(reads_.position_of(*place.at)) {}

  const ValueReads& reads() const { return reads_; }

  std::vector<Candidate> all() const {
    std::vector<Candidate> found;
    for (int64_t i = 0; i < peak_; ++i)
      if (std::optional<Candidate> one = candidate(reads_.node_at(i)))
        found.push_back(std::move(*one));
    return found;
  }

 private:
  bool in_arena(const ReadValue& value) const {
    const auto place = plan_.places.find({value.made_by->id(), value.leaf});
    return place == plan_.places.end() || place->second.kind == BufferPlace::arena;
  }

  // Kept over the peak for readers that can read another value as well.
  bool can_go(const ReadValue& value) const {
    if (value.last() <= peak_ || !in_arena(value)) return false;
    return std::none_of(value.reads.begin(), value.reads.end(), [&](const ReadValue::Read& read) {
      return read.at == peak_ || (read.at > peak_ && read.fixed);
    });
  }

  std::optional<Candidate> candidate(Node& node) const {
    if (!may_run_twice(node)) return std::nullopt;
    Candidate result;
    result.node = &node;
    result.first_reader = reads_.size();
    bool moves = true;  // nobody needs it before: it is only made later
    for (const int64_t id : reads_.leaves_of(node)) {
      const ReadValue& value = reads_[id];
      const bool goes = can_go(value);
      moves = moves && (value.reads.empty() || (goes && value.reads.front().at > peak_));
      if (!goes) continue;
      result.values.push_back(id);
      result.freed += value.bytes;
      const auto late = std::find_if(value.reads.begin(), value.reads.end(),
                                     [&](const ReadValue::Read& read) { return read.at > peak_; });
      result.first_reader = std::min(result.first_reader, late->at);
    }
    if (result.values.empty()) return std::nullopt;
    std::set<int64_t> kept;
    tries_ = 0;
    if (!add(node, result, kept)) return std::nullopt;
    for (const int64_t id : kept) result.freed -= reads_[id].bytes;
    if (result.freed <= 0) return std::nullopt;
    for (const Node* again : result.made_again) {
      if (again == &node && moves) continue;
      const NodeCost cost = cost_of(*again);
      result.cost = {result.cost.flops + cost.flops, result.cost.bytes + cost.bytes};
    }
    return result;
  }

  // Adds `node` to what is made again; `kept` are values that have to stay for it which would not
  // have been there at the peak. False: too much.
  bool add(Node& node, Candidate& result, std::set<int64_t>& kept) const {
    if (result.made_again.size() >= kMostMadeAgain) return false;
    for (const Node* operand : node.operands())
      for (const int64_t id : reads_.leaves_of(*operand)) {
        const ReadValue& value = reads_[id];
        if (is_made_again(result, *value.made_by)) continue;
        if (is_there(value, result.first_reader)) {
          result.relied.push_back(id);
          continue;
        }
        const int64_t to_keep = value.last() < peak_ || !in_arena(value) ? value.bytes : 0;
        if (to_keep == 0) continue;
        if (!may_run_twice(*value.made_by) || !add_if_less(*value.made_by, to_keep, result, kept))
          kept.insert(id);
      }
    if (!is_made_again(result, node)) result.made_again.push_back(&node);
    return true;
  }

  bool add_if_less(Node& node, int64_t bytes, Candidate& result, std::set<int64_t>& kept) const {
    if (++tries_ > kMostTries) return false;
    Candidate trial = result;
    std::set<int64_t> trial_kept = kept;
    if (!add(node, trial, trial_kept)) return false;
    const auto sum = [&](const std::set<int64_t>& ids) {
      int64_t total = 0;
      for (const int64_t id : ids) total += reads_[id].bytes;
      return total;
    };
    if (sum(trial_kept) - sum(kept) >= bytes) return false;
    result = std::move(trial);
    kept = std::move(trial_kept);
    return true;
  }

  static bool is_made_again(const Candidate& candidate, const Node& node) {
    return std::find(candidate.made_again.begin(), candidate.made_again.end(), &node) !=
           candidate.made_again.end();
  }

  // Held until the reader runs, whatever is done here: by other readers, or for the whole run.
  bool is_there(const ReadValue& value, int64_t reader) const {
    if (value.last() >= reader) return true;
    const auto place = plan_.places.find({value.made_by->id(), value.leaf});
    if (place == plan_.places.end()) return false;
    return place->second.kind == BufferPlace::constant ||
           (place->second.kind == BufferPlace::parameter && !is_donated(*value.made_by));
  }

  static bool is_donated(const Node& parameter) {
    const Module& module = parameter.parent().module();
    const auto& parameters = module.entry()->parameters();
    return std::any_of(module.aliases.begin(), module.aliases.end(), [&](const Alias& alias) {
      return alias.parameter < std::ssize(parameters) &&
             parameters[static_cast<size_t>(alias.parameter)] == &parameter;
    });
  }

  const MemoryPlan& plan_;
  ValueReads reads_;
  int64_t peak_;
  mutable int64_t tries_ = 0;  // for the candidate at hand
};

// Makes the candidate's value again, and has late readers read that; the computation is left to be
// sorted and cleared.
class Rewriter {
 public:
  Rewriter(const ValueReads& reads, const Candidate& candidate)
      : reads_(reads),
        candidate_(candidate),
        values_(candidate.values.begin(), candidate.values.end()),
        again_(candidate.made_again.begin(), candidate.made_again.end()) {}

  void run() {
    std::set<int64_t> readers;
    for (const int64_t id : values_)
      for (const ReadValue::Read& read : reads_[id].reads)
        if (read.at >= candidate_.first_reader) readers.insert(read.at);
    for (const int64_t position : readers) {
      Node& reader = reads_.node_at(position);
      for (int64_t i = 0; i < std::ssize(reader.operands()); ++i)
        if (holds_value(*reader.operand(i))) reader.set_operand(i, made_again(*reader.operand(i)));
    }
  }

 private:
  bool holds_value(const Node& node) const {
    const auto leaves = reads_.leaves_of(node);
    return std::any_of(leaves.begin(), leaves.end(),
                       [&](int64_t id) { return values_.contains(id); });
  }

  bool is_of_again(const Node& node) const {
    const auto leaves = reads_.leaves_of(node);
    return std::any_of(leaves.begin(), leaves.end(),
                       [&](int64_t id) { return again_.contains(reads_[id].made_by); });
  }

  // The node with what is made again in place of what was.
  Node* made_again(Node& node) {
    if (!is_of_again(node)) return &node;
    const auto found = copies_.find(&node);
    if (found != copies_.end()) return found->second;
    std::vector<Node*> operands;
    for (Node* operand : node.operands()) operands.push_back(made_again(*operand));
    Computation& computation = node.parent();
    Node* const copy = computation.append(node.opcode(), node.shape, std::move(operands),
                                          node.attrs, node.name() + ".again");
    copy->called = node.called;
    copy_annotations(node, *copy);
    copies_.emplace(&node, copy);
    return copy;
  }

  const ValueReads& reads_;
  const Candidate& candidate_;
  std::set<int64_t> values_;
  std::set<const Node*> again_;
  std::map<const Node*, Node*> copies_;
};

Recomputation described(const ValueReads& reads, const Candidate& candidate) {
  const Node& node = *candidate.node;
  return {node.name(),     node.shape,           reads.node_at(candidate.first_reader).name(),
          candidate.freed, candidate.cost.flops, source_line_of(node)};
}

// Makes values again until as many bytes are free at the peak; what they were.
std::vector<Recomputation> free_at_peak(const Module& module, const MemoryPlan& plan,
                                        int64_t bytes) {
  struct Found {
    const Candidates* of = nullptr;
    Candidate candidate;
  };
  std::vector<std::unique_ptr<Candidates>> places;
  std::vector<Found> all;
  for (const PeakPlace& place : places_of_peak(module, plan)) {
    places.push_back(std::make_unique<Candidates>(place, plan));
    for (Candidate& candidate : places.back()->all())
      all.push_back({places.back().get(), std::move(candidate)});
  }
  std::stable_sort(all.begin(), all.end(), [](const Found& a, const Found& b) {
    return a.candidate.seconds_per_byte() < b.candidate.seconds_per_byte();
  });
  std::vector<Recomputation> done;
  std::set<std::pair<const Candidates*, int64_t>> gone;  // others may not count on these any more
  std::set<Computation*> changed;
  for (const auto& [of, candidate] : all) {
    if (bytes <= 0) break;
    if (std::any_of(candidate.relied.begin(), candidate.relied.end(), [&, of = of](int64_t id) {
          return gone.contains({of, id});
        }))
      continue;
    done.push_back(described(of->reads(), candidate));
    bytes -= candidate.freed;
    Rewriter(of->reads(), candidate).run();
    for (const int64_t id : candidate.values) gone.insert({of, id});
    changed.insert(&candidate.node->parent());
  }
  for (Computation* computation : changed) {
    computation->sort();
    computation->remove_dead();
  }
  return done;
}

struct Attempt {
  RecomputeResult result;
  int64_t peak = INT64_MAX;  // of it
};

// Aims at `goal` with each peak, and ends at `limit`.
Attempt attempt(const Module& program, int64_t goal, int64_t limit, const PlanOptions& options) {
  Attempt best;
  const std::unique_ptr<Module> module = program.clone();
  MemoryPlan plan = plan_memory(*module, options);
  best.peak = plan.peak_bytes;
  std::vector<Recomputation> done;
  for (int round = 0, in_vain = 0; round < kMostRounds && in_vain < kMostInVain; ++round) {
    const std::vector<Recomputation> more = free_at_peak(*module, plan, plan.peak_bytes - goal);
    if (more.empty()) break;
    done.insert(done.end(), more.begin(), more.end());
    plan = plan_memory(*module, options);
    ++in_vain;
    if (plan.peak_bytes >= best.peak) continue;
    best = {{module->clone(), done}, plan.peak_bytes};
    in_vain = 0;
    if (best.peak <= limit) break;
  }
  return best;
}

}  // namespace

std::string to_string(const Recomputation& r) {
  return fmt::format("{} {} again before {}: {} bytes less for {:.6g} FLOPs{}", r.name,
                     to_string(r.shape), r.before, r.bytes, r.flops,
                     r.source.empty() ? "" : fmt::format(" ({})", r.source));
}

RecomputeResult recompute(const Module& program, int64_t limit, const PlanOptions& options) {
  const int64_t peak = plan_memory(program, options).peak_bytes;
  if (peak <= limit) return {};
  Attempt best;
  // What is freed for one peak may be missed at the next: more of it, where the least is not
  // enough.
  for (const int64_t quarters : {0, 1, 2, 4, 8}) {
    const int64_t goal = std::max<int64_t>(0, limit - (peak - limit) / 4 * quarters);
    Attempt next = attempt(program, goal, limit, options);
    if (next.peak < best.peak) best = std::move(next);
    if (best.peak <= limit || goal == 0) break;
  }
  return std::move(best.result);
}

}  // namespace gspmd
