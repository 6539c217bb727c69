// One mistake for each builder that the other files of errors have none of: the message names the
// function that was called and this file's line.
#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace errors_builders_test {
namespace {

const Shape kF{DType::f32, {2, 3}}, kS{DType::s32, {2, 3}}, kP{DType::pred, {2, 3}};
const Shape kC{DType::c64, {2, 3}}, kLine{DType::f32, {4}};
const Mesh kMesh{{"data", 2}};

}  // namespace

#define REFUSED(fact, body, ...) \
  GSPMD_REQUIRE_ERROR(fact, trace([](Tensor x) { return body; }, __VA_ARGS__))
#define REFUSED2(fact, body, ...) \
  GSPMD_REQUIRE_ERROR(fact, trace([](Tensor x, Tensor y) { return body; }, __VA_ARGS__))

TEST_CASE("every elementwise function of floats refuses integers by its name", "[api][errors]") {
  REFUSED("acosh: needs floating", acosh(x), kS);
  REFUSED("asin: needs floating", asin(x), kS);
  REFUSED("asinh: needs floating", asinh(x), kS);
  REFUSED("atan: needs floating", atan(x), kS);
  REFUSED("atanh: needs floating", atanh(x), kS);
  REFUSED("cosh: needs floating", cosh(x), kS);
  REFUSED("sinh: needs floating", sinh(x), kS);
  REFUSED("tan: needs floating", tan(x), kS);
  REFUSED("cbrt: needs floating", cbrt(x), kS);
  REFUSED("log2: needs floating", log2(x), kS);
  REFUSED("log10: needs floating", log10(x), kS);
  REFUSED("reciprocal: needs floating", reciprocal(x), kS);
  REFUSED("erf_inv: needs floating", erf_inv(x), kC);
  REFUSED("round_away_from_zero: needs floating", round_away_from_zero(x), kC);
  REFUSED("trunc: needs floating", trunc(x), kS);
  REFUSED("isinf: needs floating", isinf(x), kS);
  REFUSED("logaddexp: needs floating", logaddexp(x, x), kS);
}

TEST_CASE("functions of integers, of pairs and of complex numbers, by name", "[api][errors]") {
  REFUSED("shift_right_logical: operands must be integers", shift_right_logical(x, 1), kP);
  REFUSED("shift_right: operands must be integers", x >> x, kF);
  REFUSED("clz: operands must be integers", clz(x), kF);
  REFUSED("floor_divide: complex numbers", floor_divide(x, x), kC);
  REFUSED("bitwise_or: needs integers or pred", x | x, kF);
  REFUSED("bitwise_xor: needs integers or pred", x ^ x, kF);
  REFUSED("imag: needs numbers, got arg0 pred[2,3]", imag(x), kP);
  REFUSED("conj: needs numbers, got arg0 pred[2,3]", conj(x), kP);
  REFUSED("angle: needs", angle(x), kP);
  REFUSED2("stochastic_convert: arg1 s32[2,3] decides how arg0 f32[2,3] is rounded",
           stochastic_convert(x, y, DType::s8), kF, kS);
  REFUSED("stochastic_convert: arg0 f32[2,3] to c64",
          stochastic_convert(x, random_bits(1, {2, 3}), DType::c64), kF);
  REFUSED2("clip: ", clip(x, y, 1), kF, kLine);
}

TEST_CASE("transforms of Fourier name themselves, axes and sizes", "[api][errors]") {
  REFUSED("ifft: axis 2 is outside arg0 f32[2,3]", ifft(x, {.axis = 2}), kF);
  REFUSED("rfft: ", rfft(x), kC);
  REFUSED("irfft: axis -3 is outside arg0 c64[2,3]", irfft(x, {.axis = -3}), kC);
  REFUSED("fftn: ", fftn(x, {.axes = {0, 0}}), kC);
  REFUSED("ifftn: axis 2 is outside", ifftn(x, {.axes = {2}}), kC);
  REFUSED("rfftn: ", rfftn(x), kC);
  REFUSED("irfftn: axis 2 is outside", irfftn(x, {.axes = {2}}), kC);
  REFUSED("fft2: ", fft2(x), kLine);
  REFUSED("ifft2: ", ifft2(x), kLine);
  REFUSED("rfft2: ", rfft2(x), kLine);
  REFUSED("irfft2: ", irfft2(x), kLine);
}

