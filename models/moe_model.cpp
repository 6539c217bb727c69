#include "models/moe_model.h"

#include <utility>

namespace gspmd::models {
namespace {

constexpr int64_t kSeedLayer = 0x2545f491;  // from one layer's seed to the next

BlockParams<Tensor> attention_of(const SparseBlockParams<Tensor>& block) {
  BlockParams<Tensor> params;
  params.attention_norm = block.attention_norm;
  params.attention_norm_bias = block.attention_norm_bias;
  params.wq = block.wq;
  params.wk = block.wk;
  params.wv = block.wv;
  params.wo = block.wo;
  params.ffn_norm = block.ffn_norm;
  params.ffn_norm_bias = block.ffn_norm_bias;
  return params;
}

MoeReport<Tensor> stacked(const std::vector<MoeReport<Tensor>>& reports) {
  std::vector<std::vector<Tensor>> leaves;
  for (const MoeReport<Tensor>& report : reports) {
    size_t leaf = 0;
    for_each_leaf(report, [&](const std::string&, const Tensor& value) {
      if (leaves.size() <= leaf) leaves.emplace_back();
      leaves[leaf++].push_back(value);
    });
  }
  size_t leaf = 0;
  return map_tree(reports.at(0),
                  [&](const std::string&, const Tensor&) { return stack(leaves[leaf++]); });
}

Tensor wide(const Tensor& x) {  // logarithms of sums need more than 16 bits
  return dtype_size(x.dtype()) < 4 ? convert(x, DType::f32) : x;
}

}  // namespace

MoeTransformerModel::MoeTransformerModel(const MoeTransformerConfig& config, const Mesh& mesh,
                                         const MoeTransformerLayout& layout)
    : config_(config),
      transformer_(config.dense, mesh, layout.dense),
      experts_(config.moe, mesh, layout.moe) {
  check(config);
}

Leaves<Shape> MoeTransformerModel::parameter_shapes() const {
  return flatten(models::parameter_shapes(config_));
}

Leaves<Array> MoeTransformerModel::initial_parameters(uint32_t seed) const {
  return flatten(models::initial_parameters(config_, seed));
}

Leaves<Shape> MoeTransformerModel::state_shapes() const {
  const Shape counts(DType::f32, {config_.dense.layers / 2, config_.moe.gating.experts});
  return {{"assigned", counts}, {"kept", counts}};
}

Leaves<Shape> MoeTransformerModel::batch_shapes(int64_t rows) const {
  const Shape tokens(DType::s32, {rows, config_.dense.seq});
  Leaves<Shape> batch = {{"tokens", tokens}, {"labels", tokens}};
  if (experts_.draws()) batch.emplace_back("seed", Shape(DType::s32, {}));
  return batch;
}

std::pair<Tensor, MoeReport<Tensor>> MoeTransformerModel::pair_of_blocks(
    const BlockParams<Tensor>& dense, const SparseBlockParams<Tensor>& sparse, Tensor x,
    const Tensor& seed, const std::optional<Tensor>& present) const {
  const Tensor y = transformer_.block(dense, x);
  const auto [z, read] = transformer_.attended(attention_of(sparse), y);
  const auto [routed, report] = experts_(sparse.experts, read, seed, present);
  return {z + routed, report};
}

MoeTransformerModel::Forward MoeTransformerModel::forward(
    const MoeTransformerParams<Tensor>& params, const Leaves<Tensor>& batch,
    const std::optional<Tensor>& present) const {
  const int64_t pairs = config_.dense.layers / 2;
  const Tensor number = iota(Shape(DType::s32, {pairs}), 0);
  const Tensor seeds = experts_.draws() ? batch.at(2).second + number * kSeedLayer : number;
  const auto one = [&](const BlockParams<Tensor>& dense, const SparseBlockParams<Tensor>& sparse,
                       const Tensor& t, const Tensor& seed) {
    const auto run = [&](const BlockParams<Tensor>& d, const SparseBlockParams<Tensor>& s,
                         const Tensor& u,
                         const Tensor& r) { return pair_of_blocks(d, s, u, r, present); };
    return config_.dense.remat ? checkpoint(run)(dense, sparse, t, seed)
                               : run(dense, sparse, t, seed);
  };
  const Tensor table = transformer_.table(params.dense);
  Tensor x = transformer_.embedded(params.dense, table, batch.at(0).second);
  if (config_.dense.scan) {
    const NameScope scope("layers");
    using Slice = std::tuple<BlockParams<Tensor>, SparseBlockParams<Tensor>, Tensor>;
    const auto step = [&](const Tensor& t, const Slice& slice) {
      return one(std::get<0>(slice), std::get<1>(slice), t, std::get<2>(slice));
    };
    const auto [y, reports] =
        scan(step, x, Slice{params.dense.blocks.at(0), params.sparse.at(0), seeds});
    return {transformer_.scores(params.dense, table, y), reports};
  }
  std::vector<Report> reports;
  for (int64_t i = 0; i < pairs; ++i) {
    const NameScope scope("pair" + std::to_string(i));
    auto [y, report] =
        one(params.dense.blocks.at(size_t(i)), params.sparse.at(size_t(i)), x, seeds(i));
    x = y;
    reports.push_back(report);
  }
  return {transformer_.scores(params.dense, table, x), stacked(reports)};
}

Objective MoeTransformerModel::objective(const Leaves<Tensor>& params,
                                         const Leaves<Tensor>& /*state*/,
                                         const Leaves<Tensor>& batch) const {
  const auto tree = tree_of(models::parameter_shapes(config_), params);
  const auto [logits, r] = forward(tree, batch, {});
  const Tensor nll = cross_entropy(wide(logits), batch.at(1).second);
  const Tensor aux = mean(r.aux_loss), z = mean(r.z_loss);
  const auto weighted = [&](const Tensor& x, double weight) {
    return convert(x, nll.dtype()) * weight;
  };
  const Tensor loss = nll + weighted(aux, config_.aux_weight) + weighted(z, config_.z_weight);
  const double tokens =
      double(batch.at(0).second.size()) * double(config_.dense.layers) / 2;  // over layers
  // Of integers, so that a metric is the same on every mesh.
  const Tensor assigned = stop_gradient(r.assigned), kept = stop_gradient(r.kept);
  const Leaves<Tensor> metrics = {{"nll", nll},
                                  {"aux_loss", aux},
                                  {"z_loss", z},
                                  {"dropped", 1 - sum(kept) / sum(assigned)},
                                  {"unserved", sum(stop_gradient(r.unserved)) / tokens},
                                  {"load_max", max(assigned) / mean(assigned)}};
  return {loss, metrics, {{"assigned", assigned}, {"kept", kept}}};
}

Leaves<Tensor> MoeTransformerModel::evaluate(const Leaves<Tensor>& params,
                                             const Leaves<Tensor>& /*state*/,
                                             const Leaves<Tensor>& batch,
                                             const Tensor& weight) const {
  const auto tree = tree_of(models::parameter_shapes(config_), params);
  const Tensor& labels = batch.at(1).second;
  const Tensor present = broadcast_to(expand_dims(weight, 1), labels.dims());
  const Tensor logits = wide(forward(tree, batch, present).logits);
  const Tensor nats = cross_entropy(logits, labels, {.reduction = Reduction::none});  // b,s
  const Tensor rows = mean(convert(nats, DType::f32), {.axes = 1});
  return {{"loss", sum(rows * weight)}, {"count", sum(weight)}};
}

double MoeTransformerModel::training_flops(int64_t rows) const {
  return models::training_flops(config_, rows);
}

double MoeTransformerModel::kept_activations(int64_t rows) const {
  const TransformerConfig& dense = config_.dense;
  // Tokens go to two experts, which read and give a row of `model` and have two of `hidden`.
  const double sparse = 2 * (2 * double(config_.moe.model) + 2 * double(config_.moe.hidden)) +
                        double(config_.moe.gating.experts) - 2 * double(dense.hidden);
  return models::kept_activations(dense, rows) +
         double(dense.layers) / 2 * double(rows) * double(dense.seq) * sparse;
}

}  // namespace gspmd::models
