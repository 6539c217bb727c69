#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/model.h"

namespace gspmd::models {

// The optimizers of gspmd/api/optim.h; `none` leaves the parameters as they are.
enum class Optimizer : uint8_t { none, sgd, adam, adamw, lamb, lars, rmsprop, lion, adafactor };

// By name, in that order but for none: sgd, adam, ... UserError lists the names.
Optimizer optimizer_of_name(std::string_view name);
const std::vector<std::string>& optimizer_names();
std::string_view optimizer_name(Optimizer optimizer);

// An optimizer chosen at run time. Options that it does not have count for nothing.
struct OptimizerOptions {
  Optimizer kind = Optimizer::adam;
  double momentum = 0.9;  // of sgd, lars and rmsprop
  double beta2 = 0.99;    // of adam, adamw, lamb and lion
  double eps = 1e-8;      // of adam, adamw, lamb and rmsprop
  double weight_decay = 0;
};

// The state before the first step, as shapes: "m.embedding", "step", ...
Leaves<Shape> optimizer_state(const OptimizerOptions& options, const Leaves<Shape>& params);

// {new params, new state}; `lr` is a scalar.
std::pair<Leaves<Tensor>, Leaves<Tensor>> apply_update(const OptimizerOptions& options,
                                                       const Leaves<Tensor>& params,
                                                       const Leaves<Tensor>& grads,
                                                       const Leaves<Tensor>& state,
                                                       const Tensor& lr);

}  // namespace gspmd::models
