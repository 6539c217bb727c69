// Weight-update sharding on more than one axis, with other splits, in files, and where it cannot
// be.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "models/trainer.h"
#include "models/transformer_run.h"
#include "wus/data_parallel.h"

namespace gspmd::models {
namespace {

using Catch::Matchers::Contains;

double difference(const Leaves<Array>& a, const Leaves<Array>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    for (int64_t e = 0; e < a[i].second.size(); ++e)
      most = std::max(most, std::abs(a[i].second.at(e) - b[i].second.at(e)));
  return most;
}

std::map<std::string, int64_t> bytes_by_kind(const ExecutableStats& stats) {
  std::map<std::string, int64_t> bytes;
  for (const CollectiveStats& c : stats.collectives) bytes[c.kind + " " + c.axes] += c.bytes;
  return bytes;
}

// Elements of an argument on a device.
int64_t held(const ExecutableBase& step, const std::string& path) {
  for (const Node* parameter : step.module().local->entry()->parameters())
    if (parameter->name() == path) return parameter->shape.elements_count();
  FAIL("no parameter " << path);
  return 0;
}

TEST_CASE("updates are shared within groups of replicas") {
  StepOptions o;
  o.sizes = kUneven;
  o.mesh = Mesh{{"x", 2}, {"y", 4}};
  o.batch_axes = {"x", "y"};
  const Trained whole = train(o, 5);
  for (const std::vector<std::string>& axes :
       std::vector<std::vector<std::string>>{{"y"}, {"x"}, {"x", "y"}, {"y", "x"}}) {
    CAPTURE(axes);
    o.update.axes = axes;
    const TrainStep step = compile_step(o);
    const int64_t devices = axes.size() == 2 ? 8 : axes[0] == "x" ? 2 : 4;
    CHECK(held(step, "state.m.w_in") == (7 * 30 + devices - 1) / devices);
    CHECK(difference(train(step, o, 5).params, whole.params) < 1e-6);
    auto bytes = bytes_by_kind(step.stats());
    if (axes.size() == 1) {
      CHECK(bytes["reduce-scatter " + axes[0]] > 0);
      CHECK(bytes["all-gather " + axes[0]] > 0);
      CHECK(bytes["all-gather " + std::string(axes[0] == "x" ? "y" : "x")] == 0);
    }
  }
}

TEST_CASE("a bf16 gather computes what a step does that casts its weights") {
  for (const Sizes& sizes : {kEven, kUneven}) {
    StepOptions o;
    o.sizes = sizes;
    o.cast_weights = true;
    const Trained cast = train(o, 3);
    o.cast_weights = false;
    const Trained exact = train(o, 3);
    o.update = {.axes = {"data"}, .gather_dtype = DType::bf16};
    const Trained sharded = train(o, 3);
    CHECK(sharded.losses == cast.losses);
    CHECK(difference(sharded.params, cast.params) == 0);
    CHECK(sharded.losses != exact.losses);
  }
}

TEST_CASE("what is split over other axes is split further") {
  StepOptions o;
  o.mesh = Mesh{{"data", 2}, {"model", 4}};
  o.model_axes = {"model"};
  const TrainStep plain = compile_step(o);
  const Trained whole = train(plain, o, 5);
  CHECK(held(plain, "params.w_in") == 16 * 32 / 4);
  o.update.axes = {"data"};
  const TrainStep step = compile_step(o);
  CHECK(held(step, "params.w_in") == 16 * 32 / 8);
  CHECK(held(step, "state.v.w_in") == 16 * 32 / 8);
  CHECK(difference(train(step, o, 5).params, whole.params) < 1e-6);
  auto before = bytes_by_kind(plain.stats()), after = bytes_by_kind(step.stats());
  CHECK(after["all-gather data"] == after["reduce-scatter data"]);
  for (const std::string kind : {"all-gather model", "all-reduce model", "all-to-all model"}) {
    CAPTURE(kind);
    CHECK(before[kind] == after[kind]);
  }
}

TEST_CASE("arrays that lie flat are read, saved and passed in their own shape") {
  StepOptions o;
  o.sizes = kUneven;
  o.update.axes = {"data"};
  const TrainStep step = compile_step(o);
  Trained t = train(step, o, 2);
  CHECK(sharding_of(t.params[3].second).rank() == 1);
  CHECK(t.params[3].second.dims() == Dims{7, 30});
  CHECK(visualize(t.params[3].second).find("210") != std::string::npos);

  const auto folder = std::filesystem::temp_directory_path() / "gspmd-wus-flat";
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "params.safetensors").string();
  save(file, t.params);
  StepOptions other = o;
  other.mesh = Mesh{{"data", 4}};
  const TrainStep on_four = compile_step(other);
  LoadOptions options;
  options.num_devices = 4;
  options.sharding = [&](const std::string& path, const Shape&) {
    return on_four.parameter_sharding("params." + path);
  };
  const Leaves<Array> loaded = load(file, parameter_shapes(o.sizes, o.dtype), options);
  CHECK(difference(loaded, t.params) == 0);
  Leaves<Array> beside = t.params;  // where an array lies flat, what replaces it is on the host
  load_into(file, beside);
  CHECK(difference(beside, t.params) == 0);
  std::filesystem::remove_all(folder);

