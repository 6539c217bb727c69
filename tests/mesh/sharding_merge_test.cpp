#include <catch2/catch.hpp>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/mesh/sharding.h"
#include "mesh/naive.h"

using namespace gspmd;

namespace {

// Tiles of the first `rank` dims by device; a replicated sharding has tile 0 everywhere.
std::map<int64_t, Dims> tiles_of(const Sharding& s, int64_t rank,
                                 const std::vector<int64_t>& devices) {
  if (s.order()) return naive::tiles(device_array(s, rank), rank);
  std::map<int64_t, Dims> result;
  for (const int64_t d : devices) result[d] = Dims(size_t(rank), 0);
  return result;
}

enum class Rule { equal, prefix };

// What merging means, device by device: nullopt where a dim conflicts or tiles are not held by
// equally many devices.
std::optional<std::map<int64_t, Dims>> merged_tiles(const Sharding& a, const Sharding& b,
                                                    const std::vector<int64_t>& devices,
                                                    int64_t rank, Rule rule) {
  const auto x = tiles_of(a, rank, devices);
  const auto y = tiles_of(b, rank, devices);
  std::map<int64_t, Dims> result;
  std::map<Dims, int64_t> holders;
  int64_t total = 1;
  for (int64_t i = 0; i < rank; ++i) total *= std::max(a.tiles(i), b.tiles(i));
  for (const int64_t d : devices) {
    Dims tile;
    for (int64_t i = 0; i < rank; ++i) {
      int64_t fine = x.at(d)[size_t(i)];
      int64_t coarse = y.at(d)[size_t(i)];
      int64_t fine_count = a.tiles(i);
      int64_t coarse_count = b.tiles(i);
      if (fine_count < coarse_count) {
        std::swap(fine, coarse);
        std::swap(fine_count, coarse_count);
      }
      if (coarse_count != 1 && rule == Rule::equal && fine_count != coarse_count)
        return std::nullopt;
      if (fine_count % coarse_count != 0 || fine / (fine_count / coarse_count) != coarse)
        return std::nullopt;
      tile.push_back(fine);
    }
    ++holders[tile];
    result[d] = tile;
  }
  if (int64_t(holders.size()) != total) return std::nullopt;
  for (const auto& [tile, count] : holders)
    if (count * total != int64_t(devices.size())) return std::nullopt;
  return result;
}

// All shardings of a rank-2 tensor by digits over `order`.
void extend(DeviceOrder order, const Digits& atoms, Digits chosen, std::vector<Sharding>& out) {
  for (size_t cut = 0; cut <= chosen.size(); ++cut) {
    const auto middle = chosen.begin() + std::ptrdiff_t(cut);
    Sharding s = Sharding::tiled(order, {Digits(chosen.begin(), middle), {middle, chosen.end()}});
    if (std::find(out.begin(), out.end(), s) == out.end()) out.push_back(std::move(s));
  }
  for (const Digit& atom : atoms) {
    if (std::find(chosen.begin(), chosen.end(), atom) != chosen.end()) continue;
    Digits more = chosen;
    more.push_back(atom);
    extend(order, atoms, more, out);
  }
}

std::vector<Sharding> all_shardings(DeviceOrder order) {
  std::vector<Sharding> out;
  const std::vector<Digits> chains =
      order->count == 8
          ? std::vector<Digits>{{{2, 1}, {2, 2}, {2, 4}}}
          : std::vector<Digits>{
                {{2, 1}, {2, 2}, {3, 4}}, {{2, 1}, {3, 2}, {2, 6}}, {{3, 1}, {2, 3}, {2, 6}}};
  for (const Digits& atoms : chains) extend(order, atoms, {}, out);
  return out;
}

std::vector<int64_t> ids(DeviceOrder order) {
  std::vector<int64_t> out;
  for (int64_t r = 0; r < order->count; ++r) out.push_back(order->device(r));
  return out;
}

// Returns how many merged.
int check_all_pairs(DeviceOrder first, DeviceOrder second) {
  const std::vector<int64_t> devices = ids(first);
  const std::vector<Sharding> xs = all_shardings(first);
  const std::vector<Sharding> ys = all_shardings(second);
  int merged_count = 0;
  for (const Sharding& a : xs) {
    for (const Sharding& b : ys) {
      for (const Rule rule : {Rule::equal, Rule::prefix}) {
        const auto expected = merged_tiles(a, b, devices, 2, rule);
        const auto merged = rule == Rule::equal ? merge(a, b, 2) : merge_by_prefix(a, b, 2);
        if (expected.has_value() == merged.has_value() &&
            (!merged || tiles_of(*merged, 2, devices) == *expected)) {
          merged_count += merged.has_value();
          continue;
        }
        FAIL_CHECK("merge of " << to_string(a) << " and " << to_string(b) << " gave "
                               << (merged ? to_string(*merged) : "nothing"));
      }
    }
  }
  return merged_count;
}

}  // namespace

