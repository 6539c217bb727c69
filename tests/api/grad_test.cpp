#include "api/support.h"
#include "gspmd/ir/module.h"

using namespace gspmd;
using namespace gspmd::test;

namespace {

template <class T>
struct Mlp {
  T w1, w2;
  std::vector<T> scales;
  GSPMD_FIELDS(w1, w2, scales)
};

Tensor mlp_loss(const Mlp<Tensor>& p, Tensor x) {
  Tensor h = gelu(einsum("bm,mh->bh", x, p.w1));
  for (const Tensor& scale : p.scales) h = rms_norm(h, scale) + h;
  return mean(square(einsum("bh,hm->bm", h, p.w2) - x));
}

Mlp<Array> sample_params() {
  return {random_array({DType::f64, {3, 5}}, 1),
          random_array({DType::f64, {5, 3}}, 2),
          {random_array({DType::f64, {5}}, 3), random_array({DType::f64, {5}}, 4)}};
}

}  // namespace

TEST_CASE("value_and_grad returns the value and a tree of gradients like the argument", "[api]") {
  const Mlp<Array> params = sample_params();
  const Array x = random_array({DType::f64, {4, 3}}, 9);
  const auto step = [](Mlp<Tensor> p, Tensor t) {
    const auto [value, grads] = value_and_grad(mlp_loss)(p, t);
    return std::pair{value, grads};
  };
  const std::vector<Array> seen = reference_results(step, params, x);
  CHECK(seen[0].item() == Approx(run(mlp_loss, params, x).item()).epsilon(1e-14));
  REQUIRE(seen.size() == 5);
  // Every leaf against central differences of the whole loss.
  const std::vector<Array> leaves = detail::argument_leaves(params);
  for (size_t leaf = 0; leaf < 4; ++leaf) {
    const auto at = [&](Tensor moved) {
      size_t next = 0;
      return mlp_loss(map_tree(params,
                               [&](const std::string&, const Array& array) {
                                 return next++ == leaf ? moved : constant(array);
                               }),
                      constant(x));
    };
    INFO("leaf " << leaf);
    CHECK(expect_close({seen[leaf + 1]}, {numeric_gradient(at, leaves[leaf])}, {1e-6, 1e-8}));
  }
}

TEST_CASE("another argument can be differentiated", "[api]") {
  const auto fn = [](Tensor a, Tensor b) { return sum(a * b * b); };
  const Array a = Array::of<double>({2}, {2, 3});
  const Array b = Array::of<double>({2}, {5, 7});
  CHECK(values(run([&](Tensor s, Tensor t) { return grad<1>(fn)(s, t); }, a, b)) ==
        std::vector<double>{20, 42});
}

TEST_CASE("only uses through the argument count", "[api]") {
  const Array x = Array::scalar<double>(3);
  const auto twice = [](Tensor t) { return grad([](Tensor a, Tensor b) { return a * b; })(t, t); };
  CHECK(run(twice, x).item() == 3);
  const auto captured = [](Tensor t) { return grad([&](Tensor a) { return a * a * t; })(t); };
  CHECK(run(captured, x).item() == 18);
}

TEST_CASE("gradients of gradients", "[api]") {
  const auto cube = [](Tensor t) { return t * t * t; };
  CHECK(run(grad(grad(cube)), Array::scalar<double>(2)).item() == 12);
  CHECK(run(grad(grad(grad(cube))), Array::scalar<double>(2)).item() == 6);
}

TEST_CASE("values beside the loss pass through", "[api]") {
  const auto fn = [](Tensor t) { return std::pair{sum(t * t), t + 1}; };
  const auto step = [&](Tensor t) {
    const auto [value, gradient] = value_and_grad(fn)(t);
    return std::tuple{value.first, value.second, gradient};
  };
  const std::vector<Array> seen = reference_results(step, Array::of<double>({2}, {1, 2}));
  CHECK(seen[0].item() == 5);
  CHECK(values(seen[1]) == std::vector<double>{2, 3});
  CHECK(values(seen[2]) == std::vector<double>{2, 4});
}

TEST_CASE("stop_gradient and unused arguments have zero gradients", "[api]") {
  const Array x = Array::of<double>({2}, {1, 2});
  CHECK(values(run(grad([](Tensor t) { return sum(stop_gradient(t) * t); }), x)) ==
        std::vector<double>{1, 2});
  const auto unused = [](Tensor t) { return sum(stop_gradient(t)); };
  CHECK(values(run(grad(unused), x)) == std::vector<double>{0, 0});
  CHECK(run(grad([](Tensor t) { return t; }), Array::scalar<double>(5)).item() == 1);
}

TEST_CASE("gradient nodes are marked backward and the trace keeps no marks", "[api]") {
  const auto fn = [](Tensor t) { return grad([](Tensor u) { return sum(exp(u) * u); })(t); };
  const Traced traced = trace(fn, Shape(DType::f32, {3}));
  bool any_backward = false;
  for (const auto& node : traced.module().entry()->nodes()) {
    CHECK_FALSE(node->is(Opcode::copy));
    any_backward = any_backward || node->backward;
  }
  CHECK(any_backward);
}

TEST_CASE("the gradient of an annotated parameter carries its annotation", "[api]") {
  const Mesh mesh{{"x", 4}};
  const auto inside = [&](Tensor w) {
    return grad([&](Tensor t) { return sum(square(mesh_split(t, mesh, {"x", _}))); })(w);
  };
  const auto outside = [&](Tensor w) {
    return grad([](Tensor t) { return sum(square(t)); })(mesh_split(w, mesh, {"x", _}));
  };
  for (const Traced& traced :
       {trace(inside, Shape(DType::f32, {4, 2})), trace(outside, Shape(DType::f32, {4, 2}))}) {
    const Node* gradient = traced.module().entry()->root()->operand(0);
    REQUIRE(gradient->is(Opcode::custom_call));
    CHECK(gradient->backward);
    CHECK(*gradient->sharding == sharding_of(mesh, {"x", _}));
  }
}
