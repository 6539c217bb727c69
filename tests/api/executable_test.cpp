#include <set>
#include <thread>

#include "api/support.h"
#include "gspmd/ir/module.h"

using namespace gspmd;
using namespace gspmd::test;

namespace executable_test {
namespace {

template <class T>
struct Params {
  T w1, w2;
  GSPMD_FIELDS(w1, w2)
};

const Mesh kMesh{{"data", 2}, {"model", 4}};

Tensor loss_on(const Mesh& mesh, const Params<Tensor>& p, Tensor x) {
  const std::string data = mesh.axes()[0].name;
  const std::string model = mesh.axes().back().name;
  Tensor h = einsum("bm,mh->bh", mesh_split(x, mesh, {data, _}), p.w1);
  h = mesh.rank() > 1 ? mesh_split(h, mesh, {data, model}) : h;
  return mean(square(einsum("bh,hm->bm", relu(h), p.w2) - x));
}

auto step_on(const Mesh& mesh) {
  return [mesh](Params<Tensor> params, Sgd<Params<Tensor>> sgd, Tensor x) {
    const auto [value, grads] = value_and_grad(
        [&](const Params<Tensor>& p, Tensor t) { return loss_on(mesh, p, t); })(params, x);
    const auto [new_params, new_sgd] = sgd.update(params, grads, {.lr = 0.1});
    return std::tuple{new_params, new_sgd, value};
  };
}

Params<Array> sample_params(DType dtype = DType::f64) {
  return {random_array({dtype, {6, 8}}, 1), random_array({dtype, {8, 6}}, 2)};
}

Array sample_input(DType dtype = DType::f64) { return random_array({dtype, {4, 6}}, 3); }

}  // namespace

TEST_CASE("a compiled step equals the reference on many meshes", "[api][executable]") {
  const Params<Array> params = sample_params();
  const auto sgd = Sgd<Params<Array>>::zeros_like(params);
  const std::vector<Mesh> meshes{Mesh{{"a", 1}},
                                 Mesh{{"a", 8}},
                                 kMesh,
                                 Mesh{{"a", 4}, {"b", 2}},
                                 Mesh{{"a", 3}},
                                 Mesh{{"a", 2}, {"b", 3}},
                                 Mesh({{"a", 2}, {"b", 2}}, {3, 1, 0, 2})};
  const Expectation same =
      expect_equal_on_meshes(step_on, meshes, {1e-12, 1e-12}, params, sgd, sample_input());
  INFO(same.message);
  CHECK(same);
}

TEST_CASE("donated state goes round on the devices without changing the losses",
          "[api][executable]") {
  std::vector<double> losses[2];
  for (const bool donate : {false, true}) {
    Params<Array> params = sample_params();
    auto sgd = Sgd<Params<Array>>::zeros_like(params);
    const Array x = sample_input();
    CompileOptions options{.mesh = kMesh, .threads = 2};
    if (donate) options.donate = {0, 1};
    const auto step = compile(step_on(kMesh), options, params, sgd, x);
    Array value;
    for (int i = 0; i < 4; ++i) {
      std::tie(params, sgd, value) = step(params, sgd, x);
      losses[donate].push_back(value.item());
    }
    CHECK(on_devices(params.w1));
    CHECK(sharding_of(params.w1) == step.result_sharding("result0.w1"));
    CHECK(step.counters().runs == 4);
  }
  CHECK(losses[0] == losses[1]);
  CHECK(losses[0][3] < losses[0][0]);
}

TEST_CASE("donated parameters and their results have one layout", "[api][executable]") {
  const Params<Array> params = sample_params();
  const auto sgd = Sgd<Params<Array>>::zeros_like(params);
  const CompileOptions options{
      .mesh = kMesh, .donate = {0, 1}, .argument_names = {"params", "sgd", "x"}};
  const auto step = compile(step_on(kMesh), options, params, sgd, sample_input());
  CHECK(step.parameter_sharding("params.w1") == step.result_sharding("result0.w1"));
  CHECK(step.parameter_sharding("sgd.velocity.w2") == step.result_sharding("result1.velocity.w2"));
  CHECK(step.parameter_sharding("params.w1").dim(1) == sharding_of(kMesh, {_, "model"}).dim(1));
  CHECK(step.module().local->aliases.size() == 4);
}

TEST_CASE("arrays are laid out anew where a program wants another sharding", "[api][executable]") {
  const Array x =
      Array::of<double>({8, 8}, values(random_integers({DType::f64, {8, 8}}, 5, -9, 9)));
  const auto by_rows = compile(
      [](Tensor t) {
        return mesh_split(t + 1, kMesh, {"model", _});
      },
      {.mesh = kMesh}, x);
  const auto by_columns = compile(
      [](Tensor t) {
        return mesh_split(t * 2, kMesh, {_, "model"});
      },
      {.mesh = kMesh}, x);
  const Array there = by_columns(by_rows(x));
  for (int64_t i = 0; i < 64; ++i) REQUIRE(there.at(i) == (x.at(i) + 1) * 2);
  CHECK(sharding_of(there) == sharding_of(kMesh, {_, "model"}));
  CHECK(visualize(there) == visualize(there.shape(), sharding_of(there)));
}

TEST_CASE("the operations of a loop are counted in each of its steps", "[api][executable]") {
  const Shape x(DType::f32, {8, 16}), w(DType::f32, {10, 16, 16});
  const auto layers = [](Tensor h, Tensor all) {
    const auto layer = [](Tensor t, Tensor m) { return std::pair{matmul(t, m), Nothing{}}; };
    return scan(layer, h, all).first;
  };
  const int64_t products = 10 * 2 * 8 * 16 * 16;
  const int64_t flops = compile(layers, {.prepare = false}, x, w).stats().flops;
  CHECK(flops >= products);
  CHECK(flops < products + products / 10);
}

TEST_CASE("a program compiles from shapes alone and can be inspected", "[api][executable]") {
  const Params<Shape> params{{DType::f32, {1 << 16, 1 << 18}}, {DType::f32, {1 << 18, 1 << 16}}};
  const Mesh pod{{"data", 64}, {"model", 128}};
  const auto fn = [&](Params<Tensor> p, Tensor x) { return loss_on(pod, p, x); };
  const auto step =
      compile(fn, {.mesh = pod, .prepare = false}, params, Shape(DType::f32, {1 << 20, 1 << 16}));
  CHECK(step.num_devices() == 8192);
  CHECK(step.stats().flops > 0);
  CHECK(step.stats().parameter_bytes >= 2 * (int64_t{1} << 34) * 4 / 128);
  CHECK(step.text().find("f32[65536,2048]") != std::string::npos);
}

TEST_CASE("stats list every collective with axes, bytes and cause", "[api][executable]") {
  const int line = __LINE__ + 5;
  const auto fn = [](Tensor x, Tensor w) {
    const Tensor split = mesh_split(x, kMesh, {"data", "model"});
    const Tensor product = einsum("bm,mn->bn", split, mesh_split(w, kMesh, {"model", _}));
    const Tensor total = mesh_split(product, kMesh, {"data", _});
    return square(total);
  };
  const auto step =
      compile(fn, {.mesh = kMesh}, Shape(DType::f32, {4, 8}), Shape(DType::f32, {8, 16}));
  const Expectation one = expect_collectives(step, {{"all-reduce", "model", 1}});
  INFO(one.message);
  CHECK(one);
  REQUIRE(step.stats().collectives.size() == 1);
  const CollectiveStats& only = step.stats().collectives[0];
  CHECK(only.bytes == 2 * (2 * 16 * 4) * 3 / 4);
  CHECK(only.op == "square");
  CHECK(only.source == fmt::format("executable_test.cpp:{}", line));
  const Expectation wrong = expect_collectives(step, {{"all-gather", "model", 2}});
  CHECK_FALSE(wrong);
  CHECK(wrong.message.find("all-gather over model: expected 2, found 0") != std::string::npos);
  CHECK(wrong.message.find("all-reduce over model: expected 0, found 1") != std::string::npos);
  CHECK(expect_collectives(step.module(), kMesh, {{"all-reduce", "*", 1}}));
  const std::string table = fmt::format("{}", step.stats());
  CHECK(table.find("all-reduce") != std::string::npos);
  CHECK(to_json(step.stats()).find("\"collective_count\":1") != std::string::npos);
  CHECK(step.stats().evaluated.empty());
  CHECK(to_json(step.stats()).find("\"evaluated\":[]") != std::string::npos);
}

TEST_CASE("stats name the axes along which a collective-permute sends", "[api][executable]") {
  const Mesh mesh{{"data", 2}, {"model", 4}};
  const auto halo = [&](Tensor x) {
    x = mesh_split(x, mesh, {_, "model"});
    return mesh_split(slice_dim(x, 1, 1, 12) - slice_dim(x, 1, 0, 11), mesh, {_, "model"});
  };
  const auto swapped = [&](Tensor x) {
    x = mesh_split(x, mesh, {{"data", "model"}});
    return mesh_split(x, mesh, {{"model", "data"}});
  };
  const CompileOptions options{.mesh = mesh, .prepare = false};
  const auto shift = compile(halo, options, Shape(DType::f32, {2, 12}));
  REQUIRE(shift.stats().collectives.size() == 1);
  CHECK(shift.stats().collectives[0].kind == "collective-permute");
  CHECK(shift.stats().collectives[0].axes == "model");
  const auto order = compile(swapped, options, Shape(DType::f32, {16}));
  REQUIRE(order.stats().collectives.size() == 1);
  CHECK(order.stats().collectives[0].axes == "data,model");
}

TEST_CASE("a collective that only a result needs names the result's line", "[api][executable]") {
  const int line = __LINE__ + 3;
  const auto fn = [](Tensor x) {
    const Tensor split = mesh_split(x, kMesh, {"data", "model"});
    return mesh_split(sum(split, {.axes = 1}), kMesh, {"data"});
  };
  const auto step = compile(fn, {.mesh = kMesh}, Shape(DType::f32, {4, 8}));
  REQUIRE(step.stats().collectives.size() == 1);
  CHECK(step.stats().collectives[0].source == fmt::format("executable_test.cpp:{}", line));
  const auto gradient =
      compile([&](Tensor w) { return grad([&](Tensor t) { return sum(square(fn(t))); })(w); },
              {.mesh = kMesh}, Shape(DType::f32, {4, 8}));
  for (const CollectiveStats& c : gradient.stats().collectives) CHECK_FALSE(c.source.empty());
}

TEST_CASE("the module stages run from completed to local, and text is one program",
          "[api][executable]") {
  const auto fn = [](Tensor x) { return mesh_split(x, kMesh, {"data"}) * 2; };
  const auto step = compile(fn, {.mesh = kMesh}, Shape(DType::f32, {8}));
  CHECK(step.module().completed->entry()->parameters()[0]->shape == Shape(DType::f32, {8}));
  CHECK(step.module().local->entry()->parameters()[0]->shape == Shape(DType::f32, {4}));
  CHECK(step.text().find("f32[4]") != std::string::npos);
  CHECK(step.parameter_sharding(0) == sharding_of(kMesh, {"data"}));
  CHECK(step.traced().arguments()[0].path == "arg0");
}

TEST_CASE("callbacks hear passes, dumps and rematerialisations", "[api][executable]") {
  std::vector<std::string> passes, dumped;
  CompileOptions options{.mesh = kMesh};
  options.progress = [&](const std::string& pass, double) { passes.push_back(pass); };
  options.dump_after = {"partition"};
  options.dump = [&](const std::string& pass, const std::string& text) {
    dumped.push_back(pass);
    CHECK(text.find("HloModule") == 0);
  };
  compile([](Tensor x) { return x + 1; }, options, Shape(DType::f32, {8}));
  CHECK(std::set<std::string>(passes.begin(), passes.end()).count("propagate") == 1);
  CHECK(passes.back() == "prepare");
  CHECK(dumped == std::vector<std::string>{"partition"});
}

TEST_CASE("captured arrays travel with the program", "[api][executable]") {
  const Array table = random_array({DType::f64, {8, 4}}, 9);
  const auto fn = [&](Tensor x) {
    return einsum("bm,mn->bn", mesh_split(x, kMesh, {"data", "model"}), table);
  };
  const Array x = random_array({DType::f64, {4, 8}}, 10);
  const auto step = compile(fn, {.mesh = kMesh}, x);
  CHECK(expect_close({step(x)}, reference_results(fn, x), {1e-13, 1e-13}));
}

TEST_CASE("random numbers do not depend on the mesh", "[api][executable]") {
  const auto make = [](const Mesh& mesh) {
    return [mesh](Tensor seed) {
      const std::string axis = mesh.axes()[0].name;
      return std::pair{mesh_split(random_bits(seed, {6, 10}), mesh, {axis, _}),
                       mesh_split(random_uniform(seed, {6, 10}, {.stream = 3}), mesh, {_, axis})};
    };
  };
  const Expectation same =
      expect_equal_on_meshes(make, {Mesh{{"a", 1}}, Mesh{{"a", 4}}, kMesh, Mesh{{"a", 3}}}, {0, 0},
                             Array::scalar<uint32_t>(99));
  INFO(same.message);
  CHECK(same);
}

TEST_CASE("results returned twice, or arguments returned as they came, are separate arrays",
          "[api][executable]") {
  const Array x = Array::of<float>({4}, {1, 2, 3, 4});
  const auto twice = compile(
      [](Tensor t) {
        return std::tuple{t + 1, t + 1, t};
      },
      {.mesh = kMesh}, x);
  const auto [a, b, c] = twice(x);
  const auto take_over =
      compile([](Tensor t) { return t * 10; }, {.mesh = kMesh, .donate = {0}}, x);
  CHECK(values(take_over(a)) == std::vector<double>{20, 30, 40, 50});
  CHECK(values(b) == std::vector<double>{2, 3, 4, 5});
  const auto [d, e, f] = twice(c);
  CHECK(values(take_over(f)) == std::vector<double>{10, 20, 30, 40});
  CHECK(values(c) == std::vector<double>{1, 2, 3, 4});
}

TEST_CASE("two donated arguments of one type take over results in order", "[api][executable]") {
  const Array a = Array::of<float>({4}, {1, 2, 3, 4});
  const Array b = Array::of<float>({4}, {10, 20, 30, 40});
  // Each result is computed from the other's storage, and the first argument comes back as the
  // second.
  const auto crossed = [](Tensor s, Tensor t) { return std::tuple{t * 2, s + t, s}; };
  const auto step = compile(crossed, {.mesh = kMesh, .donate = {0, 1}}, a, b);
  const std::vector<Alias>& aliases = step.module().local->aliases;
  REQUIRE(aliases.size() == 2);
  CHECK(aliases[0].output == Dims{0});
  CHECK(aliases[0].parameter == 0);
  CHECK(aliases[1].output == Dims{1});
  CHECK(aliases[1].parameter == 1);
  for (int round = 0; round < 2; ++round) {
    const auto [doubled, total, same] = step(a.clone(), b.clone());
    CHECK(values(doubled) == std::vector<double>{20, 40, 60, 80});
    CHECK(values(total) == std::vector<double>{11, 22, 33, 44});
    CHECK(values(same) == std::vector<double>{1, 2, 3, 4});
  }
}

TEST_CASE("one executable called from several threads gives each its own results",
          "[api][executable]") {
  const auto step = compile([](Tensor x) { return mesh_split(x, kMesh, {"data"}) * 2; },
                            {.mesh = kMesh, .threads = 2}, Shape(DType::f32, {8}));
  std::vector<Array> results(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < results.size(); ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round)
        results[i] = step(Array::full(Shape(DType::f32, {8}), double(i)));
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < results.size(); ++i)
    CHECK(values(results[i]) == std::vector<double>(8, 2.0 * double(i)));
}

