#include <algorithm>
#include <cmath>
#include <cstring>

#include "models/input.h"
#include "models/moe_model.h"

namespace gspmd::models {
namespace {

TransformerConfig dense_part(const MoeTransformerConfig& c) {
  TransformerConfig dense = c.dense;
  dense.layers = c.dense.layers / 2;
  return dense;
}

// A block with experts that has the rest of a dense one.
template <class T>
SparseBlockParams<T> sparse_block(const BlockParams<T>& dense, const MoeParams<T>& experts) {
  return {dense.attention_norm, dense.attention_norm_bias, dense.wq, dense.wk, dense.wv, dense.wo,
          dense.ffn_norm,       dense.ffn_norm_bias,       experts};
}

MoeParams<Array> initial_experts(const MoeTransformerConfig& c, uint32_t seed, int64_t layer) {
  constexpr int64_t kStreams = 1 << 20;  // behind those of the dense model
  int64_t stream = kStreams + 3 * layer;
  const auto normal = [&](const Shape& shape, double deviation) {
    return scaled(random_normal_array(shape, seed, stream++), deviation);
  };
  const MoeParams<Shape> shapes = parameter_shapes(c.moe);
  const double model = 1 / std::sqrt(double(c.moe.model));
  const double branches = 1 / std::sqrt(2.0 * double(c.dense.layers));
  return {normal(shapes.router, model), normal(shapes.w_in, model),
          normal(shapes.w_out, branches / std::sqrt(double(c.moe.hidden)))};
}

// Trees of arrays one behind the other, as one tree with their number in front.
template <class Tree>
Tree stacked(const std::vector<Tree>& trees) {
  std::vector<std::vector<std::pair<std::string, Array>>> leaves;
  for (const Tree& tree : trees) leaves.push_back(flatten(tree));
  size_t leaf = 0;
  return map_tree(trees.at(0), [&](const std::string&, const Array& first) {
    Dims dims = first.dims();
    dims.insert(dims.begin(), std::ssize(trees));
    Array all(Shape(first.dtype(), dims));
    const size_t bytes = first.bytes().size();
    for (size_t i = 0; i < leaves.size(); ++i)
      std::memcpy(all.bytes().data() + i * bytes, leaves[i][leaf].second.bytes().data(), bytes);
    ++leaf;
    return all;
  });
}

}  // namespace

void check(const MoeTransformerConfig& c) {
  check(c.dense);
  check(c.moe);
  if (c.dense.layers % 2 != 0)
    user_error(
        "moe transformer: {} layers; every other one has experts, so give an even number of them",
        c.dense.layers);
  if (c.dense.form == Form::exact)
    user_error("moe transformer: there is no exact form, since gates are softmaxes");
  if (c.dense.model != c.moe.model || c.dense.dtype != c.moe.dtype)
    user_error("moe transformer: experts read {} of {} where blocks have {} of {}; set them alike",
               c.moe.model, dtype_name(c.moe.dtype), c.dense.model, dtype_name(c.dense.dtype));
  if (!(c.aux_weight >= 0) || !(c.z_weight >= 0))
    user_error("moe transformer: the weights of losses are {} and {}; they have to be 0 or more",
               c.aux_weight, c.z_weight);
}

MoeTransformerParams<Shape> parameter_shapes(const MoeTransformerConfig& c) {
  check(c);
  MoeTransformerParams<Shape> params;
  params.dense = parameter_shapes(dense_part(c));
  MoeParams<Shape> experts = parameter_shapes(c.moe);
  if (c.dense.scan)
    for_each_leaf(experts, [&](const std::string&, Shape& leaf) {
      leaf.dims.insert(leaf.dims.begin(), c.dense.layers / 2);
    });
  for (const BlockParams<Shape>& block : params.dense.blocks)
    params.sparse.push_back(sparse_block(block, experts));
  return params;
}

MoeTransformerParams<Array> initial_parameters(const MoeTransformerConfig& c, uint32_t seed) {
  check(c);
  TransformerConfig all = c.dense;
  all.scan = false;
  MoeTransformerParams<Array> params;
  params.dense = initial_parameters(all, seed);
  std::vector<BlockParams<Array>> dense;
  for (size_t i = 0; i < params.dense.blocks.size(); i += 2) {
    dense.push_back(params.dense.blocks[i]);
    params.sparse.push_back(
        sparse_block(params.dense.blocks[i + 1], initial_experts(c, seed, int64_t(i / 2))));
  }
  params.dense.blocks = std::move(dense);
  if (c.dense.scan) {
    params.dense.blocks = {stacked(params.dense.blocks)};
    params.sparse = {stacked(params.sparse)};
  }
  return params;
}

int64_t parameter_count(const MoeTransformerConfig& config) {
  return elements_count(flatten(parameter_shapes(config)));
}

int64_t expert_parameter_count(const MoeTransformerConfig& c) {
  return c.dense.layers / 2 * c.moe.gating.experts * 2 * c.moe.model * c.moe.hidden;
}

double training_flops(const MoeTransformerConfig& c, int64_t batch) {
  const double tokens = double(batch) * double(c.dense.seq);
  const double dense_ffn = 6 * 2 * double(c.dense.model) * double(c.dense.hidden);
  return training_flops(c.dense, batch) +
         double(c.dense.layers) / 2 * tokens * (3 * forward_flops(c.moe) - dense_ffn);
}

namespace {

struct MoeAxes {
  AxisList x, y, all;
};

MoeAxes moe_axes_of(const Mesh& mesh) {
  MoeAxes axes;
  for (const MeshAxis& axis : mesh.axes()) {
    (axes.x.empty() ? axes.x : axes.y).push_back(axis.name);
    axes.all.push_back(axis.name);
  }
  return axes;
}

MoeTransformerLayout on_all(const MoeAxes& axes, const AxisList& experts) {
  MoeTransformerLayout layout;
  layout.dense.batch = layout.moe.groups = axes.all;
  layout.moe.experts = experts;
  return layout;
}

}  // namespace

MoeTransformerLayout moe_layout_of_recipe(std::string_view recipe, const Mesh& mesh) {
  const MoeAxes axes = moe_axes_of(mesh);
  if (recipe == "experts") return on_all(axes, axes.all);
  if (recipe == "experts-y") return on_all(axes, axes.y.empty() ? axes.x : axes.y);
  if (recipe == "data") return on_all(axes, {});
  if (recipe == "hybrid") {
    MoeTransformerLayout layout;
    layout.dense.batch = layout.moe.groups = layout.moe.experts = axes.x;
    layout.dense.weight_heads = layout.dense.weight_hidden = layout.dense.weight_vocab = axes.y;
    layout.moe.expert_hidden = axes.y;
    return layout;
  }
  user_error("recipe: there is no \"{}\"; the recipes are experts, experts-y, hybrid, data",
             recipe);
}

const std::vector<std::string>& moe_recipe_names() {
  static const std::vector<std::string> names = {"experts", "experts-y", "hybrid", "data"};
  return names;
}

}  // namespace gspmd::models
