#include "passes/partition/window_exchange.h"

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/moves/reshard.h"
#include "gspmd/ops/builders.h"
#include "ops/common/completion.h"
#include "ops/common/in_dim.h"
#include "ops/emission/index.h"

namespace gspmd {

namespace {

// Where a node begins in dim d of its operand, if it is a piece of that along d and all of it along
// the others.
std::optional<int64_t> start_of_piece(const Node& node, int64_t d) {
  if (!node.op().has(kDataMovement) || !node.op().factors || node.operands().size() != 1)
    return std::nullopt;
  const FactorRule rule = node.op().factors(node);
  if (rule.windows.size() != 1 || rule.operands != rule.results) return std::nullopt;
  for (size_t e = 0; e < rule.operands[0].size(); ++e) {
    const int64_t f = rule.operands[0][e];
    const auto kind = f < 0 ? FactorKind::blocked : rule.factors[static_cast<size_t>(f)].kind;
    if (kind != (static_cast<int64_t>(e) == d ? FactorKind::window : FactorKind::pass))
      return std::nullopt;
  }
  const WindowStep& s = rule.windows[0][static_cast<size_t>(d)];
  if (s.step != 1 || s.hole != 1 || s.reach != 1 || s.low > 0) return std::nullopt;
  return -s.low;
}

}  // namespace

WindowExchange::WindowExchange(PartitionContext& spmd, Node& node, FactorRule& rule,
                               WindowSums sums)
    : spmd_(spmd), node_(node), rule_(rule), opened_(rule.factors.size()) {
  find_joined_dim();
  open_groups();
  open_sums(sums);
  if (rule.windows.empty()) return;
  for (size_t f = 0; f < opened_.size(); ++f)
    if (rule.factors[f].kind == FactorKind::window && may_open(f) && !is_cumulated_whole(f)) {
      rule.factors[f].kind = FactorKind::pass;
      opened_[f] = true;
    }
}

// Operands that stand one behind the other, and which of them are pieces of other values.
void WindowExchange::find_joined_dim() {
  if (rule_.windows.size() < 2) return;
  const std::vector<int64_t>& dims = rule_.operands[0];
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] >= 0 && rule_.factors[static_cast<size_t>(dims[d])].kind == FactorKind::window)
      joined_dim_ = static_cast<int64_t>(d);
  for (const Node* operand : node_.operands())
    starts_.push_back(start_of_piece(*operand, *joined_dim_));
}

// Groups are a loop over both of their dims.
void WindowExchange::open_groups() {
  if (!rule_.groups) return;
  rule_.operands[0][static_cast<size_t>(rule_.groups->dim)] = rule_.groups->factor;
  Factor& factor = rule_.factors[static_cast<size_t>(rule_.groups->factor)];
  factor.kind = FactorKind::pass;
  factor.size = rule_.groups->count;
}

// Those whose operands are split alike, along positions that the result wants whole.
void WindowExchange::open_sums(WindowSums sums) {
  const auto split_alike = [&](const WindowSum& sum) {
    const Sharding x = spmd_.sharding(*node_.operand(0)), y = spmd_.sharding(*node_.operand(1));
    const auto& positions = rule_.results[0];
    const int64_t window = rule_.operands[0][static_cast<size_t>(sum.dim)];
    const auto at = std::find(positions.begin(), positions.end(), window) - positions.begin();
    return x.is_tiled() && y.is_tiled() && x.order() == y.order() && !x.dim(sum.dim).empty() &&
           x.dim(sum.dim) == y.dim(sum.with) && spmd_.sharding(node_).dim(at).empty();
  };
  // Iterations that go backwards over parts that stand in the opposite order meet what they read.
  for (const WindowSum& sum : rule_.sums)
    if (sums == WindowSums::of_all && sum.with >= 0 && !split_alike(sum) && meets_turned(sum))
      turned_ = sum.with;
  std::erase_if(rule_.sums, [&](const WindowSum& sum) {
    return sum.with >= 0 &&
           (sums != WindowSums::of_all || (!split_alike(sum) && sum.with != turned_));
  });
  for (const WindowSum& sum : rule_.sums) {
    const auto factor = static_cast<int64_t>(rule_.factors.size());
    rule_.operands[0][static_cast<size_t>(sum.dim)] = factor;
    if (sum.with >= 0) rule_.operands[1][static_cast<size_t>(sum.with)] = factor;
    rule_.factors.push_back(sum.factor);
  }
}

