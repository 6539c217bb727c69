#include "gspmd/api/regions.h"

#include "api/support.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/complete/propagate.h"

using namespace gspmd;
using namespace gspmd::test;

namespace regions_test {
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

namespace {

const Mesh kRow{{"x", 4}};

// What the text's entry makes of one array.
Tensor called(const std::string& lines, Tensor x) {
  const std::string shape = to_string(x.shape());
  const auto module = parse_module(
      "HloModule m, num_partitions=4\n"
      "sum { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT s = f64[] add(a, b) }\n"
      "most { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT s = f64[] maximum(a, b) }\n"
      "product { a = f64[] parameter(0)\n b = f64[] parameter(1)\n"
      " ROOT s = f64[] multiply(a, b) }\n"
      "ENTRY e {\n x = " +
      shape + " parameter(0)\n ROOT r = " + lines + "\n}\n");
  return call_hlo(*module, {x})[0];
}

// Whether gradient and tangent of a function on devices agree with differences of it.
template <class Fn>
Expectation derivatives_on(const Mesh& mesh, Fn loss, const Array& x) {
  auto value = compile(loss, {.mesh = mesh}, x);
  Array expected(x.shape());
  for (int64_t i = 0; i < x.size(); ++i) {
    double sides[2];
    for (const int side : {0, 1}) {
      Array moved = x.clone();
      moved.set(i, x.at(i) + (side == 0 ? -1e-5 : 1e-5));
      sides[side] = value(moved).item();
    }
    expected.set(i, (sides[1] - sides[0]) / 2e-5);
  }
  const Expectation reverse = expect_close({compile(grad(loss), {.mesh = mesh}, x)(x)}, {expected},
                                           {1e-6, 1e-7}, "gradient");
  if (!reverse) return reverse;
  const Array direction = random_array(x.shape(), 5);
  const auto along = [loss](Tensor at, Tensor t) {
    return jvp(loss, std::tuple{at}, std::tuple{t}).second;
  };
  double slope = 0;
  for (int64_t i = 0; i < x.size(); ++i) slope += expected.at(i) * direction.at(i);
  const Array pushed = compile(along, {.mesh = mesh}, x, direction)(x, direction);
  return expect_close({pushed}, {Array::scalar(slope)}, {1e-6, 1e-7}, "tangent");
}

const std::string kAll = ", channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true";

}  // namespace

TEST_CASE("manual regions and the collectives in them have gradients", "[api][region]") {
  const Array x = random_array({DType::f64, {16}}, 3, 0.2, 1);
  const std::string sum_and = kAll + ", to_apply=sum", dim = ", dimensions={0}";
  const std::vector<std::string> collectives = {
      "f64[4] all-reduce(x)" + sum_and,
      "f64[4] all-reduce(x)" + kAll + ", to_apply=most",
      "f64[16] all-gather(x)" + kAll + dim,
      "f64[1] reduce-scatter(x)" + sum_and + dim,
      "f64[4] all-to-all(x), channel_id=1, replica_groups={{0,1,2,3}}" + dim,
      "f64[4] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,2},{3,0}}",
      "f64[4] collective-broadcast(x), channel_id=1, replica_groups={{1,0},{2,3}}",
  };
  for (const std::string& collective : collectives) {
    INFO(collective);
    const auto loss = [&](Tensor t) {
      const Tensor part = auto_to_manual(t, kRow, {"x"}, {"x"});
      const Tensor shared = slice(auto_to_manual(t, kRow, {_}, {"x"}), {3}, {7});
      const Tensor exchanged = called(collective, part * shared);
      return sum(sin(manual_to_auto(exchanged * exchanged, kRow, {"x"}, {"x"})));
    };
    CHECK(derivatives_on(kRow, loss, x));
  }
  // What all devices have is one value outside.
  const auto shared = [&](Tensor t) {
    const Tensor part = auto_to_manual(t, kRow, {"x"}, {"x"});
    return sum(sin(manual_to_auto(called(collectives[0], exp(part)), kRow, {_}, {"x"})));
  };
  CHECK(derivatives_on(kRow, shared, x));
}

TEST_CASE("a region that is manual on some axes has a gradient", "[api][region]") {
  const Mesh mesh{{"x", 2}, {"y", 2}};
  const Array x = random_array({DType::f64, {4, 6}}, 3);
  const auto loss = [&](Tensor t) {
    const Tensor part = auto_to_manual(t, mesh, {"x", "y"}, {"x"});
    const Tensor first = auto_to_manual(t, mesh, {_, "y"}, {"x"});
    const Tensor product = part * slice(first, {1, 0}, {3, 6});
    const Tensor all = called(
        "f64[2,6] all-reduce(x), channel_id=1, replica_groups={{0,2},{1,3}}, "
        "use_global_device_ids=true, to_apply=sum",
        product);
    return sum(sin(manual_to_auto(all * part, mesh, {"x", "y"}, {"x"})));
  };
  CHECK(derivatives_on(mesh, loss, x));
}

TEST_CASE("collectives without a transpose are errors that name them", "[api][region]") {
  const auto loss = [](Tensor t) {
    const Tensor part = auto_to_manual(t, kRow, {"x"}, {"x"});
    const Tensor all = called("f64[2] all-reduce(x)" + kAll + ", to_apply=product", part);
    return sum(manual_to_auto(all, kRow, {"x"}, {"x"}));
  };
  CHECK_THROWS_WITH(trace(grad(loss), Shape(DType::f64, {8})),
                    Catch::Contains("all-reduce") && Catch::Contains("is not a sum"));
}

TEST_CASE("a result of compiled code is no part of a manual region", "[api][region]") {
  const auto part = [](Tensor t) { return tanh(auto_to_manual(t, kRow, {"x"}, {"x"})) * 2.; };
  CHECK_THROWS_WITH(compile(part, {.mesh = kRow}, Shape(DType::f32, {8})),
                    Catch::Contains("is a part, f32[2], of a manual region") &&
                        Catch::Contains("manual_to_auto()"));
}

}  // namespace regions_test
