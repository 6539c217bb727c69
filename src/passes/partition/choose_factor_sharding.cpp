#include "passes/partition/choose_factor_sharding.h"

#include "gspmd/ir/op.h"
#include "gspmd/moves/reshard.h"
#include "moves/price.h"
#include "passes/partition/factor_sharding_memo.h"
#include "passes/partition/factor_sharding_search.h"

namespace gspmd {
namespace {

bool in_result(const FactorRule& rule, int64_t factor) {
  for (const auto& dims : rule.results)
    if (std::find(dims.begin(), dims.end(), factor) != dims.end()) return true;
  return false;
}

bool has_factor(const std::vector<int64_t>& dims, int64_t factor) {
  return std::find(dims.begin(), dims.end(), factor) != dims.end();
}

ReshardCost total_cost(const FactorShardingProblem& p, const FactorDigits& spread) {
  ReshardCost cost;
  const auto add = [&](const Shape& shape, const Sharding& from, const Sharding& to) {
    const ReshardPlan plan = plan_reshard(shape, from, to, p.num_devices);
    cost.bytes += plan.cost.bytes;
    cost.steps += plan.cost.steps;
  };
  for (size_t i = 0; i < p.operands.size(); ++i)
    add(p.node->operand(static_cast<int64_t>(i))->shape, p.operands[i],
        project(p.order, p.rule->operands[i], spread));
  add(leaf_shapes(p.node->shape).at(0), project(p.order, p.rule->results[0], spread), p.result);
  return cost;
}

// The state of one choice: `chosen` grows, `used` is what may not be taken again.
class Chooser {
 public:
  explicit Chooser(const FactorShardingProblem& p)
      : p_(p), rule_(*p.rule), chosen_(p.rule->factors.size()), used_(p.taken) {}

  FactorDigits run() {
    agree_with_result();
    agree_on_sums();
    agree_on_batches();
    take_wanted();
    take_one_sided_sums();
    keep_operand_digits();
    park_digits_of_whole_dims();
    return chosen_;
  }

 private:
  bool local_kind(size_t f, FactorKind kind) const { return rule_.factors[f].kind == kind; }

  // Takes digits one by one while they are free; whether all were.
  bool take(size_t f, const Digits& digits) {
    for (const Digit& digit : digits) {
      if (!disjoint({digit}, used_)) return false;
      chosen_[f] = concat(chosen_[f], {digit});
      used_.push_back(digit);
    }
    return true;
  }

  // `digits` without the part already chosen for f; empty where they do not continue it.
  Digits rest(size_t f, const Digits& digits) const {
    if (!is_prefix(chosen_[f], digits)) return {};
    const auto left = difference(digits, chosen_[f]);
    return left ? *left : Digits{};
  }

  bool operand_has(size_t i, size_t f) const {
    return has_factor(rule_.operands[i], static_cast<int64_t>(f));
  }

  void agree_with_result() {
    for (size_t f = 0; f < chosen_.size(); ++f) {
      if (!local_kind(f, FactorKind::pass)) continue;
      Digits best;
      for (size_t i = 0; i < p_.have.size(); ++i) {
        if (!operand_has(i, f)) continue;
        const Digits agreed = common_prefix(p_.want[f], p_.have[i][f]);
        if (tile_count(agreed) > tile_count(best)) best = agreed;
      }
      take(f, best);
    }
  }

  void agree_on_sums() {
    for (size_t f = 0; f < chosen_.size(); ++f) {
      if (!local_kind(f, FactorKind::reduction)) continue;
      std::optional<Digits> agreed;
      for (size_t i = 0; i < p_.have.size(); ++i)
        if (operand_has(i, f))
          agreed = agreed ? common_prefix(*agreed, p_.near[i][f]) : p_.near[i][f];
      if (agreed) take(f, *agreed);
    }
  }

  // A loop on which operands agree, but whose digits the result wants for another one: the product
  // is made where the operands are, where moving it sends less than moving them.
  void agree_on_batches() {
    for (size_t f = 0; f < chosen_.size(); ++f) {
      if (!local_kind(f, FactorKind::pass) || !in_result(rule_, static_cast<int64_t>(f))) continue;
      std::optional<Digits> agreed;
      int64_t sharing = 0;
      for (size_t i = 0; i < p_.have.size(); ++i) {
        if (!operand_has(i, f)) continue;
        agreed = agreed ? common_prefix(*agreed, p_.have[i][f]) : p_.have[i][f];
        ++sharing;
      }
      if (sharing < 2) continue;
      const Digits digits = rest(f, *agreed);
      if (digits.empty() || !disjoint(digits, used_)) continue;
      Chooser moved(*this), kept(*this);
      moved.take_wanted();
      if (disjoint(digits, moved.used_)) continue;  // nobody else asks for them
      kept.take(f, digits);
      kept.take_wanted();
      if (total_cost(p_, kept.chosen_).bytes < total_cost(p_, moved.chosen_).bytes) take(f, digits);
    }
  }

