#include "gspmd/api/attention.h"

#include <cmath>

#include "api/emit.h"
#include "gspmd/api/arranging.h"
#include "gspmd/api/einsum.h"
#include "gspmd/api/indexing.h"
#include "gspmd/api/shaping.h"

namespace gspmd {

using namespace detail;

namespace {

Tensor tensor_from(const Operand& operand) { return tensor_of(node_of(operand)); }
std::string described(const Tensor& tensor) { return describe(node_of(tensor)); }

Tensor integers_from(const Operand& operand, const char* what) {
  Node* node = node_of(operand, DType::s32);
  need_integer(node, what);
  return tensor_of(node->shape.dtype == DType::s32 ? node : hlo::convert(node, DType::s32));
}

// --- Rotary positions

// x [..., d] as its pairs, and pairs as an x.
std::pair<Tensor, Tensor> pairs_of(const Tensor& x, bool interleaved) {
  const int64_t half = x.dim(-1) / 2;
  if (!interleaved) return {slice_dim(x, -1, 0, half), slice_dim(x, -1, half, 2 * half)};
  Dims dims = x.dims();
  dims.back() = half;
  dims.push_back(2);
  const Tensor split = reshape(x, dims);
  return {squeeze(slice_dim(split, -1, 0, 1), -1), squeeze(slice_dim(split, -1, 1, 2), -1)};
}
Tensor joined(const Tensor& first, const Tensor& second, bool interleaved) {
  if (!interleaved) return concatenate({first, second}, first.rank() - 1);
  Dims dims = first.dims();
  dims.back() *= 2;
  return reshape(stack({first, second}, -1), dims);
}

// --- What a query sees

// Dims of scores, [b, kv_heads, queries of a head, t, s].
struct ScoreDims {
  int64_t batch, heads, groups, queries, keys;
};

// s32 [t] or [b,t] as [1 or b, 1, 1, t, 1].
Tensor query_places(const AttentionOptions& options, const ScoreDims& d) {
  if (!options.query_positions)
    return reshape(arange(d.keys - d.queries, d.keys), {1, 1, 1, d.queries, 1});
  const Tensor places = integers_from(*options.query_positions, "query positions");
  if (places.dims() == Dims{d.queries}) return reshape(places, {1, 1, 1, d.queries, 1});
  if (places.dims() == Dims{d.batch, d.queries})
    return reshape(places, {d.batch, 1, 1, d.queries, 1});
  call_error("query positions {} must be [{}] or [{},{}], one for each query", described(places),
             d.queries, d.batch, d.queries);
}

// A mask that broadcasts to [b, heads, t, s] as one that broadcasts to the dims of the scores.
Tensor grouped_mask(const Operand& operand, const ScoreDims& d) {
  const Tensor mask = tensor_from(operand);
  if (mask.dtype() != DType::pred)
    call_error("the mask {} must be pred, true where a query sees a key", described(mask));
  const Dims whole = {d.batch, d.heads * d.groups, d.queries, d.keys};
  const int64_t lead = 4 - mask.rank();
  bool fits = lead >= 0;
  for (int64_t i = 0; fits && i < mask.rank(); ++i)
    fits = mask.dim(i) == 1 || mask.dim(i) == whole[static_cast<size_t>(i + lead)];
  if (!fits)
    call_error("the mask {} does not broadcast to [b,heads,t,s], here {}", described(mask),
               dims_text(whole));
  Dims dims(static_cast<size_t>(lead), 1);
  dims.insert(dims.end(), mask.dims().begin(), mask.dims().end());
  const bool each = dims[1] != 1;
  dims[1] = each ? d.heads : 1;
  dims.insert(dims.begin() + 2, each ? d.groups : 1);
  return reshape(mask, dims);
}

// pred that broadcasts to the dims of the scores; none where everything is seen.
std::optional<Tensor> visible_keys(const AttentionOptions& options, const ScoreDims& d) {
  std::optional<Tensor> visible;
  const auto also = [&](const Tensor& mask) {
    visible = visible ? logical_and(*visible, mask) : mask;
  };
  const Tensor keys = arange(d.keys);  // [s], aligned with the last dim
  if (options.causal || options.window) {
    const Tensor queries = query_places(options, d);
    if (options.causal) also(keys <= queries);
    if (options.window) {
      if (*options.window < 1)
        call_error("window {} is wrong; a query sees its own key: give 1 or more", *options.window);
      also(keys > queries - *options.window);
      if (!options.causal) also(keys < queries + *options.window);
    }
  }
  if (options.key_lengths) {
    const Tensor lengths = integers_from(*options.key_lengths, "key lengths");
    if (lengths.dims() != Dims{d.batch})
      call_error("key lengths {} must be [{}], one for each element of the batch",
                 described(lengths), d.batch);
    also(keys < reshape(lengths, {d.batch, 1, 1, 1, 1}));
  }
  if (options.mask) also(grouped_mask(*options.mask, d));
  return visible;
}

// Half the lowest number of a type: scores that are hidden, without overflow.
double hidden_score(DType dtype) { return dtype == DType::f64 ? -8e307 : -1.6e38; }

void check_heads(const Tensor& query, const Tensor& key, const Tensor& value) {
  for (const Tensor& x : {query, key, value}) {
    need_floating(node_of(x));
    if (x.rank() != 4)
      call_error("{} must have dims [b,t,heads,d]; it has rank {}", described(x), x.rank());
    if (x.dtype() != query.dtype())
      call_error("dtypes of {} and {} differ; convert one of them", described(query), described(x));
  }
  if (key.dims() != value.dims())
    call_error("key {} and value {} must have equal dims", described(key), described(value));
  if (query.dim(0) != key.dim(0) || query.dim(3) != key.dim(3))
    call_error("query {} and key {} must have equal batches and head dims, dims 0 and 3",
               described(query), described(key));
  if (key.dim(2) == 0 || query.dim(2) % key.dim(2) != 0)
    call_error("the {} heads of keys {} do not divide the {} heads of queries {}", key.dim(2),
               described(key), query.dim(2), described(query));
  if (key.dim(1) == 0) call_error("there are no keys in {}", described(key));
}

Tensor attended(const Tensor& query, const Tensor& key, const Tensor& value,
                const AttentionOptions& options) {
  check_heads(query, key, value);
  if (!(options.scale >= 0 && std::isfinite(options.scale)))
    call_error("scale {} is wrong; give a number above 0, or 0 for 1 / sqrt(d)", options.scale);
  const ScoreDims d{query.dim(0), key.dim(2), query.dim(2) / key.dim(2), query.dim(1), key.dim(1)};
  const double scale = options.scale > 0
                           ? options.scale
                           : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(query.dim(3), 1)));
  const Tensor q = reshape(query * scale, {d.batch, d.queries, d.heads, d.groups, query.dim(3)});
  // Queries are turned, not scores.
  Tensor scores = einsum("bkgtd,bskd->bkgts", transpose(q, {0, 2, 3, 1, 4}), key);
  // Weights of many keys are too many sums for 8 or 11 bits.
  if (scores.dtype() != DType::f64) scores = convert(scores, DType::f32);
  if (const std::optional<Tensor> visible = visible_keys(options, d))
    scores = where(*visible, scores, hidden_score(scores.dtype()));
  const Tensor weights = convert(softmax(scores), value.dtype());
  const Tensor y = einsum("bkgts,bskd->btkgd", weights, value);
  return reshape(y, query.dims());
}

