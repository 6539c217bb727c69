#include <catch2/catch.hpp>

#include "gspmd/mesh/replica_groups.h"
#include "gspmd/mesh/sharding.h"

using namespace gspmd;

// Nothing here may cost time or memory that grows with the devices: a table over 2^31 devices would
// not fit, and the loops below would not end.

TEST_CASE("scale: iota shardings of two thousand million devices are small values", "[scale]") {
  const std::vector<std::string> texts{
      "{devices=[65536]<=[65536]}",
      "{devices=[256,256]<=[256,256]T(1,0)}",
      "{devices=[1024,1,1024]<=[1048576] last_tile_dim_replicate}",
      "{devices=[2,512,1024]<=[1024,1024]T(1,0)}",
      "{devices=[32768,65536]<=[65536,32768]T(1,0)}",
      "{devices=[1,32768,65536]<=[65536,32768]T(1,0) last_tile_dims={manual, replicated}}",
      "{mesh['x'=65536,'y'=32768], [{'y':(2)4}, {'x', ?}]}"};
  for (const std::string& text : texts) {
    for (int i = 0; i < 1000; ++i) {
      const Sharding sharding = parse_sharding(text);
      REQUIRE(to_string(sharding) == text);
      REQUIRE(parse_sharding(to_string_v2(sharding)).order() == sharding.order());
    }
  }
}

TEST_CASE("scale: merge, boxes, groups and pictures of huge meshes are arithmetic", "[scale]") {
  const Sharding a = parse_sharding(
      "{devices=[65536,1,32768]<=[2147483648] "
      "last_tile_dim_replicate}");
  const Sharding b = parse_sharding(
      "{devices=[1,32768,65536]<=[65536,32768]T(1,0) "
      "last_tile_dim_replicate}");
  const Shape shape(DType::f32, {1 << 20, 1 << 20});
  for (int i = 0; i < 1000; ++i) {
    const auto merged = merge(a, b, 2);
    REQUIRE(merged);
    REQUIRE(to_string(*merged) == "{devices=[65536,32768]<=[2147483648]}");
    REQUIRE_FALSE(merge(*merged, parse_sharding("{devices=[32768,65536]<=[2147483648]}"), 2));
    REQUIRE(is_sub_tiling(*merged, a, shape));
    REQUIRE_FALSE(is_sub_tiling(a, b, shape));
    REQUIRE(shard_box(shape, *merged, 2147483647).start == Dims{(1 << 20) - 16, (1 << 20) - 32});
    REQUIRE(to_string(groups_over(a.order(), b.dim(1))) == "[65536,32768]<=[2147483648]");
    REQUIRE(equivalent(*merged, *merged));
  }
  CHECK(visualize(shape, a).size() < 1000);
  CHECK(visualize(shape, parse_sharding("{devices=[65536,32768]<=[65536,32768]}")).size() < 4000);
}

TEST_CASE("scale: a list of 65536 devices is read in one go", "[scale]") {
  // Pairs of devices swapped: digits do not say it, the list does.
  std::string text = "{devices=[256,256]";
  for (int64_t i = 0; i < 65536; ++i) text += fmt::format("{}{}", i ? "," : "", i ^ 1);
  const Sharding sharding = parse_sharding(text + "}");
  CHECK(sharding.order()->device(0) == 1);
  CHECK(to_string(sharding) == text + "}");
  const Sharding same = parse_sharding(text + "}");
  CHECK(same.order() == sharding.order());
  std::string plain = "{devices=[256,256]";
  for (int64_t i = 0; i < 65536; ++i)
    plain += fmt::format("{}{}", i ? "," : "", i % 256 * 256 + i / 256);
  CHECK(to_string(parse_sharding(plain + "}")) == "{devices=[256,256]<=[256,256]T(1,0)}");
  CHECK_FALSE(merge(sharding, parse_sharding(plain + "}"), 2));
  CHECK(merge(sharding, sharding, 2) == sharding);
}
