#include "gspmd/passes/update/shard_updates.h"

#include <algorithm>
#include <string>

#include "gspmd/ops/builders.h"
#include "passes/update/stacked_gradients.h"
#include "passes/update/update_regions.h"

namespace gspmd {
namespace {

int64_t parts_of(int64_t dim, int64_t parts) { return (dim + parts - 1) / parts; }

// How a region's values are laid out.
struct Format {
  Sharding before, split;  // as completed; with the axes
  Dims dims;               // of one dim where they become flat
  bool flat = false;
};

class UpdateRewriter {
 public:
  UpdateRewriter(Module& module, const ShardUpdatesOptions& options)
      : entry_(*module.entry()),
        options_(options),
        axes_(options.split.dim(0)),
        updates_(find_updates(module, options.state)) {}

  int64_t run() {
    int64_t count = 0;
    for (const UpdateRegion& region : updates_.regions) {
      formats_.push_back(format_of(region));
      if (!formats_.back()) continue;
      for (Node* entry : region.entries) entries_of_.emplace(entry, formats_.size() - 1);
      count += static_cast<int64_t>(region.pairs.size());
    }
    if (count == 0) return 0;
    for (size_t i = 0; i < formats_.size(); ++i)
      if (formats_[i]) gather_for_others(i);
    for (size_t i = 0; i < formats_.size(); ++i)
      if (formats_[i]) lay_out(i);
    for (const Node* sum : updates_.sums) lay_out_sum(const_cast<Node*>(sum));
    finish_root();
    entry_.remove_dead();
    entry_.sort();
    return count;
  }

 private:
  // The layout that the tensors of state have, where they can be split further.
  std::optional<Sharding> common_layout(const UpdateRegion& region) const {
    std::optional<Sharding> layout;
    for (const Node* node : region.state) {
      const Sharding s = node->sharding.value_or(Sharding::replicated());
      if (!s.is_tiled() || !s.unreduced().empty() || !s.manual_digits().empty())
        return std::nullopt;
      if (s.order() && s.order() != options_.split.order()) return std::nullopt;
      for (int64_t d = 0; d < node->rank(); ++d)
        if (!disjoint(s.dim(d), axes_)) return std::nullopt;
      if (layout && !layout->is_replicated() && !s.is_replicated() && !equivalent(*layout, s))
        return std::nullopt;
      if (!layout || layout->is_replicated()) layout = s;
    }
    return layout;
  }

  std::optional<Format> format_of(const UpdateRegion& region) const {
    const std::optional<Sharding> layout = common_layout(region);
    const Dims& dims = region.dims();
    int64_t elements = 1, chosen = -1, least = INT64_MAX;
    for (const int64_t dim : dims) elements *= dim;
    if (!layout || elements < std::max<int64_t>(options_.min_elements, 2)) return std::nullopt;
    const auto rank = static_cast<int64_t>(dims.size());
    const bool stacked = std::any_of(region.entries.begin(), region.entries.end(),
                                     [](const Node* entry) { return is_stacked(*entry); });
    // The least on a device: an even split, the first one. A loop's iterations are not split.
    for (int64_t d = stacked ? 1 : 0; d < rank; ++d) {
      int64_t local = 1;
      for (int64_t e = 0; e < rank; ++e)
        local *= parts_of(dims[static_cast<size_t>(e)],
                          layout->tiles(e) * (e == d ? tile_count(axes_) : 1));
      if (local < least) chosen = d;
      least = std::min(least, local);
    }
    Format format{*layout, {}, dims, false};
    const bool whole = layout->is_replicated();
    // Flat ones are all split along dim 0: their collectives can be joined.
    if (whole && rank > 1 && !region.has_rows && !stacked &&
        (chosen > 0 || parts_of(elements, tile_count(axes_)) < least)) {
      format.flat = true;
      format.dims = {elements};
      format.split = options_.split;
      return format;
    }
    std::vector<Digits> digits;
    for (int64_t d = 0; d < rank; ++d)
      digits.push_back(d == chosen ? concat(layout->dim(d), axes_) : layout->dim(d));
    format.split =
        Sharding::tiled(options_.split.order(), std::move(digits)).with_mesh(options_.split.mesh());
    return format;
  }