// --- The layer

// x [b,t,m] and the four projections, checked.
struct Projections {
  Tensor query, key, value, out;
};
Projections checked_projections(const Tensor& x, const AttentionWeights& given) {
  const Projections w{tensor_from(given.query), tensor_from(given.key), tensor_from(given.value),
                      tensor_from(given.out)};
  need_floating(node_of(x));
  if (x.rank() != 3)
    call_error("{} must have dims [b,t,m]; it has rank {}", described(x), x.rank());
  const auto check = [&](const char* name, const Tensor& weight, const char* letters, int64_t dim) {
    if (weight.rank() != 3 || weight.dim(dim) != x.dim(2))
      call_error("the weight {} {} must have dims {} with the {} features of {}", name,
                 described(weight), letters, x.dim(2), described(x));
  };
  check("wq", w.query, "[m,heads,d]", 0);
  check("wk", w.key, "[m,kv_heads,d]", 0);
  check("wv", w.value, "[m,kv_heads,d]", 0);
  check("wo", w.out, "[heads,d,m]", 2);
  return w;
}

Tensor projected(const Tensor& x, const Tensor& weight) {
  return einsum("btm,mnd->btnd", x, weight);
}

Tensor turned(const Tensor& x, const Tensor& positions, const SelfAttentionOptions& options) {
  return options.rotary ? rotary_embedding(x, positions, *options.rotary) : x;
}

}  // namespace

