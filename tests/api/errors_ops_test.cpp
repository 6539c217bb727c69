// One mistake per check: the message names the function, the tensors, the numbers and this line.
#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace errors_ops_test {
namespace {

const Shape kF{DType::f32, {2, 3}}, kS{DType::s32, {2, 3}}, kP{DType::pred, {2, 3}};
const Shape kC{DType::c64, {2, 3}}, kLine{DType::f32, {4}}, kSquare{DType::f32, {3, 3}};
const Shape kImage{DType::f32, {2, 8, 8, 3}}, kKernel{DType::f32, {3, 3, 3, 4}};

}  // namespace

#define REFUSED(fact, body, ...) \
  GSPMD_REQUIRE_ERROR(fact, trace([](Tensor x) { return body; }, __VA_ARGS__))
#define REFUSED2(fact, body, ...) \
  GSPMD_REQUIRE_ERROR(fact, trace([](Tensor x, Tensor y) { return body; }, __VA_ARGS__))

TEST_CASE("elementwise functions name the types they need", "[api][errors]") {
  REFUSED("acos: needs floating numbers, got arg0 s32[2,3]; convert", acos(x), kS);
  REFUSED("erf: needs floating numbers, got arg0 c64[2,3]", erf(x), kC);
  REFUSED("round: needs floating numbers, got arg0 s32[2,3]", round(x), kS);
  REFUSED("isnan: needs floating", isnan(x), kS);
  REFUSED("popcount: operands must be integers, got arg0 f32[2,3]", popcount(x), kF);
  REFUSED("bitwise_and: needs integers or pred values, got arg0 f32[2,3]", x & x, kF);
  REFUSED("bitwise_not: needs integers or pred values", ~x, kF);
  REFUSED("shift_left: operands must be integers, got arg0 pred[2,3]", x << x, kP);
  REFUSED("logical_xor: needs pred values, got arg0 s32[2,3]", logical_xor(x, x), kS);
  REFUSED2("atan2: shapes of arg0 f32[2,3] and arg1 f32[4] do not broadcast", atan2(x, y), kF,
           kLine);
  REFUSED("mod: complex numbers like arg0 c64[2,3] have no order", mod(x, x), kC);
  REFUSED("maximum: complex numbers like arg0 c64[2,3] have no order; take real(x)", maximum(x, x),
          kC);
  REFUSED("nextafter: needs floating", nextafter(x, x), kS);
  REFUSED("complex: parts like arg0 bf16[2] make no complex number; convert them to f32",
          complex(x, x), Shape(DType::bf16, {2}));
  REFUSED("real: needs numbers, got arg0 pred[2,3]", real(x), kP);
  REFUSED("bitcast: arg0 f32[2,3] to f64: the last dim has to be 2", bitcast(x, DType::f64), kF);
  REFUSED("bitcast: arg0 pred[2,3] to u8: give integers or floats", bitcast(x, DType::u8), kP);
  REFUSED("reduce_precision: 0 exponent bits and 3 mantissa bits; give 1 or more",
          reduce_precision(x, 0, 3), kF);
}

TEST_CASE("reductions and running totals name axes and options", "[api][errors]") {
  REFUSED("prod: axis 2 is outside arg0 f32[2,3], which has rank 2; give -2 to 1",
          prod(x, {.axes = 2}), kF);
  REFUSED("any: needs pred values, got arg0 f32[2,3]; compare with 0", any(x), kF);
  REFUSED("all: axis -1 of arg0 pred[2,3] is given twice", all(x, {.axes = {1, -1}}), kP);
  REFUSED("var: ddof -1 is wrong", var(x, {.ddof = -1}), kF);
  REFUSED("stddev: needs floating", stddev(x), kS);
  REFUSED("norm: ord is NaN", norm(x, {.ord = NAN}), kF);
  REFUSED("norm inf of", norm(x, {.ord = INFINITY}), Shape(DType::f32, {0}));
  REFUSED("argmax: axis 0 of arg0 f32[0,3] has no elements", argmax(x, {.axis = 0}),
          Shape(DType::f32, {0, 3}));
  REFUSED("argmin: complex numbers like arg0 c64[2,3]", argmin(x), kC);
  REFUSED("cumsum: needs numbers, got arg0 pred[2,3]", cumsum(x), kP);
  REFUSED("cummax: axis -3 is outside arg0 f32[2,3]", cummax(x, {.axis = -3}), kF);
  REFUSED("cumlogsumexp: needs floating", cumlogsumexp(x), kS);
}

TEST_CASE("functions given to reduce read their arguments and give one scalar", "[api][errors]") {
  REFUSED("reduce: the function reads",
          reduce(x, 0, [&](Tensor a, Tensor b) { return a + b + sum(x); }), kF);
  REFUSED("reduce: the function gives", reduce(x, 0, [](Tensor a, Tensor b) { return a < b; }), kF);
  REFUSED2("reduce: the initial value arg1 f32[4] does not fit arg0 f32[2,3]; give one f32",
           reduce(x, y, [](Tensor a, Tensor b) { return a + b; }), kF, kLine);
  REFUSED("reduce_window: 1 window sizes for arg0 f32[2,3], which has rank 2",
          reduce_window(x, 0, [](Tensor a, Tensor b) { return a + b; }, {2}), kF);
}

