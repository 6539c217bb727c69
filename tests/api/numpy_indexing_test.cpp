#include "api/numpy_cases.h"

using namespace gspmd;
using namespace gspmd::test;

TEST_CASE("indices are those of NumPy", "[api][numpy]") {
  const NumpyCases cases("indexing");
  cases.check("number", [](Tensor x) { return x(2); });
  cases.check("numbers", [](Tensor x) { return x(-1, ellipsis, 3); });
  cases.check("ranges",
              [](Tensor x) { return x(range(1, 5, 2), range({}, {}, -1), range(-3, {})); });
  cases.check("outside", [](Tensor x) { return x(range(-99, 3), range(4, 99), range(3, 1)); });
  cases.check("backwards", [](Tensor x) { return x(range(5, 0, -2), all, range(2, {}, -1)); });
  cases.check("newaxis", [](Tensor x) { return x(newaxis, 1, ellipsis, newaxis); });
  cases.check("rows", [](Tensor a, Tensor b) { return a(b); });
  cases.check("middle", [](Tensor a, Tensor b) { return a(all, b); });
  cases.check("together", [](Tensor a, Tensor b, Tensor c) { return a(b, c); });
  cases.check("apart", [](Tensor a, Tensor b, Tensor c) { return a(b, all, c); });
  cases.check("broadcast", [](Tensor a, Tensor b, Tensor c) { return a(range(1, 5), c, b); });
  cases.check("number_beside", [](Tensor a, Tensor b) { return a(b, all, 2); });
  cases.check("range_beside", [](Tensor a, Tensor b) { return a(b, range(4, 0, -2), newaxis); });
  cases.check("small_type", [](Tensor a, Tensor b) { return a(b); });
}

TEST_CASE("parts are replaced as in NumPy", "[api][numpy]") {
  const NumpyCases cases("indexing");
  cases.check("set", [](Tensor a, Tensor b) { return at(a, 2).set(b); });
  cases.check("set_ranges",
              [](Tensor a, Tensor b) { return at(a, range(1, 6, 2), range({}, {}, -1)).set(b); });
  cases.check("set_backwards", [](Tensor a, Tensor b) {
    return at(a, range(5, 0, -3), all, range(2, {}, -1)).set(b);
  });
  cases.check("set_nothing", [](Tensor a, Tensor b) { return at(a, range(3, 1)).set(b); });
  cases.check("set_rows", [](Tensor a, Tensor b, Tensor c) { return at(a, c).set(b); });
  cases.check("set_together",
              [](Tensor a, Tensor b, Tensor c, Tensor d) { return at(a, c, d).set(b); });
  cases.check("set_mixed", [](Tensor a, Tensor b, Tensor c) {
    return at(a, range(0, 2), c, range(1, 3)).set(b);
  });
  cases.check("set_apart",
              [](Tensor a, Tensor b, Tensor c, Tensor d) { return at(a, c, all, d).set(b); });
  cases.check("add", [](Tensor a, Tensor b, Tensor c) { return at(a, c).add(b); });
  cases.check("add_range", [](Tensor a, Tensor b) { return at(a, 2, range({}, {}, 2)).add(b); });
  cases.check("subtract", [](Tensor a, Tensor b, Tensor c) { return at(a, c).subtract(b); });
  cases.check("subtract_range",
              [](Tensor a, Tensor b) { return at(a, 2, range({}, {}, 2)).subtract(b); });
  cases.check("multiply", [](Tensor a, Tensor b, Tensor c) { return at(a, c).multiply(b); });
  cases.check("multiply_range",
              [](Tensor a, Tensor b) { return at(a, 2, range({}, {}, 2)).multiply(b); });
  cases.check("divide", [](Tensor a, Tensor b, Tensor c) { return at(a, c).divide(b); });
  cases.check("divide_range",
              [](Tensor a, Tensor b) { return at(a, 2, range({}, {}, 2)).divide(b); });
  cases.check("min", [](Tensor a, Tensor b, Tensor c) { return at(a, c).min(b); });
  cases.check("min_range", [](Tensor a, Tensor b) { return at(a, 2, range({}, {}, 2)).min(b); });
  cases.check("max", [](Tensor a, Tensor b, Tensor c) { return at(a, c).max(b); });
  cases.check("max_range", [](Tensor a, Tensor b) { return at(a, 2, range({}, {}, 2)).max(b); });
}

TEST_CASE("parts outside are clamped when read and left out when written", "[api][numpy]") {
  const Array x = Array::of<double>({3}, {1, 2, 3});
  const Array far = Array::of<int32_t>({3}, {9, -9, 1});
  CHECK(values(run([&](Tensor t) { return t(far); }, x)) == std::vector<double>{3, 1, 2});
  CHECK(values(run([&](Tensor t) { return at(t, far).get(); }, x)) == std::vector<double>{3, 1, 2});
  CHECK(values(run([&](Tensor t) { return at(t, far).set(7.); }, x)) ==
        std::vector<double>{1, 7, 3});
}

TEST_CASE("reads along a dim and of moved parts are those of NumPy", "[api][numpy]") {
  const NumpyCases cases("indexing");
  cases.check("take", [](Tensor a, Tensor b) { return take(a, b, {.axis = -2}); });
  cases.check("take_along_axis", [](Tensor a, Tensor b) { return take_along_axis(a, b, 0); });
  cases.check("take_along_axis_broadcast",
              [](Tensor a, Tensor b) { return take_along_axis(a, b); });
  cases.check("dynamic_slice", [](Tensor a, Tensor b, Tensor c) {
    return dynamic_slice(a, {b, c, 1}, {3, 2, 2});
  });
  cases.check("dynamic_update_slice", [](Tensor a, Tensor b, Tensor c) {
    return dynamic_update_slice(a, b, {c, 1, 0});
  });
}
