#include "models/fsdp.h"

#include <utility>

namespace gspmd::models {
namespace {

std::vector<std::string> axes_of_options(const FsdpOptions& o) {
  if (!o.axes.empty()) return o.axes;
  std::vector<std::string> all;
  for (const MeshAxis& axis : o.mesh.axes()) all.push_back(axis.name);
  return all;
}

class FsdpModel : public Model {
 public:
  FsdpModel(std::shared_ptr<const Model> model, const FsdpOptions& options)
      : model_(std::move(model)),
        mesh_(options.mesh),
        axes_(axes_of_options(options)),
        dims_(fsdp_dims(model_->parameter_shapes(), options)) {}

  Leaves<Shape> parameter_shapes() const override { return model_->parameter_shapes(); }
  Leaves<Array> initial_parameters(uint32_t seed) const override {
    return model_->initial_parameters(seed);
  }
  Leaves<Shape> state_shapes() const override { return model_->state_shapes(); }
  Leaves<Array> initial_state() const override { return model_->initial_state(); }
  Leaves<Shape> batch_shapes(int64_t rows) const override { return model_->batch_shapes(rows); }
  Objective objective(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                      const Leaves<Tensor>& batch) const override {
    return model_->objective(split(params), state, batch);
  }
  Leaves<Tensor> evaluate(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                          const Leaves<Tensor>& batch, const Tensor& weight) const override {
    return model_->evaluate(split(params), state, batch, weight);
  }
  double training_flops(int64_t rows) const override { return model_->training_flops(rows); }
  double kept_activations(int64_t rows) const override { return model_->kept_activations(rows); }

 private:
  Leaves<Tensor> split(const Leaves<Tensor>& params) const {
    Leaves<Tensor> result = params;
    for (size_t i = 0; i < result.size(); ++i) {
      const int64_t dim = dims_.at(i).second;
      if (dim < 0) continue;
      Tensor& leaf = result[i].second;
      std::vector<DimSplit> dims(static_cast<size_t>(leaf.shape().rank()), DimSplit(_));
      dims[static_cast<size_t>(dim)] = DimSplit(axes_);
      leaf = mesh_split(leaf, mesh_, SplitDims(dims), {.priority = 1});
    }
    return result;
  }

  std::shared_ptr<const Model> model_;
  Mesh mesh_;
  std::vector<std::string> axes_;
  std::vector<std::pair<std::string, int64_t>> dims_;
};

}  // namespace

std::vector<std::pair<std::string, int64_t>> fsdp_dims(const Leaves<Shape>& params,
                                                       const FsdpOptions& options) {
  const int64_t parts = sharding_of(options.mesh, {DimSplit(axes_of_options(options))}).tiles(0);
  std::vector<std::pair<std::string, int64_t>> result;
  for (const auto& param : params) {
    const Shape& shape = param.second;
    int64_t even = -1, largest = -1;
    for (int64_t d = 0; d < shape.rank(); ++d) {
      const int64_t size = shape.dims[static_cast<size_t>(d)];
      if (largest < 0 || size > shape.dims[static_cast<size_t>(largest)]) largest = d;
      if (size % parts != 0) continue;
      if (even < 0 || size > shape.dims[static_cast<size_t>(even)]) even = d;
    }
    const bool whole = shape.elements_count() < std::max<int64_t>(options.min_elements, 2);
    result.emplace_back(param.first, whole ? -1 : even >= 0 ? even : largest);
  }
  return result;
}

std::shared_ptr<const Model> fsdp_model(std::shared_ptr<const Model> model,
                                        const FsdpOptions& options) {
  if (!model) user_error("fsdp: there is no model; give one");
  return std::make_shared<FsdpModel>(std::move(model), options);
}

}  // namespace gspmd::models
