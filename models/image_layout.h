#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/layout.h"

namespace gspmd::models {

// How a model of images or volumes is split over a mesh. Activations are batch, spatial dims,
// features: b,h,w,c or b,d,h,w,c. A model names no axis; a recipe fills these lists.
struct ImageLayout {
  AxisList batch;
  std::vector<AxisList> spatial;  // of the spatial dims from the first on; the others are whole
  AxisList features;              // what a kernel makes; norms and biases as the kernel before them
};

// X is the first axis of the mesh, Y all others.
ImageLayout image_data_layout(const Mesh& mesh);  // batch over X and Y; weights replicated
// No batch split; the first spatial dim over X, the next over the axis behind it and so on; the
// last spatial dim takes all axes that are left.
ImageLayout image_spatial_layout(const Mesh& mesh, int64_t spatial_dims);
// Batch over X, spatial dims over Y as above; X alone where there is no Y.
ImageLayout image_combined_layout(const Mesh& mesh, int64_t spatial_dims);
ImageLayout image_fsdp_layout(const Mesh& mesh);  // batch and every weight over X and Y together

// By name: data, spatial, combined, fsdp. `spatial_dims`: 2 of images, 3 of volumes. UserError
// lists the names.
ImageLayout image_layout_of_recipe(std::string_view recipe, const Mesh& mesh, int64_t spatial_dims);
const std::vector<std::string>& image_recipe_names();

// A layout on a mesh, as a model annotates with it.
class ImageSplit {
 public:
  // UserError: more lists than spatial dims, an axis that the mesh lacks or that two lists of one
  // activation have.
  ImageSplit(const Mesh& mesh, const ImageLayout& layout, int64_t spatial_dims);

  // Activations [b, spatial dims, c]. A dim with fewer elements than its list has parts would leave
  // devices without work: its axes split the batch behind the batch's own where that divides it,
  // and stay where they are where it does not. The sizes that count are those after `stride`, so
  // that rows change places before a convolution and not behind it.
  Tensor activations(const Tensor& x, int64_t stride = 1) const;
  // The first dim only: labels, or logits.
  Tensor rows(const Tensor& x) const;
  // A parameter's last dim, `features` of a layout.
  Tensor parameter(const Tensor& weight) const;

 private:
  int64_t parts(const AxisList& axes) const;
  Tensor split(const Tensor& x, const std::vector<AxisList>& dims) const;

  Mesh mesh_;
  ImageLayout layout_;
};

}  // namespace gspmd::models
