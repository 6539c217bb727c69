#include "models/conformer.h"

#include <algorithm>
#include <cmath>

namespace gspmd::models {
namespace {

constexpr double kEpsilon = 1e-5;

// The first axis list wins what two lists of one weight share.
AxisList unused_of(const AxisList& list, const AxisList& used) {
  AxisList kept;
  for (const std::string& axis : list)
    if (std::find(used.begin(), used.end(), axis) == used.end()) kept.push_back(axis);
  return kept;
}

Array initial_value(const std::string& path, const Shape& shape, uint32_t seed, int64_t stream,
                    const ConformerConfig& config) {
  const std::string name = path.substr(path.rfind('.') + 1);
  const bool is_norm = name.find("norm") != std::string::npos;
  if (name.find("bias") != std::string::npos || name == "b_in" || name == "b_out")
    return Array(shape);
  if (is_norm) return Array::full(shape, 1);
  double fan = double(config.model);
  if (name == "w_out") fan = double(config.hidden);
  if (name == "depthwise") fan = double(config.kernel);
  if (name == "input") fan = double(config.features);
  Array values = random_normal_array(shape, seed, stream);
  for (int64_t i = 0; i < values.size(); ++i) values.set(i, values.at(i) / std::sqrt(fan));
  return values;
}

}  // namespace

void check(const ConformerConfig& config) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"layers", config.layers},     {"model", config.model},    {"hidden", config.hidden},
      {"heads", config.heads},       {"kernel", config.kernel},  {"frames", config.frames},
      {"features", config.features}, {"classes", config.classes}};
  for (const auto& [name, size] : sizes)
    if (size < 1) user_error("conformer: {} is {}; it must be at least 1", name, size);
  if (config.model % config.heads != 0 || config.head_dim() % 2 != 0)
    user_error(
        "conformer: {} heads of the model dim {}; choose a multiple of twice the heads, since "
        "positions turn pairs of a head's dims",
        config.heads, config.model);
  if (config.kernel % 2 == 0)
    user_error("conformer: a kernel of {} frames has no middle; choose an odd one", config.kernel);
}

ConformerBlock<Shape> conformer_block_shapes(const ConformerConfig& c) {
  const auto shape = [&](Dims dims) { return Shape(c.dtype, std::move(dims)); };
  const Shape m = shape({c.model}), square = shape({c.model, c.model});
  const Shape heads = shape({c.model, c.heads, c.head_dim()});
  const ConformerFeedForward<Shape> feed_forward{
      m, m, shape({c.model, c.hidden}), shape({c.hidden}), shape({c.hidden, c.model}), m};
  ConformerBlock<Shape> block;
  block.before = block.behind = feed_forward;
  block.attention_norm = block.attention_norm_bias = m;
  block.wq = block.wk = block.wv = heads;
  block.wo = shape({c.heads, c.head_dim(), c.model});
  block.conv_norm = block.conv_norm_bias = m;
  block.w_value = block.w_gate = block.w_conv = square;
  block.depthwise = shape({c.kernel, c.model});
  block.batch_norm = block.batch_norm_bias = block.norm = block.norm_bias = m;
  return block;
}

ConformerLayer::ConformerLayer(const ConformerConfig& config, const Mesh& mesh,
                               const Layout& layout)
    : config_(config), mesh_(mesh), layout_(layout) {
  check(config);
}

Tensor ConformerLayer::split(Tensor x, const std::vector<AxisList>& dims) const {
  if (std::all_of(dims.begin(), dims.end(), [](const auto& d) { return d.empty(); })) return x;
  return mesh_split(x, mesh_, std::vector<DimSplit>(dims.begin(), dims.end()));
}

Tensor ConformerLayer::feed_forward(const ConformerFeedForward<Tensor>& params, Tensor x) const {
  const AxisList in = layout_.weight_model, hidden = unused_of(layout_.weight_hidden, in);
  const Tensor y = layer_norm(x, params.norm, params.norm_bias);
  const Tensor h = einsum("btm,mh->bth", y, split(params.w_in, {in, hidden})) + params.b_in;
  return einsum("bth,hm->btm", silu(h), split(params.w_out, {hidden, in})) + params.b_out;
}

