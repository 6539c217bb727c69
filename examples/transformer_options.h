#pragma once

#include <cstdint>
#include <string>

#include "examples/front.h"
#include "models/pipelined_transformer.h"

namespace gspmd::examples {

inline constexpr const char* kStageAxis = "stage";  // of the mesh

// What train_transformer's command line says of the model; the defaults are the demo's.
struct TransformerOptions {
  std::string text;  // empty: the default text
  std::string norm = "rms";
  std::string positions = "learned";
  std::string dtype = "f32";
  int64_t layers = 2;
  int64_t d_model = 256;
  int64_t d_ff = 1024;
  int64_t heads = 8;
  int64_t seq = 128;
  int64_t sample = 0;
  std::string pipeline = "none";
  int64_t stages = 4;
  bool bias = false;
  bool exact = false;

  void declare(Front& front) {
    front.add_text("text", text,
                   "text file, last tenth held out (default: Debian's licence texts)");
    front.add_size("layers", layers, "blocks");
    front.add_size("d-model", d_model, "width of the residual stream");
    front.add_size("d-ff", d_ff, "width of the feed-forward part");
    front.add_size("heads", heads, "attention heads; divide d-model");
    front.add_size("seq", seq, "bytes per window");
    front.add_word("norm", norm, {"rms", "layer"}, "");
    front.add_flag("bias", bias, "biases in the feed-forward part and the norms");
    front.add_word("positions", positions, {"learned", "none"}, "");
    front.add_word("dtype", dtype, {"f32", "f64"}, "of the weights");
    front.add_flag("exact", exact,
                   "integer-preserving form: loss and gradients of fixed weights, bitwise equal on "
                   "every mesh");
    front.add_word("pipeline", pipeline, {"none", "gpipe", "circular"},
                   "blocks as stages, over the mesh's axis \"stage\" where it has one; the "
                   "microbatches go through them");
    front.add_size("stages", stages, "of a pipeline; divide the blocks");
    front.add_count("sample", sample, "bytes to generate at the end");
  }

  models::TransformerConfig config() const {
    models::TransformerConfig config;
    config.layers = layers;
    config.model = d_model;
    config.hidden = d_ff;
    config.heads = heads;
    config.seq = seq;
    config.norm = norm == "rms" ? models::Norm::rms : models::Norm::layer;
    config.bias = bias;
    config.positions =
        positions == "learned" ? models::Positions::learned : models::Positions::none;
    config.form = exact ? models::Form::exact : models::Form::standard;
    config.dtype = dtype == "f32" ? DType::f32 : DType::f64;
    models::check(config);
    return config;
  }

  bool is_pipelined() const { return pipeline != "none"; }
  // On a mesh, with so many parts of a batch.
  models::PipelineConfig pipeline_on(const Mesh& mesh, int64_t microbatches) const {
    models::PipelineConfig config;
    config.kind = models::pipeline_kind(pipeline);
    config.stages = stages;
    config.microbatches = microbatches;
    for (const MeshAxis& axis : mesh.axes())
      if (axis.name == kStageAxis) config.mesh_axis = kStageAxis;
    return config;
  }
};

}  // namespace gspmd::examples
