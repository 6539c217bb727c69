#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "gspmd/mesh/sharding.h"
#include "mesh/naive.h"

using namespace gspmd;
using Catch::Matchers::Contains;

TEST_CASE("local shape: the ceiling of dim over tiles, leaf by leaf", "[shape]") {
  const Sharding s = parse_sharding("{devices=[6,2]<=[12]}");
  CHECK(local_shape(Shape(DType::f32, {8, 5}), s) == Shape(DType::f32, {2, 3}));
  CHECK(local_shape(Shape(DType::f32, {8, 5}), Sharding()) == Shape(DType::f32, {8, 5}));
  const Shape pair =
      Shape::tuple({Shape(DType::f32, {8, 5}),
                    Shape::tuple({Shape(DType::s32, {}), Shape(DType::bf16, {6, 6})})});
  CHECK(to_string(local_shape(pair, Sharding::tuple({s, Sharding(), s}))) ==
        "(f32[2,3], (s32[], bf16[1,3]))");
  CHECK(local_shape(pair, Sharding()) == pair);
  CHECK_THROWS_WITH(local_shape(pair, Sharding::tuple({s, s})),
                    Contains("has 2 elements") && Contains("3 leaves"));
  CHECK_THROWS_WITH(local_shape(Shape(DType::f32, {8}), Sharding::tuple({s})),
                    Contains("no tuple elements"));
  CHECK_THROWS_WITH(local_shape(Shape(DType::f32, {8}), s), Contains("splits 2 dims"));
}

TEST_CASE("shard boxes: 8 heads on 6 devices are 2,2,2,2,0,0", "[shape]") {
  const Sharding s = parse_sharding("{devices=[6]<=[6]}");
  std::vector<int64_t> sizes;
  std::vector<int64_t> starts;
  for (int64_t d = 0; d < 6; ++d) {
    const Box box = shard_box(Shape(DType::f32, {8}), s, d);
    starts.push_back(box.start[0]);
    sizes.push_back(box.size[0]);
  }
  CHECK(starts == Dims{0, 2, 4, 6, 8, 8});
  CHECK(sizes == Dims{2, 2, 2, 2, 0, 0});
}

TEST_CASE("shard boxes: the tile of a device follows the device array", "[shape]") {
  const Shape shape(DType::f32, {5, 7});
  for (const std::string text :
       {"{devices=[2,3]0,4,2,3,1,5}", "{devices=[3,2]<=[2,3]T(1,0)}", "{devices=[2,2]9,4,7,5}",
        "{devices=[2,1,3]<=[3,2]T(1,0) last_tile_dim_replicate}"}) {
    const Sharding s = parse_sharding(text);
    for (const auto& [device, tile] : naive::tiles(device_array(s, 2), 2)) {
      const Box box = shard_box(shape, s, device);
      for (size_t i = 0; i < 2; ++i) {
        const int64_t size = ceil_div(shape.dims[i], s.tiles(int64_t(i)));
        CHECK(box.start[i] == std::min(shape.dims[i], tile[i] * size));
        CHECK(box.size[i] == std::min(size, shape.dims[i] - box.start[i]));
      }
    }
  }
}

TEST_CASE("shard boxes: a device that holds nothing has an empty box at the end", "[shape]") {
  const Shape shape(DType::f32, {5, 7});
  for (const Box& box : {shard_box(shape, Sharding::maximal(2), 1),
                         shard_box(shape, parse_sharding("{devices=[2,2]0,1,4,5}"), 2)}) {
    CHECK(box.start == Dims{5, 7});
    CHECK(box.size == Dims{0, 0});
    CHECK((box.is_empty() && !box.held));
  }
  const Shape scalar(DType::f32, {});
  CHECK(shard_box(scalar, Sharding::maximal(2), 1).is_empty());
  CHECK_FALSE(shard_box(scalar, Sharding::maximal(2), 2).is_empty());
  CHECK_FALSE(shard_box(scalar, Sharding::maximal(2), 2) ==
              shard_box(scalar, Sharding::maximal(2), 1));
  CHECK_FALSE(shard_box(scalar, Sharding(), 77).is_empty());
  CHECK(shard_box(shape, Sharding::maximal(2), 2).size == shape.dims);
  CHECK(shard_box(shape, Sharding(), 77).size == shape.dims);
}

TEST_CASE("sharding values: digits are checked and normalised", "[sharding]") {
  const DeviceOrder order = iota_order(8);
  CHECK(Sharding::tiled(order, {{}, {}}).is_replicated());
  CHECK(Sharding::tiled(order, {{{1, 1}}}).order() == nullptr);
  CHECK_THROWS_AS(Sharding::tiled(order, {{{2, 1}}, {{4, 1}}}), InternalError);
  CHECK_THROWS_AS(Sharding::tiled(order, {{{3, 1}}}), InternalError);
  CHECK_THROWS_AS(Sharding::tiled(order, {{{16, 1}}}), InternalError);
  CHECK_THROWS_AS(Sharding::tiled(nullptr, {{{2, 1}}}), InternalError);
  const Sharding s = Sharding::tiled(order, {{{2, 4}, {2, 2}}}, {},
                                     {{{}, Combiner::max}, {{{2, 1}}, Combiner::sum}});
  CHECK(s.dim(0) == Digits{{4, 2}});
  CHECK(s.dim(5).empty());
  CHECK(s.unreduced() == std::vector<Unreduced>{{{{2, 1}}, Combiner::sum}});
  CHECK(s.replicated_digits().empty());
  CHECK(s.num_tiles() == 4);
}

