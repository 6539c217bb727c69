#include "models/pipeline_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace gspmd::models {

PipelineConfig checked(PipelineConfig config, int64_t layers, const Mesh& mesh) {
  const auto& axes = mesh.axes();
  const bool has_axis = std::any_of(axes.begin(), axes.end(), [&](const MeshAxis& axis) {
    return axis.name == config.mesh_axis;
  });
  if (!config.mesh_axis.empty() && !has_axis)
    user_error("pipeline: the mesh {} has no axis \"{}\" for the stages; name one, or none",
               to_string(mesh), config.mesh_axis);
  const bool circular = config.kind == PipelineKind::circular;
  if (config.stages < 1) user_error("pipeline: stages is {}; it must be at least 1", config.stages);
  if (config.rounds == 0)
    config.rounds = circular ? std::max<int64_t>(layers / config.stages, 1) : 1;
  schedule_of(config);
  if (layers % (config.stages * config.rounds) != 0)
    user_error("pipeline: {} stages{} do not divide the {} layers; choose a divisor", config.stages,
               circular ? fmt::format(" of {} blocks", config.rounds) : std::string(), layers);
  return config;
}

PipelineSchedule schedule_of(const PipelineConfig& config) {
  return PipelineSchedule({config.kind, config.stages, config.microbatches, config.rounds});
}

PipelineOptions options_of(const PipelineConfig& config, const Mesh& mesh) {
  PipelineOptions options;
  options.kind = config.kind;
  options.stages = config.stages;
  options.mesh = mesh;
  options.mesh_axis = config.mesh_axis;
  options.remat = config.remat;
  return options;
}

Dims stacked_dims(const PipelineConfig& config, Dims dims) {
  if (config.kind != PipelineKind::circular) return dims;
  dims.at(0) /= config.rounds;
  dims.insert(dims.begin(), config.rounds);
  return dims;
}

Tensor split_microbatches(const Tensor& x, const PipelineConfig& config, const Mesh& mesh) {
  if (config.mesh_axis.empty()) return x;
  std::vector<DimSplit> dims(x.dims().size(), DimSplit(open_dim));
  dims[0] = DimSplit(config.mesh_axis);
  return mesh_split(x, mesh, dims);
}

Layout pipeline_layout(std::string_view recipe, const Mesh& mesh, const std::string& mesh_axis) {
  std::vector<MeshAxis> others;
  for (const MeshAxis& axis : mesh.axes())
    if (axis.name != mesh_axis) others.push_back(axis);
  return layout_of_recipe(recipe, Mesh(others));
}

Array with_dims(const Array& array, Dims dims) {
  Array result(Shape(array.dtype(), std::move(dims)));
  std::memcpy(result.bytes().data(), array.bytes().data(), array.bytes().size());
  return result;
}

}  // namespace gspmd::models
