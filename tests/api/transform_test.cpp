#include "api/support.h"
#include "gspmd/ir/module.h"

using namespace gspmd;
using namespace gspmd::test;

namespace transform_test {
namespace {

Tensor block(Tensor x, Tensor w) {
  const Tensor h = named(tanh(einsum("bi,ij->bj", x, w)), "hidden");
  return sin(h) * h + x;
}

}  // namespace

TEST_CASE("checkpoint changes no value and no gradient, at any order", "[api]") {
  const Array x = random_array({DType::f64, {3, 4}}, 1);
  const Array w = random_array({DType::f64, {4, 4}}, 2);
  const auto loss = [&](auto layer) {
    return [&, layer](Tensor v) {
      Tensor h = constant(x);
      for (int i = 0; i < 3; ++i) h = layer(h, v);
      return sum(h * h);
    };
  };
  const Array expected = run(grad(loss(block)), w);
  CHECK(gradient_is_right(loss(block), w));
  for (const CheckpointPolicy& policy :
       {CheckpointPolicy::nothing(), CheckpointPolicy::dots(), CheckpointPolicy::everything(),
        CheckpointPolicy::save_only({"hidden"})}) {
    const auto kept = loss(checkpoint(block, policy));
    CHECK(expect_close({run(kept, w)}, {run(loss(block), w)}, {1e-13, 0}));
    CHECK(expect_close({run(grad(kept), w)}, {expected}, {1e-12, 1e-13}));
    CHECK(gradient_is_right([&](Tensor v) { return sum(square(grad(kept)(v))); }, w));
    // In a scan, in a branch, and closed over instead of passed.
    const auto scanned = [&](Tensor v) {
      const auto layer = checkpoint([&](Tensor h) { return block(h, v); }, policy);
      return sum(square(scan(
                            [&](Tensor h, Nothing) {
                              return std::pair{layer(h), Nothing{}};
                            },
                            constant(x), Nothing{}, {.length = 3})
                            .first));
    };
    CHECK(expect_close({run(grad(scanned), w)}, {expected}, {1e-12, 1e-13}));
  }
}

TEST_CASE("a checkpoint's gradient makes again what it does not save", "[api]") {
  const auto tanhs = [](const CheckpointPolicy& policy) {
    const auto fn = [&](Tensor v, Tensor w) {
      return grad([&](Tensor a) { return sum(checkpoint(block, policy)(a, w)); })(v);
    };
    const Traced traced = trace(fn, Shape(DType::f32, {3, 4}), Shape(DType::f32, {4, 4}));
    int count = 0;
    for (const auto& node : traced.module().entry()->nodes()) count += node->is(Opcode::tanh);
    return count;
  };
  // sum() alone needs no value of the function: all that is left are those of the gradient.
  CHECK(tanhs(CheckpointPolicy::everything()) == 1);
  const auto both = [](const CheckpointPolicy& policy, Opcode opcode) {
    const auto fn = [&](Tensor v, Tensor w) {
      return value_and_grad([&](Tensor a) { return sum(checkpoint(block, policy)(a, w)); })(v);
    };
    const Traced traced = trace(fn, Shape(DType::f32, {3, 4}), Shape(DType::f32, {4, 4}));
    int count = 0;
    for (const auto& node : traced.module().entry()->nodes()) count += node->is(opcode);
    return count;
  };
  CHECK(both(CheckpointPolicy::everything(), Opcode::tanh) == 1);
  CHECK(both(CheckpointPolicy::nothing(), Opcode::tanh) == 2);
  CHECK(both(CheckpointPolicy::save_only({"hidden"}), Opcode::tanh) == 1);
  CHECK(both(CheckpointPolicy::nothing(), Opcode::dot) == 3);
  CHECK(both(CheckpointPolicy::dots(), Opcode::dot) == 2);
  CHECK(both(CheckpointPolicy::dots(), Opcode::tanh) == 2);
}

TEST_CASE("custom_vjp is what is differentiated, in reverse and forward mode", "[api]") {
  // A gradient that is told apart from the true one: twice as large.
  const auto doubled = custom_vjp(
      [](Tensor a, Tensor b) {
        return std::pair{a * b, sin(a)};
      },
      [](Tensor a, Tensor b) {
        return std::pair{std::pair{a * b, sin(a)}, std::pair{a, b}};
      },
      [](const std::pair<Tensor, Tensor>& kept, const std::pair<Tensor, Tensor>& c) {
        const auto& [a, b] = kept;
        return std::tuple{2. * (c.first * b + c.second * cos(a)), 2. * c.first * a};
      });
  const auto fn = [&](Tensor x) {
    const auto [p, s] = doubled(x, x * 3.);
    return sum(p + s);
  };
  const Array x = Array::of<double>({2}, {0.5, 2});
  const auto expected = [](double a) { return 2 * (6 * a + std::cos(a)); };
  CHECK(run(fn, x).item() == Approx(3 * 0.25 + 12 + std::sin(0.5) + std::sin(2.)));
  for (int i = 0; i < 2; ++i) {
    CHECK(values(run(grad(fn), x))[static_cast<size_t>(i)] == Approx(expected(x.at(i))));
    Array direction = Array::of<double>({2}, {0, 0});
    direction.set(i, 1);
    const auto forward = [&](Tensor a, Tensor d) {
      return jvp(fn, std::tuple{a}, std::tuple{d}).second;
    };
    CHECK(run(forward, x, direction).item() == Approx(expected(x.at(i))));
    const auto second = [&](Tensor a, Tensor d) {
      return sum(jvp(grad(fn), std::tuple{a}, std::tuple{d}).second * d);
    };
    CHECK(run(second, x, direction).item() == Approx(12 - 2 * std::sin(x.at(i))));
  }
  GSPMD_REQUIRE_ERROR("pass it as an argument", trace(
                                                    [&](Tensor v) {
                                                      return grad([&](Tensor a) {
                                                        const auto bad = custom_vjp(
                                                            [&](Tensor b) { return a * b; },
                                                            [&](Tensor b) {
                                                              return std::pair{a * b, b};
                                                            },
                                                            [&](Tensor, Tensor c) { return c; });
                                                        return sum(bad(a));
                                                      })(v);
                                                    },
                                                    Shape(DType::f64, {2})));
  GSPMD_REQUIRE_ERROR("backward returns f64[] as tensor 0, it has to be f64[2]",
                      trace(
                          [&](Tensor v) {
                            return custom_vjp([&](Tensor b) { return b * b; },
                                              [&](Tensor b) {
                                                return std::pair{b * b, b};
                                              },
                                              [&](Tensor, Tensor c) { return sum(c); })(v);
                          },
                          Shape(DType::f64, {2})));
}

TEST_CASE("custom_jvp is what is differentiated, in forward and reverse mode", "[api]") {
  const auto tripled =
      custom_jvp([](Tensor a, Tensor b) { return a * b; },
                 [](const std::tuple<Tensor, Tensor>& p, const std::tuple<Tensor, Tensor>& t) {
                   const auto& [a, b] = p;
                   const auto& [da, db] = t;
                   return std::pair{a * b, 3. * (da * b + a * db)};
                 });
  const auto fn = [&](Tensor x) { return sum(tripled(x, sin(x))); };
  const Array x = Array::of<double>({2}, {0.5, 2});
  const auto expected = [](double a) { return 3 * (std::sin(a) + a * std::cos(a)); };
  const std::vector<double> seen = values(run(grad(fn), x));
  CHECK(seen[0] == Approx(expected(0.5)));
  CHECK(seen[1] == Approx(expected(2)));
  const auto forward = [&](Tensor a) {
    return jvp(fn, std::tuple{a}, std::tuple{ones({DType::f64, {2}})}).second;
  };
  CHECK(run(forward, x).item() == Approx(expected(0.5) + expected(2)));
}

}  // namespace transform_test
