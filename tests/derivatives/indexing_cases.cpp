#include "derivatives/cases.h"

namespace gspmd::test {
namespace {

const Array kIndexingAt = f64({3, 5}, 4);
const Array kRows = s32({4}, {2, 0, -1, 2});  // one of them twice
const Array kPlaces = s32({3, 2}, {4, 0, 2, 2, 1, 3});

// Parts of `t` in the place of others, which any index can name.
std::vector<Case> of_at() {
  return {
      GSPMD_CASE("get", kIndexingAt, at(t, kRows, range(1, 4)).get() * t(0, range(0, 3))),
      GSPMD_CASE("set", kIndexingAt, at(t, 1).set(t(0) * 2.) * t),
      GSPMD_CASE("set: of places", kIndexingAt,
                 at(t * t, s32({2}, {2, 0})).set(t(range(0, 2))) * t),
      GSPMD_CASE("set: of a number", kIndexingAt, at(t, all, range({}, {}, 2)).set(2.) * t),
      GSPMD_CASE("add", kIndexingAt, at(t, kRows).add(t(0) * t(1)) * t),
      GSPMD_CASE("subtract", kIndexingAt, at(t, all, kRows).subtract(t(all, range(0, 4)) * 2.) * t),
      GSPMD_CASE("multiply", kIndexingAt, at(t, kRows).multiply(t(1) + 0.4)),
      GSPMD_CASE("divide", kIndexingAt, at(t, 0, range(1, 4)).divide(t(2, range(0, 3)) + 0.4)),
      GSPMD_CASE("divide: of places", kIndexingAt, at(t, kRows).divide(t(1) + 0.6)),
      GSPMD_CASE("min", kIndexingAt, at(t, kRows).min(t(1)) * t),
      GSPMD_CASE("max", kIndexingAt, at(t, kRows).max(t(1)) * t),
  };
}

// Places that are found, through which nothing flows.
std::vector<Case> of_found_places() {
  return {
      GSPMD_CASE("argmax", kIndexingAt, take(t * t, argmax(t, {.axis = 1}), {.axis = 1}) * t(2, 3)),
      GSPMD_CASE("argmin", kIndexingAt, t * t * one_hot(argmin(t, {.axis = 1}), 5, DType::f64)),
      GSPMD_CASE("argsort", kIndexingAt, take_along_axis(t, argsort(t, {.descending = true})) * t),
      GSPMD_CASE("top_k: places", kIndexingAt,
                 take_along_axis(t * t, top_k(sin(t * 3.), 2).second) * t(1, 1)),
      GSPMD_CASE("random_categorical", kIndexingAt, t(random_categorical(3, t(all, 0))) * t),
      GSPMD_CASE("random_bernoulli", kIndexingAt,
                 where(random_bernoulli(4, t, {3, 5}, {.dtype = DType::f64}), t * t, sin(t))),
  };
}

std::vector<Case> of_places() {
  return {
      GSPMD_CASE("operator()", kIndexingAt,
                 t(range({}, {}, -1), newaxis, range(1, 5, 2)) * 3. * t(1, 2)),
      GSPMD_CASE("operator(): of places", kIndexingAt, t(kRows, range(0, 3)) * t(0, range(2, 5))),
      GSPMD_CASE("operator(): of pairs", kIndexingAt,
                 t(kRows, s32({4}, {1, 0, 3, 1})) * t(0, range(0, 4))),
      GSPMD_CASE("take", kIndexingAt, take(t, kPlaces, {.axis = 1}) * t(0, 0)),
      GSPMD_CASE("take_along_axis", kIndexingAt, take_along_axis(t, kPlaces) * t(all, range(0, 2))),
      GSPMD_CASE("dynamic_slice", kIndexingAt,
                 dynamic_slice(t, {1, 2}, {2, 3}) * t(range(0, 2), range(0, 3))),
      GSPMD_CASE("dynamic_slice: at a place that is found", kIndexingAt,
                 dynamic_slice(t, {argmin(t(all, 1)), 2}, {2, 3}) * t(0, range(0, 3))),
      GSPMD_CASE("dynamic_update_slice", kIndexingAt,
                 dynamic_update_slice(t, t(range(0, 2), range(1, 3)) * 3., {1, 2}) * t),
      GSPMD_CASE("sort", kIndexingAt, sort(t, {.axis = 0}) * t),
      GSPMD_CASE("sort: of several", kIndexingAt,
                 sort(std::vector<Tensor>{t, sin(t * 3.)}, {.descending = true})[1] * t),
      GSPMD_CASE("top_k", kIndexingAt, top_k(t, 2).first * t(all, range(0, 2))),
      GSPMD_CASE("top_k: least", kIndexingAt,
                 top_k(t, 2, {.axis = 0, .largest = false}).first * t(range(0, 2))),
  };
}

}  // namespace

std::vector<Case> indexing_cases() {
  std::vector<Case> cases = of_at();
  for (Case& c : cases) c.name = "At::" + c.name;
  for (auto& more : {of_places(), of_found_places()})
    cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

}  // namespace gspmd::test
