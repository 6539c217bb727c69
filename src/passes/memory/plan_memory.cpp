#include "gspmd/passes/memory/plan_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "ir/call_nesting.h"
#include "passes/memory/most_in_range.h"
#include "passes/memory/placed_buffers.h"
#include "passes/memory/plan_memory_buffers.h"

namespace gspmd {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kStaggered = 16384;
constexpr int64_t kMostReordered = 20000;  // buffers for which several orders are tried,
constexpr int64_t kMostPlaced = 20000;     // or, one order after the other made better, in all,
constexpr double kTight = 1.02;            // unless the first is that near to what cannot be less
constexpr int64_t kMostDrawn = 200000;     // buffers placed in orders by lot, in all,
constexpr double kNear = 1.025;            // where the orders above come not that near,
constexpr int64_t kDrawnAgain = 4;         // and so many times as many
constexpr double kFar = 1.045;             // where those come not even that near

int64_t flat_leaf(const Shape& shape, const Dims& path) {
  int64_t leaf = 0;
  const Shape* at = &shape;
  for (const int64_t index : path) {
    if (!at->is_tuple || index < 0 || index >= static_cast<int64_t>(at->elements.size())) {
      user_error("plan_memory: alias path {{{}}} does not exist in {}", fmt::join(path, ","),
                 to_string(shape));
    }
    for (int64_t i = 0; i < index; ++i) leaf += leaf_count(at->elements[static_cast<size_t>(i)]);
    at = &at->elements[static_cast<size_t>(index)];
  }
  return leaf;
}

class Planner {
 public:
  Planner(const Module& module, const PlanOptions& options)
      : module_(module), options_(options), table_(table_of_buffers(module, options.scratch)) {
    for (const PlannedBuffer& b : table_.buffers) lifetimes_.emplace_back(b.first, b.last);
  }

  MemoryPlan plan() {
    read_donations();
    place_outputs(true);  // before a result is put over some other dying operand
    share_in_place();
    share_loops();
    place_outputs(false);
    place_arena();
    describe_peak();
    write_places();
    return std::move(plan_);
  }

 private:
  // Takes the positions of `other` out of those at which `buffer` holds nothing.
  static void keep_out(PlannedBuffer& buffer, const PlannedBuffer& other) {
    if (other.last < buffer.free_first || buffer.free_last < other.first) return;
    if (other.first > buffer.free_first)
      buffer.free_last = other.first - 1;
    else
      buffer.free_first = other.last + 1;
  }

  // `from` becomes part of `into`.
  void merge(int64_t from, int64_t into) {
    PlannedBuffer& a = table_[into];
    PlannedBuffer& b = table_[from];
    keep_out(a, b);
    keep_out(b, a);
    if (b.free_last - b.free_first > a.free_last - a.free_first) {
      a.free_first = b.free_first;
      a.free_last = b.free_last;
    }
    a.first = std::min(a.first, b.first);
    a.last = std::max(a.last, b.last);
    a.last_inside = std::max(a.last_inside, b.last_inside);
    b.merged = table_.find(into);
  }

  bool is_arena(int64_t buffer) { return table_[buffer].kind == PlannedBuffer::arena; }

  void share_in_place() {
    for (const ShareCandidate& share : table_.shares) {
      const int64_t operand = table_.find(share.operand), result = table_.find(share.result);
      if (operand == result || !is_arena(operand) || !is_arena(result)) continue;
      PlannedBuffer& x = table_[operand];
      PlannedBuffer& y = table_[result];
      if (x.last != share.position || y.first != share.position || x.bytes != y.bytes) continue;
      if (x.shared_at == share.position)
        continue;  // another result, which nobody reads, lies there
      merge(operand, result);
      table_[result].shared_at = share.position;
    }
  }

  bool may_share_at(int64_t position, int64_t operand, int64_t result) const {
    const auto [first, last] = std::equal_range(
        table_.shares.begin(), table_.shares.end(), ShareCandidate{position, 0, 0},
        [](const ShareCandidate& a, const ShareCandidate& b) { return a.position < b.position; });
    return std::any_of(first, last, [&](const ShareCandidate& share) {
      return table_.find(share.operand) == operand && table_.find(share.result) == result;
    });
  }

