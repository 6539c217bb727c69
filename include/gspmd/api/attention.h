#pragma once

// Attention: grouped heads, positions, masks, and a cache of keys and values for decoding.

#include <optional>
#include <utility>

#include "gspmd/api/layers.h"
#include "gspmd/base/export.h"

namespace gspmd {

// How rotary_embedding() turns.
struct RotaryOptions {
  double base = 10000;  // wavelengths reach from 2 pi to 2 pi base; above 1
  // Pairs are neighbours, dims 2i and 2i + 1, as in Su et al. 2021; else the halves' dims i and
  // i + d/2, as in GPT-NeoX and LLaMA.
  bool interleaved = false;
};
// Each pair of the last dim turned by the angle position * base^(-2i/d): x [..., t, heads, d] with
// d even, positions [t], or [b,t] of x [b,t,heads,d], integers. Su et al. 2021.
GSPMD_API Tensor rotary_embedding(Operand x, Operand positions, const RotaryOptions& options = {});

// What queries see of keys, and how strongly.
struct AttentionOptions {
  bool causal = false;  // a query sees no keys of later positions
  // A query sees keys less than this many positions away, its own among them: 1 or more.
  std::optional<int64_t> window = {};
  // [b]: how many keys of each element of the batch are there; those behind are padding.
  std::optional<Operand> key_lengths = {};
  // pred, true where a query sees a key; broadcasts to [b, heads, t, s].
  std::optional<Operand> mask = {};
  // Positions of the queries among the keys, [t] or [b,t]; default: the last query is that of the
  // last key.
  std::optional<Operand> query_positions = {};
  double scale = 0;  // of the scores; 0: 1 / sqrt(d)
};
// softmax(query key^T scale) value of each head: query [b,t,n,d], key and value [b,s,k,d], where
// k divides n: each key is for n/k queries, in order (Ainslie et al. 2023). Result [b,t,n,d]. What
// all of the masks hide has no weight; a query that sees nothing gets the mean of all values. As
// jax.nn.dot_product_attention. The softmax of 16-bit numbers is that of f32.
GSPMD_API Tensor dot_product_attention(Operand query, Operand key, Operand value,
                                       const AttentionOptions& options = {});

// Keys and values of the positions so far.
template <class T>
struct KeyValueCache {
  T key, value;  // [b, room, kv_heads, d]
  T length;      // s32[], positions that are there
  GSPMD_FIELDS(key, value, length)

  // An empty cache with room for `room` positions. UserError: a size below 1.
  static KeyValueCache init(int64_t batch, int64_t room, int64_t kv_heads, int64_t dim,
                            DType dtype = DType::f32,
                            Site site = Site::here()) requires std::same_as<T, Array> {
    detail::check_sizes(
        "cache", {{"batch", batch}, {"room", room}, {"kv_heads", kv_heads}, {"dim", dim}}, site);
    const Shape shape{dtype, {batch, room, kv_heads, dim}};
    return {Array(shape), Array(shape), Array(DType::s32, {})};
  }
};

// Sizes of Attention.
struct AttentionSizes {
  int64_t model = 0;     // features of input and output
  int64_t heads = 1;     // of queries
  int64_t kv_heads = 0;  // of keys and values, divides `heads`; 0: as many
  int64_t dim = 0;       // of a head; 0: model / heads
};

// How an Attention layer runs.
struct SelfAttentionOptions {
  AttentionOptions attention = {};           // what is seen
  std::optional<RotaryOptions> rotary = {};  // turns queries and keys by their positions
};

namespace detail {
GSPMD_API AttentionSizes attention_sizes(AttentionSizes sizes, Site site);
// The projections wq, wk, wv, wo.
struct AttentionWeights {
  Operand query, key, value, out;
};
GSPMD_API Tensor self_attention(const Operand& x, const Operand& memory,
                                const AttentionWeights& weights,
                                const SelfAttentionOptions& options, Site site);
// {y, the cache with the new positions}
GSPMD_API std::pair<Tensor, KeyValueCache<Tensor>> cached_attention(
    const Operand& x, const Operand& key, const Operand& value, const Operand& length,
    const AttentionWeights& weights, const SelfAttentionOptions& options, Site site);
}  // namespace detail

// Attention with its projections: x [b,t,m] -> [b,t,m].
template <class T>
struct Attention {
  T wq;  // [m, heads, d]
  T wk;  // [m, kv_heads, d]
  T wv;  // [m, kv_heads, d]
  T wo;  // [heads, d, m]
  GSPMD_FIELDS(wq, wk, wv, wo)

  // By glorot_uniform. UserError: a size below 1, heads that kv_heads do not divide.
  static Attention init(const AttentionSizes& given, uint32_t seed, DType dtype = DType::f32,
                        Site site = Site::here()) requires std::same_as<T, Array> {
    const AttentionSizes s = detail::attention_sizes(given, site);
    const auto in = [&](int64_t heads, int64_t stream) {
      return glorot_uniform({dtype, {s.model, heads, s.dim}}, seed,
                            {.in_axes = {0}, .out_axes = {1, 2}, .stream = stream}, site);
    };
    return {in(s.heads, 0), in(s.kv_heads, 1), in(s.kv_heads, 2),
            glorot_uniform({dtype, {s.heads, s.dim, s.model}}, seed,
                           {.in_axes = {0, 1}, .out_axes = {2}, .stream = 3}, site)};
  }

  // Of x on itself, or on `memory` [b,s,m], as a decoder's on what an encoder gives.
  Tensor operator()(const Operand& x, const SelfAttentionOptions& options = {}) const {
    return detail::self_attention(x, x, weights(x.site()), options, x.site());
  }
  Tensor operator()(const Operand& x, const Operand& memory,
                    const SelfAttentionOptions& options = {}) const {
    return detail::self_attention(x, memory, weights(x.site()), options, x.site());
  }
  // Of the positions that follow those in the cache, on these and themselves, causal: {y, the
  // cache with them}. x [b,t,m]: t = 1 of a decoder's step, more where a prompt is read. Positions
  // that the cache has no room for overwrite its end: give it room for all.
  template <class C>
  std::pair<Tensor, KeyValueCache<Tensor>> decode(const Operand& x, const KeyValueCache<C>& cache,
                                                  const SelfAttentionOptions& options = {}) const {
    const Site s = x.site();
    return detail::cached_attention(x, Operand(cache.key, s), Operand(cache.value, s),
                                    Operand(cache.length, s), weights(s), options, s);
  }

 private:
  detail::AttentionWeights weights(Site site) const {
    return {Operand(wq, site), Operand(wk, site), Operand(wv, site), Operand(wo, site)};
  }
};

}  // namespace gspmd
