#include "models/optimizer.h"

#include <fmt/format.h>

#include <type_traits>

namespace gspmd::models {
namespace {

constexpr std::string_view kNames[] = {"none", "sgd",     "adam", "adamw",    "lamb",
                                       "lars", "rmsprop", "lion", "adafactor"};

SgdOptions options_of(const Sgd<Leaves<Tensor>>&, const OptimizerOptions& o, const Tensor& lr) {
  return {.lr = lr, .momentum = o.momentum, .weight_decay = o.weight_decay};
}
AdamOptions adam_options(const OptimizerOptions& o, const Tensor& lr) {
  return {.lr = lr, .beta2 = o.beta2, .eps = o.eps, .weight_decay = o.weight_decay};
}
AdamOptions options_of(const Adam<Leaves<Tensor>>&, const OptimizerOptions& o, const Tensor& lr) {
  return adam_options(o, lr);
}
AdamOptions options_of(const AdamW<Leaves<Tensor>>&, const OptimizerOptions& o, const Tensor& lr) {
  return adam_options(o, lr);
}
LambOptions options_of(const Lamb<Leaves<Tensor>>&, const OptimizerOptions& o, const Tensor& lr) {
  return {.lr = lr, .beta2 = o.beta2, .eps = o.eps, .weight_decay = o.weight_decay, .min_rank = 2};
}
LarsOptions options_of(const Lars<Leaves<Tensor>>&, const OptimizerOptions& o, const Tensor& lr) {
  return {.lr = lr, .momentum = o.momentum, .weight_decay = o.weight_decay, .min_rank = 2};
}
RmsPropOptions options_of(const RmsProp<Leaves<Tensor>>&, const OptimizerOptions& o,
                          const Tensor& lr) {
  return {.lr = lr, .eps = o.eps, .momentum = o.momentum, .weight_decay = o.weight_decay};
}
LionOptions options_of(const Lion<Leaves<Tensor>>&, const OptimizerOptions& o, const Tensor& lr) {
  return {.lr = lr, .beta2 = o.beta2, .weight_decay = o.weight_decay};
}
AdafactorOptions options_of(const Adafactor<Leaves<Tensor>>&, const OptimizerOptions& o,
                            const Tensor& lr) {
  return {.lr = lr, .weight_decay = o.weight_decay};
}

// f.template operator()<Sgd>() and so on, of the one that is meant.
template <class F>
auto with_kind(Optimizer kind, F f) {
  switch (kind) {
    case Optimizer::sgd:
      return f.template operator()<Sgd>();
    case Optimizer::adam:
      return f.template operator()<Adam>();
    case Optimizer::adamw:
      return f.template operator()<AdamW>();
    case Optimizer::lamb:
      return f.template operator()<Lamb>();
    case Optimizer::lars:
      return f.template operator()<Lars>();
    case Optimizer::rmsprop:
      return f.template operator()<RmsProp>();
    case Optimizer::lion:
      return f.template operator()<Lion>();
    case Optimizer::adafactor:
      return f.template operator()<Adafactor>();
    case Optimizer::none:
      break;
  }
  internal_error("optimizer: {} has no update", optimizer_name(kind));
}

}  // namespace

Optimizer optimizer_of_name(std::string_view name) {
  for (size_t i = 1; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<Optimizer>(i);
  user_error("optimizer: there is no \"{}\"; choose one of {}", name,
             fmt::join(optimizer_names(), ", "));
}

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names(std::begin(kNames) + 1, std::end(kNames));
  return names;
}

std::string_view optimizer_name(Optimizer optimizer) { return kNames[size_t(optimizer)]; }

Leaves<Shape> optimizer_state(const OptimizerOptions& options, const Leaves<Shape>& params) {
  if (options.kind == Optimizer::none) return {};
  return with_kind(options.kind, [&]<template <class> class State>() {
    return flatten(State<Leaves<Shape>>::zeros_like(params));
  });
}

std::pair<Leaves<Tensor>, Leaves<Tensor>> apply_update(const OptimizerOptions& options,
                                                       const Leaves<Tensor>& params,
                                                       const Leaves<Tensor>& grads,
                                                       const Leaves<Tensor>& state,
                                                       const Tensor& lr) {
  const Leaves<Shape> shapes =
      map_tree(params, [](const std::string&, const Tensor& leaf) { return leaf.shape(); });
  return with_kind(options.kind, [&]<template <class> class State>() {
    const auto tree = tree_of(State<Leaves<Shape>>::zeros_like(shapes), state);
    const auto [new_params, new_state] = tree.update(params, grads, options_of(tree, options, lr));
    return std::pair{new_params, flatten(new_state)};
  });
}

}  // namespace gspmd::models
