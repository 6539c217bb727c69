// The example of README.md, as it stands there.
#include <catch2/catch.hpp>

#include "gspmd/gspmd.h"

namespace readme {

using namespace gspmd;

template <class T>
struct Ffn {
  T w_in, w_out;
  GSPMD_FIELDS(w_in, w_out)
};

const Mesh mesh{{"data", 2}, {"model", 4}};

Tensor loss(Ffn<Tensor> p, Tensor x, Tensor y) {
  x = mesh_split(x, mesh, {"data", _});
  Tensor hidden = gelu(einsum("bm,mh->bh", x, mesh_split(p.w_in, mesh, {_, "model"})));
  Tensor error = einsum("bh,hm->bm", hidden, p.w_out) - y;
  return mean(error * error);
}

auto train_step(Ffn<Tensor> params, Adam<Ffn<Tensor>> adam, Tensor x, Tensor y) {
  auto [value, grads] = value_and_grad(loss)(params, x, y);
  auto [new_params, new_adam] = adam.update(params, grads, {.lr = 1e-2f});
  return std::tuple{new_params, new_adam, value};
}

}  // namespace readme

TEST_CASE("the example of the README trains", "[examples]") {
  using namespace readme;
  Ffn<Array> params{random_normal_array(Shape(DType::f32, {8, 16}), 1),
                    random_normal_array(Shape(DType::f32, {16, 8}), 2)};
  auto adam = Adam<Ffn<Array>>::zeros_like(params);
  const Array x = random_normal_array(Shape(DType::f32, {12, 8}), 3);
  const Array y = random_normal_array(Shape(DType::f32, {12, 8}), 4);
  auto step = compile(train_step, {.mesh = mesh, .donate = {0, 1}}, params, adam, x, y);
  CHECK(step.parameter_sharding(1) == sharding_of(mesh, {"model", _}));
  Array value;
  std::vector<double> losses;
  for (int i = 0; i < 50; ++i) {
    std::tie(params, adam, value) = step(params, adam, x, y);
    losses.push_back(value.item());
  }
  CHECK(losses.back() < losses.front() / 4);
}