  // The same value in another layout.
  Node* laid_out(Node* x, const Sharding& sharding) {
    Node* const node = hlo::unary(Opcode::copy, x);
    node->sharding = sharding;
    return node;
  }

  // Readers outside of all updates get the whole value.
  void gather_for_others(size_t index) {
    const UpdateRegion& region = updates_.regions[index];
    std::vector<Node*> values = region.state;
    values.insert(values.end(), region.inner.begin(), region.inner.end());
    for (Node* value : values) {
      std::vector<Node*> others;
      for (Node* user : value->users())
        if (!is_part(*user, *value) && user != entry_.root()) others.push_back(user);
      if (others.empty() && !is_other_result(*value, region)) continue;
      Node* const whole = gathered(value, *formats_[index]);
      whole_.emplace(value, whole);
      for (Node* user : others)
        for (size_t i = 0; i < user->operands().size(); ++i)
          if (user->operands()[i] == value) user->set_operand(static_cast<int64_t>(i), whole);
    }
  }

  bool is_sharded(const Node& node) const {
    const auto found = updates_.region_of.find(&node);
    return found != updates_.region_of.end() && formats_[found->second].has_value();
  }

  // Whether `user` computes in shards what it makes of `value`.
  bool is_part(const Node& user, const Node& value) const {
    if (is_sharded(user) || (updates_.sums.contains(&user) && user.operand(0) == &value))
      return true;
    // Rows that are spread over another region.
    return user.is(Opcode::broadcast) &&
           std::all_of(user.users().begin(), user.users().end(),
                       [&](const Node* reader) { return is_sharded(*reader); });
  }

  bool is_state_result(size_t element, const UpdateRegion& region) const {
    return std::any_of(region.pairs.begin(), region.pairs.end(), [&](const StatePair& pair) {
      return pair.result == static_cast<int64_t>(element);
    });
  }

  bool is_other_result(const Node& value, const UpdateRegion& region) const {
    const std::vector<Node*>& results = entry_.root()->operands();
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i] == &value && !is_state_result(i, region)) return true;
    return false;
  }

  // The whole of `x`, which has or will have the format. Where devices have nothing, of a size to
  // which all bring a part: one collective of a kind that others can join.
  Node* all_gathered(Node* x, const Format& format) {
    std::vector<PaddingDim> padding(format.dims.size());
    Dims zeros(format.dims.size(), 0), ones(format.dims.size(), 1);
    bool padded = false;
    for (size_t d = 0; d < format.dims.size(); ++d) {
      const int64_t parts = format.split.tiles(static_cast<int64_t>(d)), dim = format.dims[d];
      const int64_t local = parts_of(dim, parts);
      if (format.before.tiles(static_cast<int64_t>(d)) > 1 || dim > local * (parts - 1)) continue;
      padding[d].high = local * parts - dim;
      padded = true;
    }
    if (!padded) {
      x = laid_out(x, format.before);
      x->shape.dims = format.dims;
      return x;
    }
    x = laid_out(x, format.split);
    x->shape.dims = format.dims;
    x = hlo::pad(x, hlo::scalar(entry_, x->shape.dtype, 0), padding);
    x->sharding = format.split;
    x = hlo::slice(laid_out(x, format.before), zeros, format.dims, ones);
    x->sharding = format.before;
    return x;
  }

  // What others than updates read of `value`.
  Node* gathered(Node* value, const Format& format) {
    const EmissionScope scope(value->metadata, false);
    Node* x = value;
    const DType dtype = value->shape.dtype;
    const bool narrow = value->is(Opcode::parameter) && options_.gather_dtype &&
                        is_floating(dtype) &&
                        dtype_size(*options_.gather_dtype) < dtype_size(dtype);
    if (narrow) {
      x = hlo::convert(x, *options_.gather_dtype);
      x->sharding = format.split;
      x->shape.dims = format.dims;  // as `value` will have
    }
    x = all_gathered(x, format);
    if (format.flat) {
      x = hlo::reshape(x, value->dims());
      x->sharding = format.before;
    }
    if (narrow) {
      x = hlo::convert(x, dtype);
      x->sharding = format.before;
    }
    return x;
  }

