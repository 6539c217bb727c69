#include "gspmd/mesh/replica_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "gspmd/base/error.h"
#include "gspmd/base/shape.h"
#include "mesh/device_terms.h"
#include "mesh/digit_tools.h"

namespace gspmd {

ReplicaGroups groups_over(DeviceOrder order, const Digits& digits) {
  if (!fits(digits, order->count))
    internal_error("replica groups: digits overlap or exceed the {} devices", order->count);
  Digits sequence = complement(digits, order->count);
  const int64_t num_groups = tile_count(sequence);
  sequence.insert(sequence.end(), digits.begin(), digits.end());
  ReplicaGroups groups;
  groups.num_groups = num_groups;
  groups.group_size = tile_count(digits);
  if (const std::optional<Digits> devices = device_digits(order, sequence))
    sequence = *devices;
  else
    groups.order = order;
  IotaForm form = iota_form(std::move(sequence));
  groups.reshape = std::move(form.reshape);
  groups.transpose = std::move(form.transpose);
  return groups;
}

namespace {

std::string lists_text(const std::vector<std::vector<int64_t>>& lists) {
  std::string text = "{";
  for (size_t i = 0; i < lists.size(); ++i)
    text += fmt::format("{}{{{}}}", i ? "," : "", fmt::join(lists[i], ","));
  return text + "}";
}

}  // namespace

std::string to_string(const ReplicaGroups& groups) {
  if (groups.order != nullptr) return lists_text(materialize(groups, groups.order->count));
  if (groups.num_groups > 0) {
    std::string text = fmt::format("[{},{}]<=[{}]", groups.num_groups, groups.group_size,
                                   fmt::join(groups.reshape, ","));
    if (!groups.transpose.empty()) text += fmt::format("T({})", fmt::join(groups.transpose, ","));
    return text;
  }
  return lists_text(groups.lists);
}

namespace {

// The reshape dims as digits in transposed order; UserError where the numbers do not fit together.
Digits transposed_digits(const ReplicaGroups& groups) {
  const size_t rank = groups.reshape.size();
  int64_t total = 1;
  for (const int64_t d : groups.reshape) total = d < 1 ? 0 : saturating_multiply(total, d);
  if (total < 1 || total != saturating_multiply(groups.num_groups, groups.group_size) ||
      total > (int64_t{1} << 31))
    user_error("replica groups: {} names {} devices in {} groups of {}; the products must agree",
               to_string(groups), total, groups.num_groups, groups.group_size);
  std::vector<int64_t> order = groups.transpose;
  if (order.empty()) {
    order.resize(rank);
    std::iota(order.begin(), order.end(), 0);
  }
  std::vector<bool> seen(rank, false);
  const Dims strides = row_major_strides(groups.reshape);
  Digits digits;
  for (const int64_t k : order) {
    if (k < 0 || k >= static_cast<int64_t>(rank) || seen[static_cast<size_t>(k)] ||
        order.size() != rank)
      user_error("replica groups: T({}) is not a permutation of the {} dims of {}",
                 fmt::join(order, ","), rank, to_string(groups));
    seen[static_cast<size_t>(k)] = true;
    digits.push_back({groups.reshape[static_cast<size_t>(k)], strides[static_cast<size_t>(k)]});
  }
  return digits;
}

}  // namespace

Digits group_digits(const ReplicaGroups& groups) {
  if (groups.num_groups == 0 || groups.order != nullptr) return {};
  Digits digits;
  int64_t wanted = groups.group_size;
  const Digits all = transposed_digits(groups);
  for (size_t i = all.size(); i-- > 0 && wanted > 1;) {
    const int64_t size = std::min(all[i].size, wanted);
    if (all[i].size % size != 0 || wanted % size != 0) return {};
    digits.insert(digits.begin(), {size, all[i].stride});
    wanted /= size;
  }
  return canonical(std::move(digits));
}

std::vector<std::vector<int64_t>> materialize(const ReplicaGroups& groups, int64_t num_devices) {
  if (groups.num_groups > 0) {
    std::vector<int64_t> ids = ranks_in_order(transposed_digits(groups));
    if (groups.order != nullptr)
      for (int64_t& id : ids) id = groups.order->device(id);
    std::vector<std::vector<int64_t>> lists;
    const auto size = static_cast<std::ptrdiff_t>(groups.group_size);
    for (auto it = ids.begin(); it != ids.end(); it += size) lists.emplace_back(it, it + size);
    return lists;
  }
  if (!groups.lists.empty()) return groups.lists;
  std::vector<int64_t> all(static_cast<size_t>(num_devices));
  std::iota(all.begin(), all.end(), 0);
  return {all};
}

int64_t group_size(const ReplicaGroups& groups, int64_t num_devices) {
  if (groups.num_groups > 0) return groups.group_size;
  if (groups.lists.empty()) return num_devices;
  return static_cast<int64_t>(groups.lists.front().size());
}

}  // namespace gspmd
