#include <cmath>

#include "api/support.h"
#include "gspmd/ir/module.h"

using namespace gspmd;
using namespace gspmd::test;

namespace training_test {
namespace {

template <class T>
struct Mlp {
  T w_in, w_out;
  GSPMD_FIELDS(w_in, w_out)
};
template <class T>
struct Batch {
  T x, y;
  GSPMD_FIELDS(x, y)
};

Tensor loss(const Mlp<Tensor>& p, const Batch<Tensor>& b) {
  return mse_loss(einsum("bh,hm->bm", tanh(einsum("bm,mh->bh", b.x, p.w_in)), p.w_out), b.y);
}

Mlp<Array> sample_params(DType dtype = DType::f64) {
  return {random_array({dtype, {5, 7}}, 1), random_array({dtype, {7, 5}}, 2)};
}
Batch<Array> sample_batch(int64_t rows, DType dtype = DType::f64) {
  return {random_array({dtype, {rows, 5}}, 3), random_array({dtype, {rows, 5}}, 4)};
}

auto accumulated_on(const Mesh& mesh, int64_t n) {
  return [=](const Mlp<Tensor>& p, Batch<Tensor> b) {
    b = {mesh_split(b.x, mesh, {"data", _}), mesh_split(b.y, mesh, {"data", _})};
    return accumulate_gradients(loss, p, b, {.microbatches = n});
  };
}

const Shape kF{DType::f32, {2, 3}};

}  // namespace

TEST_CASE("gradients of microbatches add up to those of the batch", "[api]") {
  const auto at_once = [](const Mlp<Tensor>& p, const Batch<Tensor>& b) {
    return value_and_grad(loss)(p, b);
  };
  const auto expected = reference_results(at_once, sample_params(), sample_batch(12));
  for (const int64_t n : {1, 3, 4, 12}) {
    const auto f = [&](const Mlp<Tensor>& p, const Batch<Tensor>& b) {
      return accumulate_gradients(loss, p, b, {.microbatches = n});
    };
    const auto seen = reference_results(f, sample_params(), sample_batch(12));
    CHECK(expect_close(seen, expected, {1e-12, 1e-12}).message == "");
  }
  const std::vector<Mesh> meshes{Mesh{{"data", 2}}, Mesh{{"data", 4}}, Mesh{{"data", 5}},
                                 Mesh{{"data", 2}, {"model", 3}}};
  const auto make = [](const Mesh& mesh) { return accumulated_on(mesh, 3); };
  CHECK(expect_equal_on_meshes(make, meshes, {1e-12, 1e-12}, sample_params(), sample_batch(12))
            .message == "");
}

TEST_CASE("accumulated gradients are reduced once, after the loop", "[api]") {
  const Mesh mesh{{"data", 4}};
  for (const int64_t n : {1, 2, 8}) {
    const auto step =
        compile(accumulated_on(mesh, n), {.mesh = mesh}, sample_params(), sample_batch(64));
    INFO(n << " microbatches");
    // One of each gradient, and one of the loss.
    CHECK(expect_collectives(step, {{"all-reduce", "data", 3}}).message == "");
    CHECK(step.stats().collective_count == 1);
  }
}

TEST_CASE("state that is split over the batch's axis takes gradients that are reduced once",
          "[api]") {
  const Mesh mesh{{"data", 4}};
  const Mlp<Array> params{random_array({DType::f32, {8, 12}}, 1),
                          random_array({DType::f32, {12, 8}}, 2)};
  const Batch<Array> batch{random_array({DType::f32, {64, 8}}, 3),
                           random_array({DType::f32, {64, 8}}, 4)};
  const auto split = [&](Mlp<Tensor> p, const DimSplit& rows) {
    return Mlp<Tensor>{mesh_split(p.w_in, mesh, {rows, _}), mesh_split(p.w_out, mesh, {rows, _})};
  };
  const auto state = Lion<Mlp<Array>>::zeros_like(params);
  const auto compiled = [&](bool scatter_each) {
    const auto step = [&](Mlp<Tensor> p, Lion<Mlp<Tensor>> lion, Batch<Tensor> b) {
      lion.m = split(lion.m, "data");
      b = {mesh_split(b.x, mesh, {"data", _}), mesh_split(b.y, mesh, {"data", _})};
      p = split(p, _);
      const auto [value, grads] =
          accumulate_gradients(loss, p, b, {.microbatches = 8, .scatter_each = scatter_each});
      const auto [next, next_state] = lion.update(p, grads);
      return std::tuple{split(next, _), next_state, value};
    };
    return compile(step, {.mesh = mesh}, params, state, batch);
  };
  CHECK(expect_collectives(
            compiled(false),
            {{"reduce-scatter", "data", 2}, {"all-gather", "data", 2}, {"all-reduce", "data", 1}})
            .message == "");
  CHECK(expect_collectives(
            compiled(true),
            {{"reduce-scatter", "data", 16}, {"all-gather", "data", 2}, {"all-reduce", "data", 1}})
            .message == "");
}

TEST_CASE("gradients of 16 bits are accumulated in f32, and reduced once", "[api]") {
  const Mesh mesh{{"data", 4}};
  const auto params = sample_params(DType::bf16);
  const auto batch = sample_batch(64, DType::bf16);
  const auto step = compile(accumulated_on(mesh, 8), {.mesh = mesh}, params, batch);
  CHECK(expect_collectives(step, {{"all-reduce", "data", 3}}).message == "");
  const auto [value, grads] = step(params, batch);
  CHECK(value.dtype() == DType::f32);
  CHECK(grads.w_in.dtype() == DType::bf16);
}

TEST_CASE("what else the function returns is stacked, a slice for each microbatch", "[api]") {
  const auto f = [](const Mlp<Tensor>& p, const Batch<Tensor>& b) {
    return std::pair{loss(p, b), Batch<Tensor>{b.x, mean(b.y)}};
  };
  const auto g = [&](const Mlp<Tensor>& p, const Batch<Tensor>& b) {
    return accumulate_gradients(f, p, b, {.microbatches = 3}).first;
  };
  const Batch<Array> batch = sample_batch(6);
  const std::vector<Array> seen = reference_results(g, sample_params(), batch);
  REQUIRE(seen[1].dims() == Dims{3, 2, 5});
  // Microbatch 1 has rows 1 and 4.
  CHECK(seen[1].at(1 * 10 + 5 + 2) == batch.x.at(4 * 5 + 2));
  CHECK(seen[2].dims() == Dims{3});
}

TEST_CASE("clip_by_value moves every element between the limits", "[api]") {
  const Array x = Array::of<double>({4}, {-3, -0.5, 0.25, 7});
  const auto clip = [](Tensor t) { return clip_by_value(t, 0.5); };
  CHECK(values(run(clip, x)) == std::vector<double>{-0.5, -0.5, 0.25, 0.5});
  const auto by_tensor = [](Tensor t, Tensor limit) { return clip_by_value(t, limit); };
  CHECK(values(run(by_tensor, x, Array::scalar<double>(1))) ==
        std::vector<double>{-1, -0.5, 0.25, 1});
}

TEST_CASE("optimizers and averages keep the layout of the parameters", "[api]") {
  const Mesh mesh{{"data", 2}, {"model", 3}};
  const auto params = sample_params();
  const auto check = [&](auto state, auto options, const std::vector<std::string>& parts) {
    using State = rebind_t<decltype(state), Tensor>;
    const auto step = [&](Mlp<Tensor> p, State s, Mlp<Tensor> g) {
      p.w_in = mesh_split(p.w_in, mesh, {"data", "model"});
      return s.update(p, g, options);
    };
    const auto compiled =
        compile(step, {.mesh = mesh, .argument_names = {"params", "state", "grads"}}, params, state,
                params);
    for (const std::string& part : parts)
      CHECK(compiled.parameter_sharding("state." + part + ".w_in") ==
            sharding_of(mesh, {"data", "model"}));
    return compiled;
  };
  check(Sgd<Mlp<Array>>::zeros_like(params), SgdOptions{}, {"velocity"});
  check(AdamW<Mlp<Array>>::zeros_like(params), AdamOptions{}, {"m", "v"});
  check(Lamb<Mlp<Array>>::zeros_like(params), LambOptions{}, {"m", "v"});
  check(Lars<Mlp<Array>>::zeros_like(params), LarsOptions{}, {"velocity"});
  check(RmsProp<Mlp<Array>>::zeros_like(params), RmsPropOptions{}, {"v", "velocity"});
  check(Lion<Mlp<Array>>::zeros_like(params), LionOptions{}, {"m"});
  const auto factored = check(Adafactor<Mlp<Array>>::zeros_like(params, 2), AdafactorOptions{}, {});
  CHECK(factored.parameter_sharding("state.row.w_in") == sharding_of(mesh, {"data"}));
  CHECK(factored.parameter_sharding("state.column.w_in") == sharding_of(mesh, {"model"}));

  using Average = ExponentialMovingAverage<Mlp<Array>>;
  const auto average = [&](Mlp<Tensor> p, rebind_t<Average, Tensor> a) {
    p.w_in = mesh_split(p.w_in, mesh, {"data", "model"});
    return a.update(p);
  };
  const auto compiled = compile(average, {.mesh = mesh, .argument_names = {"params", "average"}},
                                params, Average::zeros_like(params));
  CHECK(compiled.parameter_sharding("average.average.w_in") ==
        sharding_of(mesh, {"data", "model"}));
}

TEST_CASE("accumulation, clipping and averages name what is wrong", "[api][errors]") {
  const auto accumulate = [](int64_t n) {
    return [n](Tensor w, Tensor x) {
      const auto f = [](Tensor p, Tensor b) { return sum(p * b); };
      return accumulate_gradients(f, w, x, {.microbatches = n}).first;
    };
  };
  CHECK(message_of<UserError>([&] { trace(accumulate(0), kF, kF); })
            .find("accumulate_gradients: 0 microbatches are wrong; give 1 or more "
                  "(training_test.cpp:") == 0);
  CHECK(message_of<UserError>([&] { trace(accumulate(4), kF, kF); })
            .find("accumulate_gradients: dim 0 of arg1 f32[2,3] has 2 elements, which 4 "
                  "microbatches do not divide") == 0);
  CHECK(message_of<UserError>([&] {
          trace(accumulate(1), kF, Shape(DType::f32, {}));
        }).find("accumulate_gradients: arg1 f32[] has no dims") == 0);
  const auto uneven = [](Tensor w, Tensor x) {
    const auto f = [](Tensor p, const std::vector<Tensor>& b) { return sum(p) + sum(b[1]); };
    return accumulate_gradients(f, w, std::vector{x, w}).first;
  };
  CHECK(message_of<UserError>([&] {
          trace(uneven, kF, Shape(DType::f32, {4}));
        }).find("dim 0 of arg1 f32[4] and arg0 f32[2,3] counts the batch; they must be equal") !=
        std::string::npos);
  GSPMD_REQUIRE_ERROR("clip_by_value: the limit -1 must be positive",
                      trace([](Tensor x) { return clip_by_value(x, -1); }, kF));
  GSPMD_REQUIRE_ERROR("clip_by_value: the limit arg0 f32[2,3] must be a number or a tensor without",
                      trace([](Tensor x) { return clip_by_value(x, x); }, kF));
  using Average = ExponentialMovingAverage<Tensor>;
  GSPMD_REQUIRE_ERROR(
      "moving average: decay 1 is wrong; give 0 or more and less than 1",
      trace([](Tensor x) { return Average::zeros_like(x).update(x, {.decay = 1}).average; }, kF));
  GSPMD_REQUIRE_ERROR("moving average: the average arg1 f32[3] differs from its parameter",
                      trace(
                          [](Tensor x, Tensor o) {
                            return Average{o, zeros({DType::s32, {}})}.update(x).average;
                          },
                          kF, Shape(DType::f32, {3})));
}

}  // namespace training_test
