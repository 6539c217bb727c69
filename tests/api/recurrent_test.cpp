#include "api/numpy_cases.h"

using namespace gspmd;
using namespace gspmd::test;

namespace recurrent_test {
namespace {

std::vector<Tensor> listed(const std::pair<Tensor, LstmState<Tensor>>& result) {
  return {result.first, result.second.hidden, result.second.cell};
}

const Shape kX{DType::f32, {3, 5, 4}};

}  // namespace

TEST_CASE("LSTM and GRU are those of loops in NumPy", "[api][numpy]") {
  const NumpyCases cases("recurrent");
  const auto lstm = [](bool reverse, int64_t unroll) {
    return [=](Tensor x, Tensor w, Tensor u, Tensor bias) {
      const auto zero = LstmState<Array>::init(3, 6, DType::f64);
      return listed(Lstm<Tensor>{w, u, bias}(x, zero, {.reverse = reverse, .unroll = unroll}));
    };
  };
  cases.check("lstm", lstm(false, 1));
  cases.check("lstm", lstm(false, 5));
  cases.check("lstm_reverse", lstm(true, 1));
  cases.check("gru", [](Tensor x, Tensor w, Tensor u, Tensor biases) {
    const Gru<Tensor> layer{w, u, biases(0), biases(1)};
    return layer(x, zeros({DType::f64, {3, 6}}));
  });
}

TEST_CASE("steps one by one are what a recurrent layer does", "[api]") {
  const Array x = random_array({DType::f64, {3, 4, 5}}, 1);
  const auto lstm = Lstm<Array>::init(5, 6, 2, DType::f64);
  const auto gru = Gru<Array>::init(5, 6, 3, DType::f64);
  const auto zero = LstmState<Array>::init(3, 6, DType::f64);
  const auto by_steps = [&](Tensor t) {
    LstmState<Tensor> state{constant(zero.hidden), constant(zero.cell)};
    Tensor hidden = state.hidden;
    for (int64_t i = 0; i < t.dim(1); ++i) {
      state = lstm.step(t(all, i), state);
      hidden = gru.step(t(all, i), hidden);
    }
    return std::tuple{state, hidden};
  };
  const auto at_once = [&](Tensor t) {
    return std::tuple{lstm(t, zero).second, gru(t, zero.hidden).second};
  };
  CHECK(expect_close(reference_results(by_steps, x), reference_results(at_once, x), {1e-12, 1e-12})
            .message == "");
}

TEST_CASE("hidden values split over a mesh stay split", "[api]") {
  const Mesh mesh{{"data", 2}, {"model", 3}};
  const auto lstm = Lstm<Array>::init(4, 6, 1);
  const auto zero = LstmState<Array>::init(4, 6);
  const Array x = random_array({DType::f32, {4, 5, 4}}, 2);
  const auto f = [&](Lstm<Tensor> p, LstmState<Tensor> state, Tensor t) {
    p.w_input = mesh_split(p.w_input, mesh, {_, _, "model"});
    return p(mesh_split(t, mesh, {"data", _, _}), state);
  };
  const auto step =
      compile(f, {.mesh = mesh, .argument_names = {"lstm", "state", "x"}}, lstm, zero, x);
  CHECK(step.parameter_sharding("lstm.w_input") == sharding_of(mesh, {_, _, "model"}));
  CHECK(step.result_sharding(0) == sharding_of(mesh, {"data", _, "model"}));
}

TEST_CASE("recurrent layers begin as they are made", "[api]") {
  const auto lstm = Lstm<Array>::init(3, 2, 1);
  CHECK(values(lstm.bias) == std::vector<double>{0, 0, 1, 1, 0, 0, 0, 0});
  CHECK(lstm.w_hidden.dims() == Dims{2, 4, 2});
  // The matrix of each gate is orthogonal.
  for (int64_t g = 0; g < 4; ++g) {
    double length = 0, product = 0;
    for (int64_t j = 0; j < 2; ++j) {
      length += lstm.w_hidden.at(g * 2 + j) * lstm.w_hidden.at(g * 2 + j);
      product += lstm.w_hidden.at(g * 2 + j) * lstm.w_hidden.at((4 + g) * 2 + j);
    }
    CHECK(length == Approx(1));
    CHECK(product == Approx(0).margin(1e-6));
  }
}

TEST_CASE("recurrent layers name sizes and states that do not fit", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("lstm: hidden is 0; give 1 or more", Lstm<Array>::init(3, 0, 1));
  GSPMD_REQUIRE_ERROR("gru: in is -2; give 1 or more", Gru<Array>::init(-2, 3, 1));
  GSPMD_REQUIRE_ERROR("lstm: batch is 0; give 1 or more", LstmState<Array>::init(0, 3));
  const auto lstm = Lstm<Array>::init(4, 6, 1);
  const auto state = LstmState<Array>::init(3, 6);
  GSPMD_REQUIRE_ERROR(
      "lstm: arg0 f32[4] must have dims [b,t,in], or [b,in] for one step",
      trace([&](Tensor x) { return lstm(x, state).first; }, Shape(DType::f32, {4})));
  GSPMD_REQUIRE_ERROR(
      "must be f32[7,4,6], [in,gates,hidden] for arg0 f32[3,5,7]",
      trace([&](Tensor x) { return lstm(x, state).first; }, Shape(DType::f32, {3, 5, 7})));
  const auto other = LstmState<Array>::init(2, 6);
  GSPMD_REQUIRE_ERROR("must be f32[3,6], [b,hidden] for arg0 f32[3,5,4]",
                      trace([&](Tensor x) { return lstm(x, other).first; }, kX));
  const auto gru = Gru<Array>::init(4, 6, 1);
  GSPMD_REQUIRE_ERROR("gru: the hidden state",
                      trace([&](Tensor x) { return gru(x, other.hidden).first; }, kX));
  GSPMD_REQUIRE_ERROR("lstm: unroll is 0; give 1 or more",
                      trace([&](Tensor x) { return lstm(x, state, {.unroll = 0}).first; }, kX));
}

}  // namespace recurrent_test
