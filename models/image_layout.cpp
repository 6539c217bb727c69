#include "models/image_layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace gspmd::models {
namespace {

AxisList axes_from(const Mesh& mesh, size_t first) {
  AxisList names;
  for (size_t i = first; i < mesh.axes().size(); ++i) names.push_back(mesh.axes()[i].name);
  return names;
}

// An axis for each spatial dim in turn, the last taking what is left.
std::vector<AxisList> spread(const AxisList& axes, int64_t spatial_dims) {
  std::vector<AxisList> lists;
  for (const std::string& axis : axes) {
    if (static_cast<int64_t>(lists.size()) < spatial_dims) lists.emplace_back();
    lists.back().push_back(axis);
  }
  return lists;
}

struct ImageRecipe {
  const char* name;
  ImageLayout (*layout)(const Mesh&, int64_t);
};

constexpr ImageRecipe kImageRecipes[] = {
    {"data", [](const Mesh& mesh, int64_t) { return image_data_layout(mesh); }},
    {"spatial", image_spatial_layout},
    {"combined", image_combined_layout},
    {"fsdp", [](const Mesh& mesh, int64_t) { return image_fsdp_layout(mesh); }},
};

}  // namespace

ImageLayout image_data_layout(const Mesh& mesh) { return {axes_from(mesh, 0), {}, {}}; }

ImageLayout image_spatial_layout(const Mesh& mesh, int64_t spatial_dims) {
  return {{}, spread(axes_from(mesh, 0), spatial_dims), {}};
}

ImageLayout image_combined_layout(const Mesh& mesh, int64_t spatial_dims) {
  ImageLayout layout;
  if (mesh.rank() > 0) layout.batch = {mesh.axes()[0].name};
  layout.spatial = spread(axes_from(mesh, 1), spatial_dims);
  return layout;
}

ImageLayout image_fsdp_layout(const Mesh& mesh) {
  return {axes_from(mesh, 0), {}, axes_from(mesh, 0)};
}

ImageLayout image_layout_of_recipe(std::string_view recipe, const Mesh& mesh,
                                   int64_t spatial_dims) {
  for (const ImageRecipe& row : kImageRecipes) {
    if (recipe == row.name) return row.layout(mesh, spatial_dims);
  }
  user_error("recipe: there is no \"{}\"; the recipes are {}", recipe,
             fmt::join(image_recipe_names(), ", "));
}

const std::vector<std::string>& image_recipe_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const ImageRecipe& row : kImageRecipes) list.emplace_back(row.name);
    return list;
  }();
  return names;
}

ImageSplit::ImageSplit(const Mesh& mesh, const ImageLayout& layout, int64_t spatial_dims)
    : mesh_(mesh), layout_(layout) {
  if (static_cast<int64_t>(layout.spatial.size()) > spatial_dims) {
    user_error("image layout: {} lists of axes for {} spatial dims; give one per dim",
               layout.spatial.size(), spatial_dims);
  }
  AxisList used;
  const auto use = [&](const AxisList& axes) {
    for (const std::string& axis : axes) {
      mesh.index(axis);
      if (std::find(used.begin(), used.end(), axis) != used.end()) {
        user_error(
            "image layout: axis \"{}\" splits two dims of an activation; leave it in one list",
            axis);
      }
      used.push_back(axis);
    }
  };
  use(layout.batch);
  for (const AxisList& axes : layout.spatial) use(axes);
  used.clear();
  use(layout.features);
}

int64_t ImageSplit::parts(const AxisList& axes) const {
  int64_t parts = 1;
  for (const std::string& axis : axes) parts *= mesh_.size(axis);
  return parts;
}

Tensor ImageSplit::split(const Tensor& x, const std::vector<AxisList>& dims) const {
  const bool splits =
      std::any_of(dims.begin(), dims.end(), [](const auto& d) { return !d.empty(); });
  if (!splits) return x;
  return mesh_split(x, mesh_, std::vector<DimSplit>(dims.begin(), dims.end()));
}

Tensor ImageSplit::activations(const Tensor& x, int64_t stride) const {
  std::vector<AxisList> dims(static_cast<size_t>(x.rank()));
  dims[0] = layout_.batch;
  for (size_t i = 0; i < layout_.spatial.size(); ++i) {
    const AxisList& axes = layout_.spatial[i];
    const int64_t size = (x.dim(static_cast<int64_t>(i) + 1) + stride - 1) / stride;
    const bool is_small = size < parts(axes);
    if (is_small && x.dim(0) % (parts(dims[0]) * parts(axes)) == 0)
      dims[0].insert(dims[0].end(), axes.begin(), axes.end());
    else
      dims[i + 1] = axes;
  }
  return split(x, dims);
}

Tensor ImageSplit::rows(const Tensor& x) const {
  std::vector<AxisList> dims(static_cast<size_t>(x.rank()));
  dims[0] = layout_.batch;
  return split(x, dims);
}

Tensor ImageSplit::parameter(const Tensor& weight) const {
  std::vector<AxisList> dims(static_cast<size_t>(weight.rank()));
  dims.back() = layout_.features;
  return split(weight, dims);
}

}  // namespace gspmd::models
