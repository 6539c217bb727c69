#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/model.h"

namespace gspmd::models {

// Fully sharded data parallelism for any model.
struct FsdpOptions {
  Mesh mesh = {};
  std::vector<std::string> axes =
      {};                    // that split the weights, major first; empty: all of the mesh
  int64_t min_elements = 0;  // smaller weights stay whole
};

// The dim of each weight that the axes split, by path: the largest that their devices divide
// evenly, of several the first; else the largest. -1: it stays whole. UserError: an axis that the
// mesh lacks.
std::vector<std::pair<std::string, int64_t>> fsdp_dims(const Leaves<Shape>& params,
                                                       const FsdpOptions& options);

// The model with its weights, and by completion their gradients and slots, split over the axes: a
// layer's are gathered where it reads them, forward and again backward, and freed behind it. The
// batch is split over the same axes by the model's own layout, which splits no weights itself, as
// `data`. What that says is carried on first: activations keep their layout.
std::shared_ptr<const Model> fsdp_model(std::shared_ptr<const Model> model,
                                        const FsdpOptions& options);

}  // namespace gspmd::models
