#pragma once

// Functions of functions that say how a function is differentiated.

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gspmd/api/control.h"
#include "gspmd/api/grad.h"
#include "gspmd/base/export.h"
#include "gspmd/base/owned.h"

namespace gspmd {

// What checkpoint() keeps of a function for its gradient; the rest is made again.
struct GSPMD_API CheckpointPolicy {
  enum class Saves : uint8_t { nothing, dots, everything };  // besides what is named
  Saves saves = Saves::nothing;                              // which of them
  std::vector<std::string> names = {};                       // of values given to named()

  // --- As jax.checkpoint_policies
  static CheckpointPolicy nothing();
  static CheckpointPolicy dots();  // products: matrix, convolution
  static CheckpointPolicy everything();
  static CheckpointPolicy save_only(std::vector<std::string> names);
};

namespace detail {

// A call whose functions are traced one after the other: the function itself, then its rules.
class GSPMD_API MarkedTrace {
 public:
  MarkedTrace(const char* op, const PathLeaves& arguments, Site site);
  MarkedTrace(const MarkedTrace&) = delete;
  MarkedTrace& operator=(const MarkedTrace&) = delete;
  ~MarkedTrace();

  // Opens the next function; its parameters are like these.
  std::vector<Tensor> begin(const std::vector<Tensor>& like);
  const std::vector<Tensor>& arguments() const;
  void end(const std::vector<Tensor>& results);
  // UserError: the function that ended last returns other shapes than `expected`.
  void check(const std::vector<Tensor>& results, const std::vector<Tensor>& expected,
             const char* what) const;
  // --- The results of the function itself

  std::vector<Tensor> finish_checkpoint(const CheckpointPolicy& policy);
  std::vector<Tensor> finish_custom_vjp(size_t residuals);
  std::vector<Tensor> finish_custom_jvp();

 private:
  struct Impl;
  Owned<Impl> impl_;
};

GSPMD_API void append_leaves(PathLeaves& all, const PathLeaves& more);

template <class... Args>
PathLeaves leaves_of_arguments(const Args&... args) {
  late_t<PathLeaves, Args...> all;
  size_t i = 0;
  (append_leaves(all, flatten(args, std::to_string(i++))), ...);
  return all;
}

// A tuple of trees like `args` with these leaves.
template <class... Args>
std::tuple<Args...> arguments_with(const late_t<std::vector<Tensor>, Args...>& leaves,
                                   const Args&... args) {
  size_t next = 0;
  return std::tuple<Args...>{take_leaves(args, leaves, next)...};
}

template <class... Trees>
std::vector<Tensor> tensors_of_all(const Trees&... trees) {
  late_t<std::vector<Tensor>, Trees...> all;
  (for_each_leaf(trees, [&](const std::string&, const Tensor& leaf) { all.push_back(leaf); }), ...);
  return all;
}

}  // namespace detail

// A function like `fn` whose gradient makes the values inside of fn again instead of keeping them,
// but those that the policy saves: less memory for more arithmetic. As jax.checkpoint.
template <class Fn>
auto checkpoint(Fn fn, CheckpointPolicy policy = {}, Site site = Site::here()) {
  return [fn, policy, site](const auto&... args) {
    if constexpr (detail::check_transformed<Fn, std::decay_t<decltype(args)>...>()) {
      detail::MarkedTrace trace("checkpoint", detail::leaves_of_arguments(args...), site);
      const auto result =
          std::apply(fn, detail::arguments_with(trace.begin(trace.arguments()), args...));
      trace.end(detail::tensors_of(result));
      return detail::with_leaves(result, trace.finish_checkpoint(policy));
    }
  };
}

// A function like `fn` with a gradient of its own: forward(args...) returns {fn's value,
// residuals}, backward(residuals, cotangent) the cotangents of the arguments: a tree like the
// argument, a tuple of them where there are several. What fn reads from around it has to be
// constant for the derivative. As jax.custom_vjp.
template <class Fn, class Forward, class Backward>
auto custom_vjp(Fn fn, Forward forward, Backward backward, Site site = Site::here()) {
  return [fn, forward, backward, site](const auto&... args) {
    if constexpr (detail::check_custom_vjp<Fn, Forward, Backward,
                                           std::decay_t<decltype(args)>...>()) {
      detail::MarkedTrace trace("custom_vjp", detail::leaves_of_arguments(args...), site);
      const auto value =
          std::apply(fn, detail::arguments_with(trace.begin(trace.arguments()), args...));
      const auto values = detail::tensors_of(value);
      trace.end(values);

      const auto [same, residuals] =
          std::apply(forward, detail::arguments_with(trace.begin(trace.arguments()), args...));
      trace.check(detail::tensors_of(same), values, "forward");
      const auto kept = detail::tensors_of(residuals);
      trace.end(detail::tensors_of_all(same, residuals));

      const auto [kept_again, cotangent] = detail::arguments_with(
          trace.begin(detail::tensors_of_all(residuals, value)), residuals, value);
      const auto cotangents = std::invoke(backward, kept_again, cotangent);
      trace.check(detail::tensors_of(cotangents), trace.arguments(), "backward");
      trace.end(detail::tensors_of(cotangents));
      return detail::with_leaves(value, trace.finish_custom_vjp(kept.size()));
    }
  };
}

// A function like `fn` with a derivative of its own: jvp(primals, tangents), both tuples of fn's
// arguments, returns {fn's value, its tangent}, linear in the tangents. As jax.custom_jvp.
template <class Fn, class Jvp>
auto custom_jvp(Fn fn, Jvp jvp, Site site = Site::here()) {
  return [fn, jvp, site](const auto&... args) {
    if constexpr (detail::check_transformed<Fn, std::decay_t<decltype(args)>...>() &&
                  detail::check_custom_jvp<Jvp, std::decay_t<decltype(args)>...>()) {
      detail::MarkedTrace trace("custom_jvp", detail::leaves_of_arguments(args...), site);
      const auto value =
          std::apply(fn, detail::arguments_with(trace.begin(trace.arguments()), args...));
      const auto values = detail::tensors_of(value);
      trace.end(values);

      const std::tuple arguments(args...);
      const auto [primals, tangents] = detail::arguments_with(
          trace.begin(detail::tensors_of_all(args..., args...)), arguments, arguments);
      const auto [same, tangent] = std::invoke(jvp, primals, tangents);
      trace.check(detail::tensors_of(same), values, "jvp");
      trace.check(detail::tensors_of(tangent), values, "jvp's tangent");
      trace.end(detail::tensors_of_all(same, tangent));
      return detail::with_leaves(value, trace.finish_custom_jvp());
    }
  };
}

}  // namespace gspmd
