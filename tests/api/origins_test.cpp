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