TEST_CASE("merge: all pairs over one order agree with the tiles of every device", "[merge]") {
  CHECK(check_all_pairs(iota_order(8), iota_order(8)) > 500);
  CHECK(check_all_pairs(iota_order(12), iota_order(12)) > 500);
}

TEST_CASE("merge: all pairs over two orders agree with the tiles of every device", "[merge]") {
  const DeviceOrder reversed = list_order({7, 6, 5, 4, 3, 2, 1, 0});
  const DeviceOrder odd = list_order({0, 1, 3, 2, 4, 5, 7, 6});
  const DeviceOrder snake = list_order({3, 0, 1, 2, 7, 4, 5, 6});
  CHECK(check_all_pairs(iota_order(8), reversed) > 100);
  CHECK(check_all_pairs(odd, iota_order(8)) > 100);
  CHECK(check_all_pairs(reversed, odd) > 100);
  CHECK(check_all_pairs(snake, odd) > 50);
}

TEST_CASE("merge: partial tilings on different dims are joined", "[merge]") {
  const auto merged =
      merge(parse_sharding("{devices=[2,1,4]<=[8] last_tile_dim_replicate}"),
            parse_sharding("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"), 2);
  REQUIRE(merged);
  CHECK(*merged == parse_sharding("{devices=[2,4]<=[8]}"));
}

TEST_CASE("merge: other devices, kinds and manual subgroups conflict", "[merge]") {
  const Sharding four = parse_sharding("{devices=[4]0,1,4,5}");
  CHECK_FALSE(merge(four, parse_sharding("{devices=[4]<=[4]}"), 1));
  CHECK_FALSE(merge(four, parse_sharding("{devices=[4,2]<=[8] last_tile_dim_replicate}"), 1));
  CHECK_FALSE(merge(four, Sharding::maximal(0), 1));
  CHECK_FALSE(merge(four, Sharding::manual(), 1));
  CHECK_FALSE(merge(Sharding::maximal(0), Sharding::maximal(1), 1));
  CHECK(merge(Sharding::maximal(1), Sharding::maximal(1), 1) == Sharding::maximal(1));
  CHECK(merge(four, Sharding::replicated(), 1) == four);
  CHECK(merge(Sharding::unknown(), four, 1) == four);
  const Sharding manual = parse_sharding("{devices=[2,1,2]<=[4] last_tile_dims={manual}}");
  const Sharding other = parse_sharding("{devices=[1,2,2]<=[4] last_tile_dim_replicate}");
  CHECK_FALSE(merge(manual, other, 2));
  CHECK(merge(manual, manual, 2) == manual);
}