  // The body writes a leaf's next value over the present one when nobody reads that any more.
  void share_loops() {
    for (const CarryCandidate& carry : table_.carries) {
      const int64_t carried = table_.find(carry.carried), next = table_.find(carry.next);
      if (carried == next || !is_arena(next) || !is_arena(carried)) continue;
      const PlannedBuffer& x = table_[carried];
      const PlannedBuffer& y = table_[next];
      if (x.bytes != y.bytes || y.last_inside >= 0 || y.first < x.first) continue;
      const bool free = x.last_inside < y.first ||
                        (x.last_inside == y.first && may_share_at(y.first, carried, next));
      if (free) merge(next, carried);
    }
  }

  void read_donations() {
    std::vector<int64_t> first_leaf;
    int64_t total = 0;
    for (const Node* parameter : module_.entry()->parameters()) {
      first_leaf.push_back(total);
      total += leaf_count(parameter->shape);
    }
    const Shape& root = module_.entry()->root()->shape;
    for (const Alias& alias : module_.aliases) {
      const auto& parameters = module_.entry()->parameters();
      if (alias.parameter < 0 || alias.parameter >= static_cast<int64_t>(parameters.size())) {
        user_error("plan_memory: an alias names parameter {}, there are {}", alias.parameter,
                   parameters.size());
      }
      const auto number = static_cast<size_t>(alias.parameter);
      const int64_t donor =
          first_leaf[number] + flat_leaf(parameters[number]->shape, alias.parameter_index);
      for (const auto& [output, other] : donated_) {
        if (other != donor) continue;
        user_error(place_of(*parameters[number]),
                   "plan_memory: parameter {} is donated to two results; donate it to one",
                   alias.parameter);
      }
      donated_[flat_leaf(root, alias.output)] = donor;
    }
    const std::vector<Shape> shapes = leaf_shapes(root);
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (donated_.count(static_cast<int64_t>(i)) == 0) plan_.output_bytes += shapes[i].bytes();
    }
  }

  void place_outputs(bool donated_only) {
    for (size_t i = 0; i < table_.roots.size(); ++i) {
      const auto leaf = static_cast<int64_t>(i);
      const auto found = donated_.find(leaf);
      if (donated_only && found == donated_.end()) continue;
      const int64_t root = table_.find(table_.roots[i]);
      if (!is_arena(root)) continue;  // copied when the run ends
      if (found != donated_.end() && !can_take_over(root, found->second)) continue;
      table_[root].kind = PlannedBuffer::output;
      table_[root].index = leaf;
    }
  }

  // Whether the value may be written into the donated parameter's storage from the start.
  bool can_take_over(int64_t root, int64_t parameter) {
    const int64_t donor = table_.find(table_.parameters.at(static_cast<size_t>(parameter)));
    const PlannedBuffer& x = table_[donor];
    const PlannedBuffer& y = table_[root];
    if (x.bytes != y.bytes) return false;
    return x.last < y.first || (x.last == y.first && may_share_at(y.first, donor, root));
  }

