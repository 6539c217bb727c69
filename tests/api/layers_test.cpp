#include "api/numpy_cases.h"

using namespace gspmd;
using namespace gspmd::test;

namespace layers_test {
namespace {

const BatchStatistics<Tensor> rows_of(const Tensor& state) { return {state(0), state(1)}; }

std::vector<Tensor> listed(const std::pair<Tensor, BatchStatistics<Tensor>>& result) {
  return {result.first, result.second.mean, result.second.variance};
}

const Shape kX{DType::f32, {4, 6}}, kImage{DType::f32, {2, 8, 8, 3}}, kIds{DType::s32, {5}};

}  // namespace

TEST_CASE("layers are those of their formulas in NumPy", "[api][numpy]") {
  const NumpyCases cases("layers");
  cases.check("linear", [](Tensor x, Tensor w, Tensor b) { return Linear<Tensor>{w, b}(x); });
  cases.check("embedding", [](Tensor ids, Tensor t) { return Embedding<Tensor>{t}(ids); });
  cases.check("attend", [](Tensor x, Tensor t) { return Embedding<Tensor>{t}.attend(x); });
  cases.check("conv", [](Tensor x, Tensor k, Tensor b) {
    return Conv<Tensor>{k, b}(x, {.strides = {2, 2}});
  });
  cases.check("group_norm", [](Tensor x, Tensor scale, Tensor bias) {
    return GroupNorm<Tensor>{scale, bias}(x, {.groups = 3});
  });
  cases.check("instance_norm", [](Tensor x, Tensor scale, Tensor bias) {
    return group_norm(x, scale, bias, {.groups = 6});
  });
}

TEST_CASE("batch norm is that of its formula in NumPy, of the batch and of parts of it",
          "[api][numpy]") {
  const NumpyCases cases("layers");
  cases.check("batch_norm", [](Tensor x, Tensor scale, Tensor bias, Tensor state) {
    return listed(BatchNorm<Tensor>{scale, bias}.train(x, rows_of(state)));
  });
  cases.check("batch_norm_groups", [](Tensor x, Tensor scale, Tensor bias, Tensor state) {
    return listed(BatchNorm<Tensor>{scale, bias}.train(x, rows_of(state), {.groups = 3}));
  });
  cases.check("batch_norm_infer", [](Tensor x, Tensor scale, Tensor bias, Tensor state) {
    return BatchNorm<Tensor>{scale, bias}.infer(x, rows_of(state));
  });
}

TEST_CASE("layouts, groups and absent biases of a convolution layer", "[api]") {
  const Array x = random_array({DType::f64, {2, 5, 6, 4}}, 1);
  const auto layer = Conv<Array>::init({3, 3, 2, 6}, 2, {.bias = false, .dtype = DType::f64});
  CHECK(!layer.bias);
  const auto last = [](Tensor t, Conv<Tensor> p) { return p(t, {.groups = 2}); };
  const auto first = [](Tensor t, Conv<Tensor> p) {
    return transpose(p(transpose(t, {0, 3, 1, 2}), {.groups = 2}, "NCHW,HWIO->NCHW"), {0, 2, 3, 1});
  };
  CHECK(values(run(last, x, layer)) == values(run(first, x, layer)));
  Conv<Array> with_bias = layer;
  with_bias.bias = random_array({DType::f64, {6}}, 3);
  CHECK(values(run(last, x, with_bias)) == values(run(first, x, with_bias)));
  CHECK(values(run(last, x, with_bias)) != values(run(last, x, layer)));
}

TEST_CASE("no gradient flows into running averages", "[api]") {
  const auto loss = [](Tensor x) {
    const auto layer = BatchNorm<Array>::init(6);
    const auto [y, next] = layer.train(x, BatchStatistics<Array>::init(6));
    return sum(next.mean) + sum(next.variance);
  };
  const Array x = random_array(kX, 1);
  CHECK(values(run(grad(loss), x)) == std::vector<double>(24, 0));
}

TEST_CASE("statistics of the groups that devices hold need nothing of others", "[api]") {
  const Mesh mesh{{"data", 4}};
  const auto on_mesh = [&](int64_t groups) {
    const auto f = [&, groups](BatchNorm<Tensor> layer, BatchStatistics<Tensor> state, Tensor x) {
      x = mesh_split(x, mesh, {"data", _, _});
      return layer.train(x, state, {.groups = groups}).first;
    };
    return compile(f, {.mesh = mesh}, BatchNorm<Array>::init(6), BatchStatistics<Array>::init(6),
                   random_array({DType::f32, {8, 5, 6}}, 1));
  };
  CHECK(expect_collectives(on_mesh(4), {}).message == "");
  CHECK(expect_collectives(on_mesh(8), {}).message == "");
  CHECK(expect_collectives(on_mesh(1), {{"all-reduce", "data", 2}}).message == "");
}

TEST_CASE("layers begin as they are made, and are trees", "[api]") {
  const auto linear = Linear<Array>::init(3, 4, 1);
  CHECK(linear.weight.dims() == Dims{3, 4});
  CHECK(values(*linear.bias) == std::vector<double>(4, 0));
  CHECK(leaf_count_of(Linear<Array>::init(3, 4, 1, {.bias = false})) == 1);
  const auto norm = LayerNorm<Array>::init(4, DType::f64);
  CHECK(values(norm.scale) == std::vector<double>(4, 1));
  CHECK(flatten(norm)[1].first == "bias");
  const Array x = random_array({DType::f64, {2, 4}}, 1);
  CHECK(values(run([&](Tensor t) { return norm(t); }, x)) ==
        values(run([&](Tensor t) { return layer_norm(t, norm.scale, norm.bias); }, x)));
  const auto rms = RmsNorm<Array>::init(4, DType::f64);
  CHECK(values(run([&](Tensor t) { return rms(t); }, x)) ==
        values(run([&](Tensor t) { return rms_norm(t, rms.scale); }, x)));
  CHECK(Embedding<Array>::init(5, 3, 1, {.dtype = DType::bf16}).table.dtype() == DType::bf16);
}

TEST_CASE("layers name sizes, dims and types that do not fit", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("linear: in is 0; give 1 or more", Linear<Array>::init(0, 3, 1));
  GSPMD_REQUIRE_ERROR("embedding: features is -1; give 1 or more",
                      Embedding<Array>::init(3, -1, 1));
  GSPMD_REQUIRE_ERROR("conv: a kernel size is 0; give 1 or more", Conv<Array>::init({3, 0}, 1));
  GSPMD_REQUIRE_ERROR("he_normal: f32[3] has fewer than 2 dims", Conv<Array>::init({3}, 1));
  GSPMD_REQUIRE_ERROR("batch_norm: features is 0", BatchNorm<Array>::init(0));
  GSPMD_REQUIRE_ERROR("glorot_uniform: numbers of type s32 are not made",
                      Linear<Array>::init(2, 3, 1, {.dtype = DType::s32}));
  GSPMD_REQUIRE_ERROR("truncated_normal: stddev -1 is wrong",
                      Embedding<Array>::init(2, 3, 1, {.stddev = -1}));
  const auto linear = Linear<Array>::init(3, 4, 1);
  GSPMD_REQUIRE_ERROR("linear: the last dim of arg0 f32[4,6] must be 3, dim 0 of the weight",
                      trace([&](Tensor x) { return linear(x); }, kX));
  GSPMD_REQUIRE_ERROR("linear: the weight arg0 f32[2,8,8,3] must have two dims, [in,out]",
                      trace(
                          [&](Tensor w) {
                            return Linear<Tensor>{w, {}}(w);
                          },
                          kImage));
  const auto embedding = Embedding<Array>::init(3, 4, 1);
  GSPMD_REQUIRE_ERROR("embedding: ids must be integers, got arg0 f32[4,6]",
                      trace([&](Tensor x) { return embedding(x); }, kX));
  GSPMD_REQUIRE_ERROR("embedding: the last dim of arg0 f32[4,6] must be that of the table",
                      trace([&](Tensor x) { return embedding.attend(x); }, kX));
  const auto conv = Conv<Array>::init({3, 3, 3, 4}, 1);
  GSPMD_REQUIRE_ERROR("conv: arg0 f32[4,6] and the kernel",
                      trace([&](Tensor x) { return conv(x); }, kX));
}

TEST_CASE("norms name groups, features and running averages that do not fit", "[api][errors]") {
  const auto norm = BatchNorm<Array>::init(6);
  const auto state = BatchStatistics<Array>::init(6);
  const auto train = [&](const BatchNormOptions& options) {
    return [&, options](Tensor x) { return norm.train(x, state, options).first; };
  };
  const auto message = [&](const BatchNormOptions& options) {
    return message_of<UserError>([&] { trace(train(options), kX); });
  };
  CHECK(message({.groups = 3})
            .find("batch_norm: 3 groups do not divide dim 0 of arg0 f32[4,6], the batch of 4") ==
        0);
  CHECK(message({.axis = 0}).find("batch_norm: axis 0 of arg0 f32[4,6] is the batch") == 0);
  CHECK(message({.eps = -1}).find("batch_norm: eps -1 is wrong; give 0 or more") == 0);
  CHECK(message({.momentum = 1.5}).find("batch_norm: momentum 1.5 is wrong; give 0 to 1") == 0);
  const auto other = BatchStatistics<Array>::init(5);
  GSPMD_REQUIRE_ERROR("batch_norm: the running mean",
                      trace([&](Tensor x) { return norm.train(x, other).first; }, kX));
  GSPMD_REQUIRE_ERROR("must have one dim of 6, as dim 1 of arg0 f32[4,6]",
                      trace([&](Tensor x) { return norm.infer(x, other); }, kX));
  GSPMD_REQUIRE_ERROR("group_norm: 4 groups do not divide dim 1 of arg0 f32[4,6], the 6 features",
                      trace([&](Tensor x) { return group_norm(x, 1, 0, {.groups = 4}); }, kX));
  GSPMD_REQUIRE_ERROR("group_norm: the scale",
                      trace([&](Tensor x) { return group_norm(x, x, x, {.groups = 2}); }, kX));
}

}  // namespace layers_test