TEST_CASE("convolutions name letters, dims and sizes", "[api][errors]") {
  const char* plain = "NHWC,HWIO->NHWC";
  const auto refused = [&](const char* fact, const char* layout, ConvOptions options = {}) {
    const std::string seen = message_of<UserError>([&] {
      trace([&](Tensor x, Tensor k) { return conv(x, k, layout, options); }, kImage, kKernel);
    });
    INFO(seen);
    CHECK(seen.find(fact) != std::string::npos);
    CHECK(seen.find("errors_ops_test.cpp:") != std::string::npos);
  };
  refused("conv: layout \"NHWC->NHWC\" has not three parts; write it like", "NHWC->NHWC");
  refused("letter 'H' stands twice in \"NHHC\"", "NHHC,HWIO->NHWC");
  refused("\"NHWX\" of layout \"NHWX,HWIO->NHWC\" lacks N or C", "NHWX,HWIO->NHWC");
  refused("has the spatial letters \"XW\", the input \"HW\"", "NHWC,XWIO->NHWC");
  refused("layout \"NHC\" for arg0 f32[2,8,8,3], which has rank 4", "NHC,HIO->NHC");
  refused("1 strides for 2 dims", plain, {.strides = {1}});
  refused("dilations [0,1] are wrong; give 1 or more", plain, {.dilation = {0, 1}});
  refused("1 paddings for 2 dims", plain, {.padding = {{1, 1}}});
  refused(
      "dim C of arg0 f32[2,8,8,3] is 3 and dim I of the kernel arg1 f32[3,3,3,4] is 3; I must "
      "be C / groups, which are 3",
      plain, {.groups = 3});
  refused("groups 0 and batch_groups 1 are wrong", plain, {.groups = 0});
  REFUSED("max_pool: 1 window sizes for the 2 spatial dims of arg0 f32[2,8,8,3]", max_pool(x, {2}),
          kImage);
  REFUSED("avg_pool: window sizes [0,1] are wrong", avg_pool(x, {0, 1}), kImage);
  REFUSED("avg_pool: arg0 f32[4] has rank 1", avg_pool(x, {}), kLine);
  REFUSED2("conv_transpose: 1 strides for 2 dims",
           conv_transpose(x, y, "NHWC,HWIO->NHWC", {.strides = {2}}), kImage, kKernel);
}

TEST_CASE("sorting names axes, keys and counts", "[api][errors]") {
  REFUSED("sort: axis 2 is outside arg0 f32[2,3]", sort(x, {.axis = 2}), kF);
  REFUSED("argsort: complex numbers like arg0 c64[2,3] have no order", argsort(x), kC);
  REFUSED2("sort: arg0 f32[2,3] and arg1 f32[4] differ in dims", sort(std::vector{x, y}), kF,
           kLine);
  REFUSED("sort: num_keys 2 of 1 tensors is wrong; give 1 to 1",
          sort(std::vector{x}, {.num_keys = 2}), kF);
  REFUSED("top_k: k 4 of the 3 elements along axis 1 of arg0 f32[2,3]; give 0 to 3",
          top_k(x, 4).first, kF);
}

TEST_CASE("indices name the dim that they miss", "[api][errors]") {
  REFUSED("index: index 2 is outside dim 0 of arg0 f32[2,3], which has size 2; give -2 to 1", x(2),
          kF);
  REFUSED("index: 3 indices for arg0 f32[2,3], which has rank 2", x(0, 0, 0), kF);
  REFUSED("index: there are 2 ellipses; write one", x(ellipsis, ellipsis), kF);
  REFUSED("index: a range has step 0", x(range(0, 1, 0)), kF);
  REFUSED("index: indices must be integers, got arg0 f32[2,3]", x(x), kF);
  REFUSED(
      "arg0 pred[2,3] is a mask: how many elements it takes is not known when tracing; use "
      "where()",
      x(x), kP);
  REFUSED2("broadcast", x(y, y(range(0, 1), range(0, 2))), kF, kS);
  REFUSED2("at.set: dtypes of arg0 f32[2,3] and the value arg1 s32[2,3] differ; convert",
           at(x, 0).set(y), kF, kS);
  REFUSED2("at.add: arg1 f32[4] does not broadcast to [3]", at(x, 0).add(y), kF, kLine);
  REFUSED("at.divide: needs floating", at(x, 0).divide(2), kS);
  REFUSED2("take: axis 2 is outside arg0 f32[2,3]", take(x, y, {.axis = 2}), kF, kS);
  REFUSED2("take_along_axis: indices arg1 s32[4] and arg0 f32[2,3] differ in rank",
           take_along_axis(x, y), kF, Shape(DType::s32, {4}));
  REFUSED("dynamic_slice: dim 1 of arg0 f32[2,3]: a part of size 4 does not fit; give 0 to 3",
          dynamic_slice(x, {0, 0}, {1, 4}), kF);
  REFUSED("dynamic_slice: 1 starts for arg0 f32[2,3], which has rank 2",
          dynamic_slice(x, {0}, {1, 1}), kF);
  REFUSED2("dynamic_update_slice: a part of 1 dims of arg0 f32[2,3]",
           dynamic_update_slice(x, y, {0, 0}), kF, kLine);
}

