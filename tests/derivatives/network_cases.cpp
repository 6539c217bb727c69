#include "derivatives/cases.h"

namespace gspmd::test {
namespace {

const Array kNetworkAt = f64({3, 5}, 31, -1, 1);
const Array kTarget = f64({3, 5}, 32);
const Array kLabels = s32({3}, {4, 0, 2});

std::vector<Case> activations_and_norms() {
  return {
      GSPMD_CASE("relu", kNetworkAt, relu(t) * t),
      GSPMD_CASE("gelu", kNetworkAt, gelu(t * 2.)),
      GSPMD_CASE("silu", kNetworkAt, silu(t * 2.)),
      GSPMD_CASE("rms_norm", kNetworkAt, rms_norm(t, t(0) + 2.)),
      GSPMD_CASE("layer_norm", kNetworkAt, layer_norm(t, t(0) + 2., t(1))),
      GSPMD_CASE("layer_norm: without bias", kNetworkAt, layer_norm(t, t(1) + 2., {.eps = 0.1})),
      GSPMD_CASE("group_norm", f64({3, 2, 6}, 33, -1, 1),
                 group_norm(t, t(0, 0) + 2., t(0, 1), {.groups = 3})),
      GSPMD_CASE("causal_mask", kNetworkAt, softmax(causal_mask(t * 2.)) * t),
  };
}

std::vector<Case> losses() {
  return {
      GSPMD_CASE("mse_loss", kNetworkAt,
                 mse_loss(t, kTarget * t(0), {.reduction = Reduction::none})),
      GSPMD_CASE("mse_loss: mean", kNetworkAt, mse_loss(t, kTarget)),
      GSPMD_CASE("huber_loss", kNetworkAt,
                 huber_loss(t, kTarget * t(0), {.delta = 0.6, .reduction = Reduction::none})),
      GSPMD_CASE("binary_cross_entropy_with_logits", kNetworkAt,
                 binary_cross_entropy_with_logits(
                     t * 2., sigmoid(t(0)),
                     {.pos_weight = 3, .label_smoothing = 0.1, .reduction = Reduction::none})),
      GSPMD_CASE(
          "cross_entropy", kNetworkAt,
          cross_entropy(t * 3., kLabels,
                        {.label_smoothing = 0.1, .z_loss = 0.2, .reduction = Reduction::none})),
      GSPMD_CASE("cross_entropy: mean", kNetworkAt,
                 cross_entropy(t * 3., kLabels, {.ignore_index = 0})),
  };
}

std::vector<Case> attention() {
  static const Array at = f64({2, 3, 2, 4}, 34, -1, 1);  // b, t, heads, d
  return {
      GSPMD_CASE("rotary_embedding", at, rotary_embedding(t, arange(1, 4)) * t),
      GSPMD_CASE("rotary_embedding: of neighbours", at,
                 rotary_embedding(t, s32({2, 3}, {0, 1, 2, 5, 6, 7}), {.interleaved = true}) * t),
      GSPMD_CASE("dot_product_attention", at,
                 dot_product_attention(t, sin(t * 2.), t * t, {.causal = true})),
      GSPMD_CASE("dot_product_attention: of groups and a window", at,
                 dot_product_attention(t, sin(t(all, all, range(0, 1))), t(all, all, range(1, 2)),
                                       {.causal = true, .window = 2, .scale = 0.7})),
      GSPMD_CASE("dot_product_attention: of lengths", at,
                 dot_product_attention(t, sin(t), t, {.key_lengths = s32({2}, {2, 3})})),
      GSPMD_CASE("Attention", f64({2, 4, 4}, 35, -1, 1),
                 [&] {
                   const Attention<Tensor> layer{
                       reshape(t(0), {4, 2, 2}), reshape(sin(t(0, all, range(0, 2))), {4, 1, 2}),
                       reshape(t(1, all, range(0, 2)), {4, 1, 2}), reshape(cos(t(1)), {2, 2, 4})};
                   return layer(t, {.attention = {.causal = true}, .rotary = RotaryOptions{}});
                 }()),
      GSPMD_CASE("Attention: decoding", f64({2, 4, 4}, 36, -1, 1),
                 [&] {
                   const Attention<Tensor> layer{
                       reshape(t(0), {4, 2, 2}), reshape(sin(t(0, all, range(0, 2))), {4, 1, 2}),
                       reshape(t(1, all, range(0, 2)), {4, 1, 2}), reshape(cos(t(1)), {2, 2, 4})};
                   const auto empty = KeyValueCache<Array>::init(2, 4, 1, 2, DType::f64);
                   const auto [first, cache] = layer.decode(t(all, range(0, 3)), empty);
                   return concatenate({first, layer.decode(t(all, range(3, 4)), cache).first}, 1);
                 }()),
  };
}

}  // namespace

std::vector<Case> network_cases() {
  std::vector<Case> cases = activations_and_norms();
  for (auto& more : {losses(), attention()}) cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

}  // namespace gspmd::test