bool WindowExchange::sums_alike() const {
  return std::any_of(rule_.sums.begin(), rule_.sums.end(),
                     [](const WindowSum& sum) { return sum.with >= 0; });
}

bool WindowExchange::meets_turned(const WindowSum& sum) const {
  const Sharding x = spmd_.sharding(*node_.operand(0)), y = spmd_.sharding(*node_.operand(1));
  const auto& positions = rule_.results[0];
  const int64_t window = rule_.operands[0][static_cast<size_t>(sum.dim)];
  const auto at = std::find(positions.begin(), positions.end(), window) - positions.begin();
  if (sum.step.step >= 0 || turned_ >= 0 || !x.is_tiled() || !y.is_tiled() || !y.order() ||
      x.dim(sum.dim).empty() || !y.manual_digits().empty() || !y.unreduced().empty() ||
      !spmd_.sharding(node_).dim(at).empty())
    return false;
  for (int64_t d = 0; d < node_.operand(1)->rank(); ++d)
    if (d != sum.with && !y.dim(d).empty()) return false;
  const Sharding turned = reversed_tiles(y, {sum.with});
  return turned.order() == x.order() && turned.dim(sum.with) == x.dim(sum.dim);
}

std::optional<Sharding> WindowExchange::counted_as(size_t i) const {
  if (i != 1 || turned_ < 0) return std::nullopt;
  return reversed_tiles(spmd_.sharding(*node_.operand(1)), {turned_});
}

// There is something on both sides.
bool WindowExchange::may_open(size_t factor) const {
  const auto f = static_cast<int64_t>(factor);
  for (size_t i = 0; i < rule_.operands.size(); ++i)
    for (size_t d = 0; d < rule_.operands[i].size(); ++d)
      if (rule_.operands[i][d] == f && node_.operands()[i]->dims()[d] == 0) return false;
  for (size_t d = 0; d < rule_.results[0].size(); ++d)
    if (rule_.results[0][d] == f && node_.dims()[d] == 0) return false;
  return true;
}

// A cumulative dim that the result has whole: what is read is all of it, in few places or in all.
bool WindowExchange::is_cumulated_whole(size_t factor) const {
  const auto f = static_cast<int64_t>(factor);
  const std::vector<int64_t>&from = rule_.operands[0], &to = rule_.results[0];
  const auto d = std::find(from.begin(), from.end(), f) - from.begin();
  const auto position = std::find(to.begin(), to.end(), f) - to.begin();
  return d < std::ssize(from) && position < std::ssize(to) && step(0, d).cumulates &&
         spmd_.sharding(node_).dim(position).empty();
}

void WindowExchange::spread(DeviceOrder order, FactorDigits& spread, bool unreduced) {
  order_ = order;
  unreduced_ = unreduced;
  spread_ = spread;
  for (size_t i = 0; i < rule_.operands.size(); ++i)
    for (size_t d = 0; d < rule_.operands[i].size(); ++d) {
      const Dim dim = this->dim(i, static_cast<int64_t>(d));
      if (!dim.split || serves(i, dim)) continue;
      spread[static_cast<size_t>(dim.factor)].clear();
      spread_ = spread;
    }
  if (rule_.groups) {
    Digits& digits = spread[static_cast<size_t>(rule_.groups->factor)];
    if (!split_inside_groups(spread) && rule_.groups->count % tile_count(digits) != 0)
      digits.clear();
    spread_ = spread;
    any_ = any_ || !spread[static_cast<size_t>(rule_.groups->factor)].empty();
  }
  if (turned_ >= 0) {
    const Sharding as = *counted_as(1);
    const auto f = static_cast<size_t>(rule_.operands[1][static_cast<size_t>(turned_)]);
    if (as.order() != order_ || spread_[f] != as.dim(turned_)) turned_ = -1;  // brought into order
  }
  any_ = any_ || !rule_.sums.empty();
  for (size_t f = 0; f < opened_.size(); ++f) any_ = any_ || (opened_[f] && !spread[f].empty());
  find_whole_operands();
  if (joined_dim_ && any_ && !rotation()) plan_joined();
}

bool WindowExchange::is_whole(size_t i, int64_t d) const {
  return i < on_all_.size() && on_all_[i].at(static_cast<size_t>(d));
}

