#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/model.h"
#include "models/moe.h"
#include "models/transformer.h"

namespace gspmd::models {

// A Transformer in which every other feed-forward layer, from the second on, is a layer of experts.
struct MoeTransformerConfig {
  // `layers` counts both kinds and is even; `hidden` is that of the dense layers. With `scan` one
  // step of the loop is a pair of blocks, with `remat` a pair is what is made again.
  TransformerConfig dense;
  MoeConfig moe;  // its model dim and dtype are those of `dense`
  double aux_weight = 0.01;
  double z_weight = 0;
};

// UserError: as the two parts', an odd number of layers, the exact form, a negative weight.
void check(const MoeTransformerConfig& config);

// A block with experts: BlockParams without its feed-forward weights.
template <class T>
struct SparseBlockParams {
  std::optional<T> attention_norm, attention_norm_bias;  // m
  T wq, wk, wv;                                          // m,n,d
  T wo;                                                  // n,d,m
  std::optional<T> ffn_norm, ffn_norm_bias;              // m
  MoeParams<T> experts;
  GSPMD_FIELDS(attention_norm, attention_norm_bias, wq, wk, wv, wo, ffn_norm, ffn_norm_bias,
               experts)
};

template <class T>
struct MoeTransformerParams {
  TransformerParams<T> dense;                // its blocks are layers 0, 2, 4, ...
  std::vector<SparseBlockParams<T>> sparse;  // layers 1, 3, 5, ...; one for all with scan
  GSPMD_FIELDS(dense, sparse)
};

MoeTransformerParams<Shape> parameter_shapes(const MoeTransformerConfig& config);
// What both kinds of blocks share is drawn as for a dense model of as many layers.
MoeTransformerParams<Array> initial_parameters(const MoeTransformerConfig& config, uint32_t seed);
int64_t parameter_count(const MoeTransformerConfig& config);
// Of these, the experts' weights: layers/2 * e * 2 * m * h.
int64_t expert_parameter_count(const MoeTransformerConfig& config);
// As training_flops of a dense model; of each expert layer the two experts that a token has.
double training_flops(const MoeTransformerConfig& config, int64_t batch);

struct MoeTransformerLayout {
  Layout dense;
  MoeLayout moe;
};

// By name; X is the first axis of the mesh, Y all others together.
//   experts    batch, groups and experts over all devices; other weights replicated (GShard)
//   experts-y  batch and groups over all devices, experts over Y: X holds copies of them
//   hybrid     batch, groups and experts over X; heads, hidden dims and vocabulary over Y
//   data       batch and groups over all devices; all weights replicated
// UserError lists the names.
MoeTransformerLayout moe_layout_of_recipe(std::string_view recipe, const Mesh& mesh);
const std::vector<std::string>& moe_recipe_names();

// Such a Transformer as a trainer sees it. A batch is `tokens` and `labels`, s32[b,s], and where
// second experts are drawn a `seed`, s32[]. Its loss is the mean cross entropy and the weighted
// means over layers of the experts' two losses.
//
// Metrics of a step: `nll`, the cross entropy; `aux_loss` and `z_loss`, not weighted; `dropped`,
// the share of choices that found no place; `unserved`, the share of tokens that no expert took;
// `load_max`, the choices of the expert that most tokens chose over those of the mean one. The
// state has the counts of the last step by layer and expert, f32[l,e]: `assigned` and `kept`;
// device_loads() sums them by device. Evaluation: `loss`, nats per token; padded rows take no
// places.
class MoeTransformerModel : public Model {
 public:
  // UserError as check(), Transformer's and MoeLayer's.
  MoeTransformerModel(const MoeTransformerConfig& config, const Mesh& mesh,
                      const MoeTransformerLayout& layout);

  const MoeTransformerConfig& config() const { return config_; }

  Leaves<Shape> parameter_shapes() const override;
  Leaves<Array> initial_parameters(uint32_t seed) const override;
  Leaves<Shape> state_shapes() const override;
  Leaves<Shape> batch_shapes(int64_t rows) const override;
  Objective objective(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                      const Leaves<Tensor>& batch) const override;
  Leaves<Tensor> evaluate(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                          const Leaves<Tensor>& batch, const Tensor& weight) const override;
  double training_flops(int64_t rows) const override;
  double kept_activations(int64_t rows) const override;

 private:
  using Report = MoeReport<Tensor>;
  struct Forward {
    Tensor logits;   // b,s,v
    Report reports;  // of the expert layers: l,...
  };
  Forward forward(const MoeTransformerParams<Tensor>& params, const Leaves<Tensor>& batch,
                  const std::optional<Tensor>& present) const;
  std::pair<Tensor, Report> pair_of_blocks(const BlockParams<Tensor>& dense,
                                           const SparseBlockParams<Tensor>& sparse, Tensor x,
                                           const Tensor& seed,
                                           const std::optional<Tensor>& present) const;

  MoeTransformerConfig config_;
  Transformer transformer_;
  MoeLayer experts_;
};

}  // namespace gspmd::models
