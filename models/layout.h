#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gspmd/gspmd.h"

namespace gspmd::models {

// Mesh axes that split one dim together, major first; empty: not split.
using AxisList = std::vector<std::string>;

// How a Transformer is split over a mesh. The model names no axis; a recipe fills these lists.
struct Layout {
  // Activations: b,s,m in the residual stream; b,s,n,d in attention; b,s,h in the feed-forward
  // part.
  AxisList batch;
  AxisList model;
  // Weights; embedding and head are v,m. Where two lists of one weight share an axis, it splits the
  // first of model, heads, hidden, vocab only.
  AxisList weight_model;
  AxisList weight_heads;
  AxisList weight_hidden;
  AxisList weight_vocab;
  // Norm scales, biases over m and learned positions; empty: completed from the activations they
  // meet.
  AxisList norm;
};

// The recipes of arXiv:2105.04663, table 1, and the plain ones. X is the first axis of the mesh, Y
// all others together; on a mesh of one axis X is that axis and Y nothing, but for `model`.
Layout data_layout(const Mesh& mesh);         // batch over X and Y; weights replicated
Layout model_layout(const Mesh& mesh);        // heads, hidden and vocabulary over X and Y
Layout layout_2d(const Mesh& mesh);           // finalised: weights X,Y; activations b X, m Y
Layout layout_2d_attempt1(const Mesh& mesh);  // weights X,Y; b,s,m as _,_,X; no batch split
Layout layout_2d_attempt2(const Mesh& mesh);  // weights X,Y; b,s,m as X,_,_
Layout fsdp_layout(const Mesh& mesh);         // batch and every weight over X and Y together

// By name: data, model, 2d, 2d-attempt1, 2d-attempt2, fsdp. UserError lists the names.
Layout layout_of_recipe(std::string_view recipe, const Mesh& mesh);
const std::vector<std::string>& recipe_names();

}  // namespace gspmd::models