Sharding WindowExchange::layout(size_t i, const Sharding& layout) const {
  if (i == 1 && turned_ >= 0) return spmd_.sharding(*node_.operand(1));
  if (!layout.is_tiled()) return layout;
  std::vector<Digits> dims;
  for (int64_t d = 0; d < source(i)->rank(); ++d)
    dims.push_back(is_whole(i, d) ? Digits{} : layout.dim(d));
  return Sharding::tiled(layout.order(), std::move(dims), layout.manual_digits(),
                         layout.unreduced());
}

// Operands that are not split along an exchanged dim, and of which the rest is where it is needed
// without sending anything: each device reads its part of what it has.
void WindowExchange::find_whole_operands() {
  if (!any_) return;
  std::vector<std::vector<bool>> found;
  for (size_t i = 0; i < node_.operands().size(); ++i) {
    const Node& x = *source(i);
    const Sharding& s = spmd_.sharding(x);
    found.emplace_back(x.dims().size());
    const bool plain = s.is_tiled() && s.manual_digits().empty() && s.unreduced().empty();
    if (!s.is_replicated() && (!plain || s.order() != order_)) continue;
    for (int64_t d = 0; d < x.rank(); ++d)
      found[i][static_cast<size_t>(d)] =
          this->dim(i, d).split && (s.is_replicated() || s.dim(d).empty());
  }
  on_all_ = std::move(found);
  for (size_t i = 0; i < on_all_.size(); ++i) {
    std::vector<bool>& dims = on_all_[i];
    if (std::find(dims.begin(), dims.end(), true) == dims.end()) continue;
    const Sharding to = layout(i, project(order_, rule_.operands[i], spread_));
    const Sharding& from = spmd_.sharding(*source(i));
    if (plan_reshard(source(i)->shape, from, to, spmd_.num_devices()).cost.bytes > 0)
      dims.assign(dims.size(), false);
  }
}

// More devices than groups: those of one group share its inputs, and each makes some of its
// outputs. The input then has a loop of its own, over the groups alone.
bool WindowExchange::split_inside_groups(FactorDigits& spread) {
  const WindowGroups& loop = *rule_.groups;
  const Digits digits = spread[static_cast<size_t>(loop.factor)];
  const std::vector<int64_t>& dims = rule_.results[0];
  const auto made = std::find(dims.begin(), dims.end(), loop.factor) - dims.begin();
  if (tile_count(digits) <= loop.count || node_.dim(made) % tile_count(digits) != 0) return false;
  size_t outer = 0;
  while (tile_count(Digits(digits.begin(), digits.begin() + int64_t(outer))) < loop.count) ++outer;
  Digits groups(digits.begin(), digits.begin() + int64_t(outer));
  const int64_t excess = tile_count(groups) / loop.count;
  if (tile_count(groups) % loop.count != 0 || groups.back().size % excess != 0) return false;
  Digit& last = groups.back();
  last = {last.size / excess, last.stride * excess};
  rule_.operands[0][static_cast<size_t>(loop.dim)] = static_cast<int64_t>(rule_.factors.size());
  rule_.factors.push_back({loop.count, FactorKind::pass});
  spread.push_back(canonical(std::move(groups)));
  return true;
}

// All operands of a concatenation in one exchange, where that is less than one after the other.
void WindowExchange::plan_joined() {
  const int64_t d = *joined_dim_;
  if (!dim(0, d).split) return;
  int64_t received = 0, collectives = 0, before = 0;
  std::vector<Node*> sources;
  for (size_t i = 0; i < node_.operands().size(); ++i) {
    const Dim dim = this->dim(i, d);
    const int64_t size = node_.operands()[i]->dim(d);
    if (!dim.from.whole) {
      const ExchangeChoice alone = choose_exchange(dim.from.held, undilated(access(i, dim)));
      received += alone.received;
      collectives += alone.collectives();
    }
    Node* const from = source(i);
    const auto known = std::find(sources.begin(), sources.end(), from);
    join_of_.push_back(static_cast<size_t>(known - sources.begin()));
    if (known == sources.end()) {
      sources.push_back(from);
      join_.sources.push_back(dim.from.held);
    }
    const int64_t first = skipped(i);
    join_.parts.push_back({static_cast<int64_t>(join_of_.back()), {first, first + size}, before});
    before += size;
  }
  const Digits& digits = dim(0, d).from.digits;
  const int64_t tiles = tile_count(digits);
  join_.dim = d;
  join_.order = order_;
  join_.digits = digits;
  join_.result = {before, tiles, ceil_div(before, tiles)};
  joined_ = choose_join(join_, received, collectives);
  if (joined_) on_all_.clear();
}

