#include "api/support.h"
#include "gspmd/ir/module.h"

using namespace gspmd;
using namespace gspmd::test;

namespace {

template <class T>
struct Cell {
  T h, c;
  GSPMD_FIELDS(h, c)
};

template <class T>
struct Weights {
  T w, u, b;
  GSPMD_FIELDS(w, u, b)
};

Cell<Tensor> lstm(const Weights<Tensor>& p, const Cell<Tensor>& cell, Tensor x) {
  const Tensor gates = einsum("bi,ih->bh", x, p.w) + einsum("bh,hg->bg", cell.h, p.u) + p.b;
  const int64_t n = cell.h.dim(1);
  const auto gate = [&](int64_t i) { return slice_dim(gates, 1, i * n, (i + 1) * n); };
  const Tensor c = sigmoid(gate(0)) * cell.c + sigmoid(gate(1)) * tanh(gate(2));
  return {sigmoid(gate(3)) * tanh(c), c};
}

Array weights(Dims dims, unsigned seed) {
  return random_array({DType::f64, std::move(dims)}, seed);
}

// The same recurrence written out.
template <class Step>
Tensor unrolled(Tensor carry, Tensor xs, Step step) {
  for (int64_t i = 0; i < xs.dim(0); ++i)
    carry = step(carry, reshape(slice_dim(xs, 0, i, i + 1), {xs.dim(1)}));
  return carry;
}

}  // namespace

TEST_CASE("scan carries, cuts inputs and stacks outputs", "[api]") {
  const auto fn = [](Tensor xs) {
    return scan(
        [](Tensor total, Tensor x) {
          return std::pair{total + x, total * x};
        },
        zeros({DType::f64, {2}}), xs);
  };
  const Array xs = Array::of<double>({3, 2}, {1, 2, 3, 4, 5, 6});
  const std::vector<Array> seen = reference_results(fn, xs);
  REQUIRE(seen.size() == 2);
  CHECK(values(seen[0]) == std::vector<double>{9, 12});
  CHECK(values(seen[1]) == std::vector<double>{0, 0, 3, 8, 20, 36});
}

TEST_CASE("scan runs in reverse, unrolled, without inputs, and not at all", "[api]") {
  const Array xs = Array::of<double>({5}, {1, 2, 3, 4, 5});
  for (const int64_t unroll : {1, 2, 3, 5, 7}) {
    INFO("unroll " << unroll);
    for (const bool reverse : {false, true}) {
      const auto fn = [&](Tensor x) {
        return scan(
            [](Tensor c, Tensor v) {
              return std::pair{c * 2. + v, c};
            },
            zeros({DType::f64, {}}), x, {.reverse = reverse, .unroll = unroll});
      };
      const std::vector<Array> seen = reference_results(fn, xs);
      double c = 0;
      std::vector<double> ys(5);
      for (int i = 0; i < 5; ++i) {
        const int at = reverse ? 4 - i : i;
        ys[static_cast<size_t>(at)] = c;
        c = c * 2 + xs.at(at);
      }
      CHECK(seen[0].item() == c);
      CHECK(values(seen[1]) == ys);
    }
  }
  const auto doubled = [](Tensor x) {
    return scan(
               [](Tensor c, Nothing) {
                 return std::pair{c * 2., Nothing{}};
               },
               x, Nothing{}, {.length = 4})
        .first;
  };
  CHECK(values(run(doubled, xs)) == std::vector<double>{16, 32, 48, 64, 80});
  const auto none = [](Tensor x) {
    return scan(
        [](Tensor c, Tensor v) {
          return std::pair{c + v, v};
        },
        zeros({DType::f64, {}}), slice_dim(x, 0, 0, 0));
  };
  const std::vector<Array> seen = reference_results(none, xs);
  CHECK(seen[0].item() == 0);
  CHECK(seen[1].dims() == Dims{0});
}