  void take_wanted() {
    for (size_t f = 0; f < chosen_.size(); ++f)
      if (local_kind(f, FactorKind::pass) && in_result(rule_, static_cast<int64_t>(f)))
        take(f, rest(f, p_.want[f]));
  }

  int64_t gather_bytes(size_t i, size_t f, const Digits& keep) const {
    FactorDigits without = p_.have[i];
    without[f] = keep;
    return plan_reshard(p_.node->operand(static_cast<int64_t>(i))->shape, p_.operands[i],
                        project(p_.order, rule_.operands[i], without), p_.num_devices)
        .cost.bytes;
  }

  int64_t local_result_bytes() const {
    return local_shape(leaf_shapes(p_.node->shape).at(0),
                       project(p_.order, rule_.results[0], chosen_))
        .bytes();
  }

  // Bytes that put `digits` behind what is chosen for f in operand i, and nothing else there.
  int64_t move_bytes(size_t i, size_t f, const Digits& digits) const {
    return operand_has(i, f) ? gather_bytes(i, f, concat(chosen_[f], digits)) : 0;
  }

  // A summed loop that operands split in different ways, or only some: the others follow one of
  // them (slices and permutes), and devices sum afterwards; or all are gathered. Products divide
  // their work too, so for them the sum counts once, though an all-reduce sends it twice.
  void take_one_sided_sums() {
    const auto kind =
        p_.node->op().has(kLinearInEach) ? ReshardKind::reduce_scatter : ReshardKind::all_reduce;
    for (size_t f = 0; f < chosen_.size(); ++f) {
      if (!local_kind(f, FactorKind::reduction)) continue;
      for (size_t i = 0; i < p_.have.size(); ++i) {
        if (!operand_has(i, f)) continue;
        const Digits digits = rest(f, p_.have[i][f]);
        if (digits.empty() || !disjoint(digits, used_)) continue;
        if (!free_elsewhere(i, f, digits)) {
          if (sums_cheaper(f, digits)) take(f, digits);
          continue;
        }
        const int64_t bytes = local_result_bytes();
        int64_t sum = sent_bytes(kind, bytes, bytes, tile_count(digits)), gather = 0;
        for (size_t j = 0; j < p_.have.size(); ++j) {
          sum += move_bytes(j, f, digits);
          gather += move_bytes(j, f, {});
        }
        if (sum < gather) take(f, digits);
      }
    }
  }

  // Whether no other operand splits another loop by these digits.
  bool free_elsewhere(size_t i, size_t f, const Digits& digits) const {
    for (size_t j = 0; j < p_.have.size(); ++j)
      for (size_t other = 0; other < chosen_.size(); ++other)
        if (j != i && other != f && !disjoint(p_.have[j][other], digits)) return false;
    return true;
  }

  // Whether all in all less is sent where loop f is summed over these digits, by an all-reduce of
  // the result, than where another operand keeps them for its own loop.
  bool sums_cheaper(size_t f, const Digits& digits) const {
    Chooser summed(*this), kept(*this);
    if (!summed.take(f, digits)) return false;
    const int64_t bytes = summed.local_result_bytes();
    const int64_t sum = sent_bytes(ReshardKind::all_reduce, bytes, bytes, tile_count(digits));
    for (Chooser* chooser : {&summed, &kept}) {
      chooser->keep_operand_digits();
      chooser->park_digits_of_whole_dims();
    }
    return total_cost(p_, summed.chosen_).bytes + sum < total_cost(p_, kept.chosen_).bytes;
  }

  int64_t sizes(size_t i, size_t f) const {
    const Dims& dims = p_.node->operands()[i]->dims();
    for (size_t d = 0; d < dims.size(); ++d)
      if (rule_.operands[i][d] == static_cast<int64_t>(f)) return std::max<int64_t>(1, dims[d]);
    return 1;
  }

