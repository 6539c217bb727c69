#include "gspmd/mesh/visualize.h"

#include <catch2/catch.hpp>

#include "gspmd/base/error.h"

namespace gspmd {
namespace {

using Catch::Matchers::Contains;

std::string page(const Dims& dims, const std::string& sharding) {
  return visualize_html(Shape(DType::f32, dims), parse_sharding(sharding));
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("visualize_html: every box is a tile with its devices and its elements", "[visualize]") {
  const std::string html = page({4, 6}, "{devices=[2,3]<=[6]}");
  CHECK(count(html, "<g><title>") == 6);
  CHECK_THAT(html, Contains("<title>[2:4, 4:6]: device 5</title>") && Contains("dim 0 ↓") &&
                       Contains("dim 1 →") && Contains("6 devices, 6 boxes, shards f32[2,2]"));
  CHECK(count(html, "<i style=") == 6);
  CHECK_THAT(html, !Contains("class=\"note\">"));
  // Nothing is fetched from elsewhere.
  for (const char* link : {"src=", "href=", "url(http", "@import", "<script"})
    CHECK(html.find(link) == std::string::npos);
}

TEST_CASE("visualize_html: copies are stripes, uneven and empty tiles are told", "[visualize]") {
  const std::string copies = page({4, 6}, "{devices=[2,1,4]<=[8] last_tile_dim_replicate}");
  CHECK_THAT(copies, Contains("replicated: 4 devices hold each box") &&
                         Contains("<title>[0:2, 0:6]: device 0-3</title>"));
  CHECK(count(copies, "<rect") == 2 * (4 + 1));
  const std::string uneven = page({8}, "{devices=[6]5,4,3,2,1,0}");
  CHECK_THAT(uneven, Contains("uneven: dim 0 of 8 in 6 tiles of 2, 2 empty") &&
                         Contains("<title>[8:8]: device 1; no elements</title>") &&
                         Contains("class=\"empty\""));
  CHECK_THAT(page({7}, "{devices=[3]<=[3]}"),
             Contains("uneven: dim 0 of 7 in 3 tiles of 3, the last of 1"));
}

TEST_CASE("visualize_html: unreduced, manual and whole values have a sentence", "[visualize]") {
  CHECK_THAT(page({4}, "{devices=[2,4]<=[8] last_tile_dims={unreduced}}"),
             Contains("unreduced: sum of partials on 4 devices is still to come"));
  CHECK_THAT(page({4}, "{devices=[2,4]<=[8] last_tile_dims={manual}}"),
             Contains("manual over 4 devices: each has a value of its own"));
  CHECK_THAT(page({}, "{devices=[4,2]<=[8] last_tile_dims={manual, replicated}}"),
             Contains("device 0-7"));
  CHECK_THAT(page({4}, "{maximal device=3}"), Contains("device 3 holds the whole value"));
  CHECK_THAT(page({4}, "{replicated}"), Contains("every device holds the whole value"));
  CHECK_THAT(page({4}, "{manual}"), Contains("a value of its own"));
}

TEST_CASE("visualize_html: dims beyond two give a drawing a tile, tuples one a leaf",
          "[visualize]") {
  const std::string cube = page({4, 8, 6, 5}, "{devices=[2,2,3,5]<=[60]}");
  CHECK(count(cube, "<figure>") == 4);
  CHECK_THAT(cube, Contains("<figcaption>dim 0 at 2:4, dim 1 at 0:4</figcaption>"));
  const Shape leaf(DType::f32, {4});
  const std::string tuple = visualize_html(Shape::tuple({leaf, leaf}),
                                           parse_sharding("{{devices=[2]<=[2]}, {replicated}}"));
  CHECK(count(tuple, "<section>") == 2);
  CHECK_THAT(tuple, Contains("tensor, element 1"));
  CHECK_THROWS_AS(visualize_html(leaf, parse_sharding("{devices=[2,2]<=[4]}")), Error);
}

TEST_CASE("visualize_html: pages of large meshes and many tensors stay small", "[visualize]") {
  const std::string many =
      page({4096, 4096, 64}, "{devices=[64,64,64,256]<=[67108864] last_tile_dim_replicate}");
  CHECK(many.size() < 1'000'000);
  CHECK_THAT(many, Contains("… and 56 slices more") && Contains("… 67108864 in all"));
  const ShardedTensor tensor{"<x>", Shape(DType::f32, {4}), parse_sharding("{devices=[2]<=[2]}")};
  const std::vector<ShardedTensor> tensors(500, tensor);
  const std::string html = visualize_html("many & more", tensors);
  CHECK(count(html, "<section>") == 400);
  CHECK_THAT(html, Contains("… and 100 tensors more") && Contains("&lt;x&gt;") &&
                       Contains("many &amp; more"));
}

TEST_CASE("visualize: dims beyond two are gone through slice by slice", "[visualize]") {
  CHECK(visualize(Shape(DType::f32, {4, 8, 6, 5}), parse_sharding("{devices=[2,1,3,5]<=[30]}")) ==
        "f32[4,8,6,5] {devices=[2,1,3,5]<=[30]}\n"
        "  shards f32[2,8,2,1]\n"
        "  dim 0: 2 tiles of 2\n"
        "  dim 2: 3 tiles of 2\n"
        "  dim 3: 5 tiles of 1\n"
        "  dim 2 down, dim 3 across:\n"
        "  dim 0 at 0:2:\n"
        "      | 0:1  1:2  2:3  3:4  4:5\n"
        "  0:2 |   0    1    2    3    4\n"
        "  2:4 |   5    6    7    8    9\n"
        "  4:6 |  10   11   12   13   14\n"
        "  dim 0 at 2:4:\n"
        "      | 0:1  1:2  2:3  3:4  4:5\n"
        "  0:2 |  15   16   17   18   19\n"
        "  2:4 |  20   21   22   23   24\n"
        "  4:6 |  25   26   27   28   29\n");
  CHECK_THAT(
      visualize(Shape(DType::f32, {64, 64, 64}), parse_sharding("{devices=[64,64,64]<=[262144]}")),
      Contains("  ... and 56 slices more\n") && Contains("63:64"));
}

}  // namespace gspmd