Node* WindowExchange::source(size_t i) const {
  Node* operand = node_.operands()[i];
  if (!joined_dim_ || !starts_[i]) return operand;
  const int64_t d = *joined_dim_, factor = rule_.operands[i][static_cast<size_t>(d)];
  if (factor < 0 || !opened_[static_cast<size_t>(factor)]) return operand;
  const Digits& digits = spread_[static_cast<size_t>(factor)];
  Node* x = operand->operand(0);
  const Sharding& s = spmd_.sharding(*x);
  return digits.empty() || s.order() != order_ || s.dim(d) != digits ? operand : x;
}

int64_t WindowExchange::skipped(size_t i) const {
  return source(i) == node_.operands()[i] ? 0 : *starts_[i];
}

std::optional<int64_t> WindowExchange::rotation() const {
  if (!joined_dim_ || node_.operands().size() != 2) return std::nullopt;
  const Node *front = node_.operand(0), *back = node_.operand(1), *x = source(0);
  if (x == front || x == back || source(1) != x) return std::nullopt;  // both are pieces of x
  const int64_t d = *joined_dim_, size = x->dim(d), by = *starts_[0];
  const Dim dim = this->dim(0, d);
  const bool turns = by + front->dim(d) == size && *starts_[1] == 0 && back->dim(d) == by;
  if (!turns || !dim.split || size % dim.from.held.tiles != 0) return std::nullopt;
  return by;
}

WindowExchange::Dim WindowExchange::dim(size_t i, int64_t d) const {
  Dim result;
  result.factor = rule_.operands[i][static_cast<size_t>(d)];
  if (result.factor < 0) return result;
  const auto f = static_cast<size_t>(result.factor);
  if (f >= opened_.size() || !opened_[f] || spread_[f].empty()) return result;
  result.split = true;
  const int64_t tiles = tile_count(spread_[f]), size = source(i)->dim(d);
  result.from = {d, order_, spread_[f], {size, tiles, ceil_div(size, tiles)}, is_whole(i, d)};
  const auto& dims = rule_.results[0];
  const auto at = std::find(dims.begin(), dims.end(), result.factor) - dims.begin();
  result.size = node_.dim(at);
  result.part = ceil_div(result.size, tiles);
  return result;
}

const WindowStep& WindowExchange::step(size_t i, int64_t d) const {
  return rule_.windows.at(i).at(static_cast<size_t>(d));
}

bool WindowExchange::serves(size_t i, const Dim& dim) const {
  constexpr int64_t kMost = int64_t(1) << 28;
  const WindowStep& s = step(i, dim.from.dim);
  if (s.step < 0)
    return is_addressable(dim.from.held, Access{-dim.part, dim.from.held.size, 1, dim.part});
  if (s.reach >= kMost || saturating_multiply(s.step, dim.part) >= kMost) return false;
  return is_addressable(dim.from.held, access(i, dim));
}

WindowAccess WindowExchange::access(size_t i, const Dim& dim) const {
  const WindowStep& s = step(i, dim.from.dim);
  return {s.low - skipped(i), s.hole, s.step * dim.part, s.step * (dim.part - 1) + s.reach,
          joined_dim_ ? WindowAccess{}.end : s.step * (dim.size - 1) + s.reach};
}

// What stands where there is no element.
Node* WindowExchange::fill(size_t i) {
  if (rule_.outside_operand >= 0) {
    Node* const value = node_.operand(rule_.outside_operand);
    return unreduced_ ? spmd_.held(value).local : spmd_.reshard(value, Sharding::replicated());
  }
  const DType dtype = node_.operands()[i]->shape.dtype;
  return rule_.outside ? hlo::scalar(spmd_.local(), dtype, *rule_.outside) : nullptr;
}

Node* WindowExchange::fetch(size_t i, Node* local) {
  if (!any_ || joined_) return local;
  for (int64_t d = 0; d < node_.operands()[i]->rank(); ++d) {
    if (i == 0)
      for (const WindowSum& sum : rule_.sums)
        if (sum.dim == d && sum.with >= 0) local = fetch_summed(sum, local);
    const Dim dim = this->dim(i, d);
    if (!dim.split) continue;
    const HeldDim& held = dim.from.held;
    if (const auto by = rotation())
      local = i == 0 ? rotate(spmd_, local, dim.from, *by) : local;
    else if (step(i, d).step < 0)
      local =
          exchange(spmd_, local, dim.from, {-dim.part, held.size - dim.part, 1, dim.part}, nullptr);
    else
      local = exchange_window(spmd_, local, dim.from, access(i, dim), fill(i));
  }
  return local;
}

