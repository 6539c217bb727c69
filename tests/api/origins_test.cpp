#include "gspmd/api/origins.h"

#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

TEST_CASE("a compiled program says which annotation laid a value out, and through what", "[api]") {
  const Mesh mesh{{"data", 2}, {"model", 4}};
  const auto fn = [&](Tensor x, Tensor w) {
    const Tensor rows = mesh_split(x, mesh, {"data", _});
    const Tensor columns = mesh_split(w, mesh, {_, "model"});
    return tanh(einsum("ab,bc->ac", rows, columns));
  };
  const auto step = compile(fn, {.mesh = mesh, .prepare = false}, Shape(DType::f32, {8, 16}),
                            Shape(DType::f32, {16, 32}));
  const std::string origins = sharding_origins(step, "tanh");
  CHECK_THAT(origins, Catch::Contains("dim 0 over data: from mesh_split at ") &&
                          Catch::Contains("origins_test.cpp:11") &&
                          Catch::Contains("dim 1 over model: from mesh_split at ") &&
                          Catch::Contains("through dot %"));
  CHECK(sharding_lint(step).empty());
  CHECK_THROWS_WITH(sharding_origins(step, "nobody"), Catch::Contains("is named nobody"));
}

TEST_CASE("an annotation that lost is told with the lines of both", "[api]") {
  const Mesh mesh{{"model", 4}};
  const auto fn = [&](Tensor a, Tensor b) {
    const Tensor rows = mesh_split(a, mesh, {"model", _});
    return rows + mesh_split(b, mesh, {_, "model"});
  };
  const Shape matrix(DType::f32, {8, 16});
  const auto step = compile(fn, {.mesh = mesh, .prepare = false}, matrix, matrix);
  CHECK_THAT(sharding_lint(step), Catch::Contains("on dim 0 of mesh_split at origins_test.cpp:"));
}

TEST_CASE("an annotation that says what completion finds anyway is told, one that matters is not",
          "[api]") {
  const Mesh mesh{{"data", 2}, {"model", 4}};
  const auto twice = [&](Tensor x) {
    const Tensor rows = tanh(mesh_split(x, mesh, {"data", _}));
    return mesh_split(rows, mesh, {"data", _}) * 2.;
  };
  const auto once = [&](Tensor x) { return tanh(mesh_split(x, mesh, {"data", _})) * 2.; };
  const Shape x(DType::f32, {8, 16});
  const CompileOptions options{.mesh = mesh, .prepare = false};
  const std::string lint = sharding_lint(compile(twice, options, x));
  CHECK_THAT(lint, Catch::Contains("mesh_split at origins_test.cpp:41 changes nothing"));
  CHECK_THAT(lint, Catch::Contains("mesh_split at origins_test.cpp:42 changes nothing"));
  CHECK(sharding_lint(compile(once, options, x)).find("nothing") == std::string::npos);
}

TEST_CASE("shard_as of whose results only one is used is told, one with both is not", "[api]") {
  const Mesh mesh{{"data", 2}, {"model", 4}};
  const auto fn = [&](bool both) {
    return [&mesh, both](Tensor x) {
      const auto [rows, like] = shard_as(mesh_split(x, mesh, {"data", _}), tanh(x));
      return both ? std::pair{rows, like} : std::pair{x, like};
    };
  };
  const Shape matrix(DType::f32, {8, 16});
  const auto lint = [&](bool both) {
    return sharding_lint(compile(fn(both), {.mesh = mesh, .prepare = false}, matrix));
  };
  CHECK_THAT(lint(false), Catch::Contains("shard_as at origins_test.cpp:") &&
                              Catch::Contains("only one of its two results is used"));
  CHECK_THAT(lint(true), !Catch::Contains("only one of its two results"));
}