Tensor rotary_embedding(Operand x, Operand positions, const RotaryOptions& options) {
  return call("rotary_embedding", x.site(), [&] {
    const Tensor input = tensor_from(x);
    const Tensor places = integers_from(positions, "positions");
    need_floating(node_of(input));
    if (!(options.base > 1 && std::isfinite(options.base)))
      call_error("base {} is wrong; give a number above 1", options.base);
    const int64_t rank = input.rank();
    if (rank < 3 || input.dim(-1) % 2 != 0)
      call_error("{} must have dims [...,t,heads,d] with d even", described(input));
    const int64_t t = input.dim(-3);
    const bool each = rank == 4 && places.dims() == Dims{input.dim(0), t};
    if (!each && places.dims() != Dims{t})
      call_error(
          "positions {} must be [{}], as dim {} of {}, or one such row for each element of "
          "the batch",
          described(places), t, rank - 3, described(input));
    const int64_t half = input.dim(-1) / 2;
    const DType dtype = input.dtype() == DType::f64 ? DType::f64 : DType::f32;
    // base^(-i / half), rounded once.
    Array rates(dtype, {half});
    for (int64_t i = 0; i < half; ++i)
      rates.set(i, std::pow(options.base, -static_cast<double>(i) / static_cast<double>(half)));
    const Tensor angles = expand_dims(convert(places, dtype), -1) *
                          tensor_of(hlo::constant(node_of(input)->parent(), rates));
    // One for all heads: [..., t, 1, half].
    const Tensor c = convert(expand_dims(cos(angles), -2), input.dtype());
    const Tensor s = convert(expand_dims(sin(angles), -2), input.dtype());
    const auto [first, second] = pairs_of(input, options.interleaved);
    return joined(first * c - second * s, second * c + first * s, options.interleaved);
  });
}

Tensor dot_product_attention(Operand query, Operand key, Operand value,
                             const AttentionOptions& options) {
  return call("dot_product_attention", query.site(), [&] {
    return attended(tensor_from(query), tensor_from(key), tensor_from(value), options);
  });
}

namespace detail {

AttentionSizes attention_sizes(AttentionSizes sizes, Site site) {
  const AttentionSizes given = sizes;
  check_sizes("attention", {{"model", sizes.model}, {"heads", sizes.heads}}, site);
  if (sizes.kv_heads == 0) sizes.kv_heads = sizes.heads;
  if (sizes.kv_heads < 1 || sizes.heads % sizes.kv_heads != 0)
    user_error(site, "attention: {} kv_heads do not divide {} heads", given.kv_heads, sizes.heads);
  if (sizes.dim == 0) {
    if (sizes.model % sizes.heads != 0)
      user_error(site, "attention: {} heads do not divide model {}; give dim, that of a head",
                 sizes.heads, sizes.model);
    sizes.dim = sizes.model / sizes.heads;
  }
  check_sizes("attention", {{"dim", sizes.dim}}, site);
  return sizes;
}

Tensor self_attention(const Operand& x, const Operand& memory, const AttentionWeights& weights,
                      const SelfAttentionOptions& options, Site site) {
  return call("attention", site, [&] {
    const Tensor input = tensor_from(x), seen = tensor_from(memory);
    const Projections w = checked_projections(input, weights);
    checked_projections(seen, weights);
    Tensor q = projected(input, w.query);
    Tensor k = projected(seen, w.key);
    if (options.rotary) {
      const int64_t t = input.dim(1), s = seen.dim(1);
      const auto& given = options.attention.query_positions;
      q = turned(q, given ? integers_from(*given, "query positions") : arange(s - t, s), options);
      k = turned(k, arange(s), options);
    }
    const Tensor y = attended(q, k, projected(seen, w.value), options.attention);
    return einsum("btnd,ndm->btm", y, w.out);
  });
}

std::pair<Tensor, KeyValueCache<Tensor>> cached_attention(
    const Operand& x, const Operand& key, const Operand& value, const Operand& length,
    const AttentionWeights& weights, const SelfAttentionOptions& options, Site site) {
  return call("attention", site, [&] {
    const Tensor input = tensor_from(x), past = integers_from(length, "the length of the cache");
    const Projections w = checked_projections(input, weights);
    Tensor keys = tensor_from(key), values = tensor_from(value);
    const int64_t t = input.dim(1);
    if (past.rank() != 0) call_error("the length of the cache {} has dims", described(past));
    for (const Tensor& cache : {keys, values}) {
      const bool fits = cache.rank() == 4 && cache.dtype() == input.dtype() &&
                        cache.dim(0) == input.dim(0) && cache.dim(1) >= t &&
                        cache.dim(2) == w.key.dim(1) && cache.dim(3) == w.key.dim(2);
      if (!fits)
        call_error("the cache {} must be {}[{},room,{},{}], with room for the {} positions of {}",
                   described(cache), dtype_name(input.dtype()), input.dim(0), w.key.dim(1),
                   w.key.dim(2), t, described(input));
    }
    if (options.attention.query_positions)
      call_error("positions follow those in the cache; leave query_positions away");
    const Tensor positions = arange(t) + past;
    keys = dynamic_update_slice(keys, turned(projected(input, w.key), positions, options),
                                {0, past, 0, 0});
    values = dynamic_update_slice(values, projected(input, w.value), {0, past, 0, 0});
    AttentionOptions seen = options.attention;
    seen.causal = true;
    seen.query_positions = positions;
    const Tensor y =
        attended(turned(projected(input, w.query), positions, options), keys, values, seen);
    return std::pair{einsum("btnd,ndm->btm", y, w.out),
                     KeyValueCache<Tensor>{keys, values, past + t}};
  });
}

}  // namespace detail
}  // namespace gspmd
