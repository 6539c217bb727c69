#include "derivatives/cases.h"

namespace gspmd::test {
namespace {

const Array kReductionAt = f64({3, 5}, 3);

Tensor product(Tensor a, Tensor b) { return a * b; }

}  // namespace

std::vector<Case> reduction_cases() {
  return {
      GSPMD_CASE("sum", kReductionAt, sum(t * t, {.axes = 0})),
      GSPMD_CASE("sum: of all", kReductionAt, sum(t * t) * t),
      GSPMD_CASE("mean", kReductionAt, mean(t * t, {.axes = 1, .keep_dims = true}) * t),
      GSPMD_CASE("max", kReductionAt, max(t, {.axes = 1}) * t(all, 0)),
      GSPMD_CASE("min", kReductionAt, min(t, {.axes = 0}) * t(0)),
      GSPMD_CASE("prod", kReductionAt, prod(t + 0.4, {.axes = 1})),
      GSPMD_CASE("prod: with zeros", kReductionAt,
                 prod(t * Array::of<double>({5}, {1, 0, 2, 1, 1}), {.axes = 1})),
      GSPMD_CASE("var", kReductionAt, var(t, {.axes = 0})),
      GSPMD_CASE("var: of a sample", kReductionAt,
                 var(t, {.axes = {0, 1}, .keep_dims = true, .ddof = 1}) * t),
      GSPMD_CASE("stddev", kReductionAt, stddev(t, {.axes = 1})),
      GSPMD_CASE("norm", kReductionAt, norm(t, {.axes = 1})),
      GSPMD_CASE("norm: of order 3", kReductionAt, norm(t, {.axes = 0, .ord = 3})),
      GSPMD_CASE("norm: greatest", kReductionAt,
                 norm(t, {.axes = 1, .ord = std::numeric_limits<double>::infinity()}) * t(all, 1)),
      GSPMD_CASE("reduce", kReductionAt, reduce(t + 0.4, 1., product, {.axes = 0})),
      GSPMD_CASE("reduce: of init", kReductionAt, reduce(t + 0.4, t(0, 0), product, {.axes = 1})),
      GSPMD_CASE("cumsum", kReductionAt, cumsum(t * t, {.axis = 1, .reverse = true})),
      GSPMD_CASE("cumsum: of all", kReductionAt, cumsum(t * t)),
      GSPMD_CASE("cumprod", kReductionAt, cumprod(t + 0.4, {.axis = 0})),
      GSPMD_CASE("cummax", kReductionAt, cummax(t, {.axis = 1}) * t),
      GSPMD_CASE("cummin", kReductionAt, cummin(t, {.axis = 0}) * t),
      GSPMD_CASE("cumlogsumexp", kReductionAt, cumlogsumexp(t * 2., {.axis = 1})),
      GSPMD_CASE("cumlogsumexp: reversed", kReductionAt,
                 cumlogsumexp(t, {.axis = 0, .reverse = true})),
      GSPMD_CASE("logsumexp", kReductionAt, logsumexp(t * 3.)),
      GSPMD_CASE("softmax", kReductionAt, softmax(t * 3., {.axis = 0})),
      GSPMD_CASE("log_softmax", kReductionAt, log_softmax(t * 3.)),
  };
}

}  // namespace gspmd::test
