// One mistake per check: the message names the function, the numbers and this file's line.
#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace errors_shaping_test {
namespace {

const Shape kF{DType::f32, {2, 3}};
const Shape kS{DType::s32, {2, 3}};

}  // namespace

TEST_CASE("reshape and its relatives name the numbers that do not fit", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("reshape: arg0 f32[2,3] has 6 elements, [4,2] has 8",
                      trace(
                          [](Tensor x) {
                            return reshape(x, {4, 2});
                          },
                          kF));
  GSPMD_REQUIRE_ERROR("reshape: arg0 f32[2,3] has 6 elements, no multiple of the 4 that",
                      trace(
                          [](Tensor x) {
                            return reshape(x, {4, -1});
                          },
                          kF));
  GSPMD_REQUIRE_ERROR("reshape: size -1 in [-1,-1] is wrong", trace(
                                                                  [](Tensor x) {
                                                                    return reshape(x, {-1, -1});
                                                                  },
                                                                  kF));
  GSPMD_REQUIRE_ERROR("transpose: 3 dims in the permutation for arg0 f32[2,3]",
                      trace(
                          [](Tensor x) {
                            return transpose(x, {0, 1, 2});
                          },
                          kF));
  GSPMD_REQUIRE_ERROR("transpose: axis 0 of arg0 f32[2,3] is given twice",
                      trace(
                          [](Tensor x) {
                            return transpose(x, {0, 0});
                          },
                          kF));
  GSPMD_REQUIRE_ERROR("expand_dims: axis 4 is outside the 3 places",
                      trace([](Tensor x) { return expand_dims(x, 4); }, kF));
  GSPMD_REQUIRE_ERROR("squeeze: dim 1 of arg0 f32[2,3] has size 3",
                      trace([](Tensor x) { return squeeze(x, 1); }, kF));
}

TEST_CASE("slices, pads and concatenations check every dim", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("slice: dim 1 of arg0 f32[2,3]: start 0, limit 4, stride 1 do not fit",
                      trace(
                          [](Tensor x) {
                            return slice(x, {0, 0}, {2, 4});
                          },
                          kF));
  GSPMD_REQUIRE_ERROR("slice: 1 starts for arg0 f32[2,3], which has rank 2",
                      trace([](Tensor x) { return slice(x, {0}, {2}); }, kF));
  GSPMD_REQUIRE_ERROR("slice_dim: dim 0 of arg0 f32[2,3]: start 2, limit 1, stride 1",
                      trace([](Tensor x) { return slice_dim(x, 0, 2, 1); }, kF));
  GSPMD_REQUIRE_ERROR("concatenate: no parts given",
                      trace([](Tensor) { return concatenate({}, 0); }, kF));
  GSPMD_REQUIRE_ERROR("concatenate: arg0 f32[2,3] and arg1 s32[2,3] do not fit along axis 0",
                      trace(
                          [](Tensor x, Tensor y) {
                            return concatenate({x, y}, 0);
                          },
                          kF, kS));
  GSPMD_REQUIRE_ERROR("concatenate: arg0 f32[2,3] and arg1 f32[3,3] do not fit along axis 1",
                      trace(
                          [](Tensor x, Tensor y) {
                            return concatenate({x, y}, 1);
                          },
                          kF, Shape(DType::f32, {3, 3})));
  GSPMD_REQUIRE_ERROR("pad: 1 paddings for arg0 f32[2,3]", trace(
                                                               [](Tensor x) {
                                                                 return pad(x, {{1, 1, 0}});
                                                               },
                                                               kF));
  GSPMD_REQUIRE_ERROR("pad: dim 0 of arg0 f32[2,3]: low -3, high 0, interior 0 give size -1",
                      trace(
                          [](Tensor x) {
                            return pad(x, {{-3, 0, 0}, {0, 0, 0}});
                          },
                          kF));
}

TEST_CASE("values from nothing check their shapes", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("full: the number 1.5 is not a s32", trace([] {
                        return full({DType::s32, {2}}, 1.5);
                      }));
  GSPMD_REQUIRE_ERROR("zeros: f32[-2] has a negative size", trace([] {
                        return zeros({DType::f32, {-2}});
                      }));
  GSPMD_REQUIRE_ERROR("ones: type token is not supported", trace([] {
                        return ones({DType::token, {2}});
                      }));
  GSPMD_REQUIRE_ERROR("iota: axis 1 is outside s32[4], which has rank 1", trace([] {
                        return iota({DType::s32, {4}}, 1);
                      }));
  GSPMD_REQUIRE_ERROR("iota: pred has no counts", trace([] {
                        return iota({DType::pred, {4}}, 0);
                      }));
  GSPMD_REQUIRE_ERROR("constant: an empty Array has no value",
                      trace([] { return constant(Array()); }));
  GSPMD_REQUIRE_ERROR("zeros_like: a tensor has no value yet",
                      trace([] { return zeros_like(Tensor()); }));
}

TEST_CASE("take and one_hot need integers", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("take: indices must be integers, got arg0 f32[2,3]",
                      trace([](Tensor x) { return take(x, x); }, kF));
  GSPMD_REQUIRE_ERROR(
      "take: the table arg0 f32[0,3] has no rows",
      trace([](Tensor x, Tensor i) { return take(x, i); }, Shape(DType::f32, {0, 3}), kS));
  GSPMD_REQUIRE_ERROR("one_hot: indices must be integers",
                      trace([](Tensor x) { return one_hot(x, 4); }, kF));
  GSPMD_REQUIRE_ERROR("one_hot: type c64 is not supported",
                      trace([](Tensor x) { return one_hot(x, 4, DType::c64); }, kS));
  GSPMD_REQUIRE_ERROR("one_hot: depth -1 is negative",
                      trace([](Tensor x) { return one_hot(x, -1); }, kS));
}