TEST_CASE("counted and arranged arrays name what does not fit", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("arange: start 0, stop 4 and step 0 make no range",
                      trace([] { return arange(0, 4, 0); }));
  GSPMD_REQUIRE_ERROR("arange: start 0.5 and step 1 are no s32; give a floating dtype",
                      trace([] { return arange(0.5, 4); }));
  GSPMD_REQUIRE_ERROR("linspace: -1 numbers are negative",
                      trace([] { return linspace(0, 1, -1); }));
  GSPMD_REQUIRE_ERROR("eye: -2 rows and -2 columns are wrong", trace([] { return eye(-2); }));
  REFUSED("roll: axis 5 is outside arg0 f32[2,3]", roll(x, 1, 5), kF);
  REFUSED("flip: axis -3 is outside arg0 f32[2,3]", flip(x, -3), kF);
  REFUSED("tile: repetitions [-1] are wrong", tile(x, {-1}), kF);
  REFUSED("repeat: count -1 is negative", repeat(x, -1), kF);
  REFUSED2("stack: arg0 f32[2,3] and arg1 f32[4] differ; dims and dtypes", stack({x, y}), kF,
           kLine);
  REFUSED("split: dim 1 of arg0 f32[2,3] does not divide into 2 equal parts", split(x, 2, 1), kF);
  REFUSED("tril: arg0 f32[4] has rank 1; a matrix has two dims", tril(x), kLine);
  REFUSED("diagonal: axis1 and axis2 are both 1", diagonal(x, {.axis1 = 1}), kF);
  REFUSED("diag: arg0 f32[2,8,8,3] has rank 4; give a vector or a matrix", diag(x), kImage);
}

TEST_CASE("products and systems name dims and sizes", "[api][errors]") {
  REFUSED2(
      "matmul: the last dim of arg0 f32[2,3] is 3, dim 0 of arg1 f32[4] is 4; they must be equal",
      matmul(x, y), kF, kLine);
  REFUSED2(
      "matmul: batch dims of arg0 f32[2,3,3] and arg1 f32[4,3,3] do not broadcast: dim 3 from "
      "the end is 2 and 4",
      matmul(x, y), Shape(DType::f32, {2, 3, 3}), Shape(DType::f32, {4, 3, 3}));
  REFUSED2("dot_general: contracting dim 0 of arg0 f32[2,3] is 2, dim 0 of arg1 f32[4] is 4",
           dot_general(x, y, {.a_contracting = {0}, .b_contracting = {0}}), kF, kLine);
  REFUSED2("tensordot: 3 axes of arg0 f32[2,3] and arg1 f32[2,3] are wrong; give 0 to 2",
           tensordot(x, y, 3), kF, kF);
  REFUSED("ragged_dot: arg0 f32[2,3], arg0 f32[2,3] and",
          ragged_dot(x, x, convert(x(0), DType::s32)), kF);
  REFUSED("cholesky: arg0 f32[2,3] is no square matrix", cholesky(x), kF);
  REFUSED2(
      "triangular_solve: arg1 f32[2,3] does not fit arg0 f32[3,3]: dim 0 of the right side is 3",
      triangular_solve(x, y, {.left_side = true}), kSquare, kF);
  REFUSED2("solve_cholesky: arg1 f32[4] does not fit", solve_cholesky(x, y(all)), kSquare, kLine);
  REFUSED2(
      "einsum: \"...\" of \"...a,...a->...\": dim 1 from its end is 2 in arg0 f32[2,3] and 4 in",
      einsum("...a,...a->...", x, y), kF, Shape(DType::f32, {4, 3}));
  REFUSED("einsum: spec \"...a->a\": \"...\" stands for dims but is not in the result",
          einsum("...a->a", x), kF);
  REFUSED("fft: axis 2 is outside arg0 f32[2,3]", fft(x, {.axis = 2}), kF);
  REFUSED("ifft: dim 1 of", ifft(x, {.n = 0}), kC);
  REFUSED("rfft: complex numbers like arg0 c64[2,3]", rfft(x), kC);
  REFUSED("fftn: s has 1 sizes and axes 2 dims", fftn(x, {.s = {4}, .axes = {0, 1}}), kF);
}

}  // namespace errors_ops_test