  // Each into the tightest gap between those that live at the same time: largest first, or, where
  // that leaves gaps and another order leaves fewer, what takes most bytes for most positions or
  // lives longest.
  void place_arena() {
    std::vector<int64_t> order;
    for (size_t i = 0; i < table_.buffers.size(); ++i) {
      const PlannedBuffer& b = table_.buffers[i];
      if (b.merged < 0 && b.kind == PlannedBuffer::arena) order.push_back(static_cast<int64_t>(i));
    }
    const auto bytes = [&](int64_t i) { return static_cast<double>(table_[i].bytes); };
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t x, int64_t y) { return table_[x].bytes > table_[y].bytes; });
    find_peak();
    Placement best = place_in(order);
    if (std::ssize(order) <= kMostReordered) {
      const std::function<double(int64_t)> weights[] = {
          [&](int64_t i) { return bytes(i) * lives(i); },
          [&](int64_t i) { return bytes(i) * std::sqrt(lives(i)); },
          [&](int64_t i) { return lives(i); }};
      for (const auto& weight : weights) {
        if (is_within(best, kTight)) break;
        Placement found = place_in(heaviest_first(order, weight), best.end);
        if (found.end < best.end) best = std::move(found);
      }
      best = draw(improve(std::move(best)), order);
    }
    for (size_t i = 0; i < best.order.size(); ++i) table_[best.order[i]].offset = best.offsets[i];
    plan_.arena_bytes = best.end;
  }

  // How many positions a buffer lives at.
  double lives(int64_t i) const {
    const PlannedBuffer& b = table_.buffers[static_cast<size_t>(i)];
    return static_cast<double>(b.last - b.first + 1);
  }

  static std::vector<int64_t> heaviest_first(std::vector<int64_t> order,
                                             const std::function<double(int64_t)>& weight) {
    std::vector<std::pair<double, int64_t>> weighed;
    for (const int64_t i : order) weighed.emplace_back(weight(i), i);
    std::stable_sort(weighed.begin(), weighed.end(),
                     [](const auto& x, const auto& y) { return x.first > y.first; });
    for (size_t i = 0; i < order.size(); ++i) order[i] = weighed[i].second;
    return order;
  }

  // Where buffers came to lie that were placed one after the other.
  struct Placement {
    std::vector<int64_t> order, offsets;
    int64_t end = 0;
  };

  // Given up where it reaches `limit`: it is no better then.
  Placement place_in(std::vector<int64_t> order, int64_t limit = INT64_MAX) const {
    PlacedBuffers placed(std::ssize(table_.at));
    Placement result;
    for (const int64_t i : order) {
      const PlannedBuffer& b = table_.buffers[static_cast<size_t>(i)];
      const int64_t offset = placed.best_gap(b.first, b.last, size_of(i));
      const int64_t end = offset + size_of(i);
      if (b.free_first > b.free_last) {
        placed.add({b.first, b.last, offset, end});
      } else {
        placed.add({b.first, b.free_first - 1, offset, end});
        placed.add({b.free_last + 1, b.last, offset, end});
      }
      result.offsets.push_back(offset);
      result.end = std::max(result.end, end);
      if (result.end >= limit) return result;
    }
    result.order = std::move(order);
    return result;
  }

  // Whether the arena is so many times what lives at the fullest moment, or less.
  bool is_within(const Placement& placement, double times) const {
    return static_cast<double>(placement.end) <= times * static_cast<double>(plan_.peak_live_bytes);
  }

  // Buffers that came to lie high are placed before the others, once more and again: after "Squeaky
  // wheel optimization", Joslin and Clements 1999.
  Placement improve(Placement best) const {
    const int64_t rounds = kMostPlaced / std::max<int64_t>(1, std::ssize(best.order));
    Placement at = best;
    for (int64_t round = 0; round < rounds && !is_within(best, kTight); ++round) {
      const int64_t high = (plan_.peak_live_bytes + at.end) / 2;
      std::vector<int64_t> order, others;
      for (size_t i = 0; i < at.order.size(); ++i)
        (at.offsets[i] + size_of(at.order[i]) > high ? order : others).push_back(at.order[i]);
      order.insert(order.end(), others.begin(), others.end());
      if (order == at.order) break;
      at = place_in(std::move(order));
      if (at.end < best.end) best = at;
    }
    return best;
  }

  // Of what counts in orders by lot.
  struct Logarithms {
    double bytes = 0, life = 0, fullness = 0;  // at the fullest moment of that life
  };
  std::vector<Logarithms> logarithms_of(const std::vector<int64_t>& order) const {
    const MostInRange most(live_);
    const auto of = [](int64_t count) {
      return std::log(static_cast<double>(std::max<int64_t>(1, count)));
    };
    std::vector<Logarithms> found(table_.buffers.size());
    for (const int64_t i : order) {
      const PlannedBuffer& b = table_.buffers[static_cast<size_t>(i)];
      found[static_cast<size_t>(i)] = {of(b.bytes), of(b.last - b.first + 1),
                                       of(most(b.first, b.last))};
    }
    return found;
  }

  // Where the best order leaves much: orders by weights drawn by lot, in all of which size, length
  // of life and, most, how full the fullest moment of that life is count.
  Placement draw(Placement best, const std::vector<int64_t>& order) const {
    if (is_within(best, kNear)) return best;
    const std::vector<Logarithms> logarithms = logarithms_of(order);
    std::mt19937 random;  // the same draws for every program
    const auto lot = [&](double below) {
      return below * static_cast<double>(random()) / static_cast<double>(std::mt19937::max());
    };
    const int64_t rounds = kMostDrawn / std::max<int64_t>(1, std::ssize(order));
    for (int64_t round = 0; round < kDrawnAgain * rounds; ++round) {
      if (is_within(best, round < rounds ? kNear : kFar)) break;
      const double of_bytes = lot(2), of_life = lot(0.7), of_fullness = 4 + lot(8),
                   noise = lot(0.5);
      const auto weight = [&](int64_t i) {
        const Logarithms& of = logarithms[static_cast<size_t>(i)];
        return of_bytes * of.bytes + of_life * of.life + of_fullness * of.fullness + lot(noise);
      };
      Placement found = place_in(heaviest_first(order, weight), best.end);
      if (found.end < best.end) best = std::move(found);
    }
    return best;
  }

  int64_t size_of(int64_t buffer) const {
    return aligned(table_.buffers[static_cast<size_t>(buffer)].bytes);
  }

  // Large buffers get some lines more, so that those used together do not all start at the same
  // place of a page: their equal elements would fight for the same cache sets.
  int64_t aligned(int64_t bytes) const {
    const int64_t lines = ceil_div(bytes, kAlign) * kAlign + options_.guard_bytes;
    return bytes < kStaggered ? lines : lines + 5 * kAlign;
  }

  // The position where the arena's values take most; -1 where there are none.
  int64_t find_peak() {
    std::vector<int64_t> change(table_.at.size() + 1, 0);
    for (const PlannedBuffer& b : table_.buffers) {
      if (b.merged >= 0 || b.kind != PlannedBuffer::arena) continue;
      change[static_cast<size_t>(b.first)] += aligned(b.bytes);
      change[static_cast<size_t>(b.last) + 1] -= aligned(b.bytes);
      if (b.free_first > b.free_last) continue;
      change[static_cast<size_t>(b.free_first)] -= aligned(b.bytes);
      change[static_cast<size_t>(b.free_last) + 1] += aligned(b.bytes);
    }
    int64_t live = 0, most = 0, peak = -1;
    live_.assign(table_.at.size(), 0);
    for (size_t i = 0; i < table_.at.size(); ++i) {
      live_[i] = live += change[i];
      if (live <= most) continue;
      most = live;
      peak = static_cast<int64_t>(i);
    }
    plan_.peak_live_bytes = most;
    return peak;
  }

  // Of the values that take turns in each buffer the one it holds at a position: the last that was
  // made.
  std::map<int64_t, const PlannedBuffer*> values_at(int64_t position) {
    std::map<int64_t, const PlannedBuffer*> values;
    for (size_t i = 0; i < table_.buffers.size(); ++i) {
      const PlannedBuffer& value = table_.buffers[i];
      const auto [first, last] = lifetimes_[i];
      if (position < first || last < position) continue;
      const PlannedBuffer*& held = values[table_.find(static_cast<int64_t>(i))];
      if (held == nullptr || value.first >= held->first) held = &value;
    }
    return values;
  }

  void describe_peak() {
    const int64_t peak = find_peak();
    for (size_t i = 0; i < live_.size(); ++i) {
      int64_t& at_node = plan_.live_bytes[table_.at[i]->id()];
      at_node = std::max(at_node, live_[i]);
    }
    if (peak >= 0) plan_.peak_op = table_.at[static_cast<size_t>(peak)]->name();
    const std::map<int64_t, const PlannedBuffer*> values = values_at(peak);
    for (size_t i = 0; i < table_.buffers.size(); ++i) {
      const PlannedBuffer& b = table_.buffers[i];
      if (b.merged >= 0 || (b.kind == PlannedBuffer::arena && (peak < b.first || b.last < peak)))
        continue;
      if (b.kind == PlannedBuffer::output && donated_.count(b.index) > 0)
        continue;  // the parameter's
      const auto found = values.find(static_cast<int64_t>(i));
      const PlannedBuffer& value = found != values.end() ? *found->second : b;
      plan_.peak_tensors.push_back(
          {kKinds[b.kind], value.node->name(), value.shape, b.bytes, source_line_of(*value.node)});
    }
    for (size_t i = 0; i < table_.roots.size();
         ++i) {  // copied to where it is returned when the run ends
      const auto leaf = static_cast<int64_t>(i);
      const PlannedBuffer& b = table_[table_.roots[i]];
      if (donated_.count(leaf) > 0 || (b.kind == PlannedBuffer::output && b.index == leaf))
        continue;
      plan_.peak_tensors.push_back(
          {BufferPlace::output, b.node->name(), b.shape, b.shape.bytes(), source_line_of(*b.node)});
    }
    std::stable_sort(plan_.peak_tensors.begin(), plan_.peak_tensors.end(),
                     [](const HeldTensor& a, const HeldTensor& b) { return a.bytes > b.bytes; });
  }

  void write_places() {
    std::set<int64_t> constants;
    for (const auto& [leaf, buffer] : table_.of_leaf) {
      const int64_t found = table_.find(buffer);
      const PlannedBuffer& b = table_[found];
      BufferPlace& place =
          plan_.places.emplace_hint(plan_.places.end(), leaf, BufferPlace{})->second;
      place.kind = kKinds[b.kind];
      place.bytes = b.bytes;
      place.offset = b.kind == PlannedBuffer::arena ? b.offset : 0;
      place.index = b.kind == PlannedBuffer::constant ? found : b.index;
      if (b.kind == PlannedBuffer::constant && constants.insert(found).second)
        plan_.constant_bytes += b.bytes;
    }
    for (const int64_t parameter : table_.parameters)
      plan_.parameter_bytes += table_[parameter].shape.bytes();
    plan_.peak_bytes =
        plan_.arena_bytes + plan_.parameter_bytes + plan_.output_bytes + plan_.constant_bytes;
  }

  static constexpr BufferPlace::Kind kKinds[] = {BufferPlace::arena, BufferPlace::parameter,
                                                 BufferPlace::constant, BufferPlace::output};
  const Module& module_;
  const PlanOptions& options_;
  BufferTable table_;
  std::vector<std::pair<int64_t, int64_t>> lifetimes_;  // of the table's buffers before any sharing
  std::map<int64_t, int64_t> donated_;                  // result leaf -> parameter leaf
  std::vector<int64_t> live_;                           // bytes of the arena's values by position
  MemoryPlan plan_;
};

