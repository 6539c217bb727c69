#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mesh/sharding_parts.h"

namespace gspmd {

// The way between a sharding and its device array, shared by reader, printer and ==.
class ShardingText {
 public:
  // Trailing subgroups of the device array: type 'm', 'u' or 'r' with digits.
  using Subgroups = std::vector<std::pair<char, Digits>>;

  // Of a tiled sharding: as written, else manual, unreduced, replicated by descending stride.
  static Subgroups subgroups(const Sharding& sharding);

  // Whether the subgroups stand in an order of their own, which V3 has no place for.
  static bool is_spelled(const Sharding& sharding) {
    return !sharding.splits().subgroup_spelling.empty();
  }

  // `array[i]` are the digits of dim i of a device array over `order`: `data_rank` data dims, then
  // one dim per letter of `types`.
  static Sharding assemble(DeviceOrder order, std::vector<Digits> array, int64_t data_rank,
                           const std::string& types);
  // From an explicit row-major device list; the ids are distinct and as many as dims say.
  static Sharding from_list(const Dims& dims, int64_t data_rank, const std::string& types,
                            const std::vector<int64_t>& devices);
  // From iota(n).reshape(reshape).transpose(transpose); nullopt where the tile dims cut its digits
  // and it has to be written out to be understood.
  static std::optional<Sharding> from_iota(const Dims& dims, int64_t data_rank,
                                           const std::string& types, const Dims& reshape,
                                           const std::vector<int64_t>& transpose);

  // All digits of the device array, data dims first, major first.
  static Digits sequence(const Sharding& sharding);
};

// V3: the axes that spell the digits of `sharding`; nullopt where the mesh cannot.
std::optional<std::string> named_text(const Sharding& sharding, const Mesh& mesh);

}  // namespace gspmd