TEST_CASE("einsum explains what its spec and operands disagree about", "[api][errors]") {
  const int line = __LINE__ + 2;
  const auto with = [](const char* spec) {
    return [spec](Tensor a, Tensor b) { return einsum(runtime_spec(spec), a, b); };
  };
  const std::pair<const char*, const char*> cases[] = {
      {"ij,jk", "einsum: spec \"ij,jk\": no '->' before the result's labels"},
      {"ij->i", "the number of operands differs from the number given"},
      {"ij,jk->iz", "a label of the result is in no operand"},
      {"ij,jk->ii", "a label is repeated in the result"},
      {"i1,jk->i", "labels of operands must be letters"},
      {"ijk,jk->i", "gives \"ijk\" to arg0 f32[2,3], which has rank 2; one letter per dim"},
      {"ij,jk->ik", "label 'j' of \"ij,jk->ik\" is 3 in arg0 f32[2,3] and 2 in arg1 f32[2,3]"},
  };
  for (const auto& [spec, fact] : cases) {
    const auto fn = with(spec);
    const std::string seen = message_of<UserError>([&] { trace(fn, kF, kF); });
    INFO(seen);
    CHECK(seen.find(fact) != std::string::npos);
    CHECK(seen.find(at_line(__FILE__, line)) != std::string::npos);
  }
  GSPMD_REQUIRE_ERROR("einsum: dtypes f32 and s32",
                      trace([](Tensor a, Tensor b) { return einsum("ij,ij->i", a, b); }, kF, kS));
  GSPMD_REQUIRE_ERROR("einsum: needs numbers, got arg0 pred[2]",
                      trace([](Tensor a) { return einsum("i->", a); }, Shape(DType::pred, {2})));
}

TEST_CASE("norms, masks and losses name the shapes they need", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("rms_norm: the scale arg1 f32[2,3] must have one dim of 3",
                      trace([](Tensor x, Tensor s) { return rms_norm(x, s); }, kF, kF));
  GSPMD_REQUIRE_ERROR("rms_norm: eps -1 is wrong; give 0 or more",
                      trace([](Tensor x) { return rms_norm(x, 1, {.eps = -1}); }, kF));
  GSPMD_REQUIRE_ERROR("rms_norm: needs floating",
                      trace([](Tensor x) { return rms_norm(x, 1); }, kS));
  GSPMD_REQUIRE_ERROR("layer_norm: the bias arg1 f32[2,3] must have one dim of 3",
                      trace([](Tensor x, Tensor b) { return layer_norm(x, 1, b); }, kF, kF));
  GSPMD_REQUIRE_ERROR(
      "layer_norm: dtypes of arg0 f32[2,3] and the scale arg1 f64[3] differ",
      trace([](Tensor x, Tensor s) { return layer_norm(x, s); }, kF, Shape(DType::f64, {3})));
  GSPMD_REQUIRE_ERROR("causal_mask: arg0 f32[3] has rank 1; scores are [..., query, key]",
                      trace([](Tensor x) { return causal_mask(x); }, Shape(DType::f32, {3})));
  GSPMD_REQUIRE_ERROR("causal_mask: arg0 f32[3,2] has 3 queries but 2 keys",
                      trace([](Tensor x) { return causal_mask(x); }, Shape(DType::f32, {3, 2})));
  GSPMD_REQUIRE_ERROR(
      "causal_mask: the number 0.5 is not a s32",
      trace([](Tensor x) { return causal_mask(x, {.value = 0.5, .has_value = true}); },
            Shape(DType::s32, {2, 2})));
  GSPMD_REQUIRE_ERROR("cross_entropy: labels must be integers, got arg1 f32[2,3]",
                      trace([](Tensor x, Tensor l) { return cross_entropy(x, l); }, kF, kF));
  GSPMD_REQUIRE_ERROR("cross_entropy: labels arg1 s32[2,3] do not fit logits arg0 f32[2,3]",
                      trace([](Tensor x, Tensor l) { return cross_entropy(x, l); }, kF, kS));
}

TEST_CASE("random numbers check seed, stream, type and size", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("random_bits: seed 0.5 is wrong; give an integer",
                      trace([] { return random_bits(0.5, {2}); }));
  GSPMD_REQUIRE_ERROR("random_bits: the seed arg0 s32[2,3] must be one integer without dims",
                      trace([](Tensor x) { return random_bits(x, {2}); }, kS));
  GSPMD_REQUIRE_ERROR("random_uniform: stream -1 is wrong",
                      trace([] { return random_uniform(1, {2}, {.stream = -1}); }));
  GSPMD_REQUIRE_ERROR("random_uniform: size -2 is negative",
                      trace([] { return random_uniform(1, {-2}); }));
  GSPMD_REQUIRE_ERROR("random_normal: numbers of type bf16 are not made",
                      trace([] { return random_normal(1, {2}, {.dtype = DType::bf16}); }));
  CHECK(message_of<UserError>([] {
          random_uniform_array(Shape(DType::s32, {2}), 1);
        }).find("random_uniform_array: numbers of type s32") == 0);
  CHECK(message_of<UserError>([] {
          random_normal_array(Shape(DType::f32, {2}), 1, -1);
        }).find("random_normal_array: stream -1") == 0);
}

}  // namespace errors_shaping_test
