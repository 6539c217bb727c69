#include "gspmd/api/hlo.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>

#include "api/support.h"
#include "gspmd/gspmd.h"
#include "gspmd/ir/text.h"

namespace gspmd {
namespace {

using Catch::Matchers::Contains;

const std::string kNumerics = GSPMD_SOURCE_DIR "/tests/data/numerics/";

// y = x . w summed over rows too; x split by rows and columns.
const char* const kLayer = R"(HloModule layer, num_partitions=4
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  x = f32[4,6] parameter(0), sharding={devices=[2,2]<=[4]}
  w = f32[6,2] parameter(1)
  y = f32[4,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  s = f32[2] reduce(y, zero), dimensions={0}, to_apply=sum
  ROOT t = (f32[4,2], f32[2]) tuple(y, s)
}
)";

Array counting(Dims dims) {
  Array array(Shape(DType::f32, std::move(dims)));
  for (int64_t i = 0; i < array.size(); ++i) array.set(i, static_cast<double>(i % 5 - 2));
  return array;
}

Array product(const Array& x, const Array& w) {
  Array y(DType::f32, {x.dim(0), w.dim(1)});
  for (int64_t i = 0; i < x.dim(0); ++i)
    for (int64_t j = 0; j < w.dim(1); ++j) {
      double sum = 0;
      for (int64_t k = 0; k < x.dim(1); ++k) sum += x.at(i * x.dim(1) + k) * w.at(k * w.dim(1) + j);
      y.set(i * w.dim(1) + j, sum);
    }
  return y;
}

}  // namespace

TEST_CASE("hlo: a module runs on arrays, on its own devices, on a mesh or on one") {
  const auto module = parse_module(kLayer);
  const Array x = counting({4, 6}), w = counting({6, 2});
  const Array y = product(x, w);
  const auto run = compile(*module);
  CHECK(run.num_devices() == 4);
  CHECK(to_string(run.parameter_sharding(0)) == "{devices=[2,2]<=[4]}");
  const std::vector<Array> results = run({x, w});
  REQUIRE(results.size() == 2);
  CHECK(bitwise_equal(results[0].clone(), y));
  CHECK(results[1].at(1) == y.at(1) + y.at(3) + y.at(5) + y.at(7));
  CHECK_THAT(run.text(), Contains("all-reduce"));
  const auto mesh = compile(*module, {.mesh = {{"a", 2}, {"b", 2}}});
  CHECK(bitwise_equal(mesh({x, w})[0].clone(), y));
  CHECK_THROWS_WITH(compile(*module, {.mesh = {{"a", 8}}}), Contains("8 devices"));
  CHECK_THROWS_WITH(run({x}), Contains("argument"));
  CHECK_THROWS_WITH(run({w, x}), Contains("f32[6,2]"));
}

TEST_CASE("hlo: a module is a function inside a traced program, with its gradient") {
  const auto module = parse_module(kLayer);
  const Array x = counting({4, 6}), w = counting({6, 2});
  const auto loss = [&](Tensor weights, Tensor input) {
    const std::vector<Tensor> once = call_hlo(*module, {input, weights * 2.0f});
    const std::vector<Tensor> twice = call_hlo(*module, {input, weights});
    return sum(once[0]) + sum(twice[1]);
  };
  const auto step =
      compile([&](Tensor weights, Tensor input) { return grad(loss)(weights, input); },
              {.mesh = {{"d", 4}}}, w, x);
  const Array gradient = step(w, x);
  for (int64_t k = 0; k < 6; ++k) {
    double column = 0;
    for (int64_t i = 0; i < 4; ++i) column += x.at(i * 6 + k);
    CHECK(gradient.at(k * 2) == 3 * column);
    CHECK(gradient.at(k * 2 + 1) == 3 * column);
  }
  const auto wrong = [&](Tensor a) { return call_hlo(*module, {a, a})[0]; };
  CHECK_THROWS_WITH(trace(wrong, x), Contains("call_hlo: argument 1 is") && Contains("f32[6,2]"));
  const auto few = [&](Tensor a) { return call_hlo(*module, {a})[0]; };
  CHECK_THROWS_WITH(trace(few, x), Contains("1 arguments for module layer"));
  CHECK_THROWS_WITH(call_hlo(*module, {}), Contains("call_hlo"));
}

TEST_CASE("hlo: what is written reads back as an equal module") {
  const std::string path = fmt::format(GSPMD_BINARY_DIR "/tests/hlo-{}.hlo", getpid());
  const auto module = read_hlo(kNumerics + "lstm.hlo");
  write_hlo(*module, path);
  const auto again = read_hlo(path);
  CHECK(structurally_equal(*module, *again));
  std::remove(path.c_str());
  CHECK_THROWS_WITH(read_hlo("no/such.hlo"),
                    Contains("no/such.hlo: cannot be opened: No such file"));
  CHECK_THROWS_WITH(read_hlo(GSPMD_SOURCE_DIR), Contains(GSPMD_SOURCE_DIR));
  CHECK_THROWS_WITH(write_hlo(*module, "no/such.hlo"), Contains("no/such.hlo: cannot be opened"));
}

