#include "api/support.h"
#include "gspmd/ir/module.h"
#include "gspmd/ir/text.h"

using namespace gspmd;
using namespace gspmd::test;

namespace grad_test {
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

TEST_CASE("gradients by several arguments", "[api]") {
  const auto fn = [](Tensor a, Tensor b, Tensor c) { return sum(a * b * b * c); };
  const auto step = [&](Tensor a, Tensor b, Tensor c) {
    const auto [da, dc] = grad<0, 2>(fn)(a, b, c);
    return std::pair{da, dc};
  };
  const std::vector<Array> seen = reference_results(
      step, Array::of<double>({1}, {2}), Array::of<double>({1}, {3}), Array::of<double>({1}, {5}));
  CHECK(seen[0].item() == 45);
  CHECK(seen[1].item() == 18);
}

TEST_CASE("vjp pulls any cotangent back, as often as wanted", "[api]") {
  const auto step = [](Tensor x, Tensor y) {
    const auto fn = [](Tensor a, Tensor b) { return std::pair{a * b, sin(a)}; };
    const auto [value, pull_back] = vjp(fn, std::tuple{x, y});
    const auto [dx, dy] = pull_back(std::pair{ones({DType::f64, {2}}), zeros({DType::f64, {2}})});
    const auto [ex, ey] = pull_back(std::pair{zeros({DType::f64, {2}}), value.first});
    return std::tuple{dx, dy, ex, ey};
  };
  const std::vector<Array> seen =
      reference_results(step, Array::of<double>({2}, {1, 2}), Array::of<double>({2}, {3, 4}));
  CHECK(values(seen[0]) == std::vector<double>{3, 4});
  CHECK(values(seen[1]) == std::vector<double>{1, 2});
  CHECK(values(seen[2])[0] == Approx(std::cos(1) * 3));
  CHECK(values(seen[2])[1] == Approx(std::cos(2) * 8));
  CHECK(values(seen[3]) == std::vector<double>{0, 0});
}

TEST_CASE("jvp agrees with the gradient, and with differences, and nests with it", "[api]") {
  const auto body = [](Tensor c, Tensor v) {
    const Tensor next = cond(
        c > 0.2, [](Tensor a, Tensor b) { return tanh(a * b) + a; },
        [](Tensor a, Tensor b) { return a + b * b; }, c, v);
    return std::pair{next, next * v};
  };
  const auto fn = [&](Tensor x) {
    const auto [last, ys] = scan(body, sum(x) * 0.1, x);
    return last * last + sum(square(ys)) + max(x);
  };
  const Array x = random_array({DType::f64, {5}}, 3);
  const Array v = random_array({DType::f64, {5}}, 4);
  const auto forward = [&](Tensor a, Tensor d) {
    return jvp(fn, std::tuple{a}, std::tuple{d}).second;
  };
  const auto reverse = [&](Tensor a, Tensor d) { return sum(grad(fn)(a) * d); };
  CHECK(expect_close({run(forward, x, v)}, {run(reverse, x, v)}, {1e-12, 1e-12}));
  CHECK(gradient_is_right(fn, x));
  // Forward over reverse, reverse over forward, forward over forward, reverse over reverse.
  const auto direction = [&](Tensor d) {
    return [&fn, d](Tensor a) { return jvp(fn, std::tuple{a}, std::tuple{d}).second; };
  };
  const auto forward_reverse = [&](Tensor a, Tensor d) {
    return sum(jvp(grad(fn), std::tuple{a}, std::tuple{d}).second * d);
  };
  const auto reverse_forward = [&](Tensor a, Tensor d) { return sum(grad(direction(d))(a) * d); };
  const auto forward_forward = [&](Tensor a, Tensor d) {
    return jvp(direction(d), std::tuple{a}, std::tuple{d}).second;
  };
  const auto reverse_reverse = [&](Tensor a, Tensor d) {
    return sum(grad([&](Tensor b) { return sum(grad(fn)(b) * d); })(a) * d);
  };
  const double step = 1e-4;
  const auto at = [&](double t) {
    Array moved = x.clone();
    for (int64_t i = 0; i < x.size(); ++i) moved.set(i, x.at(i) + t * v.at(i));
    return run(fn, moved).item();
  };
  const double expected = (at(step) - 2 * at(0) + at(-step)) / (step * step);
  CHECK(run(forward_reverse, x, v).item() == Approx(expected).epsilon(1e-5));
  CHECK(run(reverse_forward, x, v).item() == Approx(expected).epsilon(1e-5));
  CHECK(run(forward_forward, x, v).item() == Approx(expected).epsilon(1e-5));
  CHECK(run(reverse_reverse, x, v).item() == Approx(expected).epsilon(1e-5));
}

TEST_CASE("jvp goes through while loops whose length is not known", "[api]") {
  const auto root = [](Tensor a) {  // Newton's iteration
    return while_loop([&](Tensor y) { return abs(y * y - a) > 1e-12; },
                      [&](Tensor y) { return (y + a / y) * 0.5; }, a);
  };
  const auto derivative = [&](Tensor a) {
    return jvp(root, std::tuple{a}, std::tuple{ones({DType::f64, {}})}).second;
  };
  CHECK(run(derivative, Array::scalar<double>(7)).item() == Approx(0.5 / std::sqrt(7.)));
}

TEST_CASE("gradients pass through calls of HLO, in every order", "[api]") {
  const auto module = parse_module(R"(HloModule m
inner {
  x = f64[3] parameter(0)
  y = f64[3] sine(x)
  ROOT t = (f64[3], f64[3]) tuple(y, x)
}
ENTRY main {
  x = f64[3] parameter(0)
  c = (f64[3], f64[3]) call(x), to_apply=inner
  a = f64[3] get-tuple-element(c), index=0
  b = f64[3] get-tuple-element(c), index=1
  d = (f64[3], (f64[3])) call(a), to_apply=nested
  e = (f64[3]) get-tuple-element(d), index=1
  f = f64[3] get-tuple-element(e), index=0
  p = f64[3] multiply(f, b)
  k = f64[3] call(p), to_apply=array
  q = (f64[3], f64[3]) tuple(k, b)
  ROOT r = (f64[3], f64[3]) opt-barrier(q)
}
nested {
  x = f64[3] parameter(0)
  y = f64[3] multiply(x, x)
  z = (f64[3]) tuple(y)
  ROOT t = (f64[3], (f64[3])) tuple(x, z)
}
array {
  x = f64[3] parameter(0)
  ROOT y = f64[3] cosine(x)
}
)");
  const auto fn = [&](Tensor x) {
    const std::vector<Tensor> results = call_hlo(*module, {x});
    return sum(square(results[0]) + results[1]);
  };
  CHECK(derivatives_are_right(fn, random_array({DType::f64, {3}}, 7)));
}

TEST_CASE("vjp's pull back works in the bodies of vmap, scan and cond", "[api]") {
  const auto fn = [](Tensor a) { return sin(a) * sum(a); };
  const Array x = random_array({DType::f64, {3}}, 5);
  // d fn_i / d x_j = cos(x_i) sum(x) [i == j] + sin(x_i)
  Array expected(DType::f64, {3, 3});
  const double total = x.at(0) + x.at(1) + x.at(2);
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 3; ++j)
      expected.set(i * 3 + j, (i == j ? std::cos(x.at(i)) * total : 0) + std::sin(x.at(i)));

  const auto by_vmap = [&](Tensor t) {
    return vmap(vjp(fn, std::tuple{t}).second)(eye(3, {.dtype = DType::f64}));
  };
  CHECK(expect_close({run(by_vmap, x)}, {expected}, {1e-12, 1e-12}));
  const auto by_map = [&](Tensor t) {
    return map(vjp(fn, std::tuple{t}).second, eye(3, {.dtype = DType::f64}));
  };
  CHECK(expect_close({run(by_map, x)}, {expected}, {1e-12, 1e-12}));
  const auto in_branch = [&](Tensor t) {
    const auto pull_back = vjp(fn, std::tuple{t}).second;
    return cond(
        sum(t) < 100, [&](Tensor c) { return pull_back(c); }, [](Tensor c) { return c; },
        eye(3, {.dtype = DType::f64})(1));
  };
  Array row(DType::f64, {3});
  for (int64_t j = 0; j < 3; ++j) row.set(j, expected.at(3 + j));
  CHECK(expect_close({run(in_branch, x)}, {row}, {1e-12, 1e-12}));
  // and such a matrix can be differentiated
  CHECK(gradient_is_right([&](Tensor t) { return sum(square(by_vmap(t))); }, x));
}

}  // namespace grad_test
