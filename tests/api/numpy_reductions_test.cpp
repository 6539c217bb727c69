#include "api/numpy_cases.h"

using namespace gspmd;
using namespace gspmd::test;

TEST_CASE("reductions are those of NumPy, of nothing too", "[api][numpy]") {
  const NumpyCases cases("reductions");
  cases.check("prod", [](Tensor x) { return prod(x, {.axes = {0, -1}}); });
  cases.check("prod_keep", [](Tensor x) { return prod(x, {.axes = 1, .keep_dims = true}); });
  cases.check("prod_empty", [](Tensor x) { return prod(x, {.axes = 0}); });
  cases.check("any", [](Tensor x) { return any(x, {.axes = 1}); });
  cases.check("all", [](Tensor x) { return all(x, {.axes = 0}); });
  cases.check("all_empty", [](Tensor x) { return all(x, {.axes = 0}); });
  cases.check("var", [](Tensor x) { return var(x, {.axes = -1}); });
  cases.check("var_sample", [](Tensor x) {
    return var(x, {.axes = {0, 1}, .keep_dims = true, .ddof = 1});
  });
  cases.check("stddev", [](Tensor x) { return stddev(x); });
}

TEST_CASE("norms are those of NumPy", "[api][numpy]") {
  const NumpyCases cases("reductions");
  cases.check("norm_0", [](Tensor x) { return norm(x, {.axes = 1, .ord = 0}); });
  cases.check("norm_1", [](Tensor x) { return norm(x, {.axes = 1, .ord = 1}); });
  cases.check("norm_2", [](Tensor x) { return norm(x, {.axes = 1, .ord = 2}); });
  cases.check("norm_3", [](Tensor x) { return norm(x, {.axes = 1, .ord = 3}); });
  cases.check("norm_inf", [](Tensor x) { return norm(x, {.axes = 1, .ord = INFINITY}); });
  cases.check("norm_minus_inf", [](Tensor x) { return norm(x, {.axes = 1, .ord = -INFINITY}); });
  cases.check("norm_all", [](Tensor x) { return norm(x); });
  cases.check("norm_complex", [](Tensor x) { return norm(x, {.axes = 0}); });
}

TEST_CASE("argmax and argmin take the first of equals, and NaN before all", "[api][numpy]") {
  const NumpyCases cases("reductions");
  cases.check("argmax", [](Tensor x) { return argmax(x, {.axis = 1}); });
  cases.check("argmax_all", [](Tensor x) { return argmax(x); });
  cases.check("argmax_ties", [](Tensor x) { return argmax(x, {.axis = 0}); });
  cases.check("argmax_nan", [](Tensor x) { return argmax(x, {.axis = 0}); });
  cases.check("argmax_infinite", [](Tensor x) { return argmax(x); });
  cases.check("argmin", [](Tensor x) { return argmin(x, {.axis = 1}); });
  cases.check("argmin_all", [](Tensor x) { return argmin(x); });
  cases.check("argmin_ties", [](Tensor x) { return argmin(x, {.axis = 0}); });
  cases.check("argmin_nan", [](Tensor x) { return argmin(x, {.axis = 0}); });
  cases.check("argmin_infinite", [](Tensor x) { return argmin(x); });
  const Array x = random_array({DType::f64, {3, 4}}, 1);
  CHECK(run([](Tensor t) { return argmax(t, {.axis = -1, .keep_dims = true}); }, x).dims() ==
        Dims{3, 1});
  CHECK(run([](Tensor t) { return argmax(t, {.keep_dims = true}); }, x).dims() == Dims{1, 1});
}

TEST_CASE("reduce joins by any function of two scalars", "[api][numpy]") {
  const NumpyCases cases("reductions");
  const auto length = [](Tensor a, Tensor b) { return sqrt(a * a + b * b); };
  cases.check("reduce", [&](Tensor x) { return reduce(x, 2., length, {.axes = 1}); });
}

TEST_CASE("running totals are those of NumPy along an axis, backwards and of all elements",
          "[api][numpy]") {
  const NumpyCases cases("reductions");
  cases.check("cumsum", [](Tensor x) { return cumsum(x, {.axis = -1}); });
  cases.check("cumsum_reverse", [](Tensor x) { return cumsum(x, {.axis = 0, .reverse = true}); });
  cases.check("cumsum_flat", [](Tensor x) { return cumsum(x); });
  cases.check("cumsum_empty", [](Tensor x) { return cumsum(x, {.axis = 0}); });
  cases.check("cumprod", [](Tensor x) { return cumprod(x, {.axis = -1}); });
  cases.check("cumprod_reverse", [](Tensor x) { return cumprod(x, {.axis = 0, .reverse = true}); });
  cases.check("cumprod_flat", [](Tensor x) { return cumprod(x); });
  cases.check("cumprod_empty", [](Tensor x) { return cumprod(x, {.axis = 0}); });
  cases.check("cummax", [](Tensor x) { return cummax(x, {.axis = -1}); });
  cases.check("cummax_reverse", [](Tensor x) { return cummax(x, {.axis = 0, .reverse = true}); });
  cases.check("cummax_flat", [](Tensor x) { return cummax(x); });
  cases.check("cummax_empty", [](Tensor x) { return cummax(x, {.axis = 0}); });
  cases.check("cummin", [](Tensor x) { return cummin(x, {.axis = -1}); });
  cases.check("cummin_reverse", [](Tensor x) { return cummin(x, {.axis = 0, .reverse = true}); });
  cases.check("cummin_flat", [](Tensor x) { return cummin(x); });
  cases.check("cummin_empty", [](Tensor x) { return cummin(x, {.axis = 0}); });
  cases.check("cumlogsumexp", [](Tensor x) { return cumlogsumexp(x, {.axis = -1}); });
  cases.check("cumlogsumexp_reverse",
              [](Tensor x) { return cumlogsumexp(x, {.axis = 0, .reverse = true}); });
  cases.check("cumlogsumexp_flat", [](Tensor x) { return cumlogsumexp(x); });
  cases.check("cumlogsumexp_empty", [](Tensor x) { return cumlogsumexp(x, {.axis = 0}); });
  cases.check("cumsum_s32", [](Tensor x) { return cumsum(x, {.axis = 0}); });
}
