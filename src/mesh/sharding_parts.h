#pragma once

// What shardings are made of, which copies share.

#include <memory>
#include <utility>
#include <vector>

#include "gspmd/mesh/sharding.h"

namespace gspmd {

struct Sharding::Splits {
  DeviceOrder order = nullptr;
  std::vector<Digits> dims = {};
  Digits manual = {};
  std::vector<Unreduced> unreduced = {};
  // Trailing subgroups as written, when not the canonical manual, unreduced, replicated by
  // descending stride: type 'm', 'u' or 'r' with its digits. Keeps the device array of imported
  // modules.
  std::vector<std::pair<char, Digits>> subgroup_spelling = {};
  bool operator==(const Splits&) const = default;
};

struct Sharding::Notes {
  std::vector<bool> open = {};
  std::shared_ptr<const Mesh> mesh = nullptr;
  int64_t shard_group = 0;
  bool shard_group_is_as = false;
};

}  // namespace gspmd