const char* kind_name(BufferPlace::Kind kind) {
  switch (kind) {
    case BufferPlace::parameter:
      return "parameter ";
    case BufferPlace::output:
      return "result ";
    case BufferPlace::constant:
      return "constant ";
    case BufferPlace::arena:
      return "";
  }
  return "";
}

}  // namespace

std::string to_string(const HeldTensor& tensor) {
  return fmt::format("{}{} {} {} bytes{}", kind_name(tensor.kind), tensor.name,
                     to_string(tensor.shape), tensor.bytes,
                     tensor.source.empty() ? "" : fmt::format(" ({})", tensor.source));
}

void check_memory_limit(const MemoryPlan& plan, int64_t limit, const std::string& what, Site site) {
  if (plan.peak_bytes <= limit) return;
  constexpr size_t kListed = 8;
  std::vector<std::string> largest;
  for (const HeldTensor& tensor : plan.peak_tensors) {
    if (largest.size() < kListed) largest.push_back(to_string(tensor));
  }
  user_error(
      site,
      "{}: {} bytes are needed on each device, the memory limit is {}: parameters {}, results {}, "
      "constants "
      "{}, intermediate values {}{}. The largest{}: {}. Split these over more devices, donate "
      "arguments "
      "that results replace, or raise the limit",
      what, plan.peak_bytes, limit, plan.parameter_bytes, plan.output_bytes, plan.constant_bytes,
      plan.arena_bytes, plan.peak_op.empty() ? "" : fmt::format(" at {}", plan.peak_op),
      plan.peak_tensors.size() > kListed ? fmt::format(" of {}", plan.peak_tensors.size()) : "",
      fmt::join(largest, "; "));
}

MemoryPlan plan_memory(const Module& local, const PlanOptions& options) {
  if (local.entry() != nullptr) check_call_depth(*local.entry());
  return Planner(local, options).plan();
}

}  // namespace gspmd
