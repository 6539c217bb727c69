#include "gspmd/api/regions.h"

#include "api/support.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/complete/propagate.h"

using namespace gspmd;
using namespace gspmd::test;

namespace {

const Mesh kMesh{{"x", 2}, {"y", 4}};

// The completed sharding of the result of a function of arrays.
template <class Fn, class... Shapes>
std::string result_of(Fn fn, const Shapes&... shapes) {
  const Traced traced = trace(fn, shapes...);
  const auto module = traced.module().clone();
  PropagateOptions options;
  options.allow_output = options.allow_parameters = {true};
  propagate(*module, options);
  verify_module(*module);
  const auto& sharding = module->entry()->root()->sharding;
  if (!sharding) return "none";
  return to_string_v2(sharding->is_tuple() ? sharding->elements().at(0) : *sharding);
}

const Shape kMatrix(DType::f32, {8, 16});

}  // namespace

TEST_CASE("an annotation of a later priority yields where an earlier one reaches", "[api]") {
  const auto fn = [](int64_t rows, int64_t columns) {
    return [=](Tensor a, Tensor b) {
      const Tensor by_rows = mesh_split(a, kMesh, {"y", _}, {.priority = rows});
      const Tensor by_columns = mesh_split(b, kMesh, {_, "y"}, {.priority = columns});
      return by_rows + by_columns;
    };
  };
  CHECK(result_of(fn(0, 1), kMatrix, kMatrix) ==
        "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
  CHECK(result_of(fn(2, 1), kMatrix, kMatrix) ==
        "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
  CHECK_THROWS_WITH(result_of(fn(-1, 0), kMatrix, kMatrix), Catch::Contains("priority -1"));
}

TEST_CASE("shard_as makes two values end alike, and barriers stop one direction", "[api]") {
  const auto alike = [](Tensor a, Tensor b) {
    auto [x, y] = shard_as(tanh(mesh_split(a, kMesh, {"x", "y"})), b);
    return std::tuple{y, x};
  };
  CHECK(result_of(alike, kMatrix, kMatrix) == "{devices=[2,4]<=[8]}");
  const auto like = [](Tensor a, Tensor b) {
    auto [x, y] = shard_like(tanh(mesh_split(a, kMesh, {"x", _})), b);
    return std::tuple{y, x};
  };
  CHECK(result_of(like, kMatrix, kMatrix) == "{devices=[2,1,4]<=[8] last_tile_dim_replicate}");
  const auto stopped = [](Tensor a) {
    return tanh(shard_barrier_from(mesh_split(a, kMesh, {"x", _})));
  };
  CHECK(result_of(stopped, kMatrix) == "none");
  const auto passed = [](Tensor a) {
    return tanh(shard_barrier_to(mesh_split(a, kMesh, {"x", _})));
  };
  CHECK(result_of(passed, kMatrix) == "{devices=[2,1,4]<=[8] last_tile_dim_replicate}");
  CHECK_THROWS_WITH(result_of(alike, kMatrix, Shape(DType::f32, {4})),
                    Catch::Contains("ranks 2 and 1"));
}

TEST_CASE("manual code on all axes sees one part, on some axes one part of those", "[api]") {
  const auto all = [](Tensor a) {
    const Tensor part = auto_to_manual(a, kMesh, {"x", "y"}, {"x", "y"});
    CHECK(part.shape().dims == Dims{4, 4});
    return manual_to_auto(tanh(part), kMesh, {"x", "y"}, {"x", "y"});
  };
  CHECK(result_of(all, kMatrix) == "{devices=[2,4]<=[8]}");
  const auto some = [](Tensor a) {
    const Tensor part = auto_to_manual(a, kMesh, {"x", "y"}, {"x"});
    CHECK(part.shape().dims == Dims{4, 16});
    return tanh(part);
  };
  CHECK(result_of(some, kMatrix) == "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={manual}}");
  const auto uneven = [](Tensor a) { return auto_to_manual(a, kMesh, {"x", _}, {"x"}); };
  CHECK_THROWS_WITH(result_of(uneven, Shape(DType::f32, {3, 4})),
                    Catch::Contains("the manual axes cut it into 2"));
}

TEST_CASE("open dims of a manual region are filled on both sides of its border", "[api]") {
  const auto fn = [](Tensor a) {
    const Tensor given = mesh_split(a, kMesh, {_, "y"});
    const Tensor part = auto_to_manual(tanh(given), kMesh, {"x", open_dim}, {"x"});
    return tanh(part);
  };
  CHECK(result_of(fn, kMatrix) == "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={manual}}");
}