TEST_CASE("sharding values: with_dim and with_unreduced change one thing", "[sharding]") {
  const Sharding s = parse_sharding("{mesh['x'=2,'y'=4], [{'x'}, {?}]}");
  const Sharding t = s.with_dim(1, {{4, 1}}, 2, nullptr);
  CHECK(to_string(t) == "{mesh['x'=2,'y'=4], [{'x'}, {'y', ?}]}");
  CHECK(to_string(t.with_dim(0, {}, 2, nullptr)) == "{mesh['x'=2,'y'=4], [{}, {'y', ?}]}");
  CHECK(to_string(s.with_unreduced({{{{4, 1}}, Combiner::sum}}).with_open({})) ==
        "{mesh['x'=2,'y'=4], [{'x'}, {}], unreduced={'y'}}");
  CHECK(Sharding().with_dim(1, {{8, 1}}, 3, iota_order(8)) ==
        parse_sharding("{devices=[1,8,1]<=[8]}"));
  CHECK(parse_sharding("{unreduced}").with_dim(0, {{2, 4}}, 1, iota_order(8)) ==
        parse_sharding("{devices=[2,4]<=[8] last_tile_dims={unreduced}}"));
  CHECK_THROWS_AS(t.with_dim(0, {{4, 1}}, 2, nullptr), InternalError);
  CHECK_THROWS_AS(s.with_dim(1, {{2, 1}}, 2, iota_order(6)), InternalError);
  CHECK_THROWS_AS(Sharding::manual().with_dim(0, {{2, 1}}, 1, iota_order(2)), InternalError);
}

TEST_CASE("visualize: a matrix is a table of the devices that hold each tile", "[visualize]") {
  CHECK(visualize(Shape(DType::f32, {4, 6}), parse_sharding("{devices=[2,3]<=[6]}")) ==
        "f32[4,6] {devices=[2,3]<=[6]}\n"
        "  shards f32[2,2]\n"
        "      | 0:2  2:4  4:6\n"
        "  0:2 |   0    1    2\n"
        "  2:4 |   3    4    5\n");
  CHECK(visualize(Shape(DType::f32, {4, 6}),
                  parse_sharding("{devices=[2,1,4]<=[8] last_tile_dim_replicate}")) ==
        "f32[4,6] {devices=[2,1,4]<=[8] last_tile_dim_replicate}\n"
        "  shards f32[2,6]\n"
        "  0:2 | 0-3\n"
        "  2:4 | 4-7\n");
  CHECK_THAT(visualize(Shape(DType::f32, {4, 6}), parse_sharding("{devices=[2,4]<=[2,2,2]T(1,0,2) "
                                                                 "last_tile_dim_replicate}")),
             Contains("0:2 | 0,1,4,5\n") && Contains("2:4 | 2,3,6,7\n"));
  CHECK(visualize(Shape(DType::f32, {8}), parse_sharding("{devices=[6]5,4,3,2,1,0}")) ==
        "f32[8] {devices=[6]5,4,3,2,1,0}\n"
        "  shards f32[2]\n"
        "   | 0:2  2:4  4:6  6:8  8:8  8:8\n"
        "   |   5    4    3    2    1    0\n");
}

TEST_CASE("visualize: large meshes are elided", "[visualize]") {
  const std::string many =
      visualize(Shape(DType::f32, {4096, 4096}),
                parse_sharding("{devices=[64,64,256]<=[1048576] last_tile_dim_replicate}"));
  CHECK_THAT(many, Contains("0-255") && Contains("..."));
  CHECK(many.size() < 3000);
}

TEST_CASE("visualize: every kind has a sentence", "[visualize]") {
  const Shape shape(DType::f32, {4});
  CHECK_THAT(visualize(shape, Sharding()), Contains("every device holds the whole value"));
  CHECK_THAT(visualize(shape, Sharding::maximal(3)), Contains("device 3 holds the whole value"));
  CHECK_THAT(visualize(shape, Sharding::manual()), Contains("a value of its own"));
  CHECK_THAT(visualize(shape, Sharding::unknown()), Contains("not decided"));
  CHECK_THAT(visualize(shape, parse_sharding("{unreduced}")), Contains("a partial"));
  CHECK_THAT(visualize(Shape(DType::f32, {}),
                       parse_sharding("{devices=[4,2]<=[8] last_tile_dims={manual, replicated}}")),
             Contains("manual over 4 devices") && Contains("0-7"));
  CHECK_THAT(
      visualize(Shape::tuple({shape, shape}), parse_sharding("{{devices=[2]<=[2]}, {replicated}}")),
      Contains("0: f32[4] {devices=[2]<=[2]}") && Contains("1: f32[4] {replicated}"));
}