Tensor ConformerLayer::attention(const ConformerBlock<Tensor>& params, Tensor x) const {
  const AxisList in = layout_.weight_model, heads = unused_of(layout_.weight_heads, in);
  const Tensor y = layer_norm(x, params.attention_norm, params.attention_norm_bias);
  const Tensor places = arange(config_.frames);
  const auto project = [&](const Tensor& w) {
    return einsum("btm,mnd->btnd", y, split(w, {in, heads, {}}));
  };
  const Tensor q = rotary_embedding(project(params.wq), places);
  const Tensor k = rotary_embedding(project(params.wk), places);
  const Tensor scores =
      einsum("bsnd,btnd->bnst", q, k) * (1 / std::sqrt(double(config_.head_dim())));
  const Tensor read = einsum("bnst,btnd->bsnd", softmax(scores), project(params.wv));
  return einsum("bsnd,ndm->bsm", read, split(params.wo, {heads, {}, in}));
}

Tensor ConformerLayer::convolved(const ConformerBlock<Tensor>& params, Tensor x) const {
  const AxisList in = layout_.weight_model, out = unused_of(layout_.weight_heads, in);
  const Tensor y = layer_norm(x, params.conv_norm, params.conv_norm_bias);
  const Tensor gated = einsum("btm,mc->btc", y, split(params.w_value, {in, out})) *
                       sigmoid(einsum("btm,mc->btc", y, split(params.w_gate, {in, out})));
  // A sum of shifted products and no grouped convolution, whose groups would have to hold the
  // stages as well.
  const int64_t half = config_.kernel / 2, frames = config_.frames;
  const Tensor around = pad(gated, {{}, {half, half, 0}, {}});
  Tensor sum_of_taps;
  for (int64_t k = 0; k < config_.kernel; ++k) {
    const Tensor tap = slice_dim(around, 1, k, k + frames) * params.depthwise(k);
    sum_of_taps = k == 0 ? tap : sum_of_taps + tap;
  }
  return sum_of_taps;
}

Tensor ConformerLayer::batch_normalized(const ConformerBlock<Tensor>& params, Tensor x,
                                        const ConformerStatistics<Tensor>& statistics) const {
  const Tensor variance = maximum(statistics.square - square(statistics.mean), 0);
  const Tensor y = (x - statistics.mean) * rsqrt(variance + kEpsilon);
  const AxisList in = layout_.weight_model, out = unused_of(layout_.weight_heads, in);
  return einsum("btc,cm->btm", silu(y * params.batch_norm + params.batch_norm_bias),
                split(params.w_conv, {out, in}));
}

std::pair<Tensor, ConformerStatistics<Tensor>> ConformerLayer::operator()(
    const ConformerBlock<Tensor>& params, Tensor x,
    const ConformerStatistics<Tensor>* running) const {
  x = split(x, {layout_.batch, {}, layout_.model});
  x = x + 0.5 * feed_forward(params.before, x);
  x = x + attention(params, x);
  const Tensor y = convolved(params, x);
  const ConformerStatistics<Tensor> own{mean(y, {.axes = {0, 1}}),
                                        mean(square(y), {.axes = {0, 1}})};
  x = x + batch_normalized(params, y, running ? *running : own);
  x = x + 0.5 * feed_forward(params.behind, x);
  return {layer_norm(x, params.norm, params.norm_bias), own};
}

ConformerModel::ConformerModel(const ConformerConfig& config, const PipelineConfig& pipeline,
                               const Mesh& mesh, const Layout& layout)
    : layer_(config, mesh, layout),
      pipeline_(checked(pipeline, config.layers, mesh)),
      mesh_(mesh) {}

ConformerParams<Shape> ConformerModel::shapes() const {
  const ConformerConfig& c = config();
  const auto stacked = [&](const Shape& shape) {
    Dims dims = shape.dims;
    dims.insert(dims.begin(), c.layers);
    return Shape(shape.dtype, stacked_dims(pipeline_, dims));
  };
  return {Shape(c.dtype, {c.features, c.model}), map_leaves(stacked, conformer_block_shapes(c)),
          Shape(c.dtype, {c.model, c.classes})};
}

Leaves<Shape> ConformerModel::parameter_shapes() const { return flatten(shapes()); }

