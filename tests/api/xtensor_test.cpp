// Built where xtensor is installed; no other file includes it.
#if __has_include(<xtensor/xadapt.hpp>)
#include "gspmd/xtensor.h"

#include <catch2/catch.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xview.hpp>

#include "gspmd/gspmd.h"

namespace gspmd {

TEST_CASE("xtensor: a view writes the array's elements", "[api]") {
  Array array = Array::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  auto view = as_xtensor<float>(array);
  CHECK(view(1, 2) == 6);
  view(0, 1) = 20;
  CHECK(array.at(1) == 20);
  CHECK_THROWS_AS(as_xtensor<double>(array), UserError);
}

TEST_CASE("xtensor: an expression becomes an array of its dtype and shape", "[api]") {
  const xt::xarray<double> x{{1, 2, 3}, {4, 5, 6}};
  const Array array = from_xtensor(xt::view(xt::transpose(x), xt::range(1, 3), xt::all()) * 2);
  CHECK(bitwise_equal(array, Array::of<double>({2, 2}, {4, 10, 6, 12})));
  CHECK(from_xtensor(xt::xarray<int32_t>(5)).dims() == Dims{});
}

}  // namespace gspmd
#endif
