#include "api/numpy_cases.h"

using namespace gspmd;
using namespace gspmd::test;

namespace attention_test {
namespace {

const Shape kQ{DType::f32, {2, 5, 4, 6}}, kK{DType::f32, {2, 7, 2, 6}};

using Layer = Attention<Array>;
const AttentionSizes kSizes{.model = 8, .heads = 4, .kv_heads = 2};

}  // namespace

TEST_CASE("rotary positions are complex rotations, in NumPy", "[api][numpy]") {
  const NumpyCases cases("attention");
  cases.check("rotary", [](Tensor x, Tensor p) { return rotary_embedding(x, p); });
  cases.check("rotary_interleaved", [](Tensor x, Tensor p) {
    return rotary_embedding(x, p, {.base = 500, .interleaved = true});
  });
}

TEST_CASE("attention of grouped heads and masks is that of a loop in NumPy", "[api][numpy]") {
  const NumpyCases cases("attention");
  const auto three = [&](const char* name, const AttentionOptions& options) {
    cases.check(name, [&](Tensor q, Tensor k, Tensor v) {
      return dot_product_attention(q, k, v, options);
    });
  };
  three("plain", {});
  three("scaled", {.scale = 0.7});
  three("causal", {.causal = true});
  three("window", {.window = 3});
  three("causal_window", {.causal = true, .window = 3});
  cases.check("lengths", [](Tensor q, Tensor k, Tensor v, Tensor lengths) {
    return dot_product_attention(q, k, v, {.key_lengths = lengths});
  });
  cases.check("masked", [](Tensor q, Tensor k, Tensor v, Tensor mask) {
    return dot_product_attention(q, k, v, {.mask = mask});
  });
  cases.check("places", [](Tensor q, Tensor k, Tensor v, Tensor places) {
    return dot_product_attention(q, k, v, {.causal = true, .query_positions = places});
  });
}

TEST_CASE("a layer of attention with rotary positions is that of NumPy", "[api][numpy]") {
  NumpyCases("attention").check("layer", [](Tensor x, Tensor wq, Tensor wkv, Tensor wo) {
    const Attention<Tensor> layer{wq, wkv(0), wkv(1), wo};
    return layer(x, {.attention = {.causal = true}, .rotary = RotaryOptions{}});
  });
}

TEST_CASE("decoding position by position with a cache is attention on all at once", "[api]") {
  const auto layer = Layer::init(kSizes, 1, DType::f64);
  const Array x = random_array({DType::f64, {3, 6, 8}}, 2);
  const auto cache = KeyValueCache<Array>::init(3, 7, 2, 2, DType::f64);
  for (const std::optional<int64_t> window :
       {std::optional<int64_t>(), std::optional<int64_t>(2)}) {
    SelfAttentionOptions options{.attention = {.window = window}, .rotary = RotaryOptions{}};
    // A prompt of three, then one after the other.
    const auto decode = [&](const Attention<Tensor>& p, KeyValueCache<Tensor> c, Tensor t) {
      std::vector<Tensor> parts{slice_dim(t, 1, 0, 3)};
      for (int64_t i = 3; i < 6; ++i) parts.push_back(slice_dim(t, 1, i, i + 1));
      for (Tensor& part : parts) std::tie(part, c) = p.decode(part, c, options);
      return concatenate(parts, 1);
    };
    options.attention.causal = true;
    const auto whole = [&](Tensor t) { return layer(t, options); };
    const Array expected = run(whole, x);
    options.attention.causal = false;
    CHECK(expect_close({run(decode, layer, cache, x)}, {expected}, {1e-12, 1e-12}).message == "");
    const auto make = [&](const Mesh& mesh) {
      return [&, mesh](const Attention<Tensor>& p, const KeyValueCache<Tensor>& c, Tensor t) {
        return decode(p, c, mesh_split(t, mesh, {"data", _, "model"}));
      };
    };
    const Mesh mesh{{"data", 2}, {"model", 3}};
    CHECK(expect_equal_on_meshes(make, {mesh}, {1e-12, 1e-12}, layer, cache, x).message == "");
  }
}

TEST_CASE("a cache fills up and counts its positions", "[api]") {
  const auto layer = Layer::init(kSizes, 1, DType::f64);
  const auto cache = KeyValueCache<Array>::init(3, 7, 2, 2, DType::f64);
  const Array x = random_array({DType::f64, {3, 2, 8}}, 2);
  const auto after = [&](Tensor t) { return layer.decode(t, cache).second; };
  const std::vector<Array> seen = reference_results(after, x);
  CHECK(seen[2].item() == 2);
  const Array keys =
      run([&](Tensor t) { return einsum("btm,mnd->btnd", t, constant(layer.wk)); }, x);
  CHECK(expect_close({run([](Tensor k) { return slice_dim(k, 1, 0, 2); }, seen[0])}, {keys}, {})
            .message == "");
  CHECK(values(run([](Tensor k) { return sum(abs(slice_dim(k, 1, 2, 7))); }, seen[0]))[0] == 0);
}

TEST_CASE("padding of keys is not seen, whatever it is", "[api]") {
  const Array lengths = Array::of<int32_t>({2}, {4, 6});
  const auto attend = [&](Tensor q, Tensor k) {
    return dot_product_attention(q, k, k, {.key_lengths = lengths});
  };
  const Array q = random_array({DType::f32, {2, 3, 2, 4}}, 1);
  Array k = random_array({DType::f32, {2, 6, 2, 4}}, 2);
  const Array expected = run(attend, q, k).clone();
  for (int64_t i = 4 * 8; i < 6 * 8; ++i) k.set(i, 1e4);
  CHECK(values(run(attend, q, k)) == values(expected));
}

TEST_CASE("a query that sees nothing gets the mean of the values, of 16-bit numbers too", "[api]") {
  const Array lengths = Array::of<int32_t>({2}, {0, 3});
  for (const DType dtype : {DType::f64, DType::bf16, DType::f16}) {
    const Array q = random_array({dtype, {2, 1, 2, 4}}, 1),
                k = random_array({dtype, {2, 3, 2, 4}}, 2);
    const auto attend = [&](Tensor a, Tensor b) {
      return dot_product_attention(a, b, b, {.key_lengths = lengths});
    };
    const Array y = run(attend, q, k);
    CHECK(y.dtype() == dtype);
    CHECK(y.at(5) == Approx((k.at(5) + k.at(13) + k.at(21)) / 3).epsilon(0.01).margin(0.01));
  }
}

TEST_CASE("attention on another sequence, and heads of a size of their own", "[api]") {
  const auto layer = Layer::init({.model = 8, .heads = 2, .dim = 5}, 1);
  CHECK(layer.wk.dims() == Dims{8, 2, 5});
  CHECK(layer.wo.dims() == Dims{2, 5, 8});
  const Array x = random_array({DType::f32, {3, 4, 8}}, 1);
  const Array memory = random_array({DType::f32, {3, 6, 8}}, 2);
  const auto f = [&](Tensor a, Tensor b) { return layer(a, b); };
  CHECK(run(f, x, memory).dims() == Dims{3, 4, 8});
  const auto self = [&](Tensor a) { return layer(a); };
  CHECK(values(run(f, x, x)) == values(run(self, x)));
}

TEST_CASE("attention names heads, dims and masks that do not fit", "[api][errors]") {
  const auto message = [](const AttentionOptions& options) {
    return message_of<UserError>([&] {
      trace([&](Tensor q, Tensor k) { return dot_product_attention(q, k, k, options); }, kQ, kK);
    });
  };
  CHECK(message({.window = 0})
            .find("dot_product_attention: window 0 is wrong; a query sees its "
                  "own key: give 1 or more (attention_test.cpp:") == 0);
  CHECK(message({.scale = -1}).find("dot_product_attention: scale -1 is wrong") == 0);
  CHECK(message({.key_lengths = Array::of<int32_t>({3}, {1, 2, 3})})
            .find("must be [2], one for each element of the batch") != std::string::npos);
  CHECK(message({.mask = Array::of<float>({7}, std::vector<float>(7))})
            .find("must be pred, true where a query sees a key") != std::string::npos);
  CHECK(message({.mask = Array(DType::pred, {3, 7})})
            .find("does not broadcast to [b,heads,t,s], here [2,4,5,7]") != std::string::npos);
  CHECK(message({.causal = true, .query_positions = Array(DType::s32, {4})})
            .find("must be [5] or [2,5], one for each query") != std::string::npos);
  const auto refused = [](const char* fact, const Shape& q, const Shape& k) {
    GSPMD_REQUIRE_ERROR(
        fact, trace([](Tensor a, Tensor b) { return dot_product_attention(a, b, b); }, q, k));
  };
  refused("the 3 heads of keys arg1 f32[2,7,3,6] do not divide the 4 heads of queries arg0", kQ,
          {DType::f32, {2, 7, 3, 6}});
  refused("must have equal batches and head dims, dims 0 and 3", kQ, {DType::f32, {2, 7, 2, 8}});
  refused("arg1 f32[7,2,6] must have dims [b,t,heads,d]; it has rank 3", kQ,
          {DType::f32, {7, 2, 6}});
  refused("dtypes of arg0 f32[2,5,4,6] and arg1 f64[2,7,2,6] differ", kQ,
          {DType::f64, {2, 7, 2, 6}});
}

TEST_CASE("layers of attention name sizes, caches and positions that do not fit", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("attention: 3 kv_heads do not divide 4 heads",
                      Layer::init({.model = 8, .heads = 4, .kv_heads = 3}, 1));
  GSPMD_REQUIRE_ERROR("attention: 3 heads do not divide model 8; give dim, that of a head",
                      Layer::init({.model = 8, .heads = 3}, 1));
  GSPMD_REQUIRE_ERROR("attention: model is 0; give 1 or more", Layer::init({}, 1));
  GSPMD_REQUIRE_ERROR("cache: room is 0; give 1 or more", KeyValueCache<Array>::init(1, 0, 1, 1));
  const auto layer = Layer::init(kSizes, 1);
  const Shape x(DType::f32, {3, 5, 8});
  GSPMD_REQUIRE_ERROR("attention: arg0 f32[2,5,4,6] must have dims [b,t,m]",
                      trace([&](Tensor t) { return layer(t); }, kQ));
  GSPMD_REQUIRE_ERROR("attention: the weight wq",
                      trace([&](Tensor t) { return layer(t); }, Shape(DType::f32, {3, 5, 7})));
  const auto small = KeyValueCache<Array>::init(3, 4, 2, 2);
  GSPMD_REQUIRE_ERROR("must be f32[3,room,2,2], with room for the 5 positions of arg0 f32[3,5,8]",
                      trace([&](Tensor t) { return layer.decode(t, small).first; }, x));
  GSPMD_REQUIRE_ERROR(
      "rotary_embedding: base 1 is wrong",
      trace([](Tensor t) { return rotary_embedding(t, arange(5), {.base = 1}); }, kQ));
  GSPMD_REQUIRE_ERROR(
      "must have dims [...,t,heads,d] with d even",
      trace([](Tensor t) { return rotary_embedding(t, arange(5)); }, Shape(DType::f32, {5, 2, 3})));
  GSPMD_REQUIRE_ERROR("must be [5], as dim 1 of arg0 f32[2,5,4,6]",
                      trace([](Tensor t) { return rotary_embedding(t, arange(4)); }, kQ));
}

}  // namespace attention_test