TEST_CASE("host arguments of calls one behind the other do not disturb each other's results",
          "[api][executable]") {
  // Uneven, so that tails come with them; `same` is the argument as it came.
  const auto step = compile(
      [](Tensor x, Tensor y) {
        return std::tuple{mesh_split(x, kMesh, {"data"}) + y, x, sum(y)};
      },
      {.mesh = kMesh}, Shape(DType::f32, {5}), Shape(DType::f32, {5}));
  std::vector<std::tuple<Array, Array, Array>> results;
  for (int i = 0; i < 3; ++i)
    results.push_back(
        step(Array::full(Shape(DType::f32, {5}), i), Array::full(Shape(DType::f32, {5}), 10)));
  for (int i = 0; i < 3; ++i) {
    const auto& [total, same, all] = results[size_t(i)];
    CHECK(values(total) == std::vector<double>(5, 10 + i));
    CHECK(values(same) == std::vector<double>(5, i));
    CHECK(values(all) == std::vector<double>{50});
  }
  const Array x = Array::full(Shape(DType::f32, {5}), 1);  // one array as both
  CHECK(values(std::get<0>(step(x, x))) == std::vector<double>(5, 2));
}

TEST_CASE("a host array that was donated is not taken again", "[api][executable]") {
  const auto step = compile([](Tensor t) { return t * 2; }, {.mesh = kMesh, .donate = {0}},
                            Shape(DType::f32, {4}));
  const Array x = Array::of<float>({4}, {1, 2, 3, 4});
  const Array y = step(x);
  CHECK_THROWS_WITH(step(x), Catch::Contains("was donated to argument arg0 of call 1"));
  CHECK(values(step(y)) == std::vector<double>{4, 8, 12, 16});
  CHECK(values(step(x.clone())) == std::vector<double>{2, 4, 6, 8});
}

}  // namespace executable_test
