// Orders that count by steps against plain lists of devices.

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "mesh/device_terms.h"
#include "mesh/digit_tools.h"

using namespace gspmd;

namespace {

std::mt19937 random_numbers(11);

int64_t below(int64_t n) {
  return static_cast<int64_t>(random_numbers() % static_cast<uint32_t>(n));
}

// A random order that counts by steps: axes of a mesh in any sequence, some backwards, some devices
// left out.
std::vector<int64_t> random_list() {
  const std::vector<Dims> meshes = {{2, 2, 2}, {4, 2}, {2, 3, 2}, {3, 3}, {2, 2, 3, 2}};
  const Dims mesh = meshes[size_t(below(int64_t(meshes.size())))];
  std::vector<size_t> axes(mesh.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = i;
  std::shuffle(axes.begin(), axes.end(), random_numbers);
  const int64_t stretch = 1 + below(3), first = below(4);
  std::vector<int64_t> devices{first};
  for (const size_t axis : axes) {
    int64_t stride = stretch;
    for (size_t i = axis + 1; i < mesh.size(); ++i) stride *= mesh[i];
    const bool backwards = below(3) == 0;
    std::vector<int64_t> next;
    for (const int64_t device : devices)
      for (int64_t c = 0; c < mesh[axis]; ++c)
        next.push_back(device + (backwards ? mesh[axis] - 1 - c : c) * stride);
    devices = next;
  }
  return devices;
}

// Random digits of the rank, in any sequence.
Digits random_digits(int64_t count) {
  Digits atoms;
  for (int64_t rest = count, stride = 1; rest > 1;) {
    int64_t prime = 2;
    while (rest % prime != 0) ++prime;
    atoms.push_back({prime, stride});
    stride *= prime;
    rest /= prime;
  }
  std::shuffle(atoms.begin(), atoms.end(), random_numbers);
  atoms.resize(size_t(below(int64_t(atoms.size()) + 1)));
  return canonical(atoms);
}

std::map<int64_t, int64_t> tiles_by_device(DeviceOrder order, const Digits& digits) {
  std::map<int64_t, int64_t> tiles;
  for (int64_t r = 0; r < order->count; ++r) tiles[order->device(r)] = tile_index(digits, r);
  return tiles;
}

}  // namespace

// Steps between such ids could not be multiplied (UBSan sees it).
TEST_CASE("device order: ids beyond every mesh stay a list") {
  const int64_t most = std::numeric_limits<int64_t>::max();
  for (const std::vector<int64_t>& ids :
       {std::vector<int64_t>{7, most, 1, 5}, std::vector<int64_t>{0, most - 1, 2, most},
        std::vector<int64_t>{most, 0}, std::vector<int64_t>{0, most / 2, most - 1, 5}}) {
    const DeviceOrder order = list_order(ids);
    CHECK_FALSE(order->counts());
    CHECK(order->devices() == ids);
    CHECK(order->last() == *std::max_element(ids.begin(), ids.end()));
    for (size_t i = 0; i < ids.size(); ++i) CHECK(order->rank(ids[i]) == int64_t(i));
    CHECK(order->rank(3) == -1);
  }
}

TEST_CASE("device order: what counts by steps holds no list, and finds every rank") {
  for (int i = 0; i < 2000; ++i) {
    const std::vector<int64_t> devices = random_list();
    const DeviceOrder order = list_order(devices);
    REQUIRE(order->counts());
    REQUIRE(order == list_order(devices));
    REQUIRE(order->devices() == devices);
    REQUIRE(order->count == std::ssize(devices));
    REQUIRE(order->last() == *std::max_element(devices.begin(), devices.end()));
    for (int64_t id = -2; id <= order->last() + 2; ++id) {
      const auto at = std::find(devices.begin(), devices.end(), id);
      REQUIRE(order->rank(id) == (at == devices.end() ? -1 : at - devices.begin()));
    }
    for (int64_t r = 0; r < order->count; ++r) REQUIRE(order->device(r) == devices[size_t(r)]);
  }
  CHECK_FALSE(list_order({0, 1, 3, 7, 8, 10, 11, 15})->counts());
  // Two ways to 3: the places of a device would not be found again.
  CHECK_FALSE(list_order({0, 3, 2, 5, 4, 7})->counts());
}

TEST_CASE("device order: functions of devices are equal where tiles are, device by device") {
  int64_t equal = 0, compared = 0, expressed = 0;
  for (int i = 0; i < 6000; ++i) {
    const DeviceOrder a = list_order(random_list());
    std::vector<int64_t> other = a->devices();
    if (below(2) == 0) std::reverse(other.begin(), other.end());
    const DeviceOrder b = below(3) == 0 ? list_order(random_list()) : list_order(other);
    const Digits x = random_digits(a->count);
    const Digits y = below(2) == 0 && b->count == a->count ? x : random_digits(b->count);
    const auto f = tile_function(a, x), g = tile_function(b, y);
    if (!f || !g) continue;
    ++compared;
    const bool same = tiles_by_device(a, x) == tiles_by_device(b, y);
    REQUIRE((*f == *g) == same);
    equal += same;
    if (!(devices_of_order(a) == devices_of_order(b))) continue;
    const auto digits = digits_of(*f, b);
    if (digits) REQUIRE(tiles_by_device(b, *digits) == tiles_by_device(a, x));
    // Where the tiles are digits over the sorted devices, they are found.
    std::vector<int64_t> sorted = a->devices();
    std::sort(sorted.begin(), sorted.end());
    std::vector<int64_t> ranks;
    for (const int64_t device : sorted) ranks.push_back(tile_index(x, a->rank(device)));
    const auto over_sorted = digits_of(*f, list_order(sorted));
    if (over_sorted)
      for (size_t r = 0; r < ranks.size(); ++r)
        REQUIRE(tile_index(*over_sorted, int64_t(r)) == ranks[r]);
    expressed += over_sorted.has_value();
  }
  CHECK(equal > 500);
  CHECK(compared > equal + 500);
  CHECK(expressed > 500);
}

TEST_CASE("device order: turned, and counted along a sequence") {
  for (int i = 0; i < 2000; ++i) {
    const DeviceOrder order = list_order(random_list());
    const Digits turned = random_digits(order->count);
    const DeviceOrder other = turned_order(order, turned, 1 << 20);
    for (int64_t r = 0; r < order->count; ++r) {
      int64_t rank = r;
      for (const Digit& d : turned) rank += (d.size - 1 - 2 * (r / d.stride % d.size)) * d.stride;
      REQUIRE(other->device(r) == order->device(rank));
    }
    Digits sequence = random_digits(order->count);
    const Digits rest = complement(sequence, order->count);
    sequence.insert(sequence.end(), rest.begin(), rest.end());
    const DeviceOrder along = order_along(order, sequence);
    for (int64_t r = 0; r < order->count; ++r)
      REQUIRE(along->device(tile_index(sequence, r)) == order->device(r));
  }
}

TEST_CASE("scale: orders of 2^24 devices that count by steps are small values", "[scale]") {
  const DeviceOrder all = iota_order(int64_t{1} << 24);
  for (int i = 0; i < 1000; ++i) {
    const DeviceOrder back = turned_order(all, {{1 << 12, 1 << 12}}, 0);
    REQUIRE(back != nullptr);
    REQUIRE(back->counts());
    REQUIRE(back->steps.size() == 2);
    REQUIRE(turned_order(back, {{1 << 12, 1 << 12}}, 0) == all);
    REQUIRE(back->rank(back->device(12345678)) == 12345678);
    const Sharding a = Sharding::tiled(all, {{{1 << 12, 1 << 12}}, {{1 << 12, 1}}});
    const Sharding b = Sharding::tiled(back, {{{1 << 12, 1 << 12}}, {{1 << 12, 1}}});
    REQUIRE_FALSE(equivalent(a, b));
    REQUIRE_FALSE(merge(a, b, 2));
    const Sharding rows = Sharding::tiled(back, {{{1 << 12, 1 << 12}}});
    const Sharding columns = Sharding::tiled(all, {{}, {{1 << 12, 1}}});
    const auto merged = merge(rows, columns, 2);
    REQUIRE(merged);
    REQUIRE(equivalent(*merged, b));
  }
}