  // A value that comes from elsewhere, in shards.
  Node* entered(Node* entry, const Format& format) {
    const auto [at, fresh] = entered_.try_emplace(entry, nullptr);
    if (!fresh) return at->second;
    const EmissionScope scope(entry->metadata, entry->backward);
    if (is_stacked(*entry)) shard_stacked(*entry, format.split);
    Node* x = entry;
    if (format.flat) {
      x = hlo::reshape(entry, format.dims);
      x->sharding = format.before;
    }
    return at->second = laid_out(x, format.split);
  }

  void lay_out(size_t index) {
    const UpdateRegion& region = updates_.regions[index];
    const Format& format = *formats_[index];
    for (Node* node : region.state) set_format(*node, format);
    for (Node* node : region.inner) {
      for (size_t i = 0; i < node->operands().size(); ++i) {
        Node* const operand = node->operands()[i];
        if (operand->rank() == 0 || is_sharded(*operand)) continue;
        if (operand->is(Opcode::broadcast))
          node->set_operand(static_cast<int64_t>(i), spread(*operand, format));
        else if (entries_of_.contains(operand))
          node->set_operand(static_cast<int64_t>(i), entered(operand, format));
      }
      set_format(*node, format);
    }
  }

  void set_format(Node& node, const Format& format) {
    node.sharding = format.split;
    node.shape.dims = format.dims;
  }

  Node* spread(const Node& broadcast, const Format& format) {
    const EmissionScope scope(broadcast.metadata, broadcast.backward);
    Node* const copy =
        hlo::broadcast(broadcast.operand(0), format.dims, broadcast.attrs.dimensions);
    copy->sharding = format.split;
    return copy;
  }

  void lay_out_sum(Node* sum) {
    Node* const summed = sum->operand(0);
    const auto entry = entries_of_.find(summed);
    if (entry != entries_of_.end() && !is_sharded(*summed))
      sum->set_operand(0, entered(summed, *formats_[entry->second]));
    const auto inside = updates_.region_of.find(summed);
    const bool flat = entry != entries_of_.end()
                          ? formats_[entry->second]->flat
                          : inside != updates_.region_of.end() && is_sharded(*summed) &&
                                formats_[inside->second]->flat;
    if (flat) sum->attrs.dimensions = {0};
  }

  void finish_root() {
    Node& root = *entry_.root();
    for (size_t i = 0; i < root.operands().size(); ++i) {
      Node* const result = root.operands()[i];
      const auto whole = whole_.find(result);
      if (whole != whole_.end() &&
          !is_state_result(i, updates_.regions[updates_.region_of.at(result)]))
        root.set_operand(static_cast<int64_t>(i), whole->second);
      root.shape.elements[i] = root.operands()[i]->shape;
    }
    if (!root.sharding || !root.sharding->is_tuple()) return;
    std::vector<Sharding> leaves = root.sharding->elements();
    for (size_t i = 0; i < updates_.regions.size(); ++i)
      if (formats_[i])
        for (const StatePair& pair : updates_.regions[i].pairs)
          leaves.at(static_cast<size_t>(pair.result)) = formats_[i]->split;
    root.sharding = Sharding::tuple(std::move(leaves));
  }

  Computation& entry_;
  const ShardUpdatesOptions& options_;
  const Digits axes_;
  const Updates updates_;
  std::vector<std::optional<Format>> formats_;  // by region
  std::unordered_map<const Node*, size_t> entries_of_;
  std::unordered_map<const Node*, Node*> entered_, whole_;
};

}  // namespace

int64_t shard_updates(Module& module, const ShardUpdatesOptions& options) {
  if (options.split.is_replicated() || !module.entry()->root()->shape.is_tuple) return 0;
  return UpdateRewriter(module, options).run();
}

}  // namespace gspmd
