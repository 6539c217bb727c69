#include <algorithm>
#include <numeric>

#include "gspmd/base/error.h"
#include "gspmd/mesh/sharding.h"
#include "mesh/digit_tools.h"
#include "mesh/sharding_text.h"

namespace gspmd {
namespace {

ShardingText::Subgroups canonical_subgroups(const Sharding& sharding) {
  ShardingText::Subgroups groups;
  if (!sharding.order()) return groups;
  if (!sharding.manual_digits().empty()) groups.emplace_back('m', sharding.manual_digits());
  for (const Unreduced& u : sharding.unreduced()) groups.emplace_back('u', u.digits);
  Digits replicated = sharding.replicated_digits();
  if (!replicated.empty()) groups.emplace_back('r', std::move(replicated));
  return groups;
}

// The devices of one-device arrays: nothing is split, so there is no order to speak of.
Sharding single_device(int64_t device, const std::string& types) {
  if (types.find('m') != std::string::npos) return Sharding::manual();
  return device == 0 ? Sharding::replicated() : Sharding::maximal(device);
}

}  // namespace

ShardingText::Subgroups ShardingText::subgroups(const Sharding& sharding) {
  if (const Subgroups& written = sharding.splits().subgroup_spelling; !written.empty())
    return written;
  return canonical_subgroups(sharding);
}

Digits ShardingText::sequence(const Sharding& sharding) {
  Digits all;
  for (const Digits& digits : sharding.splits().dims)
    all.insert(all.end(), digits.begin(), digits.end());
  for (const auto& [type, digits] : subgroups(sharding))
    all.insert(all.end(), digits.begin(), digits.end());
  return all;
}

Sharding ShardingText::assemble(DeviceOrder order, std::vector<Digits> array, int64_t data_rank,
                                const std::string& types) {
  if (order->count == 1) return single_device(order->device(0), types);
  Subgroups written;
  Digits manual;
  std::vector<Unreduced> unreduced;
  for (size_t i = 0; i < types.size(); ++i) {
    Digits digits = canonical(std::move(array[static_cast<size_t>(data_rank) + i]));
    if (digits.empty()) continue;
    if (types[i] == 'm') manual.insert(manual.end(), digits.begin(), digits.end());
    if (types[i] == 'u') unreduced.push_back({digits, Combiner::sum});
    written.emplace_back(types[i], std::move(digits));
  }
  array.resize(static_cast<size_t>(data_rank));
  Sharding sharding =
      Sharding::tiled(order, std::move(array), std::move(manual), std::move(unreduced));
  if (sharding.order() && written != canonical_subgroups(sharding)) {
    Sharding::Splits splits = sharding.splits();
    splits.subgroup_spelling = std::move(written);
    sharding.splits_ = Rare<Sharding::Splits>(std::move(splits));
  }
  return sharding;
}

Sharding ShardingText::from_list(const Dims& dims, int64_t data_rank, const std::string& types,
                                 const std::vector<int64_t>& devices) {
  std::vector<int64_t> sorted = devices;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> ranks = devices;
  if (sorted.back() != static_cast<int64_t>(sorted.size()) - 1)
    for (int64_t& r : ranks) r = std::lower_bound(sorted.begin(), sorted.end(), r) - sorted.begin();
  if (std::optional<std::vector<Digits>> digits = find_digits(dims, ranks))
    return assemble(list_order(std::move(sorted)), std::move(*digits), data_rank, types);
  return assemble(list_order(devices), row_major_digits(dims), data_rank, types);
}

std::optional<Sharding> ShardingText::from_iota(const Dims& dims, int64_t data_rank,
                                                const std::string& types, const Dims& reshape,
                                                const std::vector<int64_t>& transpose) {
  const Dims strides = row_major_strides(reshape);
  Digits rest;  // not yet given to a dim; major first
  for (const int64_t k : transpose)
    rest.push_back({reshape[static_cast<size_t>(k)], strides[static_cast<size_t>(k)]});
  rest = canonical(std::move(rest));
  std::vector<Digits> array(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    int64_t need = dims[i];
    while (need > 1) {
      Digit& minor = rest.back();
      if (need % minor.size == 0) {
        array[i].insert(array[i].begin(), minor);
        need /= minor.size;
        rest.pop_back();
      } else if (minor.size % need == 0) {
        array[i].insert(array[i].begin(), {need, minor.stride});
        minor = {minor.size / need, minor.stride * need};
        need = 1;
      } else {
        return std::nullopt;
      }
    }
  }
  const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  return assemble(iota_order(count), std::move(array), data_rank, types);
}

DeviceArray device_array(const Sharding& sharding, int64_t rank) {
  if (!sharding.is_tiled())
    internal_error("device array: {} is not a tiled sharding", to_string(sharding));
  DeviceArray array;
  array.dims.assign(static_cast<size_t>(std::max(rank, sharding.rank())), 1);
  if (!sharding.order()) return array;
  for (int64_t i = 0; i < sharding.rank(); ++i)
    array.dims[static_cast<size_t>(i)] = sharding.tiles(i);
  for (const auto& [type, digits] : ShardingText::subgroups(sharding)) {
    array.dims.push_back(tile_count(digits));
    array.subgroup_types += type;
  }
  array.devices = ranks_in_order(ShardingText::sequence(sharding));
  if (!sharding.order()->is_iota())
    for (int64_t& d : array.devices) d = sharding.order()->device(d);
  return array;
}

}  // namespace gspmd
