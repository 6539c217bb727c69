#pragma once

// What functions that are given to functions have to be. Where they are not, the compiler says so
// in words, and not by an error inside of a template.

#include <concepts>
#include <tuple>
#include <type_traits>
#include <utility>

#include "gspmd/api/tensor.h"
#include "gspmd/api/tree.h"

namespace gspmd::detail {

// A tensor, or a tree all leaves of which are tensors.
template <class Tree>
concept TensorTree =
    !std::is_void_v<Tree> && std::same_as<rebind_t<Tree, Tensor>, std::remove_cvref_t<Tree>>;

template <class T>
inline constexpr bool is_pair_of_trees = false;
template <class First, class Second>
inline constexpr bool is_pair_of_trees<std::pair<First, Second>> =
    TensorTree<First>&& TensorTree<Second>;
template <class First, class Second>
inline constexpr bool is_pair_of_trees<std::tuple<First, Second>> =
    TensorTree<First>&& TensorTree<Second>;

template <class Fn, class... Args>
using result_of = std::decay_t<std::invoke_result_t<Fn, Args...>>;

// --- Whether a function is right for what it is given to; where not, a static_assert says why.

template <class... Trees>
constexpr bool check_trees() {
  constexpr bool trees = (TensorTree<Trees> && ...);
  static_assert(trees,
                "what goes into and comes out of the function are tensors or trees of them: write "
                "full({dtype, {}}, 2) for a number, capture by the lambda what is no tensor, and "
                "list the members of a struct template of one type in GSPMD_FIELDS");
  return trees;
}

template <class Body, class Carry, class Xs>
constexpr bool check_scan() {
  if constexpr (check_trees<Carry, Xs>()) {
    constexpr bool takes = std::is_invocable_v<Body&, Carry, Xs>;
    static_assert(takes, "scan: the body takes the carry, a tree like init, and a slice of xs");
    if constexpr (takes) {
      constexpr bool returns = is_pair_of_trees<result_of<Body&, Carry, Xs>>;
      static_assert(returns,
                    "scan: the body returns {carry, y}: std::pair{carry, y} of trees of tensors; "
                    "give Nothing{} where there is no y");
      return returns;
    }
  }
  return false;
}

template <class Body, class Carry>
constexpr bool check_fori_loop() {
  if constexpr (check_trees<Carry>()) {
    constexpr bool takes = std::is_invocable_v<Body&, Tensor, Carry>;
    static_assert(takes,
                  "fori_loop: the body takes the number of the step, an s32 tensor, and the "
                  "carry, a tree like init");
    if constexpr (takes) {
      constexpr bool returns =
          std::is_convertible_v<std::invoke_result_t<Body&, Tensor, Carry>, Carry>;
      static_assert(returns, "fori_loop: the body returns the next carry, of the type of init");
      return returns;
    }
  }
  return false;
}

template <class Condition, class Body, class Carry>
constexpr bool check_while_loop() {
  if constexpr (check_trees<Carry>()) {
    constexpr bool takes =
        std::is_invocable_v<Condition&, Carry> && std::is_invocable_v<Body&, Carry>;
    static_assert(takes,
                  "while_loop: condition and body take the carry, one tree like init: a pair where "
                  "init is a pair");
    if constexpr (takes) {
      constexpr bool returns =
          std::is_convertible_v<std::invoke_result_t<Condition&, Carry>, Tensor> &&
          std::is_convertible_v<std::invoke_result_t<Body&, Carry>, Carry>;
      static_assert(returns,
                    "while_loop: the condition returns a pred tensor, the body the next carry, of "
                    "the type of init");
      return returns;
    }
  }
  return false;
}

// Of each function by itself.
template <class Branch, class... Args>
constexpr bool check_branch() {
  constexpr bool takes = std::is_invocable_v<Branch&, const Args&...>;
  static_assert(takes,
                "cond, switch_case: each function takes what is given behind the functions: "
                "cond(p, f, g, x) runs f(x) or g(x); they may read other tensors by their capture");
  if constexpr (takes) return check_trees<result_of<Branch&, const Args&...>>();
  return false;
}

// Of a function that is called with `Args` and traced: by vmap, checkpoint and the like.
template <class Fn, class... Args>
constexpr bool check_transformed() {
  if constexpr (check_trees<Args...>()) {
    constexpr bool takes = std::is_invocable_v<const Fn&, Args...>;
    static_assert(takes,
                  "the function takes as many arguments as are given, of their types, by value or "
                  "const reference");
    if constexpr (takes) return check_trees<result_of<const Fn&, Args...>>();
  }
  return false;
}

// Whether a function gives a pair of trees for these arguments.
template <class Fn, class... Args>
constexpr bool gives_pair() {
  if constexpr (std::is_invocable_v<const Fn&, Args...>)
    return is_pair_of_trees<result_of<const Fn&, Args...>>;
  return false;
}

template <class Forward, class Backward, class Value, class... Args>
constexpr bool check_vjp_rules() {
  constexpr bool forward = gives_pair<Forward, Args...>();
  static_assert(forward,
                "custom_vjp: forward takes the arguments of the function and returns its value and "
                "a tree of residuals: std::pair{value, residuals}");
  if constexpr (forward) {
    using Residuals = std::tuple_element_t<1, result_of<const Forward&, Args...>>;
    constexpr bool backward = std::is_invocable_v<const Backward&, Residuals, Value>;
    static_assert(backward,
                  "custom_vjp: backward takes the residuals that forward returns and the cotangent "
                  "of the value");
    if constexpr (backward) return check_trees<result_of<const Backward&, Residuals, Value>>();
  }
  return false;
}
// Of a function that is called with `Args`, and its rules.
template <class Fn, class Forward, class Backward, class... Args>
constexpr bool check_custom_vjp() {
  if constexpr (check_transformed<Fn, Args...>())
    return check_vjp_rules<Forward, Backward, result_of<const Fn&, Args...>, Args...>();
  return false;
}
template <class Jvp, class... Args>
constexpr bool check_custom_jvp() {
  constexpr bool takes = gives_pair<Jvp, std::tuple<Args...>, std::tuple<Args...>>();
  static_assert(takes,
                "custom_jvp: the rule takes two tuples, of the arguments and of their tangents, "
                "and returns the value and its tangent: std::pair{value, tangent}");
  return takes;
}

template <class T>
inline constexpr bool starts_with_tensor = std::same_as<T, Tensor>;
template <class First, class Second>
inline constexpr bool starts_with_tensor<std::pair<First, Second>> = std::same_as<First, Tensor>;
template <class First, class... Rest>
inline constexpr bool starts_with_tensor<std::tuple<First, Rest...>> = std::same_as<First, Tensor>;

// Of a function that is differentiated.
template <class Fn, class... Args>
constexpr bool check_loss() {
  constexpr bool takes = std::is_invocable_v<const Fn&, Args&...>;
  static_assert(takes,
                "grad, value_and_grad: the function takes as many arguments as are given, of their "
                "types, by value or const reference");
  if constexpr (takes) {
    constexpr bool returns = starts_with_tensor<result_of<const Fn&, Args&...>>;
    static_assert(returns,
                  "grad, value_and_grad: the function returns the loss, a floating scalar tensor, "
                  "or a pair or tuple that starts with it");
    return returns;
  }
  return false;
}

}  // namespace gspmd::detail
