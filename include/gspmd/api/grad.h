#pragma once

// Derivatives as functions of functions. They work inside of a traced function, on trees of
// tensors, and nest in each other, in loops and in branches in any order.

#include <concepts>
#include <tuple>
#include <utility>
#include <vector>

#include "gspmd/api/function_checks.h"
#include "gspmd/api/operand.h"
#include "gspmd/api/tree.h"
#include "gspmd/base/export.h"

namespace gspmd {

namespace detail {

// Stands between a differentiated argument and the function, so that only uses through the
// argument count; taken out when the trace ends.
GSPMD_API Tensor differentiable_input(const Tensor& x, const char* op, Site site);
// d loss / d inputs, same order. UserError: loss is not a floating scalar.
GSPMD_API std::vector<Tensor> differentiate_inputs(const Tensor& loss,
                                                   const std::vector<Tensor>& inputs, Site site);
// Whether operations go where these tensors were made, and not into a body inside of it.
GSPMD_API bool emitted_here(const std::vector<Tensor>& tensors);
// The cotangents of inputs given those of results. UserError: a cotangent unlike its result.
GSPMD_API std::vector<Tensor> pull_back_inputs(const std::vector<Tensor>& results,
                                               const std::vector<Tensor>& cotangents,
                                               const std::vector<Tensor>& inputs, Site site);
// The tangents of results given those of inputs. UserError: a tangent unlike its input.
GSPMD_API std::vector<Tensor> push_forward_inputs(const std::vector<Tensor>& results,
                                                  const std::vector<Tensor>& inputs,
                                                  const std::vector<Tensor>& tangents, Site site);

inline const Tensor& loss_of(const Tensor& value) { return value; }
template <class First, class... Rest>
const Tensor& loss_of(const std::tuple<First, Rest...>& value) {
  return std::get<0>(value);
}
template <class First, class Second>
const Tensor& loss_of(const std::pair<First, Second>& value) {
  return value.first;
}

template <class Tree>
std::vector<Tensor> tensors_of(const Tree& tree) {
  late_t<std::vector<Tensor>, Tree> leaves;
  for_each_leaf(tree, [&](const std::string&, const Tensor& leaf) { leaves.push_back(leaf); });
  return leaves;
}

// `tree` with the leaves from position `next` on, which it moves.
template <class Tree>
Tree take_leaves(const Tree& tree, const late_t<std::vector<Tensor>, Tree>& leaves, size_t& next) {
  return map_tree(tree, [&](const std::string&, const Tensor&) { return leaves.at(next++); });
}

// Marks every leaf of a tree; appends the marked ones.
template <class Tree>
void mark_inputs(Tree& tree, late_t<std::vector<Tensor>, Tree>& marked, const char* op, Site site) {
  static_assert(std::same_as<leaf_t<Tree>, Tensor>,
                "the differentiated argument is a tensor or a tree of them: tuples, pairs, "
                "vectors, and structs that list their members in GSPMD_FIELDS");
  for_each_leaf(tree, [&](const std::string&, Tensor& leaf) {
    leaf = differentiable_input(leaf, op, site);
    marked.push_back(leaf);
  });
}

// What a function gave for marked arguments.
template <class Value, class... Args>
struct MarkedCall {
  std::tuple<Args...> inputs;
  late_t<std::vector<Tensor>, Value> marked;  // the leaves of the inputs
  Value value;
};
template <class Fn, class... Args>
auto call_marked(Fn fn, std::tuple<Args...> inputs, const char* op, Site site) {
  late_t<std::vector<Tensor>, Fn> marked;
  std::apply([&](auto&... input) { (mark_inputs(input, marked, op, site), ...); }, inputs);
  auto value = std::apply(fn, inputs);
  return MarkedCall<decltype(value), Args...>{std::move(inputs), std::move(marked),
                                              std::move(value)};
}

}  // namespace detail

// A function with the arguments of `fn` that returns {fn's value, gradients with respect to the
// arguments numbered}: a tree like the argument, or a tuple of such trees where several are
// numbered. `fn` returns a floating scalar, or a tuple or pair that starts with it (the rest is
// passed through). As jax.value_and_grad with argnums.
template <size_t Argument = 0, size_t... Others, class Fn>
auto value_and_grad(Fn fn, Site site = Site::here()) {
  return [fn, site](const auto&... args) {
    static_assert(((Argument < sizeof...(args)) && ... && (Others < sizeof...(args))),
                  "value_and_grad: no such argument");
    using Arguments = std::tuple<std::decay_t<decltype(args)>...>;
    if constexpr (detail::check_loss<Fn, std::decay_t<decltype(args)>...>() &&
                  detail::check_trees<std::tuple_element_t<Argument, Arguments>,
                                      std::tuple_element_t<Others, Arguments>...>()) {
      auto inputs = std::make_tuple(args...);
      detail::late_t<std::vector<Tensor>, Fn> marked;
      detail::mark_inputs(std::get<Argument>(inputs), marked, "value_and_grad", site);
      (detail::mark_inputs(std::get<Others>(inputs), marked, "value_and_grad", site), ...);
      auto value = std::apply(fn, inputs);
      const auto gradients = detail::differentiate_inputs(detail::loss_of(value), marked, site);
      size_t next = 0;
      if constexpr (sizeof...(Others) == 0) {
        auto grads = detail::take_leaves(std::get<Argument>(inputs), gradients, next);
        return std::pair{std::move(value), std::move(grads)};
      } else {
        std::tuple grads{detail::take_leaves(std::get<Argument>(inputs), gradients, next),
                         detail::take_leaves(std::get<Others>(inputs), gradients, next)...};
        return std::pair{std::move(value), std::move(grads)};
      }
    }
  };
}

// As value_and_grad, without the value.
template <size_t Argument = 0, size_t... Others, class Fn>
auto grad(Fn fn, Site site = Site::here()) {
  return [f = value_and_grad<Argument, Others...>(fn, site)](const auto&... args) {
    if constexpr (detail::check_loss<Fn, std::decay_t<decltype(args)>...>())
      return f(args...).second;
  };
}

// {fn(primals...), pull back}: pull back takes a cotangent, a tree like fn's value, and returns the
// cotangents of the primals, a tree like the primal or a tuple of trees where there are several.
// Called in the body of a loop, a branch or a function inside of the one where vjp was, as by vmap,
// it runs fn there again. As jax.vjp.
template <class Fn, class... Args>
auto vjp(Fn fn, const std::tuple<Args...>& primals, Site site = Site::here()) {
  const auto whole = detail::call_marked(fn, primals, "vjp", site);
  auto pull_back = [=](const decltype(whole.value)& cotangent, Site at = Site::here()) {
    const auto run =
        detail::emitted_here(whole.marked) ? whole : detail::call_marked(fn, primals, "vjp", site);
    const auto found = detail::pull_back_inputs(detail::tensors_of(run.value),
                                                detail::tensors_of(cotangent), run.marked, at);
    size_t next = 0;
    if constexpr (sizeof...(Args) == 1)
      return detail::take_leaves(std::get<0>(run.inputs), found, next);
    else
      return std::apply(
          [&](const auto&... input) {
            return std::tuple{detail::take_leaves(input, found, next)...};
          },
          run.inputs);
  };
  return std::pair{whole.value, std::move(pull_back)};
}

// Does not compile, and says what to write.
template <class Fn, class Primals>
auto vjp(Fn, const Primals&, Site = Site::here()) {
  static_assert(detail::never<Primals>,
                "vjp: the primals are a tuple with an element for each argument of the function: "
                "vjp(f, std::tuple{x})");
  return std::pair{detail::late_t<Tensor, Fn>(), [](const auto&) { return Tensor(); }};
}

// {fn(primals...), its derivative along the tangents}: `tangents` holds a tree like each primal,
// the derivative is a tree like fn's value. jvp(grad(f), std::tuple{x}, std::tuple{v}) is a product
// of the Hessian with v. As jax.jvp.
template <class Fn, class... Args>
auto jvp(Fn fn, const std::tuple<Args...>& primals, const std::tuple<Args...>& tangents,
         Site site = Site::here()) {
  auto inputs = primals;
  detail::late_t<std::vector<Tensor>, Fn> marked;
  std::apply([&](auto&... input) { (detail::mark_inputs(input, marked, "jvp", site), ...); },
             inputs);
  auto value = std::apply(fn, inputs);
  detail::late_t<std::vector<Tensor>, Fn> given;
  std::apply(
      [&](const auto&... tangent) {
        (for_each_leaf(tangent,
                       [&](const std::string&, const Tensor& leaf) { given.push_back(leaf); }),
         ...);
      },
      tangents);
  const auto found = detail::push_forward_inputs(detail::tensors_of(value), marked, given, site);
  size_t next = 0;
  auto derivative = detail::take_leaves(value, found, next);
  return std::pair{std::move(value), std::move(derivative)};
}

// Does not compile, and says what to write.
template <class Fn, class Primals, class Tangents>
auto jvp(Fn, const Primals&, const Tangents&, Site = Site::here()) {
  static_assert(detail::never<Primals>,
                "jvp: primals and tangents are tuples of one type with an element for each "
                "argument of the function: jvp(f, std::tuple{x}, std::tuple{v})");
  return std::pair{detail::late_t<Tensor, Fn>(), Tensor()};
}

}  // namespace gspmd