Leaves<Array> ConformerModel::initial_parameters(uint32_t seed) const {
  int64_t stream = 0;
  return flatten(map_tree(shapes(), [&](const std::string& path, const Shape& shape) {
    return initial_value(path, shape, seed, stream++, config());
  }));
}

Leaves<Shape> ConformerModel::state_shapes() const {
  const Shape each(config().dtype, stacked_dims(pipeline_, {config().layers, config().model}));
  return {{"mean", each}, {"square", each}};
}

Leaves<Array> ConformerModel::initial_state() const {
  const Leaves<Shape> each = state_shapes();
  return {{"mean", Array(each[0].second)}, {"square", Array::full(each[1].second, 1)}};
}

Leaves<Shape> ConformerModel::batch_shapes(int64_t rows) const {
  const ConformerConfig& c = config();
  return {{"frames", Shape(c.dtype, {rows, c.frames, c.features})},
          {"labels", Shape(DType::s32, {rows, c.frames})}};
}

Tensor ConformerModel::logits(const Tensor& output, const Tensor& y) const {
  return einsum("abtm,mc->abtc", split_microbatches(y, pipeline_, mesh_), output);
}

Objective ConformerModel::objective(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                                    const Leaves<Tensor>& batch) const {
  const auto tree = tree_of(shapes(), params);
  const int64_t n = pipeline_.microbatches;
  const Tensor frames = to_microbatches(batch.at(0).second, n);
  const Tensor labels = to_microbatches(batch.at(1).second, n);
  const auto block = [this](const ConformerBlock<Tensor>& p, const Tensor& x) {
    return layer_(p, x);
  };
  const auto [y, sums] =
      pipeline_with_sums(block, tree.blocks, einsum("abtf,fm->abtm", frames, tree.input),
                         options_of(pipeline_, mesh_));
  const double momentum = config().momentum;
  const auto moved = [&](const Tensor& running, const Tensor& sum_of_batches) {
    return running * momentum + stop_gradient(sum_of_batches) * ((1 - momentum) / double(n));
  };
  return {cross_entropy(logits(tree.output, y), labels),
          {},
          {{"mean", moved(state.at(0).second, sums.mean)},
           {"square", moved(state.at(1).second, sums.square)}}};
}

Leaves<Tensor> ConformerModel::evaluate(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                                        const Leaves<Tensor>& batch, const Tensor& weight) const {
  const auto tree = tree_of(shapes(), params);
  const int64_t n = pipeline_.microbatches;
  const ConformerStatistics<Tensor> running{state.at(0).second, state.at(1).second};
  using Layer = std::pair<ConformerBlock<Tensor>, ConformerStatistics<Tensor>>;
  const auto block = [this](const Layer& layer, const Tensor& x) {
    return layer_(layer.first, x, &layer.second).first;
  };
  const Tensor x = einsum("abtf,fm->abtm", to_microbatches(batch.at(0).second, n), tree.input);
  const Tensor y =
      pipeline(block, std::pair{tree.blocks, running}, x, options_of(pipeline_, mesh_));
  const Tensor scores = logits(tree.output, y);
  const Tensor labels = to_microbatches(batch.at(1).second, n);
  const Tensor chosen = one_hot(labels, config().classes, scores.dtype());
  const Tensor nats = logsumexp(scores) - sum(scores * chosen, {.axes = -1});
  const Tensor right =
      convert(sum(scores * chosen, {.axes = -1}) >= max(scores, {.axes = -1}), scores.dtype());
  const auto total = [&](const Tensor& each) {
    const Tensor rows = from_microbatches(mean(convert(each, DType::f32), {.axes = 2}));
    return sum(rows * weight);
  };
  return {{"loss", total(nats)}, {"accuracy", total(right)}, {"count", sum(weight)}};
}

double ConformerModel::training_flops(int64_t rows) const {
  const ConformerConfig& c = config();
  const double m = double(c.model), tokens = double(rows) * double(c.frames);
  const double weights =
      double(c.layers) * (4 * m * double(c.hidden) + 4 * m * m + 3 * m * m + double(c.kernel) * m) +
      m * double(c.features + c.classes);
  return tokens * (6 * weights + 12 * double(c.layers) * double(c.frames) * m);
}

}  // namespace gspmd::models