TEST_CASE("merge: manual and unreduced groups are compared across orders", "[merge]") {
  // Position p of the second mesh is device 3,2,1,0: both axes run backwards.
  const Mesh forward{{"x", 2}, {"y", 2}};
  const Mesh backward({{"x", 2}, {"y", 2}}, {3, 2, 1, 0});
  const Mesh crossed({{"x", 2}, {"y", 2}}, {0, 3, 1, 2});
  for (const bool manual : {true, false}) {
    const auto partial = [&](const Mesh& mesh) {
      const Digits y{mesh.digit(1)};
      return manual ? Sharding::tiled(mesh.order(), {{}}, y)
                    : Sharding::tiled(mesh.order(), {{}}, {}, {{y, Combiner::sum}});
    };
    // The groups along y are {0,1} and {2,3} in both, but their members count the other way.
    CHECK(equivalent(partial(forward), partial(backward)));
    CHECK(merge(partial(forward), partial(backward), 1).has_value() == !manual);
    CHECK_FALSE(equivalent(partial(forward), partial(crossed)));
    CHECK_FALSE(merge(partial(forward), partial(crossed), 1));
    const Mesh renamed({{"y", 2}, {"x", 2}}, {0, 2, 1, 3});
    const Sharding same =
        manual ? Sharding::tiled(renamed.order(), {{}}, {renamed.digit(0)})
               : Sharding::tiled(renamed.order(), {{}}, {}, {{{renamed.digit(0)}, Combiner::sum}});
    REQUIRE(merge(partial(forward), same, 1));
    CHECK(equivalent(*merge(partial(forward), same, 1), same));
  }
  const Digits xy{{2, 2}, {2, 1}};
  const Digits yx{{2, 1}, {2, 2}};
  CHECK(merge(Sharding::tiled(forward.order(), {{}}, {}, {{xy, Combiner::sum}}),
              Sharding::tiled(forward.order(), {{}}, {}, {{yx, Combiner::sum}}), 1)
            ->unreduced() == std::vector<Unreduced>{{canonical(xy), Combiner::sum}});
  const Sharding split = mesh_sharding(backward, {{0}});
  CHECK_FALSE(merge(Sharding::tiled(forward.order(), {{}}, {forward.digit(1)}), split, 1));
}

TEST_CASE("merge: unreduced digits are joined unless they meet others", "[merge]") {
  const Sharding partial =
      parse_sharding("{mesh['x'=2,'y'=2,'z'=2], [{'x'}, {}], unreduced={'y'}}");
  CHECK(to_string(*merge(partial, parse_sharding("{mesh['x'=2,'y'=2,'z'=2], [{}, {'z'}]}"), 2)) ==
        "{mesh['x'=2,'y'=2,'z'=2], [{'x'}, {'z'}], unreduced={'y'}}");
  CHECK_FALSE(merge(partial, parse_sharding("{mesh['x'=2,'y'=2,'z'=2], [{}, {'y'}]}"), 2));
  CHECK_FALSE(merge(
      partial, parse_sharding("{mesh['x'=2,'y'=2,'z'=2], [{'x'}, {}], unreduced=max{'y'}}"), 2));
  CHECK(to_string(*merge(partial,
                         parse_sharding("{mesh['x'=2,'y'=2,'z'=2], [{}, {}], "
                                        "unreduced=max{'z'}}"),
                         2)) ==
        "{mesh['x'=2,'y'=2,'z'=2], [{'x'}, {}], unreduced={'y'}, unreduced=max{'z'}}");
  // The same over another order of the same devices.
  const Mesh reversed({{"z", 2}, {"y", 2}, {"x", 2}}, {7, 3, 5, 1, 6, 2, 4, 0});
  const Sharding same = mesh_sharding(reversed, {{2}, {}}).with_unreduced({{{{2, 2}}}});
  const auto merged = merge(same, partial, 2);
  CHECK_FALSE(merged);  // x and y run backwards there: other tiles
  const Mesh transposed({{"z", 2}, {"y", 2}, {"x", 2}}, {0, 4, 2, 6, 1, 5, 3, 7});
  const Sharding equal = mesh_sharding(transposed, {{2}, {}}).with_unreduced({{{{2, 2}}}});
  REQUIRE(merge(equal, partial, 2));
  CHECK(equivalent(*merge(equal, partial, 2), partial));
  CHECK(merge(equal, partial, 2)->order() == equal.order());
}

TEST_CASE("merge: unreduced over all devices takes those of the other side", "[merge]") {
  const Sharding all = parse_sharding("{unreduced}");
  CHECK(merge(all, all, 1) == all);
  CHECK(merge(all, Sharding::replicated(), 1) == all);
  CHECK_FALSE(merge(all, Sharding::unreduced_everywhere(Combiner::max), 1));
  CHECK_FALSE(merge(all, parse_sharding("{devices=[2]<=[2]}"), 1));
  const Sharding whole = parse_sharding("{devices=[1,4]<=[4] last_tile_dims={unreduced}}");
  CHECK(merge(all, whole, 1) == whole);
}