TEST_CASE("fori_loop, while_loop and map", "[api]") {
  const auto power = [](Tensor x) {
    return fori_loop(
        2, 5, [&](Tensor i, Tensor c) { return c * x + convert(i, DType::f64); },
        zeros({DType::f64, {}}));
  };
  CHECK(run(power, Array::scalar<double>(3)).item() == (2 * 3. + 3) * 3 + 4);
  const auto collatz = [](Tensor n) {
    using State = std::pair<Tensor, Tensor>;
    return while_loop([](const State& s) { return s.first > 1; },
                      [](const State& s) {
                        const Tensor even = equal(remainder(s.first, 2), 0);
                        return State{where(even, s.first / 2, s.first * 3 + 1), s.second + 1};
                      },
                      State{n, zeros_like(n)})
        .second;
  };
  CHECK(run(collatz, Array::scalar<int32_t>(27)).item() == 111);
  const auto squares = [](Tensor x) { return map([](Tensor v) { return sum(v * v); }, x); };
  CHECK(values(run(squares, Array::of<double>({2, 2}, {1, 2, 3, 4}))) ==
        std::vector<double>{5, 25});
}

TEST_CASE("cond and switch_case run one branch", "[api]") {
  const auto fn = [](Tensor x) {
    return cond(
        sum(x) > 0,
        [](Tensor v) {
          return std::pair{v + 1, v * 2.};
        },
        [](Tensor v) {
          return std::pair{-v, v};
        },
        x);
  };
  CHECK(values(reference_results(fn, Array::of<double>({2}, {1, 2}))[0]) ==
        std::vector<double>{2, 3});
  CHECK(values(reference_results(fn, Array::of<double>({2}, {-1, -2}))[0]) ==
        std::vector<double>{1, 2});
  const auto choose = [](Tensor i, Tensor x) {
    std::vector<std::function<Tensor(Tensor)>> branches{[](Tensor v) { return v * 10.; },
                                                        [](Tensor v) { return v * 20.; },
                                                        [](Tensor v) { return v * 30.; }};
    return switch_case(i, branches, x);
  };
  for (const auto& [index, factor] :
       std::vector<std::pair<int, double>>{{-3, 10}, {0, 10}, {1, 20}, {2, 30}, {9, 30}})
    CHECK(run(choose, Array::scalar<int32_t>(index), Array::scalar<double>(1)).item() == factor);
}

TEST_CASE("gradients of scans agree with those of the steps written out", "[api]") {
  const Array xs = weights({4, 3}, 1);
  const auto step = [](Tensor c, Tensor x) { return tanh(c * x + x) + c * c; };
  const auto by_scan = [&](Tensor v) {
    const auto [last, ys] = scan(
        [&](Tensor c, Tensor x) {
          return std::pair{step(c, x), sum(c * x)};
        },
        ones({DType::f64, {3}}) * 0.5, v);
    return sum(last * last) + sum(ys * ys);
  };
  CHECK(gradient_is_right(by_scan, xs));
  const auto by_hand = [&](Tensor v) {
    return sum(square(unrolled(ones({DType::f64, {3}}) * 0.5, v, step)));
  };
  const auto last_only = [&](Tensor v) {
    return sum(square(scan(
                          [&](Tensor c, Tensor x) {
                            return std::pair{step(c, x), Nothing{}};
                          },
                          ones({DType::f64, {3}}) * 0.5, v)
                          .first));
  };
  CHECK(expect_close({run(grad(last_only), xs)}, {run(grad(by_hand), xs)}, {1e-12, 1e-12}));
  // And of second order.
  const auto twice = [](auto f) { return [f](Tensor v) { return sum(square(grad(f)(v))); }; };
  CHECK(expect_close({run(grad(twice(last_only)), xs)}, {run(grad(twice(by_hand)), xs)},
                     {1e-11, 1e-11}));
  CHECK(gradient_is_right(twice(by_scan), xs));
}

