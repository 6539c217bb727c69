#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "gspmd/gspmd.h"
#include "models/layout.h"

namespace gspmd::models {

enum class Norm : uint8_t { rms, layer };
enum class Positions : uint8_t { learned, none };
enum class Head : uint8_t { tied, untied };
// `exact` has only integer-preserving operations: no norms, relu, masked scores without softmax or
// scale, weights in {-1,0,1}, loss = sum(logits * w). Its results are the same bits on every mesh.
enum class Form : uint8_t { standard, exact };

// A decoder-only language model of pre-norm blocks.
struct TransformerConfig {
  int64_t layers = 2;
  int64_t model = 256;    // m
  int64_t hidden = 1024;  // h
  int64_t heads = 8;      // n; the head dim d is model / heads
  int64_t seq = 128;      // s
  int64_t vocab = 256;    // v
  Norm norm = Norm::rms;
  bool bias = false;  // of the feed-forward products and of layer norms
  Positions positions = Positions::learned;
  Head head = Head::tied;
  Form form = Form::standard;
  DType dtype = DType::f32;
  // The blocks as one loop: `blocks` has one entry, whose leaves have the blocks in front (l).
  bool scan = false;
  // What a block computes is made again for its gradient; what it is given is kept.
  bool remat = false;

  int64_t head_dim() const { return model / heads; }
};

// UserError: a size below 1, heads that do not divide the model dim, a dtype other than f32 and
// f64, the exact form with biases.
void check(const TransformerConfig& config);

template <class T>  // Shape, Array or Tensor
struct BlockParams {
  std::optional<T> attention_norm, attention_norm_bias;  // m
  T wq, wk, wv;                                          // m,n,d
  T wo;                                                  // n,d,m
  std::optional<T> ffn_norm, ffn_norm_bias;              // m
  T w_in;                                                // m,h
  std::optional<T> b_in;                                 // h
  T w_out;                                               // h,m
  std::optional<T> b_out;                                // m
  GSPMD_FIELDS(attention_norm, attention_norm_bias, wq, wk, wv, wo, ffn_norm, ffn_norm_bias, w_in,
               b_in, w_out, b_out)
};

template <class T>
struct TransformerParams {
  T embedding;                         // v,m
  std::optional<T> positions;          // s,m
  std::vector<BlockParams<T>> blocks;  // one for each, or one for all (TransformerConfig::scan)
  std::optional<T> final_norm, final_norm_bias;  // m
  std::optional<T> head;                         // v,m; absent when tied to the embedding
  GSPMD_FIELDS(embedding, positions, blocks, final_norm, final_norm_bias, head)
};

// What a block of attention keeps of the positions it has read.
template <class T>
struct KeyValues {
  T keys, values;  // b,t,n,d
  GSPMD_FIELDS(keys, values)
};
// Of every block, as TransformerParams::blocks: with TransformerConfig::scan one entry of
// l,b,t,n,d.
template <class T>
using KeyValueCache = std::vector<KeyValues<T>>;

TransformerParams<Shape> parameter_shapes(const TransformerConfig& config);
// A cache of config.seq positions.
KeyValueCache<Shape> cache_shapes(const TransformerConfig& config, int64_t rows);
// Normal values scaled by fan-in, ones for norm scales, zeros for biases; the exact form's are in
// {-1,0,1}. A pure function of config and seed.
TransformerParams<Array> initial_parameters(const TransformerConfig& config, uint32_t seed);

// The model as code for one device. Annotations come from the layout: per block the block's input
// and its six weights, nothing where the lists are empty.
class Transformer {
 public:
  // UserError as check().
  Transformer(const TransformerConfig& config, const Mesh& mesh, const Layout& layout);

  const TransformerConfig& config() const { return config_; }
  // tokens b,s (integers below vocab) -> logits b,s,v. UserError: more than config.seq positions
  // with learned ones.
  Tensor logits(const TransformerParams<Tensor>& params, Tensor tokens) const;
  // One position of every row: its tokens b at `position` (s32[], below the cache's), whose logits
  // b,v come from them and what the cache holds of the positions before; and the cache with it.
  std::pair<Tensor, KeyValueCache<Tensor>> next_logits(const TransformerParams<Tensor>& params,
                                                       const KeyValueCache<Tensor>& cache,
                                                       Tensor tokens, Tensor position) const;
  // Standard form: mean cross entropy against labels b,s. Exact form: sum(logits * labels) with
  // labels b,s,v in {-1,0,1}.
  Tensor loss(const TransformerParams<Tensor>& params, Tensor tokens, Tensor labels) const;

  // --- The parts of logits() and loss(), for models with other blocks among them; x is b,s,m
  Tensor table(const TransformerParams<Tensor>& params) const;  // the embedding, v,m
  Tensor embedded(const TransformerParams<Tensor>& params, Tensor table, Tensor tokens) const;
  Tensor block(const BlockParams<Tensor>& params, Tensor x) const {
    return block(params, x, nullptr);
  }
  // x with what attention adds, and what the feed-forward part reads of it. Weights of the
  // feed-forward part are not read.
  std::pair<Tensor, Tensor> attended(const BlockParams<Tensor>& params, Tensor x) const {
    return attended(params, x, nullptr);
  }
  // b,s,v
  Tensor scores(const TransformerParams<Tensor>& params, Tensor table, Tensor x) const;
  // loss() of what scores() gives.
  Tensor loss_of(Tensor scores, Tensor labels) const;

 private:
  // A block's part of the cache while one position is read.
  struct Cached {
    KeyValues<Tensor> kept;
    Tensor position;
  };
  Tensor block(const BlockParams<Tensor>& params, Tensor x, Cached* cached) const;
  std::pair<Tensor, Tensor> attended(const BlockParams<Tensor>& params, Tensor x,
                                     Cached* cached) const;
  Tensor all_blocks(const std::vector<BlockParams<Tensor>>& blocks, Tensor x) const;
  std::pair<Tensor, KeyValueCache<Tensor>> all_blocks(
      const std::vector<BlockParams<Tensor>>& blocks, Tensor x, const KeyValueCache<Tensor>& cache,
      Tensor position) const;
  Tensor attention(const BlockParams<Tensor>& params, Tensor x, Cached* cached) const;
  Tensor attend(Tensor q, Tensor k, Tensor v, const std::optional<Tensor>& position) const;
  void append(Cached& cached, Tensor& k, Tensor& v) const;
  Tensor feed_forward(const BlockParams<Tensor>& params, Tensor x) const;
  Tensor split_table(Tensor table) const;
  Tensor normalize(Tensor x, const std::optional<Tensor>& scale,
                   const std::optional<Tensor>& bias) const;
  Tensor split(Tensor x, const std::vector<AxisList>& dims) const;

  TransformerConfig config_;
  Mesh mesh_;
  Layout layout_;
};

// Floating point operations of one forward and backward pass over batch * seq tokens: 6 per weight
// and token in products, and the attention products.
double training_flops(const TransformerConfig& config, int64_t batch);
// As Model::kept_activations. Of a token and a block: what both norms read and give, queries, keys,
// values and what attention gives, and the feed-forward part before and behind its activation; no
// scores of attention, two numbers of each of their rows instead (Dao et al., FlashAttention,
// 2022).
double kept_activations(const TransformerConfig& config, int64_t batch);
int64_t parameter_count(const TransformerConfig& config);

}  // namespace gspmd::models
