#include "api/support.h"
#include "gspmd/ir/module.h"

using namespace gspmd;
using namespace gspmd::test;

namespace vmap_test {
namespace {

Array f64(Dims dims, unsigned seed) { return random_array({DType::f64, std::move(dims)}, seed); }

// fn(slices...) of each slice of the arguments along dim 0, stacked: what vmap(fn) has to be.
template <class Fn>
auto looped(Fn fn) {
  return [fn](const auto&... args) {
    std::vector<Tensor> results;
    const int64_t size = std::get<0>(std::tie(args...)).dim(0);
    for (int64_t i = 0; i < size; ++i) {
      const auto slice = [&](const Tensor& x) {
        Dims dims = x.dims();
        dims.erase(dims.begin());
        return reshape(slice_dim(x, 0, i, i + 1), dims);
      };
      const Tensor one = fn(slice(args)...);
      Dims dims = one.dims();
      dims.insert(dims.begin(), 1);
      results.push_back(reshape(one, dims));
    }
    return concatenate(results, 0);
  };
}

// Whether vmap(fn) is the loop, and its gradient, Jacobian products and second order too.
template <class Fn, class... Args>
Expectation is_looped(Fn fn, const Args&... args) {
  return expect_close({run(vmap(fn), args...)}, {run(looped(fn), args...)}, {1e-12, 1e-13});
}

template <class Fn>
Expectation derives_looped(Fn fn, const Array& x) {
  const auto loss = [](auto f) { return [f](Tensor v) { return sum(sin(f(v))); }; };
  const Expectation gradient = expect_close({run(grad(loss(vmap(fn))), x)},
                                            {run(grad(loss(looped(fn))), x)}, {1e-11, 1e-12});
  if (!gradient) return gradient;
  const auto forward = [](auto f) {
    return [f](Tensor v) { return jvp(f, std::tuple{v}, std::tuple{cos(v)}).second; };
  };
  const Expectation pushed =
      expect_close({run(forward(vmap(fn)), x)}, {run(forward(looped(fn)), x)}, {1e-11, 1e-12});
  if (!pushed) return pushed;
  // vmap of grad.
  const auto one = [fn](Tensor v) { return grad([fn](Tensor u) { return sum(sin(fn(u))); })(v); };
  return is_looped(one, x);
}

template <class T>
struct Layer {
  T w, b;
  GSPMD_FIELDS(w, b)
};

}  // namespace

TEST_CASE("vmap of arithmetic, products and what is closed over is a loop over slices", "[api]") {
  const Array x = f64({3, 4}, 1), y = f64({3, 4}, 2), w = f64({4, 5}, 3);
  const auto fn = [&](Tensor a, Tensor b) {
    return tanh(einsum("i,ij->j", a * b + 2., constant(w))) * sum(b);
  };
  CHECK(is_looped(fn, x, y));
  const auto alone = [&](Tensor a) { return fn(a, a * a); };
  CHECK(derives_looped(alone, x));
  // Of one product with a matrix for all: one matrix product.
  const Traced traced = trace([&](Tensor a) { return vmap(alone)(a); }, Shape(DType::f64, {3, 4}));
  int dots = 0;
  for (const auto& node : traced.module().entry()->nodes()) dots += node->is(Opcode::dot);
  CHECK(dots == 1);
}

TEST_CASE("in_axes and out_axes say which dims count the batch, tree by tree", "[api]") {
  const Array x = f64({4, 3}, 1), w = f64({4, 2}, 2), b = f64({3, 2}, 3);
  const auto fn = [](Tensor v, const Layer<Tensor>& layer) {
    return std::pair{einsum("i,ij->j", v, layer.w) + layer.b, layer.w * 2.};
  };
  const auto expected = [](Tensor v, const Layer<Tensor>& layer) {
    return std::pair{einsum("ib,ij->jb", v, layer.w) + transpose(layer.b, {1, 0}), layer.w * 2.};
  };
  const Layer<Array> layer{w, b};
  const Layer<BatchAxis> axes{not_batched, 0};
  const auto batched = vmap(fn, {.in_axes = {-1, axes}, .out_axes = {1, not_batched}});
  CHECK(expect_close(reference_results(batched, x, layer), reference_results(expected, x, layer),
                     {1e-13, 0}));
  // What does not depend on the batch is repeated where an axis is asked for.
  const auto repeated = [](Tensor v) {
    return vmap(
        [](Tensor a, Tensor c) {
          return std::pair{a + c, c};
        },
        {.in_axes = {0, not_batched}})(v, full({DType::f64, {}}, 7));
  };
  const std::vector<Array> seen = reference_results(repeated, Array::of<double>({2}, {1, 2}));
  CHECK(values(seen[0]) == std::vector<double>{8, 9});
  CHECK(values(seen[1]) == std::vector<double>{7, 7});
  // A vector of tensors, by a list.
  const auto listed = [](Tensor a, Tensor c) {
    return vmap([](const std::vector<Tensor>& v) { return v[0] * v[1]; },
                {.in_axes = {{1, not_batched}}, .out_axes = 1})(std::vector<Tensor>{a, c});
  };
  const Array m = f64({4, 3}, 5), v = f64({4}, 6);
  const auto by_hand = [](Tensor a, Tensor c) { return a * expand_dims(c, 1); };
  CHECK(expect_close({run(listed, m, v)}, {run(by_hand, m, v)}, {0, 0}));
}

TEST_CASE("vmap goes into itself", "[api]") {
  const Array a = f64({3, 4}, 1), b = f64({5, 4}, 2);
  const auto inner = [](Tensor x, Tensor y) { return sum(x * sin(y)); };
  const auto outer =
      vmap(vmap(inner, {.in_axes = {not_batched, 0}}), {.in_axes = {0, not_batched}});
  const auto expected = [](Tensor x, Tensor y) { return einsum("ik,jk->ij", x, sin(y)); };
  CHECK(expect_close({run(outer, a, b)}, {run(expected, a, b)}, {1e-13, 1e-14}));
  const auto twice = [](Tensor x) { return vmap([](Tensor v) { return exp(v) * sum(v); })(x); };
  CHECK(is_looped(twice, f64({2, 3, 4}, 3)));
}

TEST_CASE("vmap of scan, with carries, inputs and captured values that are batched", "[api]") {
  const auto fn = [](Tensor x) {  // [steps, n]
    const Tensor start = reshape(slice_dim(x, 0, 0, 1), {x.dim(1)});
    const auto [last, ys] = scan(
        [&](Tensor c, Tensor v) {
          const Tensor next = tanh(c * v + start);
          return std::pair{next, sum(next * next)};
        },
        zeros({DType::f64, {x.dim(1)}}), x);
    return concatenate({last, ys}, 0);
  };
  CHECK(is_looped(fn, f64({3, 4, 2}, 1)));
  CHECK(derives_looped(fn, f64({3, 4, 2}, 2)));
  // A carry that no element of the batch tells from another stays one.
  const auto counted = [](Tensor x) {
    return fori_loop(
        0, 5, [](Tensor i, Tensor c) { return c * 2. + convert(i, DType::f64); }, x);
  };
  CHECK(is_looped(counted, f64({3, 2}, 3)));
}

TEST_CASE("vmap of while_loop runs as long as any element needs", "[api]") {
  const auto fn = [](Tensor x) {
    return while_loop([](Tensor v) { return sum(v) < 10.; }, [](Tensor v) { return v * 2. + 1.; },
                      x);
  };
  CHECK(is_looped(fn, Array::of<double>({4, 2}, {0, 1, 3, 4, 20, 20, 0, 0})));
}

TEST_CASE("vmap of branches, by one selector and by one for each element", "[api]") {
  const Array x = f64({5, 3}, 1);
  const auto by_value = [](Tensor v) {
    return cond(
        sum(v) > 0., [](Tensor a) { return sin(a); }, [](Tensor a) { return a * a; }, v);
  };
  CHECK(is_looped(by_value, x));
  CHECK(derives_looped(by_value, x));
  const auto by_one = [](Tensor v) {
    const Tensor one = full({DType::f64, {}}, 1);
    return cond(
        one > 0., [](Tensor a) { return sin(a); },
        [](Tensor a) {
          return full({DType::f64, {3}}, 2) + 0. * stop_gradient(a);
        },
        v);
  };
  CHECK(is_looped(by_one, x));
  CHECK(derives_looped(by_one, x));
  const auto chosen = [](Tensor v) {
    std::vector<std::function<Tensor(Tensor)>> branches;
    for (int i = 0; i < 3; ++i)
      branches.push_back([i](Tensor a) { return a * static_cast<double>(i + 2); });
    return switch_case(convert(sum(v) * 3., DType::s32), branches, v);
  };
  CHECK(is_looped(chosen, x));
}

TEST_CASE("vmap of functions that say how they are differentiated", "[api]") {
  const Array x = f64({3, 4}, 1), w = f64({4}, 2);
  const auto kept = [&](Tensor v) {
    return checkpoint([&](Tensor a) { return sin(a * constant(w)) * a; })(v);
  };
  CHECK(is_looped(kept, x));
  CHECK(derives_looped(kept, x));
  const auto own_vjp = [](Tensor v) {
    return custom_vjp([](Tensor a, Tensor b) { return a * b; },
                      [](Tensor a, Tensor b) {
                        return std::pair{a * b, std::pair{a, b}};
                      },
                      [](const std::pair<Tensor, Tensor>& r, Tensor c) {
                        return std::tuple{2. * c * r.second, 3. * c * r.first};
                      })(v, full(v.shape(), 2));
  };
  CHECK(is_looped(own_vjp, x));
  CHECK(derives_looped(own_vjp, x));
  const auto own_jvp = [](Tensor v) {
    return custom_jvp([](Tensor a) { return exp(a); },
                      [](const std::tuple<Tensor>& p, const std::tuple<Tensor>& t) {
                        const Tensor e = exp(std::get<0>(p));
                        return std::pair{e, 3. * e * std::get<0>(t)};
                      })(v);
  };
  CHECK(is_looped(own_jvp, x));
  CHECK(derives_looped(own_jvp, x));
}

TEST_CASE("per-example gradients of a perceptron", "[api]") {
  const Array x = f64({5, 4}, 1), w = f64({4, 3}, 2);
  const auto gradients = [](Tensor inputs, Tensor weights) {
    const auto loss = [](Tensor v, Tensor m) { return sum(square(tanh(einsum("i,ij->j", v, m)))); };
    return vmap(grad<1>(loss), {.in_axes = {0, not_batched}})(inputs, weights);
  };
  const auto looped_gradients = [](Tensor inputs, Tensor weights) {
    return looped([&](Tensor v) {
      return grad([&](Tensor m) { return sum(square(tanh(einsum("i,ij->j", v, m)))); })(weights);
    })(inputs);
  };
  CHECK(expect_close({run(gradients, x, w)}, {run(looped_gradients, x, w)}, {1e-12, 1e-13}));
}

TEST_CASE("vmap of look-ups, of one table and of a table for each element", "[api]") {
  const Array indices = random_integers({DType::s32, {5, 3}}, 1, 0, 5), table = f64({6, 2}, 2);
  const auto of_one = [&](Tensor i) { return take(constant(table), i) * 2.; };
  CHECK(is_looped(of_one, indices));
  const auto of_each = [&](Tensor t) {
    return take(t, constant(Array::of<int32_t>({3}, {2, 0, 2}))) * t;
  };
  CHECK(derives_looped(of_each, f64({4, 3, 3}, 3)));
}

TEST_CASE("vmap on meshes, with the batch over an axis of its own", "[api]") {
  const Array x = f64({4, 6}, 1), w = f64({6, 8}, 2);
  const auto make = [](const Mesh& mesh) {
    return [mesh](Tensor inputs, Tensor weights) {
      const auto layer = [&](Tensor v) {
        const Tensor h = tanh(einsum("i,ij->j", v, weights));
        return mesh.rank() > 0 && mesh.has("model") ? mesh_split(h, mesh, {"model"}) : h;
      };
      const bool stage = mesh.rank() > 0 && mesh.has("stage");
      return sum(square(vmap(layer, {.mesh_axis = stage ? "stage" : ""})(inputs)), {1});
    };
  };
  CHECK(expect_equal_on_meshes(make, {Mesh(), Mesh{{"model", 2}}, Mesh{{"stage", 2}, {"model", 2}}},
                               {1e-12, 1e-13}, x, w));
  const Mesh mesh{{"stage", 2}, {"model", 2}};
  const Traced traced = trace(make(mesh), Shape(DType::f64, {4, 6}), Shape(DType::f64, {6, 8}));
  CHECK_THAT(traced.text(), Catch::Contains("[{'stage'}, {'model'}]"));
}

TEST_CASE("vmap of manual regions and of values that lie alike", "[api]") {
  const Array x = f64({4, 6}, 1), w = f64({6}, 2);
  const std::vector<Mesh> meshes{Mesh(), Mesh{{"x", 2}}, Mesh{{"x", 2}, {"y", 2}}};
  const auto region = [](const Mesh& mesh) {
    return [mesh](Tensor inputs, Tensor weights) {
      return vmap([&](Tensor v) {
        if (mesh.rank() == 0) return v * 3. + weights;
        const Tensor part = auto_to_manual(v, mesh, {"x"}, {"x"});
        return manual_to_auto(part * 3., mesh, {"x"}, {"x"}) + weights;
      })(inputs);
    };
  };
  CHECK(expect_equal_on_meshes(region, meshes, {1e-13, 0}, x, w));
  const auto alike = [](const Mesh& mesh) {
    return [mesh](Tensor inputs, Tensor weights) {
      return vmap([&](Tensor v) {
        const Tensor split = mesh.rank() == 0 ? v : mesh_split(v, mesh, {"x"});
        const auto [a, b] = shard_as(split, weights);
        return sin(a) * b;
      })(inputs);
    };
  };
  CHECK(expect_equal_on_meshes(alike, meshes, {1e-13, 0}, x, w));
}

TEST_CASE("vmap of loops and branches on meshes", "[api]") {
  const Array x = f64({4, 3, 2}, 1), w = f64({2, 2}, 2);
  const auto make = [](const Mesh& mesh) {
    return [mesh](Tensor inputs, Tensor weights) {
      const Tensor split = mesh.rank() == 0 ? inputs : mesh_split(inputs, mesh, {"x", _, _});
      return vmap([&](Tensor v) {
        const Tensor last =
            scan(
                [&](Tensor c, Tensor s) {
                  return std::pair{tanh(einsum("i,ij->j", c, weights) + s), Nothing{}};
                },
                zeros({DType::f64, {2}}), v)
                .first;
        const Tensor grown = while_loop([](Tensor t) { return sum(t * t) < 10.; },
                                        [](Tensor t) { return t * 2. + 1.; }, last);
        return cond(
            sum(last) > 0., [](Tensor t) { return t * 2.; }, [](Tensor t) { return sin(t); },
            grown);
      })(split);
    };
  };
  CHECK(
      expect_equal_on_meshes(make, {Mesh(), Mesh{{"x", 2}}, Mesh{{"x", 4}}}, {1e-12, 1e-13}, x, w));
}

TEST_CASE("what vmap cannot do is an error of the user's line", "[api]") {
  const Shape s(DType::f64, {3, 4}), other(DType::f64, {5, 4}), scalar(DType::f64, {});
  const auto add = [](Tensor a, Tensor b) { return a + b; };
  GSPMD_REQUIRE_ERROR(
      "argument 1 (arg1 f64[5,4]) has 5 elements along axis 0, argument 0 (arg0 "
      "f64[3,4]) has 3 along axis 0; the batch has one size",
      trace([&](Tensor a, Tensor b) { return vmap(add)(a, b); }, s, other));
  GSPMD_REQUIRE_ERROR(
      "in_axes gives axis 2 for argument 0 (arg0 f64[3,4]), which has 2 dims",
      trace([&](Tensor a) { return vmap([](Tensor v) { return v; }, {.in_axes = 2})(a); }, s));
  GSPMD_REQUIRE_ERROR("has no dims, so that it has none for the batch",
                      trace([&](Tensor a) { return vmap([](Tensor v) { return v; })(a); }, scalar));
  GSPMD_REQUIRE_ERROR("in_axes has 1 entries for 2 arguments",
                      trace([&](Tensor a) { return vmap(add, {.in_axes = {0}})(a, a); }, s));
  GSPMD_REQUIRE_ERROR(
      "no argument is batched",
      trace([&](Tensor a) { return vmap([](Tensor v) { return v; }, {.in_axes = not_batched})(a); },
            s));
  GSPMD_REQUIRE_ERROR(
      "out_axes says not_batched for the result",
      trace(
          [&](Tensor a) { return vmap([](Tensor v) { return v; }, {.out_axes = not_batched})(a); },
          s));
  const Mesh mesh{{"stage", 3}};
  GSPMD_REQUIRE_ERROR("that axis in dim 0",
                      trace(
                          [&](Tensor a) {
                            return vmap([&](Tensor v) { return mesh_split(v, mesh, {"stage"}); },
                                        {.mesh_axis = "stage"})(a);
                          },
                          s));
}

}  // namespace vmap_test
