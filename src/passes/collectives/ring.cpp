#include "passes/collectives/ring.h"

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "mesh/digit_tools.h"

namespace gspmd {

Ring::Ring(const ReplicaGroups& groups, int64_t num_devices)
    : groups_(groups), num_devices_(num_devices), size_(group_size(groups, num_devices)) {}

bool Ring::regular() const {
  if (groups_.lists.empty()) return size_ > 0 && num_devices_ % size_ == 0;
  int64_t members = 0;
  for (const std::vector<int64_t>& list : groups_.lists) {
    if (static_cast<int64_t>(list.size()) != size_) return false;
    members += size_;
  }
  return members == num_devices_;
}

IndexNode Ring::place(Computation& c) const {
  const IndexNode device = device_number(c);
  if (groups_.num_groups == 0 && groups_.lists.empty()) return device;
  if (const Digits digits = group_digits(groups_); !digits.empty())
    return digits_index(device, digits, num_devices_);
  std::vector<int64_t> places(static_cast<size_t>(num_devices_));
  for (const std::vector<int64_t>& list : lists())
    for (size_t k = 0; k < list.size(); ++k)
      places[static_cast<size_t>(list[k])] = static_cast<int64_t>(k);
  return look_up(places, device);
}

Node* Ring::pass_on(Node* value, int64_t distance) const {
  std::vector<std::pair<int64_t, int64_t>> places;
  for (int64_t k = 0; k < size_; ++k)
    places.emplace_back(k, ((k + distance) % size_ + size_) % size_);
  return send(value, places);
}

Node* Ring::send(Node* value, const std::vector<std::pair<int64_t, int64_t>>& places) const {
  Attributes attrs;
  attrs.channel_id = 1;
  if (const Digits digits = group_digits(groups_); !digits.empty()) {
    attrs.permutation = tiles_along(iota_order(num_devices_), digits, places);
    return emit(value->parent(), Opcode::collective_permute, {value}, attrs, value->shape);
  }
  Pairs::List pairs;
  for (const std::vector<int64_t>& list : lists())
    for (const auto& [from, to] : places)
      pairs.emplace_back(list[static_cast<size_t>(from)], list[static_cast<size_t>(to)]);
  std::sort(pairs.begin(), pairs.end());
  attrs.permutation.edit().pairs = std::move(pairs);
  return emit(value->parent(), Opcode::collective_permute, {value}, attrs, value->shape);
}

Node* put_block(Node* whole, Node* part, int64_t dim, IndexNode block) {
  std::vector<Node*> starts(whole->dims().size(), IndexNode(whole->parent(), 0));
  starts.at(static_cast<size_t>(dim)) = block * part->dim(dim);
  return hlo::dynamic_update_slice(whole, part, std::move(starts));
}

}  // namespace gspmd
