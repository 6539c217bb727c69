#include "passes/partition/windows.h"

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/moves/reshard.h"
#include "gspmd/ops/builders.h"
#include "ops/window/window.h"

namespace gspmd {

Windows::Windows(PartitionContext& spmd, Node& node, FactorRule& rule)
    : spmd_(spmd), node_(node), rule_(rule), opened_(rule.factors.size()) {
  if (node.attrs.conv.present() && rule.outside) {
    open_groups(rule);
    open_kernel(rule);
  }
  if (rule.windows.empty()) return;
  pools_ = !node.attrs.window.empty() && !node.attrs.conv.present();
  joins_ = rule.windows.size() > 1;
  if (pools_ && rule.outside) open_whole(rule);
  for (size_t f = 0; f < opened_.size(); ++f)
    if (rule.factors[f].kind == FactorKind::window && may_open(f) && !is_cumulated_whole(f)) {
      rule.factors[f].kind = FactorKind::pass;
      opened_[f] = true;
    }
}

// Groups are a loop over input features (or the batch), output features and the result's.
void Windows::open_groups(FactorRule& rule) {
  const ConvDims& conv = *node_.attrs.conv;
  const int64_t count = std::max(conv.feature_group_count, conv.batch_group_count);
  if (count == 1 || node_.shape.elements_count() == 0) return;
  const int64_t d = conv.feature_group_count > 1 ? conv.input_feature : conv.input_batch;
  groups_ = rule.results[0][static_cast<size_t>(conv.output_feature)];
  rule.operands[0][static_cast<size_t>(d)] = groups_;
  rule.factors[static_cast<size_t>(groups_)].kind = FactorKind::pass;
  rule.factors[static_cast<size_t>(groups_)].size = count;
}

// Input and kernel split alike along a window whose positions the result wants whole: the form of a
// gradient for the kernel.
void Windows::open_kernel(FactorRule& rule) {
  const ConvDims& conv = *node_.attrs.conv;
  const Sharding x = spmd_.sharding(*node_.operand(0)), k = spmd_.sharding(*node_.operand(1));
  const Sharding& want = spmd_.sharding(node_);
  summed_.resize(conv.input_spatial.size());
  if (!x.is_tiled() || !k.is_tiled() || x.order() != k.order() || !is_floating(node_.shape.dtype) ||
      node_.shape.elements_count() == 0)
    return;
  for (size_t i = 0; i < summed_.size(); ++i) {
    const int64_t in = conv.input_spatial[i], at = conv.kernel_spatial[i];
    const WindowDim& w = node_.attrs.window[i];
    constexpr int64_t kMost = int64_t(1) << 20;
    if (x.dim(in).empty() || x.dim(in) != k.dim(at) || !want.dim(conv.output_spatial[i]).empty() ||
        w.base_dilation != 1 || w.size >= kMost || w.window_dilation >= 256 || w.stride >= 256 ||
        node_.dim(conv.output_spatial[i]) >= kMost || w.pad_low >= kMost || w.pad_low <= -kMost ||
        node_.operand(0)->dim(in) == 0 || node_.operand(0)->dim(in) >= kMost)
      continue;
    summed_[i] = true;
    Factor sum;
    sum.size = w.size;
    sum.kind = FactorKind::reduction;
    rule.operands[0][static_cast<size_t>(in)] = rule.operands[1][static_cast<size_t>(at)] =
        static_cast<int64_t>(rule.factors.size());
    rule.factors.push_back(sum);
  }
}

// One window over all of a dim is a reduction of it: pooling of whole images.
void Windows::open_whole(FactorRule& rule) {
  const auto combiner = recognize_combiner(*node_.called.at(0));
  if (!combiner || node_.shape.elements_count() == 0) return;
  for (int64_t d = 0; d < node_.rank(); ++d) {
    const WindowDim& w = window(d);
    const int64_t size = node_.operand(0)->dim(d);
    if (node_.dim(d) != 1 || size < 2 || w.window_dilation != 1 || w.base_dilation != 1 ||
        w.pad_low < 0 || w.size - w.pad_low < size)
      continue;
    whole_.push_back(d);
    Factor sum;
    sum.size = size;
    sum.kind = FactorKind::reduction;
    sum.combiner = *combiner;
    rule.operands[0][static_cast<size_t>(d)] = static_cast<int64_t>(rule.factors.size());
    rule.factors.push_back(sum);
  }
}

// There is something on both sides.
bool Windows::may_open(size_t factor) const {
  const auto f = static_cast<int64_t>(factor);
  for (size_t i = 0; i < rule_.operands.size(); ++i)
    for (size_t d = 0; d < rule_.operands[i].size(); ++d)
      if (rule_.operands[i][d] == f && node_.operands()[i]->dims()[d] == 0) return false;
  for (size_t d = 0; d < rule_.results[0].size(); ++d)
    if (rule_.results[0][d] == f && node_.dims()[d] == 0) return false;
  return true;
}

// A cumulative dim that the result has whole: what is read is all of it, in few places or in all.
bool Windows::is_cumulated_whole(size_t factor) const {
  if (!pools_) return false;
  for (size_t d = 0; d < rule_.results[0].size(); ++d)
    if (rule_.results[0][d] == static_cast<int64_t>(factor))
      return spmd_.sharding(node_).dim(static_cast<int64_t>(d)).empty() &&
             cumulative_dim(node_.attrs.window[d], node_.operand(0)->dims()[d], node_.dims()[d]);
  return false;
}

void Windows::spread(DeviceOrder order, FactorDigits& spread, bool unreduced) {
  order_ = order;
  unreduced_ = unreduced;
  spread_ = spread;
  for (size_t i = 0; i < rule_.operands.size(); ++i)
    for (size_t d = 0; d < rule_.operands[i].size(); ++d) {
      const Dim dim = this->dim(i, static_cast<int64_t>(d));
      if (!dim.split || serves(i, static_cast<int64_t>(d))) continue;
      spread[static_cast<size_t>(dim.factor)].clear();
      spread_ = spread;
    }
  if (groups_ >= 0) {
    if (!split_inside_groups(spread)) {
      Digits& digits = spread[static_cast<size_t>(groups_)];
      const int64_t count = rule_.factors[static_cast<size_t>(groups_)].size;
      if (count % tile_count(digits) != 0) digits.clear();
    }
    spread_ = spread;
    any_ = any_ || !spread[static_cast<size_t>(groups_)].empty();
  }
  for (size_t i = 0; i < summed_.size(); ++i) any_ = any_ || summed_[i];
  any_ = any_ || !whole_.empty();
  for (size_t f = 0; f < opened_.size(); ++f) any_ = any_ || (opened_[f] && !spread[f].empty());
  find_whole_operands();
  if (joins_ && any_ && !rotation()) plan_joined();
}

bool Windows::is_whole(size_t i, int64_t d) const {
  return i < on_all_.size() && on_all_[i].at(static_cast<size_t>(d));
}

Sharding Windows::layout(size_t i, const Sharding& layout) const {
  if (!layout.is_tiled()) return layout;
  std::vector<Digits> dims;
  for (int64_t d = 0; d < source(i)->rank(); ++d)
    dims.push_back(is_whole(i, d) ? Digits{} : layout.dim(d));
  return Sharding::tiled(layout.order(), std::move(dims), layout.manual_digits(),
                         layout.unreduced());
}

// Operands that are not split along an exchanged dim, and of which the rest is where it is needed
// without sending anything: each device reads its part of what it has.
void Windows::find_whole_operands() {
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
bool Windows::split_inside_groups(FactorDigits& spread) {
  const Digits digits = spread[static_cast<size_t>(groups_)];
  const int64_t count = rule_.factors[static_cast<size_t>(groups_)].size;
  const ConvDims& conv = *node_.attrs.conv;
  if (tile_count(digits) <= count || node_.dim(conv.output_feature) % tile_count(digits) != 0)
    return false;
  size_t outer = 0;
  while (tile_count(Digits(digits.begin(), digits.begin() + int64_t(outer))) < count) ++outer;
  Digits groups(digits.begin(), digits.begin() + int64_t(outer));
  const int64_t excess = tile_count(groups) / count;
  if (tile_count(groups) % count != 0 || groups.back().size % excess != 0) return false;
  Digit& last = groups.back();
  last = {last.size / excess, last.stride * excess};
  Factor factor;
  factor.size = count;
  factor.kind = FactorKind::pass;
  const int64_t d = conv.feature_group_count > 1 ? conv.input_feature : conv.input_batch;
  rule_.operands[0][static_cast<size_t>(d)] = static_cast<int64_t>(rule_.factors.size());
  rule_.factors.push_back(factor);
  spread.push_back(canonical(std::move(groups)));
  return true;
}

// All operands of a concatenation in one exchange, where that is less than one after the other.
void Windows::plan_joined() {
  const int64_t d = node_.attrs.dimensions[0];
  if (!dim(0, d).split) return;
  int64_t received = 0, collectives = 0, before = 0;
  std::vector<Node*> sources;
  for (size_t i = 0; i < node_.operands().size(); ++i) {
    const Dim dim = this->dim(i, d);
    const int64_t size = node_.operands()[i]->dim(d);
    if (!dim.from.whole) {
      const ExchangeChoice alone =
          choose_exchange(dim.from.held, undilated(access(i, dim)), order_->count);
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
    const int64_t first =
        from == node_.operands()[i] ? 0 : node_.operands()[i]->attrs.starts[static_cast<size_t>(d)];
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

Node* Windows::source(size_t i) const {
  Node* operand = node_.operands()[i];
  if (!joins_ || !operand->is(Opcode::slice)) return operand;
  const auto d = static_cast<size_t>(node_.attrs.dimensions[0]);
  const int64_t factor = rule_.operands[i][d];
  if (factor < 0 || !opened_[static_cast<size_t>(factor)]) return operand;
  const Digits& digits = spread_[static_cast<size_t>(factor)];
  Node* x = operand->operand(0);
  const Sharding& s = spmd_.sharding(*x);
  if (digits.empty() || s.order() != order_ || s.dim(static_cast<int64_t>(d)) != digits)
    return operand;
  for (size_t e = 0; e < x->dims().size(); ++e)
    if (operand->attrs.strides[e] != 1 || (e != d && x->dims()[e] != operand->dims()[e]))
      return operand;
  return x;
}

std::optional<int64_t> Windows::rotation() const {
  if (!joins_ || node_.operands().size() != 2) return std::nullopt;
  const Node *front = node_.operand(0), *back = node_.operand(1), *x = source(0);
  if (x == front || x == back || source(1) != x) return std::nullopt;  // both are slices of x
  const auto d = static_cast<size_t>(node_.attrs.dimensions[0]);
  const int64_t size = x->dims()[d], by = front->attrs.starts[d];
  const Dim dim = this->dim(0, node_.attrs.dimensions[0]);
  const bool turns =
      front->attrs.limits[d] == size && back->attrs.starts[d] == 0 && back->attrs.limits[d] == by;
  if (!turns || !dim.split || size % dim.from.held.tiles != 0) return std::nullopt;
  return by;
}

Windows::Dim Windows::dim(size_t i, int64_t d) const {
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

size_t Windows::window_index(int64_t d) const {
  if (!node_.attrs.conv.present()) return static_cast<size_t>(d);
  const Dims& spatial = node_.attrs.conv->input_spatial;
  return static_cast<size_t>(std::find(spatial.begin(), spatial.end(), d) - spatial.begin());
}

const WindowDim& Windows::window(int64_t d) const { return node_.attrs.window[window_index(d)]; }

const WindowStep& Windows::step(size_t i, int64_t d) const {
  return rule_.windows.at(i).at(static_cast<size_t>(d));
}

bool Windows::serves(size_t i, int64_t d) const {
  constexpr int64_t kMost = int64_t(1) << 28;
  const Dim dim = this->dim(i, d);
  const WindowStep& s = step(i, d);
  if (s.step < 0)
    return is_addressable(dim.from.held, Access{-dim.part, dim.from.held.size, 1, dim.part});
  if (s.reach >= kMost || saturating_multiply(s.step, dim.part) >= kMost) return false;
  return is_addressable(dim.from.held, access(i, dim));
}

WindowAccess Windows::access(size_t i, const Dim& dim) const {
  const auto d = static_cast<size_t>(dim.from.dim);
  const WindowStep& s = step(i, dim.from.dim);
  const Node* operand = node_.operands()[i];
  const int64_t skipped = source(i) != operand ? operand->attrs.starts[d] : 0;
  return {s.low - skipped, s.hole, s.step * dim.part, s.step * (dim.part - 1) + s.reach,
          joins_ ? WindowAccess{}.end : s.step * (dim.size - 1) + s.reach};
}

// What stands where there is no element.
Node* Windows::fill(size_t i) {
  if (rule_.outside_operand >= 0) {
    Node* const value = node_.operand(rule_.outside_operand);
    return unreduced_ ? spmd_.held(value).local : spmd_.reshard(value, Sharding::replicated());
  }
  const DType dtype = node_.operands()[i]->shape.dtype;
  return rule_.outside ? hlo::scalar(spmd_.local(), dtype, *rule_.outside) : nullptr;
}

Node* Windows::fetch(size_t i, Node* local) {
  if (!any_ || joined_) return local;
  for (int64_t d = 0; d < node_.operands()[i]->rank(); ++d) {
    if (i == 0 && !summed_.empty() && window_index(d) < summed_.size() && summed_[window_index(d)])
      local = fetch_summed(d, local);
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

// What the device's part of the kernel reads, for every position of the result. A reversed kernel
// begins with the last part.
Node* Windows::fetch_summed(int64_t d, Node* local) {
  const size_t index = window_index(d);
  const WindowDim& w = window(d);
  const Digits& digits = spread_[static_cast<size_t>(rule_.operands[0][static_cast<size_t>(d)])];
  if (digits.empty()) return local;
  const int64_t tiles = tile_count(digits), size = node_.operand(0)->dim(d);
  const int64_t part = ceil_div(w.size, tiles);
  const int64_t positions = node_.dim(node_.attrs.conv->output_spatial[index]);
  const int64_t length = (positions - 1) * w.stride + (part - 1) * w.window_dilation + 1;
  const int64_t step = part * w.window_dilation;
  const Access access =
      w.reversal ? Access{-step, (w.size - part) * w.window_dilation - w.pad_low, 1, length}
                 : Access{step, -w.pad_low, 1, length};
  return exchange(spmd_, local, {d, order_, digits, {size, tiles, ceil_div(size, tiles)}}, access,
                  fill(0));
}

Attributes Windows::attributes(Attributes attrs) const {
  if (!any_) return attrs;
  if (groups_ >= 0) {
    const int64_t tiles = tile_count(spread_[static_cast<size_t>(groups_)]);
    int64_t& count = attrs.conv->feature_group_count > 1 ? attrs.conv->feature_group_count
                                                         : attrs.conv->batch_group_count;
    count = std::max<int64_t>(1, count / tiles);
  }
  for (size_t i = 0; i < summed_.size(); ++i) {
    const auto in = static_cast<size_t>(node_.attrs.conv->input_spatial[i]);
    if (!summed_[i] || spread_[static_cast<size_t>(rule_.operands[0][in])].empty()) continue;
    WindowDim& w = attrs.window[i];
    w.size = ceil_div(w.size, tile_count(spread_[static_cast<size_t>(rule_.operands[0][in])]));
    w.pad_low = w.pad_high = 0;
  }
  for (const int64_t d : whole_) {
    const auto at = static_cast<size_t>(d);
    const Digits& digits = spread_[static_cast<size_t>(rule_.operands[0][at])];
    if (digits.empty()) continue;
    attrs.window[at] = WindowDim{};
    attrs.window[at].size = ceil_div(node_.operand(0)->dim(d), tile_count(digits));
  }
  for (int64_t d = 0; d < node_.operands()[0]->rank(); ++d) {
    const Dim dim = this->dim(0, d);
    if (!dim.split) continue;
    const auto at = static_cast<size_t>(d);
    if (!attrs.starts.empty()) {
      attrs.starts[at] = 0;
      attrs.limits[at] = attrs.strides[at] * (dim.part - 1) + 1;
    }
    if (!attrs.padding.empty()) attrs.padding[at] = {};
    if (attrs.window.empty()) continue;
    WindowDim& w = attrs.window[window_index(d)];
    w.pad_low = w.pad_high = 0;
    w.base_dilation = 1;
  }
  return attrs;
}

// Each position of the shard takes the operand that it falls into.
Node* Windows::concatenate(const std::vector<Node*>& operands) {
  const int64_t d = node_.attrs.dimensions[0];
  const Dim dim = this->dim(0, d);
  Computation& c = spmd_.local();
  const Dims& dims = operands[0]->dims();
  const auto number = [&](int64_t v) { return hlo::scalar(c, DType::s32, double(v)); };
  Node* start =
      hlo::binary(Opcode::multiply, spmd_.digits_index(order_, dim.from.digits), number(dim.part));
  Node* at = hlo::binary(Opcode::add, hlo::iota(c, Shape(DType::s32, dims), d),
                         hlo::broadcast(start, dims, {}));
  Node* result = operands[0];
  int64_t before = 0;
  for (size_t i = 1; i < operands.size(); ++i) {
    before += node_.operands()[i - 1]->dim(d);
    Node* later = hlo::compare(at, hlo::broadcast(number(before), dims, {}), Direction::ge);
    result = hlo::select(later, operands[i], result);
  }
  return result;
}

Node* Windows::emit(const std::vector<Node*>& operands) {
  if (!any_) return nullptr;
  if (rotation()) return operands[0];
  if (joined_) {
    std::vector<Node*> shards(join_.sources.size());
    for (size_t i = 0; i < operands.size(); ++i) shards[join_of_[i]] = operands[i];
    return exchange_joined(spmd_, shards, join_, *joined_);
  }
  if (joins_) return concatenate(operands);
  return nullptr;
}

}  // namespace gspmd
