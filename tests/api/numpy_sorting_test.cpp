#include "api/numpy_cases.h"

using namespace gspmd;
using namespace gspmd::test;

TEST_CASE("sorting is that of NumPy: NaN last, zeros equal, equals in order", "[api][numpy]") {
  const NumpyCases cases("sorting");
  cases.check("sort", [](Tensor x) { return sort(x); });
  cases.check("sort_axis", [](Tensor x) { return sort(x, {.axis = 0}); });
  cases.check("sort_messy", [](Tensor x) { return sort(x); });
  cases.check("sort_descending", [](Tensor x) { return sort(x, {.axis = 0, .descending = true}); });
  cases.check("sort_empty", [](Tensor x) { return sort(x); });
  cases.check("argsort", [](Tensor x) { return argsort(x, {.axis = 0}); });
  cases.check("argsort_descending",
              [](Tensor x) { return argsort(x, {.axis = 1, .descending = true}); });
  cases.check("argsort_messy", [](Tensor x) { return argsort(x); });
  cases.check("lexicographic", [](Tensor a, Tensor b, Tensor c) {
    return sort(std::vector{a, b, c}, {.axis = 0, .num_keys = 2});
  });
}

TEST_CASE("top_k gives the greatest or least, in order, and where they are", "[api][numpy]") {
  const NumpyCases cases("sorting");
  cases.check("top_k", [](Tensor x) { return top_k(x, 3); });
  cases.check("top_k_axis", [](Tensor x) { return top_k(x, 3, {.axis = 0}); });
  cases.check("least_k", [](Tensor x) { return top_k(x, 2, {.largest = false}); });
}