// What a device's iterations of a summed loop read, for every position of the result. A loop that
// goes backwards begins with the last part.
Access WindowExchange::access_of(const WindowSum& sum, int64_t tiles) const {
  const int64_t part = ceil_div(sum.factor.size, tiles), way = sum.step.step * (part - 1);
  Access access{sum.step.step * part, std::min<int64_t>(0, way) - sum.step.low, 1,
                std::abs(way) + sum.step.reach};
  if (turned_ >= 0 && sum.with == turned_) {
    access.offset += access.step * (tiles - 1);
    access.step = -access.step;
  }
  return access;
}

Node* WindowExchange::fetch_summed(const WindowSum& sum, Node* local) {
  const Digits& digits = spread_[static_cast<size_t>(rule_.operands[0][size_t(sum.dim)])];
  if (digits.empty()) return local;
  const int64_t tiles = tile_count(digits), size = node_.operand(0)->dim(sum.dim);
  return exchange(spmd_, local, {sum.dim, order_, digits, {size, tiles, ceil_div(size, tiles)}},
                  access_of(sum, tiles), fill(0));
}

std::optional<ReshardCost> WindowExchange::fetched(size_t i, int64_t d, int64_t tiles) const {
  const int64_t factor = rule_.operands[i][static_cast<size_t>(d)];
  const int64_t size = node_.operands()[i]->dim(d);
  const HeldDim held{size, tiles, ceil_div(size, tiles)};
  const auto price = [&](const Access& access) {
    const ExchangeChoice choice = choose_exchange(held, access);
    return ReshardCost{choice.received, choice.collectives()};
  };
  if (rule_.groups && factor == rule_.groups->factor && rule_.groups->count % tiles != 0)
    return std::nullopt;
  if (static_cast<size_t>(factor) >= opened_.size()) {
    for (const WindowSum& sum : rule_.sums)
      if (i == 0 && sum.dim == d && sum.with >= 0) return price(access_of(sum, tiles));
    return ReshardCost{};
  }
  if (!opened_[static_cast<size_t>(factor)]) return ReshardCost{};
  const auto& dims = rule_.results[0];
  Dim dim;
  dim.size = node_.dim(std::find(dims.begin(), dims.end(), factor) - dims.begin());
  dim.part = ceil_div(dim.size, tiles);
  dim.from.dim = d;
  dim.from.held = held;
  if (!serves(i, dim)) return std::nullopt;
  if (step(i, d).step < 0) return price({-dim.part, size - dim.part, 1, dim.part});
  return price(undilated(access(i, dim)));
}

PartDim WindowExchange::part_of(int64_t d) const {
  const int64_t factor = rule_.operands[0][static_cast<size_t>(d)];
  if (factor < 0 || spread_[static_cast<size_t>(factor)].empty()) return PartDim::whole;
  const bool summed = std::any_of(rule_.sums.begin(), rule_.sums.end(), [&](const WindowSum& sum) {
    return sum.dim == d && sum.with >= 0;
  });
  return summed || dim(0, d).split ? PartDim::fetched : PartDim::cut;
}

// Each position of the shard takes the operand that it falls into.
Node* WindowExchange::concatenate(const std::vector<Node*>& operands) {
  const int64_t d = *joined_dim_;
  const Dim dim = this->dim(0, d);
  const IndexNode start = IndexNode(spmd_.digits_index(order_, dim.from.digits)) * dim.part;
  const IndexNode at = positions(operands[0]->dims(), d, start);
  Node* result = operands[0];
  int64_t before = 0;
  for (size_t i = 1; i < operands.size(); ++i) {
    before += node_.operands()[i - 1]->dim(d);
    Node* later = compare(at, IndexNode(spmd_.local(), before), Direction::ge);
    result = hlo::select(later, operands[i], result);
  }
  return result;
}

Node* WindowExchange::emit(const std::vector<Node*>& operands) {
  if (!any_) return nullptr;
  if (rotation()) return operands[0];
  if (joined_) {
    std::vector<Node*> shards(join_.sources.size());
    for (size_t i = 0; i < operands.size(); ++i) shards[join_of_[i]] = operands[i];
    return exchange_joined(spmd_, shards, join_, *joined_);
  }
  if (joined_dim_) return concatenate(operands);
  return nullptr;
}

}  // namespace gspmd