TEST_CASE("merge: the result is closed, keeps a mesh and drops the shard group", "[merge]") {
  const Sharding open = parse_sharding("{mesh['x'=2,'y'=2], [{'x', ?}, {?}] shard_as 3}");
  const auto merged = merge(open,
                            parse_sharding("{devices=[1,2,2]<=[2,2]T(1,0) "
                                           "last_tile_dim_replicate}"),
                            2);
  REQUIRE(merged);
  CHECK(to_string(*merged) == "{mesh['x'=2,'y'=2], [{'x'}, {'y'}]}");
}

TEST_CASE("merge: tuples merge leaf by leaf", "[merge]") {
  const Sharding a = parse_sharding("{{replicated}, {devices=[2]<=[2]}}");
  const Sharding b = parse_sharding("{{devices=[2]<=[2]}, {replicated}}");
  CHECK(merge(a, b, -1) == parse_sharding("{{devices=[2]<=[2]}, {devices=[2]<=[2]}}"));
  CHECK_FALSE(merge(a, Sharding::tuple({Sharding()}), -1));
}

TEST_CASE("merge: the prefix rule takes the longer split", "[merge]") {
  const Sharding x = parse_sharding("{mesh['x'=2,'y'=4], [{'x'}]}");
  const Sharding xy = parse_sharding("{mesh['x'=2,'y'=4], [{'x', 'y'}]}");
  const Sharding yx = parse_sharding("{mesh['x'=2,'y'=4], [{'y', 'x'}]}");
  CHECK_FALSE(merge(x, xy, 1));
  CHECK(merge_by_prefix(x, xy, 1) == xy);
  CHECK(merge_by_prefix(xy, x, 1) == xy);
  CHECK_FALSE(merge_by_prefix(x, yx, 1));
}

TEST_CASE("sub-tiling: agrees with the boxes of every device, uneven dims included", "[merge]") {
  for (const int64_t count : {8, 12}) {
    const std::vector<Sharding> shardings = all_shardings(iota_order(count));
    for (const Sharding& fine : shardings) {
      if (fine.tiles(1) > 1) continue;
      for (const Sharding& coarse : shardings) {
        if (coarse.tiles(1) > 1) continue;
        for (const int64_t dim : {0, 1, 2, 3, 5, 6, 7, 8, 11, 12, 13, 24, 25}) {
          const Shape shape(DType::f32, {dim, 3});
          bool expected = true;
          for (int64_t d = 0; d < count; ++d) {
            const Box x = shard_box(shape, fine, d);
            const Box y = shard_box(shape, coarse, d);
            if (x.size[0] > 0)
              expected &=
                  y.start[0] <= x.start[0] && x.start[0] + x.size[0] <= y.start[0] + y.size[0];
          }
          if (is_sub_tiling(fine, coarse, shape) != expected)
            FAIL_CHECK(to_string(fine) << " in " << to_string(coarse) << " of " << dim);
        }
      }
    }
  }
}

TEST_CASE("sub-tiling: other orders are compared device by device", "[merge]") {
  const Shape shape(DType::f32, {8});
  const Sharding fine = parse_sharding("{devices=[4]3,2,1,0}");
  CHECK(
      is_sub_tiling(fine, parse_sharding("{devices=[2,2]2,3,0,1 last_tile_dim_replicate}"), shape));
  CHECK_FALSE(
      is_sub_tiling(fine, parse_sharding("{devices=[2,2]0,1,2,3 last_tile_dim_replicate}"), shape));
  CHECK(is_sub_tiling(fine, Sharding::replicated(), shape));
  CHECK_FALSE(is_sub_tiling(Sharding::replicated(), fine, shape));
  CHECK(is_sub_tiling(Sharding::maximal(2), Sharding::replicated(), shape));
  CHECK_FALSE(is_sub_tiling(Sharding::maximal(2), Sharding::manual(), shape));
}