TEST_CASE("gradients of an LSTM over time", "[api]") {
  const Weights<Array> p{weights({3, 8}, 1), weights({2, 8}, 2), weights({8}, 3)};
  const Array xs = weights({5, 4, 3}, 4);
  for (const bool reverse : {false, true}) {
    const auto loss = [&](const Weights<Tensor>& w, Tensor x) {
      const Cell<Tensor> start{zeros({DType::f64, {4, 2}}), zeros({DType::f64, {4, 2}})};
      const auto [cell, hs] = scan(
          [&](const Cell<Tensor>& now, Tensor in) {
            const Cell<Tensor> next = lstm(w, now, in);
            return std::pair{next, next.h};
          },
          start, x, {.reverse = reverse});
      return sum(square(hs)) + sum(cell.c);
    };
    const auto step = [&](Weights<Tensor> w, Tensor x) { return grad(loss)(w, x); };
    const std::vector<Array> seen = reference_results(step, p, xs);
    const std::vector<Array> leaves = detail::argument_leaves(p);
    for (size_t leaf = 0; leaf < 3; ++leaf) {
      const auto at = [&](Tensor moved) {
        size_t next = 0;
        return loss(map_tree(p,
                             [&](const std::string&, const Array& array) {
                               return next++ == leaf ? moved : constant(array);
                             }),
                    constant(xs));
      };
      INFO("leaf " << leaf);
      CHECK(expect_close({seen[leaf]}, {numeric_gradient(at, leaves[leaf])}, {1e-6, 1e-8}));
    }
  }
}

TEST_CASE("gradients of branches, nested in each other and in loops", "[api]") {
  const auto f = [](Tensor x) {
    return cond(
        sum(x) > 0.3, [](Tensor v) { return sum(sin(v) * v); },
        [](Tensor v) {
          return cond(
              sum(v) > -1., [](Tensor u) { return sum(exp(u)); },
              [](Tensor u) { return sum(u * u * u); }, v * 2.);
        },
        x);
  };
  for (const double shift : {1.0, -0.2, -3.0}) {
    Array x = weights({3}, 5);
    for (int64_t i = 0; i < 3; ++i) x.set(i, x.at(i) + shift);
    INFO("shift " << shift);
    CHECK(gradient_is_right(f, x));
    CHECK(gradient_is_right([&](Tensor v) { return sum(square(grad(f)(v))); }, x));
  }
  const auto loop = [](Tensor xs) {
    const auto body = [](Tensor c, Tensor x) {
      const Tensor next = cond(
          c > 0., [](Tensor a, Tensor b) { return a * cos(b) - b; },
          [](Tensor a, Tensor b) { return a + b * b; }, c, x);
      const Tensor inner = fori_loop(
          0, 3, [&](Tensor i, Tensor v) { return sin(v + convert(i, DType::f64) * x); }, next);
      return std::pair{next + 0.1 * inner, inner * x};
    };
    const auto [last, ys] = scan(body, zeros({DType::f64, {}}) + 0.2, xs);
    return last * last + sum(ys);
  };
  const Array xs = weights({6}, 6);
  CHECK(gradient_is_right(loop, xs));
  CHECK(gradient_is_right([&](Tensor v) { return sum(square(grad(loop)(v))); }, xs));
}

TEST_CASE("a gradient may be taken inside a body", "[api]") {
  // Steepest descent on a quadratic, and the derivative of where it ends.
  const auto descend = [](Tensor target) {
    const auto loss = [&](Tensor w) { return sum(square(w - target) * 0.5); };
    return sum(fori_loop(
                   0, 4, [&](Tensor, Tensor w) { return w - grad(loss)(w) * 0.25; },
                   zeros({DType::f64, {2}})) *
               target);
  };
  CHECK(gradient_is_right(descend, Array::of<double>({2}, {1, -2})));
}

