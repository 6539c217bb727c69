#include "derivatives/cases.h"

namespace gspmd::test {
namespace {

const Array kAt = f64({3, 5}, 3);

Tensor product(Tensor a, Tensor b) { return a * b; }

}  // namespace

std::vector<Case> reduction_cases() {
  return {
      GSPMD_CASE("sum", kAt, sum(t * t, {.axes = 0})),
      GSPMD_CASE("sum: of all", kAt, sum(t * t) * t),
      GSPMD_CASE("mean", kAt, mean(t * t, {.axes = 1, .keep_dims = true}) * t),
      GSPMD_CASE("max", kAt, max(t, {.axes = 1}) * t(all, 0)),
      GSPMD_CASE("min", kAt, min(t, {.axes = 0}) * t(0)),
      GSPMD_CASE("prod", kAt, prod(t + 0.4, {.axes = 1})),
      GSPMD_CASE("prod: with zeros", kAt,
                 prod(t * Array::of<double>({5}, {1, 0, 2, 1, 1}), {.axes = 1})),
      GSPMD_CASE("var", kAt, var(t, {.axes = 0})),
      GSPMD_CASE("var: of a sample", kAt,
                 var(t, {.axes = {0, 1}, .keep_dims = true, .ddof = 1}) * t),
      GSPMD_CASE("stddev", kAt, stddev(t, {.axes = 1})),
      GSPMD_CASE("norm", kAt, norm(t, {.axes = 1})),
      GSPMD_CASE("norm: of order 3", kAt, norm(t, {.axes = 0, .ord = 3})),
      GSPMD_CASE("norm: greatest", kAt,
                 norm(t, {.axes = 1, .ord = std::numeric_limits<double>::infinity()}) * t(all, 1)),
      GSPMD_CASE("reduce", kAt, reduce(t + 0.4, 1., product, {.axes = 0})),
      GSPMD_CASE("reduce: of init", kAt, reduce(t + 0.4, t(0, 0), product, {.axes = 1})),
      GSPMD_CASE("cumsum", kAt, cumsum(t * t, {.axis = 1, .reverse = true})),
      GSPMD_CASE("cumsum: of all", kAt, cumsum(t * t)),
      GSPMD_CASE("cumprod", kAt, cumprod(t + 0.4, {.axis = 0})),
      GSPMD_CASE("cummax", kAt, cummax(t, {.axis = 1}) * t),
      GSPMD_CASE("cummin", kAt, cummin(t, {.axis = 0}) * t),
      GSPMD_CASE("cumlogsumexp", kAt, cumlogsumexp(t * 2., {.axis = 1})),
      GSPMD_CASE("cumlogsumexp: reversed", kAt, cumlogsumexp(t, {.axis = 0, .reverse = true})),
      GSPMD_CASE("logsumexp", kAt, logsumexp(t * 3.)),
      GSPMD_CASE("softmax", kAt, softmax(t * 3., {.axis = 0})),
      GSPMD_CASE("log_softmax", kAt, log_softmax(t * 3.)),
  };
}

}  // namespace gspmd::test
