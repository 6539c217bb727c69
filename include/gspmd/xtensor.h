#pragma once

// Opt-in: arrays as xtensor expressions and back. Nothing else of gspmd includes xtensor; who
// includes this header links it.
#include <vector>
#include <xtensor/xadapt.hpp>
#include <xtensor/xexpression.hpp>

#include "gspmd/base/array.h"

namespace gspmd {

// The array's elements, without a copy: writing through the view writes them. Valid as long as the
// array lives. UserError when T does not store its dtype.
template <class T>
auto as_xtensor(const Array& array) {
  const std::vector<size_t> shape(array.dims().begin(), array.dims().end());
  const std::span<T> elements = array.data<T>();
  return xt::adapt(elements.data(), elements.size(), xt::no_ownership(), shape);
}

// The values of an xtensor expression in a new array, whose dtype is that of the expression's
// values.
template <class E>
Array from_xtensor(const xt::xexpression<E>& expression) {
  const E& values = expression.derived_cast();
  using T = typename E::value_type;
  Array array(dtype_of<T>(), Dims(values.shape().begin(), values.shape().end()));
  auto target = as_xtensor<T>(array);
  target = values;
  return array;
}

}  // namespace gspmd