TEST_CASE("mistakes with loops and branches say what to change", "[api]") {
  const Shape vector(DType::f32, {3});
  GSPMD_REQUIRE_ERROR(
      "the carry that the body returns is f32[], the first carry is f32[3]",
      trace(
          [](Tensor x) {
            return scan([](Tensor c, Tensor v) { return std::pair{v, c}; }, x, x).first;
          },
          vector));
  GSPMD_REQUIRE_ERROR("convert(x, DType::f32)", trace(
                                                    [](Tensor x) {
                                                      return fori_loop(
                                                          0, 3, [](Tensor i, Tensor) { return i; },
                                                          sum(x));
                                                    },
                                                    vector));
  GSPMD_REQUIRE_ERROR("has 2 slices, the first input has 3",
                      trace(
                          [](Tensor x) {
                            return scan(
                                       [](Tensor c, std::pair<Tensor, Tensor>) {
                                         return std::pair{c, Nothing{}};
                                       },
                                       sum(x), std::pair{x, slice_dim(x, 0, 0, 2)})
                                .first;
                          },
                          vector));
  GSPMD_REQUIRE_ERROR("return it from the body", trace(
                                                     [](Tensor x) {
                                                       Tensor leaked;
                                                       scan(
                                                           [&](Tensor c, Tensor v) {
                                                             leaked = v * v;
                                                             return std::pair{c, Nothing{}};
                                                           },
                                                           sum(x), x);
                                                       return leaked + 1;
                                                     },
                                                     vector));
  GSPMD_REQUIRE_ERROR("branch 1 is f32[], branch 0 is f32[3]",
                      trace(
                          [](Tensor x) {
                            return cond(
                                sum(x) > 0, [](Tensor v) { return v; },
                                [](Tensor v) { return sum(v); }, x);
                          },
                          vector));
  GSPMD_REQUIRE_ERROR("use scan()", trace(
                                        [](Tensor x) {
                                          return grad([](Tensor v) {
                                            return while_loop([](Tensor c) { return c < 10.f; },
                                                              [](Tensor c) { return c * 2.f; },
                                                              sum(v));
                                          })(x);
                                        },
                                        vector));
}

TEST_CASE("loops and branches and their gradients are the same on every mesh", "[api]") {
  const std::vector<Mesh> meshes{Mesh{{"x", 1}}, Mesh{{"x", 2}, {"y", 2}}, Mesh{{"x", 3}},
                                 Mesh{{"x", 4}, {"y", 2}}};
  const Weights<Array> p{weights({3, 8}, 1), weights({2, 8}, 2), weights({8}, 3)};
  const Array xs = weights({5, 6, 3}, 4);
  const auto make = [](const Mesh& mesh) {
    const std::string last = mesh.axes().size() > 1 ? "y" : "x";
    return [mesh, last](Weights<Tensor> w, Tensor x) {
      const auto loss = [&](const Weights<Tensor>& q, Tensor in) {
        const Cell<Tensor> start{zeros({DType::f64, {6, 2}}), zeros({DType::f64, {6, 2}})};
        const auto [cell, hs] = scan(
            [&](const Cell<Tensor>& now, Tensor slice) {
              Cell<Tensor> next = lstm(q, now, slice);
              next.h = mesh_split(next.h, mesh, {"x", _});
              next = cond(
                  sum(next.c) > 0., [](const Cell<Tensor>& a) { return a; },
                  [](const Cell<Tensor>& a) {
                    return Cell<Tensor>{a.c, a.h * 2.};
                  },
                  next);
              return std::pair{next, next.h};
            },
            start, in);
        return sum(square(hs)) + sum(cell.c);
      };
      w.u = mesh_split(w.u, mesh, {_, last.c_str()});
      const auto [value, grads] = value_and_grad<0, 1>(loss)(w, x);
      return std::tuple{value, std::get<0>(grads), std::get<1>(grads)};
    };
  };
  CHECK(expect_equal_on_meshes(make, meshes, {1e-10, 1e-12}, p, xs));
  // Inputs and outputs split along the dim of the steps as well.
  const auto stacked = [](const Mesh& mesh) {
    return [mesh](Tensor x) {
      const auto f = [&](Tensor v) {
        const auto [last, ys] = scan(
            [](Tensor c, Tensor s) {
              return std::pair{tanh(c + s), c * s};
            },
            zeros({DType::f64, {6, 3}}), mesh_split(v, mesh, {"x", _, _}));
        return sum(square(mesh_split(ys, mesh, {"x", _, _}))) + sum(last);
      };
      return value_and_grad(f)(x);
    };
  };
  CHECK(expect_equal_on_meshes(stacked, meshes, {1e-10, 1e-12}, xs));
  const auto loops = [](const Mesh& mesh) {
    return [mesh](Tensor x) {
      const auto root = [&](Tensor a) {
        return sum(while_loop([&](Tensor y) { return max(abs(y * y - a)) > 1e-9; },
                              [&](Tensor y) {
                                return mesh_split((y + a / y) * 0.5, mesh, {"x", _, _});
                              },
                              a));
      };
      return jvp(root, std::tuple{x * x + 1.}, std::tuple{x});
    };
  };
  CHECK(expect_equal_on_meshes(loops, meshes, {1e-8, 1e-9}, xs));
}

