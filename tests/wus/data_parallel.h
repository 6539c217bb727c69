#pragma once

// A data-parallel step as a user writes it: nothing in it knows of weight-update sharding.

#include "gspmd/gspmd.h"
#include "gspmd/ir/module.h"
#include "models/optimizer.h"

namespace gspmd::models {

// Sizes of a two-layer network with a scale of three dims; `cells` is one batch row's input.
struct Sizes {
  int64_t batch = 16, in = 16, hidden = 32, out = 8;
  Dims scale = {2, 4, 4};  // as many elements as hidden
};

inline const Sizes kEven{};                           // all divide by 8
inline const Sizes kUneven{16, 7, 30, 3, {2, 5, 3}};  // no dim does

// Fewer elements than devices in some, one in b_out.
inline const Sizes kTiny{16, 7, 6, 1, {1, 3, 2}};

inline Leaves<Shape> parameter_shapes(const Sizes& s, DType dtype = DType::f32) {
  return {{"b_in", Shape(dtype, {s.hidden})},
          {"b_out", Shape(dtype, {s.out})},
          {"scale", Shape(dtype, s.scale)},
          {"w_in", Shape(dtype, {s.in, s.hidden})},
          {"w_out", Shape(dtype, {s.hidden, s.out})}};
}

inline Leaves<Array> random_parameters(const Sizes& s, DType dtype) {
  uint32_t seed = 0;
  return map_tree(parameter_shapes(s, dtype), [&](const std::string&, const Shape& shape) {
    return random_normal_array(shape, ++seed);
  });
}

inline Leaves<Array> zeros(const Leaves<Shape>& shapes) {
  return map_tree(shapes, [](const std::string&, const Shape& shape) { return Array(shape); });
}

inline Tensor loss_of(const Leaves<Tensor>& p, const Tensor& x, const Tensor& y) {
  const auto& [b_in, b_out, scale, w_in, w_out] =
      std::tie(p[0].second, p[1].second, p[2].second, p[3].second, p[4].second);
  Tensor hidden = tanh(matmul(x, w_in) + b_in);
  Dims cells = scale.shape().dims;
  cells.insert(cells.begin(), x.dim(0));
  hidden = reshape(reshape(hidden, cells) * (1 + 0.1 * scale), hidden.shape().dims);
  const Tensor error = matmul(hidden, w_out) + b_out - y;
  return mean(error * error);
}

using TrainStep = Executable<std::tuple<Leaves<Array>, Leaves<Array>, Array>, Leaves<Array>,
                             Leaves<Array>, Array, Array>;

struct StepOptions {
  OptimizerOptions optimizer = {};
  Sizes sizes = kEven;
  Mesh mesh = Mesh{{"data", 8}};
  std::vector<std::string> batch_axes = {"data"};
  WeightUpdate update = {};
  double clip_norm = 0;
  DType dtype = DType::f32;
  double lr = 0.01;
  bool cast_weights = false;                 // to bf16 and back, where they are read
  std::vector<std::string> model_axes = {};  // that split the hidden dim
  bool donate = true;
  bool poison = false;
  bool prepare = true;
};

inline TrainStep compile_step(const StepOptions& o) {
  const auto step = [o](Leaves<Tensor> params, Leaves<Tensor> state, Tensor x, Tensor y) {
    const DimSplit rows(o.batch_axes);
    x = mesh_split(x, o.mesh, {rows, _});
    y = mesh_split(y, o.mesh, {rows, _});
    const auto objective = [&o](const Leaves<Tensor>& p, const Tensor& in, const Tensor& out) {
      Leaves<Tensor> read = p;
      if (!o.model_axes.empty())
        read[3].second = mesh_split(read[3].second, o.mesh, {_, DimSplit(o.model_axes)});
      return loss_of(read, in, out);
    };
    Leaves<Tensor> read = params;
    if (o.cast_weights)
      for (auto& [path, leaf] : read) leaf = convert(convert(leaf, DType::bf16), o.dtype);
    auto [loss, grads] = value_and_grad(objective)(read, x, y);
    if (o.clip_norm > 0) grads = clip_by_global_norm(grads, o.clip_norm).first;
    auto [next, next_state] =
        apply_update(o.optimizer, params, grads, state, full(Shape(o.dtype, {}), o.lr));
    return std::tuple{next, next_state, loss};
  };
  const Leaves<Shape> params = parameter_shapes(o.sizes, o.dtype);
  CompileOptions options;
  options.mesh = o.mesh;
  options.weight_update = o.update;
  options.argument_names = {"params", "state", "x", "y"};
  if (o.donate) options.donate = {0, 1};
  options.poison = o.poison;
  options.prepare = o.prepare;
  return compile(step, options, params, optimizer_state(o.optimizer, params),
                 Shape(o.dtype, {o.sizes.batch, o.sizes.in}),
                 Shape(o.dtype, {o.sizes.batch, o.sizes.out}));
}

struct Trained {
  Leaves<Array> params, state;
  std::vector<double> losses;
};

inline Trained train(const TrainStep& step, const StepOptions& o, int steps) {
  Trained t{random_parameters(o.sizes, o.dtype),
            zeros(optimizer_state(o.optimizer, parameter_shapes(o.sizes, o.dtype))),
            {}};
  for (int i = 0; i < steps; ++i) {
    const auto seed = static_cast<uint32_t>(100 + i);
    const Array x = random_normal_array(Shape(o.dtype, {o.sizes.batch, o.sizes.in}), seed);
    const Array y = random_normal_array(Shape(o.dtype, {o.sizes.batch, o.sizes.out}), seed + 50);
    Array loss;
    std::tie(t.params, t.state, loss) = step(t.params, t.state, x, y);
    t.losses.push_back(loss.item());
  }
  return t;
}

inline Trained train(const StepOptions& o, int steps) { return train(compile_step(o), o, steps); }

}  // namespace gspmd::models