  const Array x = random_normal_array(Shape(DType::f32, {16, 7}), 1);
  const Array y = random_normal_array(Shape(DType::f32, {16, 3}), 2);
  Leaves<Array> host = t.state;
  for (auto& [path, array] : host) array = array.clone();
  const auto four = std::get<0>(on_four(loaded, host, x, y));
  const auto eight = std::get<0>(step(t.params, t.state, x, y));
  CHECK(difference(four, eight) < 1e-6);
}

TEST_CASE("adafactor keeps rows and columns in shards") {
  const Mesh mesh{{"data", 8}};
  for (const int64_t rows : {16, 13}) {
    const auto update = [](const Leaves<Tensor>& p, const Adafactor<Leaves<Tensor>>& state,
                           const Tensor& x) {
      const auto loss = [](const Leaves<Tensor>& q, const Tensor& in) {
        return mean(square(matmul(in, q[0].second)));
      };
      const Tensor split = mesh_split(x, Mesh{{"data", 8}}, {"data", _});
      return state.update(p, grad(loss)(p, split), {.weight_decay = 0.01});
    };
    const Leaves<Shape> shapes = {{"w", Shape(DType::f32, {rows, 40})}};
    const Shape x(DType::f32, {16, rows});
    const auto state = Adafactor<Leaves<Shape>>::zeros_like(shapes, 4);
    const auto plain = compile(update, {.mesh = mesh}, shapes, state, x);
    const auto sharded =
        compile(update, {.mesh = mesh, .poison = true, .weight_update = {.axes = {"data"}}}, shapes,
                state, x);
    CHECK(held(sharded, "arg1.column.w") + held(sharded, "arg1.row.w") == 5 + (rows + 7) / 8);
    const auto run = [&](const auto& step) {
      Leaves<Array> p = {{"w", random_normal_array(shapes[0].second, 1)}};
      auto s = map_tree(state, [](const std::string&, const Shape& shape) { return Array(shape); });
      for (uint32_t i = 0; i < 20; ++i) std::tie(p, s) = step(p, s, random_normal_array(x, i));
      return p;
    };
    CHECK(difference(run(sharded), run(plain)) < 1e-6);
  }
}

TEST_CASE("a trainer shares updates, with scanned layers and microbatches") {
  TransformerConfig config;
  config.layers = 2;
  config.model = 16;
  config.hidden = 24;
  config.heads = 2;
  config.seq = 6;
  config.vocab = 33;
  for (const bool scan : {false, true})
    for (const int64_t microbatches : {1, 2}) {
      CAPTURE(scan, microbatches);
      config.scan = scan;
      TrainerOptions o;
      o.mesh = Mesh{{"data", 4}};
      o.model =
          std::make_shared<TransformerModel>(config, o.mesh, layout_of_recipe("data", o.mesh));
      o.batch = 8;
      o.microbatches = microbatches;
      o.clip_norm = 1;
      o.optimizer.eps = 1e-6;
      Trainer whole(o);
      o.weight_update.axes = {"data"};
      Trainer sharded(o);
      for (uint32_t i = 0; i < 3; ++i) {
        const auto batch = random_batch(config, o.batch, i);
        CHECK(sharded.step(batch, 1e-3).loss == Approx(whole.step(batch, 1e-3).loss).epsilon(1e-6));
      }
      CHECK(difference(sharded.params(), whole.params()) < 1e-5);
      const ExecutableStats& stats = sharded.executable().stats();
      const ExecutableStats& plain = whole.executable().stats();
      CHECK(stats.parameter_bytes == Approx(plain.parameter_bytes / 4.0).epsilon(0.03));
      const int64_t norm = 4 * 2 * 3 / 4;  // the sum of squares of all gradients
      const int64_t gather = bytes_by_kind(stats)["all-gather data"];
      if (microbatches == 1 || !scan) {
        CHECK(gather == bytes_by_kind(stats)["reduce-scatter data"]);
        CHECK(stats.collective_bytes == plain.collective_bytes + norm);
      } else {  // gradients of each microbatch are reduced, weights gathered once
        CHECK(stats.collective_bytes < plain.collective_bytes * 4 / 5);
      }
      if (!scan) CHECK(stats.collective_count == 4);
    }
}

TEST_CASE("a trainer that shares updates goes on from a checkpoint on another mesh") {
  TransformerConfig config;
  config.layers = 1;
  config.model = 10;
  config.hidden = 14;
  config.heads = 2;
  config.seq = 5;
  config.vocab = 33;
  TrainerOptions o;
  o.mesh = Mesh{{"data", 4}};
  o.model = std::make_shared<TransformerModel>(config, o.mesh, layout_of_recipe("data", o.mesh));
  o.batch = 8;
  o.optimizer.eps = 1e-6;
  o.weight_update.axes = {"data"};
  Trainer first(o);
  first.step(random_batch(config, o.batch, 0), 1e-3);
  const auto folder = std::filesystem::temp_directory_path() / "gspmd-wus-checkpoints";
  std::filesystem::remove_all(folder);
  Checkpoints checkpoints(folder.string());
  first.save(checkpoints, 1, {});
  const double next = first.step(random_batch(config, o.batch, 1), 1e-3).loss;
  for (const int64_t devices : {1, 2, 4, 8}) {
    CAPTURE(devices);
    o.mesh = Mesh{{"data", devices}};
    o.model = std::make_shared<TransformerModel>(config, o.mesh, layout_of_recipe("data", o.mesh));
    Trainer other(o);
    CHECK(other.restore(checkpoints) == 1);
    CHECK(other.step(random_batch(config, o.batch, 1), 1e-3).loss == Approx(next).epsilon(1e-6));
    CHECK(difference(other.params(), first.params()) < 1e-5);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("a step that computes in bf16 has the same bits with a bf16 gather") {
  TransformerConfig config;
  config.layers = 1;
  config.model = 16;
  config.hidden = 24;
  config.heads = 2;
  config.seq = 6;
  config.vocab = 33;
  TrainerOptions o;
  o.mesh = Mesh{{"data", 4}};
  o.model = std::make_shared<TransformerModel>(config, o.mesh, layout_of_recipe("data", o.mesh));
  o.batch = 8;
  o.precision.compute = DType::bf16;
  o.weight_update.axes = {"data"};
  Trainer exact(o);
  o.weight_update.gather_dtype = DType::bf16;
  Trainer narrow(o);
  for (uint32_t i = 0; i < 3; ++i) {
    const auto batch = random_batch(config, o.batch, i);
    CHECK(exact.step(batch, 1e-3).loss == narrow.step(batch, 1e-3).loss);
  }
  CHECK(difference(exact.params(), narrow.params()) == 0);
  CHECK(narrow.executable().stats().collective_bytes < exact.executable().stats().collective_bytes);
}

TEST_CASE("a step without updates to share is an error, and so are options that mean nothing") {
  StepOptions o;
  o.update.axes = {"rows"};
  CHECK_THROWS_WITH(compile_step(o), Contains("rows"));
  o.update.axes = {"data"};
  o.update.min_elements = -1;
  CHECK_THROWS_WITH(compile_step(o), Contains("min_elements is -1"));
  o.update.min_elements = 100'000;
  CHECK_THROWS_WITH(compile_step(o), Contains("weight_update: step") && Contains("100000"));
  o.update.min_elements = 0;
  o.update.gather_dtype = DType::s32;
  CHECK_THROWS_WITH(compile_step(o), Contains("gather_dtype is s32"));
  const auto half = [](const Tensor& x) { return sum(x); };
  CHECK_THROWS_WITH(compile(half, {.mesh = Mesh{{"data", 8}}, .weight_update = {.axes = {"data"}}},
                            Shape(DType::f32, {8})),
                    Contains("no update that data could share"));
}

}  // namespace
}  // namespace gspmd::models