TEST_CASE("hlo: nested tuples go in and come out leaf by leaf") {
  const auto module = read_hlo(kNumerics + "nested_tuples.hlo");
  const auto run = compile(*module);
  const Array a = counting({3}), c = Array::scalar(7.0f);
  const Array b = Array::of<int32_t>({2, 2}, {1, 2, 3, 4});
  const std::vector<Array> results = run({a, b, c});
  REQUIRE(results.size() == 3);
  CHECK(bitwise_equal(results[0].clone(), b));
  CHECK(results[1].at(0) == 2);
  CHECK(results[2].item() == 7);
}

TEST_CASE("hlo: a loop of a module computes from arrays what its file expects") {
  const auto module = read_hlo(kNumerics + "lstm.hlo");
  std::vector<Array> arguments, expected;
  for (auto& [name, array] : read_npz(kNumerics + "lstm.in.npz")) arguments.push_back(array);
  for (auto& [name, array] : read_npz(kNumerics + "lstm.out.npz")) expected.push_back(array);
  const std::vector<Array> results = compile(*module)(arguments);
  REQUIRE(results.size() == expected.size());
  for (size_t leaf = 0; leaf < results.size(); ++leaf)
    for (int64_t i = 0; i < expected[leaf].size(); ++i)
      CHECK(results[leaf].at(i) == Approx(expected[leaf].at(i)).margin(1e-5));
}

// Rows of x over "data", columns of w over "model": by Shardy's rules so are y's.
const char* const kShardyLayer = R"(
sdy.mesh @mesh = <["data"=4, "model"=2]>
func.func @main(%x: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> tensor<8x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
})";

TEST_CASE("hlo: StableHLO with Shardy's shardings is read, compiled by its rules, and run") {
  const std::string path = fmt::format(GSPMD_BINARY_DIR "/tests/hlo-{}.mlir", getpid());
  write_hlo(*read_module(kShardyLayer, "layer.mlir"), path, Language::stablehlo);
  const auto module = read_hlo(path);
  std::remove(path.c_str());
  const Array x = counting({8, 6}), w = counting({6, 4});
  const auto run = compile(*module);
  CHECK(run.num_devices() == 8);
  CHECK(to_string_v2(run.parameter_sharding(0)) ==
        "{devices=[4,1,2]<=[8] last_tile_dim_replicate}");
  CHECK(to_string_v2(run.parameter_sharding(1)) ==
        "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
  CHECK(to_string_v2(run.result_sharding(0)) == "{devices=[4,2]<=[8]}");
  CHECK(bitwise_equal(run({x, w})[0].clone(), product(x, w)));
  const auto on_mesh = compile(*module, {.mesh = {{"data", 4}, {"model", 2}}});
  CHECK(to_string_v2(on_mesh.result_sharding(0)) == "{devices=[4,2]<=[8]}");
  // Inside of a traced function the layouts are those of the module.
  const auto twice = [&](Tensor a, Tensor b) { return call_hlo(*module, {a, b})[0] * 2.0f; };
  const auto traced = compile(twice, {.mesh = {{"data", 4}, {"model", 2}}}, x, w);
  CHECK(to_string_v2(traced.parameter_sharding(0)) ==
        "{devices=[4,1,2]<=[8] last_tile_dim_replicate}");
  CHECK(traced(x, w).at(5) == 2 * product(x, w).at(5));
}

TEST_CASE("hlo: the strategy of the options completes a module") {
  // Both operands have 4 tiles: GSPMD takes the first, Shardy the longer list of axes in dim 0.
  const auto module = parse_module(R"(HloModule sum, num_partitions=4
ENTRY main {
  x = f32[8,4] parameter(0), sharding={devices=[2,2]<=[4]}
  w = f32[8,4] parameter(1), sharding={devices=[4,1]<=[4]}
  ROOT y = f32[8,4] add(x, w)
}
)");
  const auto layout = [&](Strategy strategy) {
    return to_string_v2(compile(*module, {.strategy = strategy}).result_sharding(0));
  };
  CHECK(layout(Strategy::gspmd) == "{devices=[2,2]<=[4]}");
  CHECK(layout(Strategy::automatic) == "{devices=[2,2]<=[4]}");
  CHECK(layout(Strategy::shardy) == "{devices=[4,1]<=[4]}");
}

TEST_CASE("hlo: programs are printed in either language and read back as themselves") {
  const Array x = counting({8, 6}), w = counting({6, 4});
  const auto run = compile(*read_module(kShardyLayer, "layer.mlir"));
  for (const TextStage stage : {TextStage::local, TextStage::completed}) {
    const std::string text = run.text({.form = Language::stablehlo, .stage = stage});
    CHECK(language_of(text) == Language::stablehlo);
    CHECK_THAT(text, !Contains("copy"));
    const auto again = read_module(text, "again.mlir");
    const std::string printed = to_stablehlo(*again);
    CHECK(to_stablehlo(*read_module(printed, "printed.mlir")) == printed);
    CHECK(read_module(run.text({.stage = stage}), "again.hlo")->num_partitions == 8);
    if (stage == TextStage::local) {
      CHECK_THAT(text, Contains("tensor<2x6xf32>") && !Contains("tensor<8x6xf32>"));
      continue;
    }
    CHECK_THAT(text,
               Contains("mhlo.sharding = \"{mesh['data'=4,'model'=2], [{'data'}, {'model'}]}"));
    CHECK(bitwise_equal(compile(*again)({x, w})[0].clone(), product(x, w)));
  }
  CHECK(run.text() == run.text({.form = Language::hlo}));
}

}  // namespace gspmd