  // A loop that operands split and the result does not want split: gather whichever side is
  // smaller. Where parts need something of others, this is at least an element beside.
  void keep_operand_digits() {
    for (size_t f = 0; f < chosen_.size(); ++f) {
      if (!local_kind(f, FactorKind::pass)) continue;
      for (size_t i = 0; i < p_.have.size(); ++i) {
        if (!operand_has(i, f)) continue;
        const Digits digits = rest(f, p_.have[i][f]);
        if (digits.empty() || !disjoint(digits, used_)) continue;
        int64_t operands = 0, beside = 0;
        for (size_t j = 0; j < p_.have.size(); ++j)
          if (operand_has(j, f) && !rest(f, p_.have[j][f]).empty()) {
            operands += gather_bytes(j, f, chosen_[f]);
            if (p_.exchanged[f]) beside += p_.node->operands()[j]->shape.bytes() / sizes(j, f) + 1;
          }
        const int64_t whole = local_result_bytes(), g = tile_count(digits);
        if (sent_bytes(ReshardKind::all_gather, whole / g, whole, g) + beside <= operands)
          take(f, digits);
      }
    }
  }

  // What splits a dim that has to be whole goes to another dim that takes it evenly: an exchange
  // instead of a gather, and each device does its part of the work.
  void park_digits_of_whole_dims() {
    if (p_.node->is(Opcode::dynamic_slice) || p_.node->is(Opcode::dynamic_update_slice)) return;
    for (size_t f = 0; f < chosen_.size(); ++f) {
      if (!local_kind(f, FactorKind::blocked) && !local_kind(f, FactorKind::window)) continue;
      for (size_t i = 0; i < p_.have.size(); ++i)
        if (operand_has(i, f) && !p_.have[i][f].empty() && disjoint(p_.have[i][f], used_)) {
          const FactorDigits before = chosen_;
          const Digits used = used_;
          const int64_t gathered = total_cost(p_, chosen_).bytes;
          park(i, p_.have[i][f]);
          if (chosen_ == before || total_cost(p_, chosen_).bytes <= gathered) continue;
          chosen_ = before;  // gathering moves less, the result included
          used_ = used;
        }
    }
  }

  // All digits on one dim that they cut evenly; else each on some such dim, or a part of it; what
  // is left on a dim that they cut unevenly.
  void park(size_t i, const Digits& digits) {
    if (const auto g = place_for(i, digits)) {
      take(*g, digits);
      return;
    }
    for (Digit digit : digits) {
      for (int64_t part = digit.size; part > 1; --part) {
        const Digit major{part, digit.stride * (digit.size / part)};
        if (digit.size % part != 0) continue;
        const auto g = place_for(i, {major});
        if (!g) continue;
        take(*g, {major});
        digit.size /= part;
        part = digit.size + 1;
      }
      if (digit.size == 1) continue;
      if (const auto g = uneven_place_for(i, {digit})) take(*g, {digit});
    }
  }

  bool is_place(size_t i, size_t g) const {
    return local_kind(g, FactorKind::pass) && operand_has(i, g) && rule_.factors[g].size > 0 &&
           in_result(rule_, static_cast<int64_t>(g));
  }

  // The largest loop of operand i and the result that these digits cut into equal parts.
  std::optional<size_t> place_for(size_t i, const Digits& digits) const {
    std::optional<size_t> best;
    for (size_t g = 0; g < chosen_.size(); ++g) {
      const int64_t size = rule_.factors[g].size;
      const int64_t tiles = tile_count(chosen_[g]) * tile_count(digits);
      if (is_place(i, g) && size % tiles == 0 && (!best || size > rule_.factors[*best].size))
        best = g;
    }
    return best;
  }

  // The loop where the fewest devices have nothing to do: at least half of them have.
  std::optional<size_t> uneven_place_for(size_t i, const Digits& digits) const {
    std::optional<size_t> best;
    double most = 0.5;
    for (size_t g = 0; g < chosen_.size(); ++g) {
      if (!is_place(i, g)) continue;
      const int64_t size = rule_.factors[g].size;
      const int64_t tiles = tile_count(chosen_[g]) * tile_count(digits);
      const double used = double(size) / double(ceil_div(size, tiles) * tiles);
      if (used < most || (best && used == most)) continue;
      best = g;
      most = used;
    }
    return best;
  }

