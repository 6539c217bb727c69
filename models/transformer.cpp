#include "models/transformer.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gspmd::models {
namespace {

// The lists of a weight's dims with every axis only in the first list of `order` that has it.
std::vector<AxisList> without_repeats(std::vector<AxisList> lists,
                                      const std::vector<size_t>& order) {
  AxisList used;
  for (const size_t dim : order) {
    AxisList kept;
    for (const std::string& axis : lists[dim]) {
      if (std::find(used.begin(), used.end(), axis) == used.end()) kept.push_back(axis);
    }
    used.insert(used.end(), kept.begin(), kept.end());
    lists[dim] = std::move(kept);
  }
  return lists;
}

}  // namespace

Transformer::Transformer(const TransformerConfig& config, const Mesh& mesh, const Layout& layout)
    : config_(config), mesh_(mesh), layout_(layout) {
  check(config);
}

Tensor Transformer::split(Tensor x, const std::vector<AxisList>& dims) const {
  const bool splits =
      std::any_of(dims.begin(), dims.end(), [](const auto& d) { return !d.empty(); });
  if (!splits) return x;
  return mesh_split(x, mesh_, std::vector<DimSplit>(dims.begin(), dims.end()));
}

Tensor Transformer::normalize(Tensor x, const std::optional<Tensor>& scale,
                              const std::optional<Tensor>& bias) const {
  if (!scale) return x;
  const Tensor split_scale = split(*scale, {layout_.norm});
  if (config_.norm == Norm::rms) {
    const Tensor y = rms_norm(x, split_scale);
    return bias ? y + split(*bias, {layout_.norm}) : y;
  }
  return bias ? layer_norm(x, split_scale, split(*bias, {layout_.norm}))
              : layer_norm(x, split_scale);
}

Tensor Transformer::attention(const BlockParams<Tensor>& params, Tensor x) const {
  const auto in = without_repeats({layout_.weight_model, layout_.weight_heads, {}}, {0, 1});
  const auto out = without_repeats({layout_.weight_heads, {}, layout_.weight_model}, {2, 0});
  const Tensor q = einsum("bsm,mnd->bsnd", x, split(params.wq, in));
  const Tensor k = einsum("btm,mnd->btnd", x, split(params.wk, in));
  const Tensor v = einsum("btm,mnd->btnd", x, split(params.wv, in));
  Tensor weights = einsum("bsnd,btnd->bnst", q, k);
  if (config_.form == Form::exact) {
    weights = causal_mask(weights, {.value = 0, .has_value = true});
  } else {
    weights = weights * (1 / std::sqrt(double(config_.head_dim())));
    weights = softmax(causal_mask(weights), {.axis = -1});
  }
  const Tensor read = einsum("bnst,btnd->bsnd", weights, v);
  return einsum("bsnd,ndm->bsm", read, split(params.wo, out));
}

Tensor Transformer::feed_forward(const BlockParams<Tensor>& params, Tensor x) const {
  const auto in = without_repeats({layout_.weight_model, layout_.weight_hidden}, {0, 1});
  const auto out = without_repeats({layout_.weight_hidden, layout_.weight_model}, {1, 0});
  Tensor hidden = einsum("bsm,mh->bsh", x, split(params.w_in, in));
  if (params.b_in) hidden = hidden + split(*params.b_in, {layout_.weight_hidden});
  hidden = config_.form == Form::exact ? relu(hidden) : gelu(hidden);
  const Tensor y = einsum("bsh,hm->bsm", hidden, split(params.w_out, out));
  return params.b_out ? y + split(*params.b_out, {layout_.norm}) : y;
}

Tensor Transformer::block(const BlockParams<Tensor>& params, Tensor x) const {
  x = split(x, {layout_.batch, {}, layout_.model});
  x = x + attention(params, normalize(x, params.attention_norm, params.attention_norm_bias));
  return x + feed_forward(params, normalize(x, params.ffn_norm, params.ffn_norm_bias));
}

Tensor Transformer::all_blocks(const std::vector<BlockParams<Tensor>>& blocks, Tensor x) const {
  const auto one = [this](const BlockParams<Tensor>& params, const Tensor& t) {
    return config_.remat ? checkpoint([this](const BlockParams<Tensor>& p, const Tensor& y) {
      return block(p, y);
    })(params, t)
                         : block(params, t);
  };
  if (config_.scan) {
    const NameScope scope("layers");
    const auto step = [&](const Tensor& t, const BlockParams<Tensor>& params) {
      return std::pair{one(params, t), Nothing{}};
    };
    return scan(step, x, blocks.at(0)).first;
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const NameScope scope("layer" + std::to_string(i));
    x = one(blocks[i], x);
  }
  return x;
}

Tensor Transformer::logits(const TransformerParams<Tensor>& params, Tensor tokens) const {
  const auto table = without_repeats({layout_.weight_vocab, layout_.weight_model}, {1, 0});
  const Tensor embedding = split(params.embedding, table);
  Tensor x = take(embedding, split(tokens, {layout_.batch, {}}));
  if (params.positions) {
    const int64_t length = tokens.dim(1);
    if (length > config_.seq) {
      user_error(
          "transformer: tokens have {} positions, but there are learned ones for {} only; "
          "give shorter tokens or a larger seq",
          length, config_.seq);
    }
    const Tensor positions = split(*params.positions, {{}, layout_.norm});
    x = x + (length < config_.seq ? slice_dim(positions, 0, 0, length) : positions);
  }
  x = all_blocks(params.blocks, x);
  x = normalize(x, params.final_norm, params.final_norm_bias);
  const Tensor head = params.head ? split(*params.head, table) : embedding;
  return einsum("bsm,vm->bsv", x, head);
}

Tensor Transformer::loss(const TransformerParams<Tensor>& params, Tensor tokens,
                         Tensor labels) const {
  Tensor scores = logits(params, tokens);
  // Logarithms of sums over a vocabulary need more than 16 bits.
  if (dtype_size(scores.dtype()) < 4) scores = convert(scores, DType::f32);
  if (config_.form == Form::exact) {
    return sum(scores * split(labels, {layout_.batch, {}, {}}));
  }
  return cross_entropy(scores, split(labels, {layout_.batch, {}}));
}

}  // namespace gspmd::models
