#include "models/transformer.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

// Queries b,s,n,d see keys b,t,n,d up to their own place, or up to `position`.
Tensor Transformer::attend(Tensor q, Tensor k, Tensor v,
                           const std::optional<Tensor>& position) const {
  const bool exact = config_.form == Form::exact;
  Tensor weights = einsum("bsnd,btnd->bnst", q, k);
  if (!exact) weights = weights * (1 / std::sqrt(double(config_.head_dim())));
  if (position) {
    const Tensor place = iota(Shape(DType::s32, weights.dims()), 3);
    weights = where(place <= *position, weights,
                    exact ? 0 : double(std::numeric_limits<float>::lowest()));
  } else {
    weights = exact ? causal_mask(weights, {.value = 0, .has_value = true}) : causal_mask(weights);
  }
  if (!exact) weights = softmax(weights, {.axis = -1});
  return einsum("bnst,btnd->bsnd", weights, v);
}

// Keys and values of one position into the cache; then those of all.
void Transformer::append(Cached& cached, Tensor& k, Tensor& v) const {
  const auto kept = without_repeats({layout_.batch, {}, layout_.weight_heads, {}}, {0, 2});
  const auto with = [&](const Tensor& cache, const Tensor& one) {
    return dynamic_update_slice(split(cache, kept), one, {0, cached.position, 0, 0});
  };
  k = cached.kept.keys = with(cached.kept.keys, k);
  v = cached.kept.values = with(cached.kept.values, v);
}

Tensor Transformer::attention(const BlockParams<Tensor>& params, Tensor x, Cached* cached) const {
  const auto in = without_repeats({layout_.weight_model, layout_.weight_heads, {}}, {0, 1});
  const auto out = without_repeats({layout_.weight_heads, {}, layout_.weight_model}, {2, 0});
  const Tensor q = einsum("bsm,mnd->bsnd", x, split(params.wq, in));
  Tensor k = einsum("btm,mnd->btnd", x, split(params.wk, in));
  Tensor v = einsum("btm,mnd->btnd", x, split(params.wv, in));
  if (cached) append(*cached, k, v);
  const Tensor read = attend(q, k, v, cached ? std::optional(cached->position) : std::nullopt);
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

std::pair<Tensor, Tensor> Transformer::attended(const BlockParams<Tensor>& params, Tensor x,
                                                Cached* cached) const {
  x = split(x, {layout_.batch, {}, layout_.model});
  const Tensor y = normalize(x, params.attention_norm, params.attention_norm_bias);
  x = x + attention(params, y, cached);
  return {x, normalize(x, params.ffn_norm, params.ffn_norm_bias)};
}

Tensor Transformer::block(const BlockParams<Tensor>& params, Tensor x, Cached* cached) const {
  const auto [y, read] = attended(params, x, cached);
  return y + feed_forward(params, read);
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

std::pair<Tensor, KeyValueCache<Tensor>> Transformer::all_blocks(
    const std::vector<BlockParams<Tensor>>& blocks, Tensor x, const KeyValueCache<Tensor>& cache,
    Tensor position) const {
  const auto one = [&](const Tensor& t, const BlockParams<Tensor>& params,
                       const KeyValues<Tensor>& kept) {
    Cached cached{kept, position};
    const Tensor y = block(params, t, &cached);
    return std::pair{y, cached.kept};
  };
  KeyValueCache<Tensor> next;
  if (config_.scan) {
    const NameScope scope("layers");
    const auto step = [&](const Tensor& t,
                          const std::pair<BlockParams<Tensor>, KeyValues<Tensor>>& layer) {
      return one(t, layer.first, layer.second);
    };
    const auto [y, kept] = scan(step, x, std::pair{blocks.at(0), cache.at(0)});
    return {y, {kept}};
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const NameScope scope("layer" + std::to_string(i));
    const auto [y, kept] = one(x, blocks[i], cache.at(i));
    x = y;
    next.push_back(kept);
  }
  return {x, next};
}

Tensor Transformer::split_table(Tensor table) const {
  return split(table, without_repeats({layout_.weight_vocab, layout_.weight_model}, {1, 0}));
}

Tensor Transformer::table(const TransformerParams<Tensor>& params) const {
  return split_table(params.embedding);
}

Tensor Transformer::scores(const TransformerParams<Tensor>& params, Tensor table, Tensor x) const {
  x = normalize(x, params.final_norm, params.final_norm_bias);
  return einsum("bsm,vm->bsv", x, params.head ? split_table(*params.head) : table);
}

Tensor Transformer::embedded(const TransformerParams<Tensor>& params, Tensor table,
                             Tensor tokens) const {
  Tensor x = take(table, split(tokens, {layout_.batch, {}}));
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
  return x;
}

Tensor Transformer::logits(const TransformerParams<Tensor>& params, Tensor tokens) const {
  const Tensor embedding = table(params);
  return scores(params, embedding, all_blocks(params.blocks, embedded(params, embedding, tokens)));
}

std::pair<Tensor, KeyValueCache<Tensor>> Transformer::next_logits(
    const TransformerParams<Tensor>& params, const KeyValueCache<Tensor>& cache, Tensor tokens,
    Tensor position) const {
  const int64_t rows = tokens.dim(0);
  const Tensor embedding = table(params);
  Tensor x = take(embedding, split(expand_dims(tokens, 1), {layout_.batch, {}}));
  if (params.positions) {
    const Tensor positions = split(*params.positions, {{}, layout_.norm});
    x = x + dynamic_slice(positions, {position, 0}, {1, config_.model});
  }
  const auto [y, next] = all_blocks(params.blocks, x, cache, position);
  return {reshape(scores(params, embedding, y), {rows, config_.vocab}), next};
}

Tensor Transformer::loss(const TransformerParams<Tensor>& params, Tensor tokens,
                         Tensor labels) const {
  return loss_of(logits(params, tokens), labels);
}

Tensor Transformer::loss_of(Tensor scores, Tensor labels) const {
  // Logarithms of sums over a vocabulary need more than 16 bits.
  if (dtype_size(scores.dtype()) < 4) scores = convert(scores, DType::f32);
  if (config_.form == Form::exact) {
    return sum(scores * split(labels, {layout_.batch, {}, {}}));
  }
  return cross_entropy(scores, split(labels, {layout_.batch, {}}));
}

}  // namespace gspmd::models