  const FactorShardingProblem& p_;
  const FactorRule& rule_;
  FactorDigits chosen_;
  Digits used_;
};

// A spread that values agree on is what their neighbours are laid out for, in layers after layers:
// another one is taken where it sends less than so many times less.
constexpr int64_t kAgreedWeight = 4;
// One sum of what is in place is one collective, which others are joined to: another spread, of
// several collectives, is taken where it sends less than so much less.
constexpr int64_t kInPlaceWeight = 7, kInPlaceOf = 5;

// Where no loop is summed (elementwise and data movement), computing in an operand's own layout and
// moving the result once can be cheaper than moving several operands.
FactorDigits cheapest_layout(const FactorShardingProblem& p, FactorDigits spread) {
  std::vector<FactorDigits> candidates;
  for (const FactorDigits& have : p.have) {
    FactorDigits candidate = have;
    Digits used = p.taken;
    for (size_t f = 0; f < candidate.size(); ++f) {
      if (p.rule->factors[f].kind != FactorKind::pass || !disjoint(candidate[f], used))
        candidate[f].clear();
      used.insert(used.end(), candidate[f].begin(), candidate[f].end());
    }
    if (candidate != spread &&
        std::find(candidates.begin(), candidates.end(), candidate) == candidates.end())
      candidates.push_back(std::move(candidate));
  }
  if (candidates.empty()) return spread;
  ReshardCost best = total_cost(p, spread);
  for (FactorDigits& candidate : candidates) {
    const ReshardCost cost = total_cost(p, candidate);
    if (cost.bytes >= best.bytes) continue;
    best = cost;
    spread = std::move(candidate);
  }
  return spread;
}

FactorDigits by_cases_or_cheapest(const FactorShardingProblem& p) {
  FactorDigits spread = factor_sharding_by_cases(p);
  return p.taken.empty() ? cheapest_layout(p, std::move(spread)) : spread;
}

// Whether each digit is on a loop by which two values are split alike, or all that have it.
bool is_agreed(const FactorShardingProblem& p, const FactorDigits& spread) {
  for (size_t f = 0; f < spread.size(); ++f) {
    if (spread[f].empty()) continue;
    int64_t split = 0, values = 0;
    const auto look = [&](const std::vector<int64_t>& dims, const FactorDigits& digits) {
      if (!has_factor(dims, static_cast<int64_t>(f))) return;
      ++values;
      split += is_prefix(spread[f], digits[f]) ? 1 : 0;
    };
    for (size_t i = 0; i < p.have.size(); ++i) look(p.rule->operands[i], p.have[i]);
    look(p.rule->results[0], p.want);
    if (split < std::min<int64_t>(2, values)) return false;
  }
  return true;
}

// Whether windows are read, or summed: neighbours exchange what lies at the border of their parts.
bool has_windows(const FactorShardingProblem& p) {
  return p.rule->sums.size() > 0 || std::count(p.exchanged.begin(), p.exchanged.end(), true) > 0;
}

CheapestFactorSharding cheapest_or_first(const FactorShardingProblem& problem) {
  FactorDigits first = factor_sharding_by_cases(problem);
  CheapestFactorSharding best = cheapest_factor_sharding(problem, first);
  const auto is_below = [&](int64_t times, int64_t of) {
    return saturating_multiply(best.first.bytes, of) <= saturating_multiply(best.cost.bytes, times);
  };
  const bool stays =
      (best.first_in_place && is_below(kInPlaceWeight, kInPlaceOf)) ||
      (!problem.one_of_few &&
       (has_windows(problem) || (is_agreed(problem, first) && is_below(kAgreedWeight, 1))));
  if (!stays) return best;
  best.spread = std::move(first);
  best.cost = best.first;
  best.real = best.first_real;
  return best;
}

}  // namespace

bool has_sums(const FactorRule& rule) {
  return std::any_of(rule.factors.begin(), rule.factors.end(),
                     [](const Factor& f) { return f.kind == FactorKind::reduction; });
}

FactorDigits factor_sharding_by_cases(const FactorShardingProblem& problem) {
  return Chooser(problem).run();
}

CheapestFactorSharding choose_among_sums(const FactorShardingProblem& problem,
                                         FactorShardingMemo& memo) {
  return memo.chosen(problem, cheapest_or_first);
}

CheapestFactorSharding choose_factor_sharding(const FactorShardingProblem& problem,
                                              FactorShardingMemo& memo) {
  if (problem.taken.empty() && has_sums(*problem.rule)) return choose_among_sums(problem, memo);
  CheapestFactorSharding found;
  found.spread = memo.chosen_without_sums(problem, by_cases_or_cheapest);
  return found;
}

}  // namespace gspmd
