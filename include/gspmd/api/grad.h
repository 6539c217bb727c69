#pragma once

// Reverse-mode gradients as functions of functions.

#include <concepts>
#include <tuple>
#include <utility>
#include <vector>

#include "gspmd/api/operand.h"
#include "gspmd/api/tree.h"
#include "gspmd/base/export.h"

namespace gspmd {

namespace detail {

// Stands between the differentiated arguments and the function, so that only uses through the
// arguments count, and is taken out again by differentiate_inputs.
GSPMD_API Tensor differentiable_input(const Tensor& x, Site site);
// d loss / d inputs, same order. UserError: loss is not a floating scalar.
GSPMD_API std::vector<Tensor> differentiate_inputs(const Tensor& loss,
                                                   const std::vector<Tensor>& inputs, Site site);

inline const Tensor& loss_of(const Tensor& value) { return value; }
template <class First, class... Rest>
const Tensor& loss_of(const std::tuple<First, Rest...>& value) {
  return std::get<0>(value);
}
template <class First, class Second>
const Tensor& loss_of(const std::pair<First, Second>& value) {
  return value.first;
}

}  // namespace detail

// A function with the arguments of `fn` that returns {fn's value, gradients with respect to
// argument Argument}, the gradients as a tree like that argument. `fn` returns a floating scalar,
// or a tuple or pair that starts with it (the rest is passed through). Works inside a traced
// function, and nests.
template <size_t Argument = 0, class Fn>
auto value_and_grad(Fn fn, Site site = Site::here()) {
  return [fn, site](const auto&... args) {
    static_assert(Argument < sizeof...(args), "value_and_grad: no such argument");
    auto inputs = std::make_tuple(args...);
    std::vector<Tensor> marked;
    auto& wanted = std::get<Argument>(inputs);
    static_assert(std::same_as<leaf_t<decltype(wanted)>, Tensor>,
                  "value_and_grad: the differentiated argument is a tree of tensors");
    for_each_leaf(wanted, [&](const std::string&, Tensor& leaf) {
      leaf = detail::differentiable_input(leaf, site);
      marked.push_back(leaf);
    });
    auto value = std::apply(fn, inputs);
    const std::vector<Tensor> gradients =
        detail::differentiate_inputs(detail::loss_of(value), marked, site);
    size_t next = 0;
    auto grads =
        map_tree(wanted, [&](const std::string&, const Tensor&) { return gradients[next++]; });
    return std::pair{std::move(value), std::move(grads)};
  };
}

// As value_and_grad, without the value.
template <size_t Argument = 0, class Fn>
auto grad(Fn fn, Site site = Site::here()) {
  return [f = value_and_grad<Argument>(std::move(fn), site)](const auto&... args) {
    return f(args...).second;
  };
}

}  // namespace gspmd
