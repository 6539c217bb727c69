#include "models/layout.h"

#include <fmt/format.h>

namespace gspmd::models {
namespace {

struct MeshAxes {
  AxisList x, y, all;
};

MeshAxes axes_of(const Mesh& mesh) {
  MeshAxes axes;
  for (const MeshAxis& axis : mesh.axes()) {
    (axes.x.empty() ? axes.x : axes.y).push_back(axis.name);
    axes.all.push_back(axis.name);
  }
  return axes;
}

// The weights of all three 2d recipes.
Layout weights_2d(const MeshAxes& axes) {
  Layout layout;
  layout.weight_model = axes.x;
  layout.weight_heads = axes.y;
  layout.weight_hidden = axes.y;
  layout.weight_vocab = axes.y;
  return layout;
}

struct Recipe {
  const char* name;
  Layout (*layout)(const Mesh&);
};

constexpr Recipe kRecipes[] = {
    {"data", data_layout},
    {"model", model_layout},
    {"2d", layout_2d},
    {"2d-attempt1", layout_2d_attempt1},
    {"2d-attempt2", layout_2d_attempt2},
    {"fsdp", fsdp_layout},
};

}  // namespace

Layout data_layout(const Mesh& mesh) {
  Layout layout;
  layout.batch = axes_of(mesh).all;
  return layout;
}

Layout model_layout(const Mesh& mesh) {
  const MeshAxes axes = axes_of(mesh);
  Layout layout;
  layout.weight_heads = axes.all;
  layout.weight_hidden = axes.all;
  layout.weight_vocab = axes.all;
  return layout;
}

Layout layout_2d(const Mesh& mesh) {
  const MeshAxes axes = axes_of(mesh);
  Layout layout = weights_2d(axes);
  layout.batch = axes.x;
  layout.model = axes.y;
  return layout;
}

Layout layout_2d_attempt1(const Mesh& mesh) {
  const MeshAxes axes = axes_of(mesh);
  Layout layout = weights_2d(axes);
  layout.model = axes.x;
  return layout;
}

Layout layout_2d_attempt2(const Mesh& mesh) {
  const MeshAxes axes = axes_of(mesh);
  Layout layout = weights_2d(axes);
  layout.batch = axes.x;
  return layout;
}

Layout fsdp_layout(const Mesh& mesh) {
  const MeshAxes axes = axes_of(mesh);
  Layout layout;
  layout.batch = axes.all;
  layout.weight_model = axes.all;
  layout.weight_heads = axes.all;
  layout.weight_hidden = axes.all;
  layout.weight_vocab = axes.all;
  layout.norm = axes.all;
  return layout;
}

Layout layout_of_recipe(std::string_view recipe, const Mesh& mesh) {
  for (const Recipe& row : kRecipes) {
    if (recipe == row.name) return row.layout(mesh);
  }
  user_error("recipe: there is no \"{}\"; the recipes are {}", recipe,
             fmt::join(recipe_names(), ", "));
}

const std::vector<std::string>& recipe_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Recipe& row : kRecipes) list.emplace_back(row.name);
    return list;
  }();
  return names;
}

}  // namespace gspmd::models
