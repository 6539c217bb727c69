#include <fmt/format.h>

#include "kernels/lapack.h"
#include "ops/samples.h"

namespace gspmd::testing {
namespace {

struct PointwiseNumbers {
  Opcode opcode;
  int operands;
  const char* type;
  double low = -4;
  double high = 4;
  const char* result = nullptr;  // element type where it differs
  const char* attributes = "";
};

const PointwiseNumbers kPointwiseNumbers[] = {
    {Opcode::acos, 1, "f32", -1, 1},
    {Opcode::acosh, 1, "f32", 1, 4},
    {Opcode::asin, 1, "f32", -1, 1},
    {Opcode::asinh, 1, "f32"},
    {Opcode::atan2, 2, "f32"},
    {Opcode::atanh, 1, "f32", -0.5, 0.5},
    {Opcode::cbrt, 1, "f32"},
    {Opcode::cosh, 1, "f32"},
    {Opcode::sinh, 1, "bf16"},
    {Opcode::tan, 1, "f32"},
    {Opcode::erf, 1, "f32"},
    {Opcode::count_leading_zeros, 1, "s32"},
    {Opcode::count_leading_zeros, 1, "u4", 0, 15},
    {Opcode::popcnt, 1, "u8"},
    {Opcode::complex, 2, "f32", -4, 4, "c64"},
    {Opcode::complex, 2, "f64", -4, 4, "c128"},
    {Opcode::real, 1, "c64", -4, 4, "f32"},
    {Opcode::real, 1, "f32"},
    {Opcode::imag, 1, "c128", -4, 4, "f64"},
    {Opcode::imag, 1, "f32"},
    {Opcode::round_nearest_afz, 1, "f32"},
    {Opcode::round_nearest_even, 1, "f16"},
    {Opcode::reduce_precision, 1, "f32", -4, 4, nullptr, ", exponent_bits=5, mantissa_bits=3"},
    {Opcode::abs, 1, "c128", -4, 4, "f64"},
    {Opcode::add, 2, "c64"},
    {Opcode::add, 2, "f8e4m3fn"},
    {Opcode::add, 2, "s4"},
    {Opcode::maximum, 2, "c64"},
    {Opcode::minimum, 2, "c128"},
    {Opcode::multiply, 2, "c128"},
    {Opcode::multiply, 2, "f8e5m2"},
    {Opcode::divide, 2, "c64", 1, 4},
    {Opcode::exponential, 1, "c64"},
    {Opcode::exponential, 1, "f8e4m3"},
    {Opcode::log, 1, "c64", 1, 4},
    {Opcode::tanh, 1, "c128"},
    {Opcode::convert, 1, "f8e5m2fnuz", -4, 4, "f32"},
    {Opcode::convert, 1, "f32", -4, 4, "f8e4m3b11fnuz"},
    {Opcode::convert, 1, "s32", -4, 4, "c64"},
    {Opcode::convert, 1, "u4", 0, 15, "s2"},
    {Opcode::convert, 1, "c64", -4, 4, "pred"},
    {Opcode::compare, 2, "c64", -4, 4, "pred", ", direction=NE"},
    {Opcode::compare, 2, "f8e3m4", -4, 4, "pred", ", direction=LE"},
    {Opcode::bitcast_convert, 1, "f8e4m3fn", -4, 4, "u8"},
    {Opcode::bitcast, 1, "f32"},
    {Opcode::copy, 1, "c128"},
};

std::string pointwise_body(const PointwiseNumbers& row) {
  std::string body;
  std::string operands;
  for (int i = 0; i < row.operands; ++i) {
    body += fmt::format("p{} = {}[3,5] parameter({})\n", i, row.type, i);
    operands += fmt::format("{}p{}", i ? ", " : "", i);
  }
  return body + fmt::format("ROOT r = {}[3,5] {}({}){}", row.result ? row.result : row.type,
                            opcode_name(row.opcode), operands, row.attributes);
}

std::vector<Sample> bit_samples() {
  return {
      {Opcode::bitcast, "bitcast to other dims",
       "a = f32[6,4] parameter(0)\nROOT r = f32[2,3,4] bitcast(a)"},
      {Opcode::bitcast_convert, "bitcast-convert to bits",
       "a = s64[3,5] parameter(0)\nROOT r = pred[3,5,64] bitcast-convert(a)"},
      {Opcode::bitcast_convert, "bitcast-convert of bits",
       "a = pred[3,5,8] parameter(0)\nROOT r = u8[3,5] bitcast-convert(a)"},
      {Opcode::bitcast_convert, "bitcast-convert to complex parts",
       "a = c128[3,5] parameter(0)\nROOT r = c64[3,5,2] bitcast-convert(a)"},
      {Opcode::bitcast_convert, "bitcast-convert to nibbles",
       "a = u8[3,5] parameter(0)\nROOT r = s4[3,5,2] bitcast-convert(a)"},
      {Opcode::bitcast_convert, "bitcast-convert of nibbles",
       "a = u4[3,5,4] parameter(0)\nROOT r = u16[3,5] bitcast-convert(a)", 0, 15},
  };
}

std::vector<Sample> type_samples() {
  return {
      {Opcode::stochastic_convert, "stochastic-convert",
       "a = f32[3,5] parameter(0)\nb = u32[3,5] parameter(1)\nROOT r = s8[3,5] "
       "stochastic-convert(a, b)"},
      {Opcode::clamp, "clamp of complex numbers",
       "a = c64[] parameter(0)\nb = c64[3,5] parameter(1)\nc = c64[3,5] parameter(2)\n"
       "ROOT r = c64[3,5] clamp(a, b, c)"},
      {Opcode::map, "map",
       "a = f32[3,5] parameter(0)\nb = f32[3,5] parameter(1)\nROOT r = f32[3,5] map(a, b), "
       "dimensions={0,1}, to_apply=sum"},
      {Opcode::dot, "dot of complex numbers",
       "a = c64[3,4] parameter(0)\nb = c64[4,5] parameter(1)\nROOT r = c64[3,5] dot(a, b), "
       "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
      {Opcode::dot, "dot of 8-bit floats",
       "a = f8e4m3fn[3,4] parameter(0)\nb = f8e5m2[4,5] parameter(1)\nROOT r = f32[3,5] dot(a, b), "
       "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
      {Opcode::dot, "dot of bytes into words",
       "a = s8[3,4] parameter(0)\nb = s8[4,5] parameter(1)\nROOT r = s32[3,5] dot(a, b), "
       "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
      {Opcode::dot, "dot of bytes by floats",
       "a = s8[3,4] parameter(0)\nb = f32[4,5] parameter(1)\nROOT r = f32[3,5] dot(a, b), "
       "lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
      {Opcode::convolution, "convolution of bytes by floats",
       "x = s8[2,6,3] parameter(0)\nw = f32[3,3,4] parameter(1)\nROOT r = bf16[2,6,4] "
       "convolution(x, w), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f"},
      {Opcode::reduce, "reduce of complex numbers",
       "a = c64[3,4] parameter(0)\nz = c64[] parameter(1)\nROOT r = c64[3] reduce(a, z), "
       "dimensions={1}, to_apply=sum_c64"},
      {Opcode::reduce, "reduce of complex numbers from i",
       "a = c64[3,4] parameter(0)\nz = c64[] constant((0,1))\nROOT r = c64[4] reduce(a, z), "
       "dimensions={0}, to_apply=sum_c64"},
      {Opcode::scatter, "scatter into i",
       "c = c64[] constant((0,1))\na = c64[7] broadcast(c), dimensions={}\ni = s32[5] "
       "parameter(0)\nu = c64[5] parameter(1)\nROOT r = c64[7] scatter(a, i, u), "
       "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
       "index_vector_dim=1, to_apply=sum_c64",
       0, 6},
      {Opcode::reduce, "reduce of narrow floats",
       "a = f8e4m3fn[3,4] parameter(0)\nz = f8e4m3fn[] constant(0)\nROOT r = f8e4m3fn[4] reduce(a, "
       "z), dimensions={0}, to_apply=sum_f8"},
      {Opcode::iota, "iota of complex numbers", "ROOT r = c64[3,5] iota(), iota_dimension=1"},
      {Opcode::iota, "iota of narrow integers", "ROOT r = u4[3,5] iota(), iota_dimension=0"},
      {Opcode::transpose, "transpose of complex numbers",
       "a = c128[3,5] parameter(0)\nROOT r = c128[5,3] transpose(a), dimensions={1,0}"},
      {Opcode::gather, "gather of narrow floats",
       "t = f8e5m2[10,6] parameter(0)\ni = u8[5] parameter(1)\nROOT r = f8e5m2[5,6] gather(t, i), "
       "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
       "slice_sizes={1,6}",
       0, 9},
      {Opcode::scatter, "scatter of pairs",
       "a = f32[9] parameter(0)\nb = s32[9] parameter(1)\ni = s32[4] parameter(2)\nu = f32[4] "
       "parameter(3)\nv = s32[4] parameter(4)\nROOT r = (f32[9], s32[9]) scatter(a, b, i, u, v), "
       "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
       "index_vector_dim=1, to_apply=largest_at",
       -1, 9},
      {Opcode::batch_norm_training, "batch-norm-training",
       "a = f32[3,5,2] parameter(0)\ns = f32[5] parameter(1)\no = f32[5] parameter(2)\nROOT r = "
       "(f32[3,5,2], f32[5], f32[5]) batch-norm-training(a, s, o), epsilon=0.5, feature_index=1"},
      {Opcode::batch_norm_inference, "batch-norm-inference",
       "a = f32[3,5] parameter(0)\ns = f32[5] parameter(1)\no = f32[5] parameter(2)\nm = f32[5] "
       "parameter(3)\nv = f32[5] parameter(4)\nROOT r = f32[3,5] batch-norm-inference(a, s, o, m, "
       "v), epsilon=0.5, feature_index=1",
       0, 4},
      {Opcode::batch_norm_grad, "batch-norm-grad",
       "a = f32[3,5] parameter(0)\ns = f32[3] parameter(1)\nm = f32[3] parameter(2)\nv = f32[3] "
       "parameter(3)\ng = f32[3,5] parameter(4)\nROOT r = (f32[3,5], f32[3], f32[3]) "
       "batch-norm-grad(a, s, m, v, g), epsilon=0.5, feature_index=0",
       0, 4},
  };
}

std::vector<Sample> random_samples() {
  return {
      {Opcode::rng, "rng uniform",
       "a = f32[] constant(-1)\nb = f32[] constant(2)\nROOT r = f32[3,5] rng(a, b), "
       "distribution=rng_uniform"},
      {Opcode::rng, "rng of integers",
       "a = s32[] constant(3)\nb = s32[] constant(9)\nROOT r = s32[3,5] rng(a, b), "
       "distribution=rng_uniform"},
      {Opcode::rng, "rng normal",
       "a = f32[] constant(0)\nb = f32[] constant(1)\nROOT r = f32[3,5] rng(a, b), "
       "distribution=rng_normal"},
      {Opcode::rng_bit_generator, "rng-bit-generator three-fry",
       "s = u64[2] parameter(0)\nROOT r = (u64[2], u32[3,5]) rng-bit-generator(s), "
       "algorithm=rng_three_fry"},
      {Opcode::rng_bit_generator, "rng-bit-generator bits alone",
       "s = u64[2] parameter(0)\nROOT r = u32[3,5] rng-bit-generator(s), algorithm=rng_default"},
      {Opcode::rng_bit_generator, "rng-bit-generator philox",
       "s = u64[3] parameter(0)\nROOT r = (u64[3], u8[3,5]) rng-bit-generator(s), "
       "algorithm=rng_philox"},
      {Opcode::rng_get_and_update_state, "rng-get-and-update-state",
       "ROOT r = u64[2] rng-get-and-update-state(), delta=5"},
  };
}

std::vector<Sample> control_samples() {
  std::vector<Sample> samples = {
      {Opcode::conditional, "conditional of pred",
       "p = pred[] parameter(0)\na = f32[3,4] parameter(1)\nt = s32[] constant(1)\nx = (s32[], "
       "f32[3,4]) tuple(t, a)\nROOT r = (s32[], f32[3,4]) conditional(p, x, x), "
       "true_computation=next, false_computation=stay"},
      {Opcode::conditional, "conditional of a number",
       "i = s32[] parameter(0)\na = f32[3,4] parameter(1)\nt = s32[] constant(1)\nx = (s32[], "
       "f32[3,4]) tuple(t, a)\nROOT r = (s32[], f32[3,4]) conditional(i, x, x, x), "
       "branch_computations={next, stay, next}"},
      {Opcode::custom_call, "TopK",
       "a = f32[3,9] parameter(0)\nROOT r = (f32[3,2], s32[3,2]) custom-call(a), "
       "custom_call_target=\"TopK\""},
      {Opcode::custom_call, "Threefry",
       "k = u32[] parameter(0)\na = u32[3,4] parameter(1)\nROOT r = (u32[3,4], u32[3,4]) "
       "custom-call(k, k, a, a), custom_call_target=\"threefry2x32\""},
      {Opcode::custom_call, "LayoutConstraint",
       "a = f32[3,4] parameter(0)\nROOT r = f32[3,4] custom-call(a), "
       "custom_call_target=\"LayoutConstraint\""},
      {Opcode::domain, "domain",
       "a = f32[3,4] parameter(0)\nROOT r = f32[3,4] domain(a), domain={kind=\"sharding\", "
       "entry={replicated}, exit={replicated}}"},
      {Opcode::get_dimension_size, "get-dimension-size",
       "a = f32[3,4] parameter(0)\nROOT r = s32[] get-dimension-size(a), dimensions={1}"},
      {Opcode::set_dimension_size, "set-dimension-size",
       "a = f32[3,4] parameter(0)\nn = s32[] constant(4)\nROOT r = f32[3,4] set-dimension-size(a, "
       "n), dimensions={1}"},
      {Opcode::dynamic_reshape, "dynamic-reshape",
       "a = f32[3,4] parameter(0)\nm = s32[] constant(2)\nn = s32[] constant(6)\nROOT r = f32[2,6] "
       "dynamic-reshape(a, m, n)"},
      {Opcode::after_all, "after-all", "ROOT r = token[] after-all()"},
      {Opcode::add_dependency, "add-dependency",
       "a = f32[3,4] parameter(0)\nt = token[] after-all()\nROOT r = f32[3,4] add-dependency(a, "
       "t)"},
      {Opcode::optimization_barrier, "opt-barrier of a token",
       "a = f32[3] parameter(0)\nt = token[] after-all()\nx = (f32[3], token[]) tuple(a, t)\nROOT "
       "r = (f32[3], token[]) opt-barrier(x)"},
      {Opcode::copy_start, "copy-start",
       "a = f32[3,4] parameter(0)\nROOT r = (f32[3,4], f32[3,4], u32[]) copy-start(a)"},
      {Opcode::copy_done, "copy-done",
       "a = f32[3,4] parameter(0)\ns = (f32[3,4], f32[3,4], u32[]) copy-start(a)\nROOT r = "
       "f32[3,4] copy-done(s)"},
      {Opcode::async_start, "async-start",
       "a = f32[3,4] parameter(0)\nROOT r = ((f32[3,4], f32[3,4]), f32[3,4], s32[]) async-start(a, "
       "a), calls=scaled_sum"},
      {Opcode::async_update, "async-update",
       "a = f32[3,4] parameter(0)\ns = ((f32[3,4], f32[3,4]), f32[3,4], s32[]) async-start(a, a), "
       "calls=scaled_sum\nROOT r = ((f32[3,4], f32[3,4]), f32[3,4], s32[]) async-update(s)"},
      {Opcode::async_done, "async-done",
       "a = f32[3,4] parameter(0)\ns = ((f32[3,4], f32[3,4]), f32[3,4], s32[]) async-start(a, a), "
       "calls=scaled_sum\nROOT r = f32[3,4] async-done(s)"},
  };
  if (lapack::is_there())
    samples.push_back(
        {Opcode::custom_call, "LAPACK of a batch",
         "a = f32[4,3,5] parameter(0)\nROOT r = (f32[4,3,5], s32[4,3], s32[4]) custom-call(a), "
         "custom_call_target=\"lapack_sgetrf_ffi\", "
         "operand_layout_constraints={f32[4,3,5]{1,2,0}}"});
  return samples;
}

std::vector<Sample> collective_number_samples() {
  return {
      {Opcode::replica_id, "replica-id", "ROOT r = u32[] replica-id()", -4, 4, 3},
      {Opcode::collective_broadcast, "collective-broadcast",
       "a = f32[3,4] parameter(0)\nROOT r = f32[3,4] collective-broadcast(a), channel_id=1, "
       "replica_groups={{2,0},{1}}",
       -4, 4, 3},
      {Opcode::all_reduce, "all-reduce of complex numbers",
       "a = c64[3] parameter(0)\nROOT r = c64[3] all-reduce(a), channel_id=1, replica_groups={}, "
       "to_apply=sum_c64",
       -4, 4, 2},
      {Opcode::all_reduce_start, "all-reduce-start",
       "a = f32[3,4] parameter(0)\nROOT r = f32[3,4] all-reduce-start(a), channel_id=1, "
       "replica_groups={{0,1}}, to_apply=sum",
       -4, 4, 2},
      {Opcode::all_reduce_done, "all-reduce-done",
       "a = f32[3,4] parameter(0)\ns = f32[3,4] all-reduce-start(a), channel_id=1, "
       "replica_groups={{0,1}}, to_apply=sum\nROOT r = f32[3,4] all-reduce-done(s)",
       -4, 4, 2},
      {Opcode::all_gather_start, "all-gather-start",
       "a = f32[3,4] parameter(0)\nROOT r = (f32[3,4], f32[6,4]) all-gather-start(a), "
       "channel_id=1, replica_groups={{0,1}}, dimensions={0}",
       -4, 4, 2},
      {Opcode::all_gather_done, "all-gather-done",
       "a = f32[3,4] parameter(0)\ns = (f32[3,4], f32[6,4]) all-gather-start(a), channel_id=1, "
       "replica_groups={{0,1}}, dimensions={0}\nROOT r = f32[6,4] all-gather-done(s)",
       -4, 4, 2},
      {Opcode::collective_permute_start, "collective-permute-start",
       "a = f32[3,4] parameter(0)\nROOT r = (f32[3,4], f32[3,4], u32[], u32[]) "
       "collective-permute-start(a), channel_id=1, source_target_pairs={{0,1},{1,0}}",
       -4, 4, 2},
      {Opcode::collective_permute_done, "collective-permute-done",
       "a = f32[3,4] parameter(0)\ns = (f32[3,4], f32[3,4], u32[], u32[]) "
       "collective-permute-start(a), channel_id=1, source_target_pairs={{0,1}}\nROOT r = f32[3,4] "
       "collective-permute-done(s)",
       -4, 4, 2},
  };
}

}  // namespace

std::vector<Sample> number_samples() {
  std::vector<Sample> result;
  for (const PointwiseNumbers& row : kPointwiseNumbers)
    result.push_back({row.opcode,
                      fmt::format("{} {} to {}", opcode_name(row.opcode), row.type,
                                  row.result ? row.result : "itself"),
                      pointwise_body(row), row.low, row.high});
  for (const auto family :
       {bit_samples, type_samples, random_samples, control_samples, collective_number_samples})
    for (Sample& sample : family()) result.push_back(std::move(sample));
  return result;
}

std::string number_computations() {
  return R"(sum_f8 {
x = f8e4m3fn[] parameter(0)
y = f8e4m3fn[] parameter(1)
ROOT z = f8e4m3fn[] add(x, y)
}
stay {
ROOT s = (s32[], f32[3,4]) parameter(0)
}
)";
}

}  // namespace gspmd::testing
