#include "gspmd/passes/verify/manual_reference.h"

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/builders.h"
#include "ops/control/control.h"
#include "ops/emission/index.h"

namespace gspmd {
namespace {

// The digits of a dim along which a region with this sharding inside is manual.
Digits manual_part(const Digits& digits, const Sharding& inside) {
  if (!inside.is_tiled()) return digits;
  return intersection(digits, inside.manual_digits()).value_or(digits);
}

const Sharding& sharding_at_border(const Node& border, const Node& value) {
  if (value.sharding && value.sharding->is_tiled()) return *value.sharding;
  user_error("{}: \"{}\" needs a tiled sharding on \"{}\" to bound a manual region",
             *border.attrs.custom_call_target, border.name(), value.name());
}

Sharding inside_of(const Node& value) { return value.sharding.value_or(Sharding::manual()); }

// Which tile of `digits` this device has, s32[].
IndexNode tile_of_device(Computation& c, const Sharding& s, const Digits& digits) {
  const int64_t devices = c.module().num_partitions;
  std::vector<int64_t> tiles;
  for (int64_t device = 0; device < devices; ++device) {
    const int64_t rank = s.order() == nullptr ? -1 : s.order()->rank(device);
    tiles.push_back(rank < 0 ? 0 : tile_index(digits, rank));
  }
  return look_up(tiles, device_number(c));
}

Node* cut_shard(const Node& border) {
  Node* x = border.operand(0);
  const Sharding& s = sharding_at_border(border, *x);
  const Sharding inside = inside_of(border);
  Computation& c = border.parent();
  for (int64_t d = 0; d < border.rank(); ++d) {
    const int64_t local = border.dim(d);
    const Digits digits = manual_part(s.dim(d), inside);
    if (digits.empty()) continue;
    x = pad(x, d, 0, tile_count(digits) * local - x->dim(d));
    x = cut(x, d, tile_of_device(c, s, digits) * local, local);
  }
  return x;
}

Node* join_shards(const Node& border) {
  Node* x = border.operand(0);
  const Sharding& s = sharding_at_border(border, border);
  const Sharding inside = inside_of(*x);
  for (int64_t d = 0; d < border.rank(); ++d) {
    const Digits digits = manual_part(s.dim(d), inside);
    if (digits.empty()) continue;
    Attributes attrs;
    attrs.dimensions = {d};
    attrs.replica_groups = groups_over(s.order(), digits);
    attrs.use_global_device_ids = true;
    attrs.channel_id = 1;
    Dims whole = x->dims();
    whole[static_cast<size_t>(d)] *= tile_count(digits);
    x = emit(border.parent(), Opcode::all_gather, {x}, std::move(attrs),
             Shape(x->shape.dtype, whole));
    x = cut(x, d, 0, border.dim(d));
  }
  return x;
}

bool is_manual_anywhere(const Sharding& s) {
  if (s.is_tuple())
    return std::any_of(s.elements().begin(), s.elements().end(), is_manual_anywhere);
  return s.is_manual() || (s.is_tiled() && !s.manual_digits().empty());
}

}  // namespace

bool has_manual_regions(const Module& module) {
  for (const std::unique_ptr<Computation>& computation : module.computations())
    for (const std::unique_ptr<Node>& node : computation->nodes())
      if (is_custom_call(*node, "SPMDFullToShardShape") ||
          is_custom_call(*node, "SPMDShardToFullShape") ||
          (node->sharding && is_manual_anywhere(*node->sharding)))
        return true;
  return false;
}

std::unique_ptr<Module> copies_with_regions(const Module& completed) {
  std::unique_ptr<Module> copies = completed.clone();
  for (const std::unique_ptr<Computation>& computation : copies->computations()) {
    const size_t count = computation->nodes().size();
    for (size_t i = 0; i < count; ++i) {
      Node& node = *computation->nodes()[i];
      at_node(node, [&] {
        if (is_custom_call(node, "SPMDFullToShardShape"))
          computation->replace_uses(&node, cut_shard(node));
        else if (is_custom_call(node, "SPMDShardToFullShape"))
          computation->replace_uses(&node, join_shards(node));
      });
    }
    computation->remove_dead();
    computation->sort();
  }
  for (const std::unique_ptr<Computation>& computation : copies->computations())
    for (const std::unique_ptr<Node>& node : computation->nodes()) node->sharding.reset();
  verify_module(*copies);
  return copies;
}

}  // namespace gspmd
