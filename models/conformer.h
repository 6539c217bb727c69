#pragma once

#include "models/model.h"
#include "models/pipeline_config.h"

namespace gspmd::models {

// A stack of Conformer blocks (Gulati et al. 2020, arXiv:2005.08100) over frames, with a linear
// layer before and one behind it that says a class of every frame.
struct ConformerConfig {
  int64_t layers = 4;
  int64_t model = 64;     // m
  int64_t hidden = 256;   // h, of both feed-forward parts
  int64_t heads = 4;      // n; the head dim d is model / heads
  int64_t kernel = 7;     // k, frames that the depthwise convolution sees; odd
  int64_t frames = 32;    // t
  int64_t features = 16;  // f, of a frame
  int64_t classes = 8;    // c
  double momentum = 0.9;  // what remains of the running averages in a step
  DType dtype = DType::f32;

  int64_t head_dim() const { return model / heads; }
};

// UserError: a size below 1, heads that do not divide the model dim, an odd head dim, an even
// kernel.
void check(const ConformerConfig& config);

// layer norm, linear, silu, linear.
template <class T>
struct ConformerFeedForward {
  T norm, norm_bias;  // m
  T w_in, b_in;       // m,h; h
  T w_out, b_out;     // h,m; m
  GSPMD_FIELDS(norm, norm_bias, w_in, b_in, w_out, b_out)
};

template <class T>
struct ConformerBlock {
  ConformerFeedForward<T> before, behind;
  T attention_norm, attention_norm_bias;  // m
  T wq, wk, wv;                           // m,n,d
  T wo;                                   // n,d,m
  T conv_norm, conv_norm_bias;            // m
  T w_value, w_gate;                      // m,m
  T depthwise;                            // k,m
  T batch_norm, batch_norm_bias;          // m
  T w_conv;                               // m,m
  T norm, norm_bias;                      // m
  GSPMD_FIELDS(before, behind, attention_norm, attention_norm_bias, wq, wk, wv, wo, conv_norm,
               conv_norm_bias, w_value, w_gate, depthwise, batch_norm, batch_norm_bias, w_conv,
               norm, norm_bias)
};

template <class T>
struct ConformerParams {
  T input;                   // f,m
  ConformerBlock<T> blocks;  // with the blocks in front, as pipeline() wants them
  T output;                  // m,c
  GSPMD_FIELDS(input, blocks, output)
};

// Of the values that a block's batch norm sees, by feature.
template <class T>
struct ConformerStatistics {
  T mean, square;  // m; the mean, and the mean of squares
  GSPMD_FIELDS(mean, square)
};

// Parameters of one block; of all of them with `layers` in front.
ConformerBlock<Shape> conformer_block_shapes(const ConformerConfig& config);

// The code of a block for one device; annotations from the layout's lists, as a Transformer's:
// weight_heads splits heads and the features of the convolution, weight_hidden the hidden dim.
class ConformerLayer {
 public:
  // UserError as check().
  ConformerLayer(const ConformerConfig& config, const Mesh& mesh, const Layout& layout);

  const ConformerConfig& config() const { return config_; }
  // x b,t,m -> {the block's result, the statistics of these rows}. Without `running` the batch norm
  // is by the rows' own statistics, else by `running`.
  std::pair<Tensor, ConformerStatistics<Tensor>> operator()(
      const ConformerBlock<Tensor>& params, Tensor x,
      const ConformerStatistics<Tensor>* running = nullptr) const;

 private:
  Tensor split(Tensor x, const std::vector<AxisList>& dims) const;
  Tensor feed_forward(const ConformerFeedForward<Tensor>& params, Tensor x) const;
  Tensor attention(const ConformerBlock<Tensor>& params, Tensor x) const;
  // What the batch norm reads.
  Tensor convolved(const ConformerBlock<Tensor>& params, Tensor x) const;
  Tensor batch_normalized(const ConformerBlock<Tensor>& params, Tensor x,
                          const ConformerStatistics<Tensor>& statistics) const;

  ConformerConfig config_;
  Mesh mesh_;
  Layout layout_;
};

// The stack as a pipeline. A batch is `frames` [b,t,f] of config.dtype and `labels` s32[b,t]. Batch
// norms use the statistics of a micro-batch; the state holds running averages of those of whole
// batches, `mean` and `square` (arXiv:1811.06965, 2.2), which evaluation uses: `loss`, nats per
// frame, and `accuracy`.
class ConformerModel : public Model {
 public:
  // UserError as check() and checked().
  ConformerModel(const ConformerConfig& config, const PipelineConfig& pipeline, const Mesh& mesh,
                 const Layout& layout);

  const ConformerConfig& config() const { return layer_.config(); }

  Leaves<Shape> parameter_shapes() const override;
  Leaves<Array> initial_parameters(uint32_t seed) const override;
  Leaves<Shape> state_shapes() const override;
  Leaves<Array> initial_state() const override;  // mean 0, mean of squares 1
  Leaves<Shape> batch_shapes(int64_t rows) const override;
  Objective objective(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                      const Leaves<Tensor>& batch) const override;
  Leaves<Tensor> evaluate(const Leaves<Tensor>& params, const Leaves<Tensor>& state,
                          const Leaves<Tensor>& batch, const Tensor& weight) const override;
  double training_flops(int64_t rows) const override;

 private:
  ConformerParams<Shape> shapes() const;
  // Logits n,b/n,t,c of what the blocks give, n,b/n,t,m.
  Tensor logits(const Tensor& output, const Tensor& y) const;

  ConformerLayer layer_;
  PipelineConfig pipeline_;
  Mesh mesh_;
};

}  // namespace gspmd::models
