#pragma once

#include <string>
#include <string_view>

#include "models/layout.h"
#include "models/pipeline.h"

namespace gspmd::models {

// How a model's layers are made a pipeline.
struct PipelineConfig {
  PipelineKind kind = PipelineKind::gpipe;
  int64_t stages = 1;
  int64_t microbatches = 1;  // divides the batch
  // Of circular: blocks of layers that each stage has. 0: as many as it has layers.
  int64_t rounds = 0;
  std::string mesh_axis = {};  // splits the stages; empty: they are not split
  bool remat = true;           // as PipelineOptions::remat
};

// With `rounds` filled in. UserError: stages (times rounds) that do not divide the layers, an axis
// that the mesh lacks, and as PipelineSchedule.
PipelineConfig checked(PipelineConfig config, int64_t layers, const Mesh& mesh);
// Of a checked one.
PipelineSchedule schedule_of(const PipelineConfig& config);
PipelineOptions options_of(const PipelineConfig& config, const Mesh& mesh);
// The dims of stacked weights, l,..., as pipeline() wants them: of circular r,l/r,...
Dims stacked_dims(const PipelineConfig& config, Dims dims);
// n,...: the micro-batches over the axis of the stages, for what follows the layers.
Tensor split_microbatches(const Tensor& x, const PipelineConfig& config, const Mesh& mesh);

// A recipe's layout over the mesh's axes but that of the stages.
Layout pipeline_layout(std::string_view recipe, const Mesh& mesh, const std::string& mesh_axis);

// The same numbers with other dims.
Array with_dims(const Array& array, Dims dims);

}  // namespace gspmd::models
