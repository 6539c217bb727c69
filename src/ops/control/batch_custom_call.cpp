#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "ops/common/open_dims.h"
#include "ops/control/batch.h"
#include "ops/control/control.h"
#include "ops/control/debug_call.h"
#include "ops/sort/sort.h"

namespace gspmd {
namespace {

bool is_region_end(const Node& node) { return node.attrs.custom_call_target.starts_with("SPMD"); }

// The digits of the batch in a layout inside of the function.
Digits batch_digits(const BatchContext& context, const Node& node, const Sharding& s) {
  const std::string& axis = context.mesh_axis();
  const auto refuse = [&](const std::string& why) {
    user_error(
        "vmap: the batch is split over mesh axis \"{}\", but {} of {} inside the function "
        "has {}; {}",
        axis, to_string(s), node.operand(0)->name(), why,
        "annotate it with a mesh that has the axis, over other axes");
  };
  if (!s.mesh()) refuse("no mesh with axes of that name");
  if (!s.mesh()->has(axis)) refuse("a mesh without that axis");
  const Digits digits{s.mesh()->digit(s.mesh()->index(axis))};
  if (tile_count(digits) == 1) return {};
  if (s.is_manual() || !disjoint(digits, s.manual_digits())) refuse("that axis manual");
  for (int64_t d = 0; d < s.rank(); ++d)
    if (!disjoint(digits, s.dim(d))) refuse(fmt::format("that axis in dim {}", d));
  for (const Unreduced& partial : s.unreduced())
    if (!disjoint(digits, partial.digits)) refuse("partial results along that axis");
  return digits;
}

// The layout with a batch dim in front.
Sharding with_batch_dim(const BatchContext& context, const Node& node, const Sharding& s,
                        bool open) {
  Digits digits;
  if (!context.mesh_axis().empty()) digits = batch_digits(context, node, s);
  if (!s.is_tiled() || s.is_unreduced_everywhere()) return s;
  const int64_t rank = node.rank();
  Sharding result = s.with_open({});
  if (s.order() != nullptr || !digits.empty()) {
    std::vector<Digits> dims{digits};
    for (int64_t d = 0; d < rank; ++d) dims.push_back(s.dim(d));
    result = Sharding::tiled(s.order() != nullptr ? s.order() : s.mesh()->order(), std::move(dims),
                             s.manual_digits(), s.unreduced())
                 .with_mesh(s.mesh())
                 .with_shard_group(s.shard_group(), s.shard_group_is_as());
  }
  if (s.open().empty() && !open) return result;
  std::vector<bool> flags = s.open();
  flags.resize(static_cast<size_t>(rank), false);
  flags.insert(flags.begin(), open);
  return result.with_open(std::move(flags));
}

std::string open_config(std::vector<bool> flags, int64_t rank, bool open) {
  flags.resize(static_cast<size_t>(rank), false);
  flags.insert(flags.begin(), open);
  std::vector<size_t> dims;
  for (size_t d = 0; d < flags.size(); ++d)
    if (flags[d]) dims.push_back(d);
  return fmt::format("\"unspecified_dims=[{}]\"", fmt::join(dims, ","));
}

// A layout said by the user: the batch goes over the mesh axis given, or is left to completion;
// beside manual code it stays whole, for both ends of a region have to agree about it.
std::vector<BatchLeaf> batch_annotation(BatchContext& context, const Node& node) {
  const BatchLeaf& given = operand_leaf(context, node, 0);
  const auto& users = node.users();
  const bool manual =
      is_region_end(node) ||
      (node.sharding && (node.sharding->is_manual() || !node.sharding->manual_digits().empty())) ||
      std::any_of(users.begin(), users.end(), [](const Node* u) { return is_region_end(*u); });
  const bool open = !manual && context.mesh_axis().empty();
  Attributes attrs = node.attrs;
  if (attrs.other.contains("backend_config"))
    attrs.other["backend_config"] = open_config(unspecified_dims(node), node.rank(), open);
  Node* const x = with_batch(given, context.size());
  Node* const annotated = emit(x->parent(), node.opcode(), {x}, std::move(attrs),
                               batched_shape(node.shape, context.size()));
  annotated->frontend_attributes = node.frontend_attributes;
  if (node.sharding) annotated->sharding = with_batch_dim(context, node, *node.sharding, open);
  return {{annotated, true}};
}

}  // namespace

std::vector<BatchLeaf> batch_custom_call(BatchContext& context, const Node& node) {
  if (is_debug_call(node)) return batch_debug_call(context, node);
  if (is_annotation(node) || is_region_end(node)) return batch_annotation(context, node);
  if (is_elementwise_call(node) || top_k_call_info(node) != nullptr)
    return batch_in_front(context, node, node.attrs, true);
  user_error(
      "custom-call: \"{}\" of target \"{}\" cannot be batched by vmap: what it does is not known; "
      "take it out of the function",
      node.name(), *node.attrs.custom_call_target);
}

}  // namespace gspmd
