#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "gspmd/mesh/sharding.h"
#include "mesh/naive.h"

// Merging against its definition on device arrays: lists of devices, without digits or orders.

using namespace gspmd;

namespace {

// A device array of a rank-2 tensor: rows, columns and replicas, row-major.
struct Tiling {
  Dims dims;  // 3 of them
  std::vector<int64_t> devices;
  auto operator<=>(const Tiling&) const = default;
};

// Replicas in ascending order, so that tilings that place the data alike are equal.
Tiling sorted_replicas(Tiling t) {
  for (int64_t at = 0; at < int64_t(t.devices.size()); at += t.dims[2])
    std::sort(t.devices.begin() + at, t.devices.begin() + at + t.dims[2]);
  return t;
}

Dims tile_of(const Tiling& t, int64_t device) {
  const auto p = std::find(t.devices.begin(), t.devices.end(), device) - t.devices.begin();
  const int64_t tile = p / t.dims[2];
  return {tile / t.dims[1], tile % t.dims[1]};
}

// Every factorization of `devices` into axes, the axes in every order, and every way to join
// neighbours into rows, columns and replicas: all tilings that axes of some mesh can name.
std::vector<Tiling> all_tilings(int64_t devices) {
  const std::vector<Dims> factors = devices == 8
                                        ? std::vector<Dims>{{2, 2, 2}}
                                        : std::vector<Dims>{{2, 2, 3}, {2, 3, 2}, {3, 2, 2}};
  std::vector<Tiling> out;
  for (const Dims& axes : factors) {
    std::vector<int64_t> order{0, 1, 2};
    do {
      const std::vector<int64_t> list = naive::iota(axes, order);
      for (size_t rows = 0; rows <= 3; ++rows)
        for (size_t columns = rows; columns <= 3; ++columns) {
          Dims dims{1, 1, 1};
          for (size_t i = 0; i < 3; ++i)
            dims[i < rows ? 0 : i < columns ? 1 : 2] *= axes[size_t(order[i])];
          out.push_back(sorted_replicas({dims, list}));
        }
    } while (std::next_permutation(order.begin(), order.end()));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Each dim as the side that splits it, or as both where they split it alike; every tile of the
// result must have equally many devices.
std::optional<Tiling> merged(const Tiling& a, const Tiling& b) {
  Tiling out{{1, 1, 1}, {}};
  for (size_t i = 0; i < 2; ++i) {
    if (a.dims[i] != 1 && b.dims[i] != 1 && a.dims[i] != b.dims[i]) return std::nullopt;
    out.dims[i] = std::max(a.dims[i], b.dims[i]);
  }
  const auto count = int64_t(a.devices.size());
  const int64_t tiles = out.dims[0] * out.dims[1];
  if (count % tiles != 0) return std::nullopt;
  out.dims[2] = count / tiles;
  std::vector<std::vector<int64_t>> holders(static_cast<size_t>(tiles));
  for (int64_t device = 0; device < count; ++device) {
    const Dims x = tile_of(a, device), y = tile_of(b, device);
    Dims tile(2);
    for (size_t i = 0; i < 2; ++i) {
      if (a.dims[i] != 1 && b.dims[i] != 1 && x[i] != y[i]) return std::nullopt;
      tile[i] = a.dims[i] != 1 ? x[i] : y[i];
    }
    holders[size_t(tile[0] * out.dims[1] + tile[1])].push_back(device);
  }
  for (const std::vector<int64_t>& group : holders) {
    if (int64_t(group.size()) != out.dims[2]) return std::nullopt;
    out.devices.insert(out.devices.end(), group.begin(), group.end());
  }
  return out;
}

// The same tiling as a user's list of devices, its replicas in an order of its own.
Sharding written(Tiling t, std::mt19937& random) {
  for (int64_t at = 0; at < int64_t(t.devices.size()); at += t.dims[2])
    std::shuffle(t.devices.begin() + at, t.devices.begin() + at + t.dims[2], random);
  return parse_sharding(fmt::format("{{devices=[{}]{} last_tile_dim_replicate}}",
                                    fmt::join(t.dims, ","), fmt::join(t.devices, ",")),
                        2);
}

Tiling read(const Sharding& s, int64_t count) {
  const DeviceArray array = device_array(s, 2);
  Tiling t{{array.dims[0], array.dims[1], 1}, array.devices};
  if (t.devices.empty())
    for (int64_t d = 0; d < count; ++d) t.devices.push_back(d);
  t.dims[2] = count / (t.dims[0] * t.dims[1]);
  return sorted_replicas(t);
}

void check_all_pairs(int64_t devices, int64_t least_merged) {
  const std::vector<Tiling> all = all_tilings(devices);
  std::mt19937 random(11);
  std::vector<Sharding> shardings;
  for (const Tiling& t : all) shardings.push_back(written(t, random));
  int64_t found = 0;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < all.size(); ++j) {
      const std::optional<Tiling> expected = merged(all[i], all[j]);
      const std::optional<Sharding> got = merge(shardings[i], shardings[j], 2);
      const bool same =
          expected.has_value() == got.has_value() && (!got || read(*got, devices) == *expected);
      found += got.has_value();
      if (!same)
        FAIL_CHECK("merge of " << to_string(shardings[i]) << " and " << to_string(shardings[j])
                               << " gave " << (got ? to_string(*got) : "nothing"));
    }
  CHECK(found >= least_merged);
}

}  // namespace

TEST_CASE("merge: all pairs of lists of 8 devices merge as their arrays do", "[merge]") {
  check_all_pairs(8, 200);
}

TEST_CASE("merge: all pairs of lists of 12 devices merge as their arrays do", "[merge]") {
  check_all_pairs(12, 500);
}

TEST_CASE("merge: lists over shuffled devices merge as their arrays do", "[merge]") {
  // One shuffle of the devices, unknown to the library, under tilings of 12.
  std::vector<int64_t> names{7, 2, 11, 0, 5, 9, 1, 10, 4, 8, 3, 6};
  std::vector<Tiling> all = all_tilings(12);
  for (Tiling& t : all) {
    for (int64_t& device : t.devices) device = names[size_t(device)];
    t = sorted_replicas(t);
  }
  std::mt19937 random(5);
  int64_t found = 0;
  for (const Tiling& a : all)
    for (const Tiling& b : all) {
      const std::optional<Tiling> expected = merged(a, b);
      const std::optional<Sharding> got = merge(written(a, random), written(b, random), 2);
      found += got.has_value();
      if (expected.has_value() != got.has_value() || (got && read(*got, 12) != *expected))
        FAIL_CHECK("merge gave " << (got ? to_string(*got) : "nothing"));
    }
  CHECK(found > 500);
}