TEST_CASE("a cotangent reaches a carry through any number of others, in either order", "[api]") {
  // Each carry is read by the next one only: three steps bring the first into the last.
  const auto chain = [](bool backwards) {
    return [backwards](Tensor start) {
      std::vector<Tensor> carry;
      for (int64_t i = 0; i < 4; ++i) {
        carry.push_back(reshape(slice_dim(start, 0, i, i + 1), {}));
      }
      if (backwards) std::reverse(carry.begin(), carry.end());
      const auto body = [backwards](Tensor, const std::vector<Tensor>& now) {
        std::vector<Tensor> next = now;
        for (size_t i = 0; i + 1 < now.size(); ++i) {
          const size_t from = backwards ? i + 1 : i, to = backwards ? i : i + 1;
          next[to] = now[to] + sin(now[from]);
        }
        return next;
      };
      const std::vector<Tensor> last = fori_loop(0, 5, body, carry);
      return square(backwards ? last.front() : last.back());
    };
  };
  const Array start = random_array({DType::f64, {4}}, 11);
  CHECK(derivatives_are_right(chain(false), start));
  CHECK(derivatives_are_right(chain(true), start));
  // A batch reaches the last carry the same way.
  const Array starts = random_array({DType::f64, {3, 4}}, 12);
  for (const bool backwards : {false, true}) {
    const Array all = run(vmap(chain(backwards)), starts);
    for (int64_t i = 0; i < 3; ++i) {
      const auto one = [&](Tensor rows) {
        return chain(backwards)(reshape(slice_dim(rows, 0, i, i + 1), {4}));
      };
      CHECK(all.at(i) == Approx(run(one, starts).item()));
    }
  }
}

TEST_CASE("what only marks functions leaves nothing in the program", "[api]") {
  const Traced traced = trace(
      [](Tensor xs) {
        return grad([](Tensor v) {
          const auto step =
              checkpoint([](Tensor c, Tensor x) { return tanh(c * x) + layer_norm(c, 1.f); });
          return sum(scan(
                         [&](Tensor c, Tensor x) {
                           return std::pair{step(c, x), Nothing{}};
                         },
                         zeros({DType::f32, {4}}), v)
                         .first);
        })(xs);
      },
      Shape(DType::f32, {3, 4}));
  // main, and a condition and a body of each of two loops, and what their sums add by.
  for (const auto& computation : traced.module().computations()) {
    bool called = computation.get() == traced.module().entry();
    for (const auto& other : traced.module().computations())
      for (const auto& node : other->nodes()) {
        for (const Computation* callee : node->called)
          called = called || callee == computation.get();
        CHECK(node->attrs.custom_call_target == "");
      }
    INFO(computation->name());
    CHECK(called);
  }
}

TEST_CASE("map is named in its errors", "[control][errors]") {
  const auto same = [](Tensor t) { return t; };
  GSPMD_REQUIRE_ERROR("map: input arg0 f32[] has no dim 0",
                      trace([&](Tensor x) { return map(same, x); }, Shape(DType::f32, {})));
}
