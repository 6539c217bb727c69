// The user code of docs: a model written for one device with one annotation in its attention,
// trained on a mesh. Kept as a user would write it.
#include <cmath>

#include "api/support.h"

using namespace gspmd;

namespace design_example_test {
namespace {

// clang-format off
template <class T>              // Tensor while tracing, Array on the host or the devices
struct Block { T norm, wq, wk, wv, wo, w_in, w_out;
               GSPMD_FIELDS(norm, wq, wk, wv, wo, w_in, w_out) };

template <class T>
struct Model { T embed; std::vector<Block<T>> blocks;
               GSPMD_FIELDS(embed, blocks) };
// clang-format on

const Mesh mesh{{"data", 2}, {"model", 4}};

Tensor attention(const Block<Tensor>& p, Tensor x) {  // x is b,s,m
  Tensor q = mesh_split(einsum("bsm,mnd->bsnd", x, p.wq), mesh, {"data", _, "model", _});
  Tensor k = einsum("btm,mnd->btnd", x, p.wk);  // k and v: completed from q
  Tensor v = einsum("btm,mnd->btnd", x, p.wv);
  Tensor scores = einsum("bsnd,btnd->bnst", q, k) * (1 / std::sqrt(float(q.dim(-1))));
  Tensor weights = softmax(causal_mask(scores), {.axis = -1});
  return einsum("bsnd,ndm->bsm", einsum("bnst,btnd->bsnd", weights, v), p.wo);
}

Tensor loss(const Model<Tensor>& params, Tensor tokens, Tensor labels) {
  Tensor x = take(params.embed, tokens);
  for (const Block<Tensor>& block : params.blocks) {
    x = x + attention(block, rms_norm(x, block.norm));
    x = x + einsum("bsh,hm->bsm", gelu(einsum("bsm,mh->bsh", x, block.w_in)), block.w_out);
  }
  return cross_entropy(einsum("bsm,vm->bsv", x, params.embed), labels);
}

auto train_step(Model<Tensor> params, Adam<Model<Tensor>> adam, Tensor tokens, Tensor labels) {
  auto [value, grads] = value_and_grad(loss)(params, tokens, labels);
  auto [new_params, new_adam] = adam.update(params, grads, {.lr = 3e-4f});
  return std::tuple{new_params, new_adam, value};
}

Model<Array> sample_model() {
  const auto weight = [](Dims dims, unsigned seed) {
    return test::random_array({DType::f32, std::move(dims)}, seed, -0.3, 0.3);
  };
  Model<Array> params{weight({11, 8}, 1), {}};
  for (unsigned i = 0; i < 2; ++i)
    params.blocks.push_back({Array::full({DType::f32, {8}}, 1), weight({8, 4, 2}, 10 + i),
                             weight({8, 4, 2}, 20 + i), weight({8, 4, 2}, 30 + i),
                             weight({4, 2, 8}, 40 + i), weight({8, 16}, 50 + i),
                             weight({16, 8}, 60 + i)});
  return params;
}

}  // namespace

TEST_CASE("the example of the design compiles, runs on the mesh and equals the reference",
          "[api][executable]") {
  Model<Array> params = sample_model();
  Adam<Model<Array>> adam = Adam<Model<Array>>::zeros_like(params);
  const Array tokens = test::random_integers({DType::s32, {4, 6}}, 7, 0, 10);
  const Array labels = test::random_integers({DType::s32, {4, 6}}, 8, 0, 10);
  Array value;
  const double expected = reference_results(train_step, params, adam, tokens, labels).back().item();
  auto step = compile(train_step, {.mesh = mesh, .donate = {0, 1}}, params, adam, tokens, labels);
  CHECK(fmt::format("{}\n{}\n", step.text(), step.stats()).find("HloModule") == 0);
  std::tie(params, adam, value) = step(params, adam, tokens, labels);
  CHECK(value.item() == Approx(expected).epsilon(1e-5));
  for (int i = 0; i < 20; ++i) std::tie(params, adam, value) = step(params, adam, tokens, labels);
  CHECK(value.item() < expected);
  CHECK(adam.step.item() == 21);
  // One annotation made the heads of every projection split.
  const Sharding heads = sharding_of(mesh, {_, "model", _});
  CHECK(step.parameter_sharding("arg0.blocks.1.wk").dim(1) == heads.dim(1));
  CHECK(step.parameter_sharding("arg0.blocks.0.wv").dim(1) == heads.dim(1));
}

}  // namespace design_example_test