TEST_CASE("totals, triangles, parts and products, by name", "[api][errors]") {
  REFUSED("cumprod: needs numbers", cumprod(x), kP);
  REFUSED("cummin: axis 2 is outside", cummin(x, {.axis = 2}), kF);
  REFUSED("triu: ", triu(x), kLine);
  GSPMD_REQUIRE_ERROR("tri: ", trace([] { return tri(-1); }));
  REFUSED("matrix_trace: ", matrix_trace(x), kLine);
  REFUSED2("at.subtract: dtypes of arg0 f32[2,3]", at(x, 0).subtract(y), kF, kS);
  REFUSED2("at.multiply: arg1 f32[4] does not broadcast", at(x, 0).multiply(y), kF, kLine);
  REFUSED2("at.min: ", at(x, 0).min(y), kF, kS);
  REFUSED2("at.max: ", at(x, 0).max(y), kF, kS);
  REFUSED("at.get: index 2 is outside dim 0 of arg0 f32[2,3]", at(x, 2).get(), kF);
  REFUSED2("outer: dtypes f32 and s32", outer(x, y), kF, kS);
  REFUSED2("kron: dtypes f32 and s32", kron(x, y), kF, kS);
  REFUSED("optimization_barrier: ", (optimization_barrier(std::pair{x, Tensor()}).first), kF);
}

TEST_CASE("distributions name themselves, streams and types", "[api][errors]") {
  REFUSED("random_exponential: ", random_exponential(7, {2}, {.dtype = DType::s32}) + sum(x), kF);
  REFUSED("random_gumbel: ", random_gumbel(7, {-1}) + sum(x), kF);
}

TEST_CASE("annotations beyond mesh_split, by name", "[api][errors]") {
  REFUSED2("shard_as: arg0 f32[2,3] and arg1 f32[4]", shard_as(x, y).first, kF, kLine);
  REFUSED2("shard_like: arg0 f32[2,3] and arg1 f32[4]", shard_like(x, y).first, kF, kLine);
  GSPMD_REQUIRE_ERROR("shard_barrier_from: a tensor has no value",
                      trace([](Tensor x) { return x + shard_barrier_from(Tensor()); }, kF));
  GSPMD_REQUIRE_ERROR("shard_barrier_to: a tensor has no value",
                      trace([](Tensor x) { return x + shard_barrier_to(Tensor()); }, kF));
  REFUSED("auto_to_manual: ", auto_to_manual(x, kMesh, {_, "model"}, {"data"}), kF);
  REFUSED("manual_to_auto: mesh['data'=2] has no axis \"model\"",
          manual_to_auto(x, kMesh, {_, _}, {"model"}), kF);
}

TEST_CASE("loops, branches and transforms, by name", "[api][errors]") {
  using Branch = Tensor (*)(Tensor);
  REFUSED("switch_case: ", switch_case(x(0, 0), std::vector<Branch>{[](Tensor t) { return t; }}, x),
          kF);
  REFUSED("switch_case: ", switch_case(convert(x(0, 0), DType::s32), std::vector<Branch>{}, x), kF);
  REFUSED("cond: ",
          cond(
              sum(x), [](Tensor t) { return t; }, [](Tensor t) { return -t; }, x),
          kF);
  REFUSED("while_loop: ",
          while_loop([](Tensor c) { return c; }, [](Tensor c) { return c; }, sum(x)), kF);
  REFUSED("has no dim 0 to be cut along", map([](Tensor t) { return t; }, sum(x)), kF);
  REFUSED("scan: unroll",
          (scan(
               [](Tensor c, Tensor t) {
                 return std::pair{c, t};
               },
               x, x, {.unroll = 0})
               .first),
          kF);
  REFUSED2("vjp: cotangent 0 is arg1 f32[4]",
           vjp([](Tensor t) { return t * 2; }, std::tuple{x}).second(y), kF, kLine);
  REFUSED2("jvp: tangent 0 is arg1 f32[4]",
           jvp([](Tensor t) { return t * 2; }, std::tuple{x}, std::tuple{y}).second, kF, kLine);
  REFUSED("checkpoint: argument 0 has no value",
          checkpoint([](Tensor t) { return t; })(Tensor()) + x, kF);
  REFUSED("custom_jvp: jvp's tangent returns",
          custom_jvp([](Tensor t) { return t * 2; },
                     [](auto at, auto) {
                       return std::pair{std::get<0>(at) * 2, sum(std::get<0>(at))};
                     })(x),
          kF);
}

}  // namespace errors_builders_test
