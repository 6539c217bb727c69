// Completion through ops that move elements.

#include "ops/common/completion.h"

#include <algorithm>

#include "mesh/device_terms.h"
#include "ops/common/completion_rules.h"
#include "ops/shape/reshape_sharding.h"
#include "ops/shape/shape.h"

namespace gspmd {
namespace {

bool names(const Dims& dims, int64_t d) {
  return std::find(dims.begin(), dims.end(), d) != dims.end();
}

// At level 0 only parameters seen through reshapes, all laid out, whole along the joined dim.
bool concatenates_at_once(const Node& node) {
  for (const Node* operand : node.operands()) {
    if (!tiled_leaf(*operand) || operand->sharding->tiles(node.attrs.dimensions.at(0)) > 1)
      return false;
    if (!operand->is(Opcode::reshape)) return false;
    const Node& source = *operand->operand(0);
    if (!source.is(Opcode::parameter) && !source.is(Opcode::get_tuple_element)) return false;
  }
  return true;
}

constexpr int64_t kLongestList = int64_t{1} << 20;  // of devices one by one

// Without SPMD a piece of a split dim lives on the devices that hold it in the result.
MaybeSharding piece_of(const Node& node, int64_t operand, int64_t dim) {
  int64_t start = 0;
  for (int64_t i = 0; i < operand; ++i) start += node.operand(i)->dim(dim);
  const int64_t end = start + node.operand(operand)->dim(dim);
  if (start == end || node.sharding->order()->count > kLongestList) return std::nullopt;
  const int64_t shard = ceil_div(node.dim(dim), node.sharding->tiles(dim));
  const int64_t first = start / shard, last = ceil_div(end, shard);
  const DeviceArray array = device_array(*node.sharding, node.rank());
  Dims dims = array.dims;
  if (static_cast<int64_t>(dims.size()) != node.rank() || last <= first) return std::nullopt;
  dims[static_cast<size_t>(dim)] = last - first;
  const Dims strides = row_major_strides(array.dims);
  std::vector<int64_t> devices;
  for (size_t i = 0; i < array.devices.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) / strides[static_cast<size_t>(dim)] %
                       array.dims[static_cast<size_t>(dim)];
    if (at >= first && at < last) devices.push_back(array.devices[i]);
  }
  if (devices.size() == 1) return Sharding::maximal(devices[0]);
  std::vector<Digits> digits(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0; stride *= dims[d]) digits[d] = {{dims[d], stride}};
  return Sharding::tiled(list_order(std::move(devices)), std::move(digits));
}

}  // namespace

Proposals reshape_forward(const Node& node, CompletionMode) {
  const Node& operand = *node.operand(0);
  const Sharding* s = tiled_leaf(operand);
  if (!s) return {};
  return {{reshape_sharding(operand.dims(), node.dims(), *s), 0}};
}

Suggestions reshape_suggestions(const Node& reader, int64_t, CompletionMode) {
  const Sharding* s = tiled_leaf(reader);
  if (!s) return {};
  return only(reshape_sharding(reader.dims(), reader.operand(0)->dims(), *s));
}

// Nobody is told that all is whole: a large value's new dims are decided by its readers.
Proposals broadcast_forward(const Node& node, CompletionMode mode) {
  const Sharding* s = tiled_leaf(*node.operand(0));
  return s && !s->is_replicated() ? nest_forward(node, mode) : Proposals{};
}

// Without SPMD a split of the new dims is not undone.
Suggestions broadcast_suggestions(const Node& reader, int64_t operand, CompletionMode mode) {
  const Sharding* s = tiled_leaf(reader);
  for (int64_t d = 0; d < reader.rank() && s && !mode.spmd; ++d)
    if (!names(reader.attrs.dimensions, d) && s->tiles(d) > 1) return {};
  return nest_suggestions(reader, operand, mode);
}

Sharding reversed_tiles(const Sharding& s, const Dims& dims) {
  Digits flipped;
  for (const int64_t d : dims)
    for (const Digit& digit : s.dim(d)) flipped.push_back(digit);
  if (flipped.empty()) return s;
  // A layout that nobody could read: its text lists the devices.
  if (s.order()->count > kLongestList) return whole_on(s, dims, s.rank());
  const DeviceOrder order = turned_order(s.order(), flipped, kLongestList);
  if (!order) return whole_on(s, dims, s.rank());
  std::vector<Digits> digits;
  for (int64_t d = 0; d < s.rank(); ++d) digits.push_back(s.dim(d));
  return Sharding::tiled(order, std::move(digits), s.manual_digits());
}

Proposals reverse_forward(const Node& node, CompletionMode) {
  const Sharding* s = tiled_leaf(*node.operand(0));
  if (!s) return {};
  return {{reversed_tiles(*s, node.attrs.dimensions), 0}};
}

Suggestions reverse_suggestions(const Node& reader, int64_t, CompletionMode) {
  const Sharding* s = tiled_leaf(reader);
  return s ? only(reversed_tiles(*s, reader.attrs.dimensions)) : Suggestions{};
}

Proposals concatenate_forward(const Node& node, CompletionMode mode) {
  if (mode.level < 1 && !concatenates_at_once(node)) return {};
  return representative_forward(node, mode);
}

Suggestions concatenate_suggestions(const Node& reader, int64_t operand, CompletionMode mode) {
  const Sharding* s = tiled_leaf(reader);
  if (mode.level < 1 || !s) return {};
  const int64_t dim = reader.attrs.dimensions.at(0);
  if (!mode.spmd && s->tiles(dim) > 1) return only(piece_of(reader, operand, dim));
  return only(*s);  // what the nest says, without making it for each of many operands
}

// The update first: where it is split, so is the whole.
Proposals dynamic_update_slice_forward(const Node& node, CompletionMode mode) {
  Proposals proposals = nest_forward(node, mode);
  std::reverse(proposals.begin(), proposals.end());
  return proposals;
}

// Where the result is whole, so are the start indices.
Suggestions dynamic_start_suggestions(const Node& reader, int64_t operand, CompletionMode mode) {
  const Sharding* s = tiled_leaf(reader);
  if (mode.level >= 1 && s && s->is_replicated()) return only(*s);
  return nest_suggestions(reader, operand, mode);
}

}  // namespace gspmd
