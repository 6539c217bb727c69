#include "ops/samples.h"

namespace gspmd::testing {

const char* big_op_computations() {
  return R"(at_least {
x = f32[] parameter(0)
y = f32[] parameter(1)
ROOT z = pred[] compare(x, y), direction=GE
}
less {
x = f32[] parameter(0)
y = f32[] parameter(1)
ROOT z = pred[] compare(x, y), direction=LT
}
greater_total {
x = f32[] parameter(0)
y = f32[] parameter(1)
ROOT z = pred[] compare(x, y), direction=GT, type=TOTALORDER
}
less_pairs {
x = f32[] parameter(0)
y = f32[] parameter(1)
i = s32[] parameter(2)
j = s32[] parameter(3)
a = pred[] compare(x, y), direction=LT
e = pred[] compare(x, y), direction=EQ
b = pred[] compare(i, j), direction=GT
c = pred[] and(e, b)
ROOT z = pred[] or(a, c)
}
less_sums {
x = f32[] parameter(0)
y = f32[] parameter(1)
i = f32[] parameter(2)
j = f32[] parameter(3)
a = f32[] add(x, i)
b = f32[] add(y, j)
ROOT z = pred[] compare(a, b), direction=LT
}
sum_c64 {
x = c64[] parameter(0)
y = c64[] parameter(1)
ROOT z = c64[] add(x, y)
}
sum_bf16 {
x = bf16[] parameter(0)
y = bf16[] parameter(1)
ROOT z = bf16[] add(x, y)
}
half_sum {
x = f32[] parameter(0)
y = f32[] parameter(1)
h = f32[] constant(0.5)
a = f32[] multiply(x, h)
ROOT z = f32[] add(a, y)
}
running_sum {
x = f32[5] parameter(0)
c = f32[5] parameter(1)
s = f32[5] add(c, x)
d = f32[5] add(s, s)
ROOT r = (f32[5], f32[5]) tuple(d, s)
}
)";
}

std::vector<Sample> window_samples() {
  return {
      {Opcode::reduce_window, "reduce-window",
       "a = f32[4,7,3] parameter(0)\nz = f32[] parameter(1)\nROOT r = f32[4,4,3] reduce-window(a, "
       "z), window={size=1x3x1 stride=1x2x1 pad=0_0x1_1x0_0}, to_apply=sum"},
      {Opcode::reduce_window, "reduce-window, maximum, dilated",
       "a = f32[9,8] parameter(0)\nz = f32[] parameter(1)\nROOT r = f32[7,13] reduce-window(a, z), "
       "window={size=2x3 pad=0_0x0_0 lhs_dilate=1x2 rhs_dilate=2x1}, to_apply=most"},
      {Opcode::reduce_window, "reduce-window, cumulative",
       "a = f32[5,6] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[5,6] reduce-window(a, z), "
       "window={size=1x6 pad=0_0x5_0}, to_apply=sum"},
      {Opcode::reduce_window, "reduce-window, reverse cumulative",
       "a = f32[5,6] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[5,6] reduce-window(a, z), "
       "window={size=5x1 pad=0_4x0_0}, to_apply=sum"},
      {Opcode::reduce_window, "reduce-window, negative padding",
       "a = s32[9,5] parameter(0)\nz = s32[] parameter(1)\nROOT r = s32[3,5] reduce-window(a, z), "
       "window={size=2x1 stride=2x1 pad=-1_-1x0_0}, to_apply=sum_s32"},
      {Opcode::reduce_window, "reduce-window of two",
       "a = f32[6,5] parameter(0)\ni = s32[6,5] parameter(1)\nz = f32[] constant(-inf)\nk = s32[] "
       "constant(0)\nROOT r = (f32[3,5], s32[3,5]) reduce-window(a, i, z, k), window={size=2x1 "
       "stride=2x1}, to_apply=largest_at"},
      {Opcode::reduce_window, "reduce-window, any computation",
       "a = f32[4,6] parameter(0)\nz = f32[] parameter(1)\nROOT r = f32[4,5] reduce-window(a, z), "
       "window={size=1x2}, to_apply=half_sum"},
      {Opcode::reduce_window, "reduce-window, bf16",
       "a = bf16[5,6] parameter(0)\nz = bf16[] constant(0)\nROOT r = bf16[5,5] reduce-window(a, "
       "z), window={size=1x2}, to_apply=sum_bf16"},
      {Opcode::select_and_scatter, "select-and-scatter",
       "a = f32[3,8] parameter(0)\ns = f32[3,4] parameter(1)\nz = f32[] parameter(2)\nROOT r = "
       "f32[3,8] select-and-scatter(a, s, z), window={size=1x3 stride=1x2 pad=0_0x0_1}, "
       "select=at_least, scatter=sum"},
      {Opcode::select_and_scatter, "select-and-scatter, two dims",
       "a = f32[6,7] parameter(0)\ns = f32[3,7] parameter(1)\nz = f32[] constant(0)\nROOT r = "
       "f32[6,7] select-and-scatter(a, s, z), window={size=2x3 stride=2x1 pad=0_0x1_1}, "
       "select=at_least, scatter=sum"},
      {Opcode::convolution, "convolution",
       "x = f32[4,9,7,6] parameter(0)\nw = f32[3,2,6,5] parameter(1)\nROOT r = f32[4,5,6,5] "
       "convolution(x, w), window={size=3x2 stride=2x1 pad=1_1x0_0}, dim_labels=b01f_01io->b01f"},
      {Opcode::convolution, "convolution, feature groups",
       "x = f32[4,6,9] parameter(0)\nw = f32[9,2,3] parameter(1)\nROOT r = f32[4,9,7] "
       "convolution(x, w), window={size=3}, dim_labels=bf0_oi0->bf0, feature_group_count=3"},
      {Opcode::convolution, "convolution, batch groups",
       "x = f32[6,9,5] parameter(0)\nw = f32[3,5,4] parameter(1)\nROOT r = f32[3,7,4] "
       "convolution(x, w), window={size=3}, dim_labels=b0f_0io->b0f, batch_group_count=2"},
      {Opcode::convolution, "convolution, transposed",
       "x = f32[3,5,4] parameter(0)\nw = f32[3,4,6] parameter(1)\nROOT r = f32[3,10,6] "
       "convolution(x, w), window={size=3 pad=1_2 lhs_dilate=2 rhs_reversal=1}, "
       "dim_labels=b0f_0io->b0f"},
      {Opcode::convolution, "convolution, weight gradient",
       "x = f32[7,8,3,5] parameter(0)\nw = f32[3,3,5,4] parameter(1)\nROOT r = f32[3,5,3,4] "
       "convolution(x, w), window={size=3x3 rhs_dilate=2x2 pad=0_0x0_1}, "
       "dim_labels=01bf_01io->01bf"},
      {Opcode::convolution, "convolution of one by one",
       "x = f32[3,4,5] parameter(0)\nw = f32[1,5,6] parameter(1)\nROOT r = f32[3,4,6] "
       "convolution(x, w), window={size=1}, dim_labels=b0f_0io->b0f"},
      {Opcode::convolution, "convolution without spatial dims",
       "x = f32[3,5] parameter(0)\nw = f32[5,6] parameter(1)\nROOT r = f32[3,6] convolution(x, w), "
       "dim_labels=bf_io->bf"},
      {Opcode::convolution, "convolution, cropped, s8 to s32",
       "x = s8[3,9,5] parameter(0)\nw = s8[2,5,6] parameter(1)\nROOT r = s32[3,5,6] convolution(x, "
       "w), window={size=2 pad=-1_-2}, dim_labels=b0f_0io->b0f"},
      {Opcode::convolution, "convolution, bf16 to f32",
       "x = bf16[3,4,5,2] parameter(0)\nw = bf16[2,2,2,4] parameter(1)\nROOT r = f32[3,3,4,4] "
       "convolution(x, w), window={size=2x2}, dim_labels=b01f_01io->b01f"},
  };
}

std::vector<Sample> order_samples() {
  return {
      {Opcode::sort, "sort",
       "a = f32[5,7] parameter(0)\nROOT r = f32[5,7] sort(a), dimensions={1}, to_apply=less"},
      {Opcode::sort, "sort, descending",
       "a = f32[6,4] parameter(0)\nROOT r = f32[6,4] sort(a), dimensions={0}, is_stable=true, "
       "to_apply=greater_total"},
      {Opcode::sort, "sort by two keys",
       "a = f32[5,7] parameter(0)\ni = s32[5,7] parameter(1)\nROOT r = (f32[5,7], s32[5,7]) "
       "sort(a, i), dimensions={1}, is_stable=true, to_apply=less_pairs"},
      {Opcode::sort, "sort, any comparator",
       "a = f32[4,6] parameter(0)\nb = f32[4,6] parameter(1)\nROOT r = (f32[4,6], f32[4,6]) "
       "sort(a, b), dimensions={1}, is_stable=true, to_apply=less_sums"},
      {Opcode::topk, "topk",
       "a = f32[5,9] parameter(0)\nROOT r = (f32[5,3], s32[5,3]) topk(a), k=3, largest=true"},
      {Opcode::topk, "topk, smallest",
       "a = s32[9] parameter(0)\nROOT r = (s32[4], s32[4]) topk(a), k=4, largest=false"},
      {Opcode::scan, "scan",
       "a = f32[7,5] parameter(0)\nc = f32[5] parameter(1)\nROOT r = (f32[7,5], f32[5]) scan(a, "
       "c), dimensions={0}, num_carries=1, to_apply=running_sum"},
      {Opcode::scan, "scan, reverse",
       "a = f32[5,6] parameter(0)\nc = f32[5] parameter(1)\nROOT r = (f32[5,6], f32[5]) scan(a, "
       "c), dimensions={1}, is_reverse=true, num_carries=1, to_apply=running_sum"},
  };
}

std::vector<Sample> matrix_samples() {
  return {
      {Opcode::cholesky, "cholesky",
       "a = f32[5,3,3] parameter(0)\nROOT r = f32[5,3,3] cholesky(a), lower=true"},
      {Opcode::triangular_solve, "triangular-solve",
       "a = f32[3,4,4] parameter(0)\nb = f32[3,4,5] parameter(1)\nROOT r = f32[3,4,5] "
       "triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=true, "
       "transpose_a=NO_TRANSPOSE"},
      {Opcode::triangular_solve, "triangular-solve, right side",
       "a = f32[4,4] parameter(0)\nb = f32[5,4] parameter(1)\nROOT r = f32[5,4] "
       "triangular-solve(a, b), left_side=false, lower=false, unit_diagonal=true, "
       "transpose_a=TRANSPOSE"},
      {Opcode::fft, "fft, real",
       "a = f32[5,3,8] parameter(0)\nROOT r = c64[5,3,5] fft(a), fft_type=RFFT, fft_length={8}"},
      {Opcode::fft, "fft, two dims",
       "a = c64[5,4,6] parameter(0)\nROOT r = c64[5,4,6] fft(a), fft_type=FFT, fft_length={4,6}"},
      {Opcode::ragged_dot, "ragged-dot, rows",
       "a = f32[3,7,5] parameter(0)\nb = f32[4,3,5,6] parameter(1)\ns = s32[4] parameter(2)\nROOT "
       "r = f32[3,7,6] ragged-dot(a, b, s), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
       "rhs_batch_dims={1}, rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}"},
      {Opcode::ragged_dot, "ragged-dot, contracting",
       "a = f32[3,7] parameter(0)\nb = f32[7,6] parameter(1)\ns = s32[4] parameter(2)\nROOT r = "
       "f32[4,3,6] ragged-dot(a, b, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
       "lhs_ragged_dims={1}"},
      {Opcode::ragged_dot, "ragged-dot, batch",
       "a = f32[3,4,7] parameter(0)\nb = f32[3,7,6] parameter(1)\ns = s32[2] parameter(2)\nROOT r "
       "= f32[3,4,6] ragged-dot(a, b, s), lhs_batch_dims={0}, rhs_batch_dims={0}, "
       "lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={0}"},
      {Opcode::scaled_dot, "scaled-dot",
       "a = f32[3,8] parameter(0)\nb = f32[5,8] parameter(1)\ns = f32[3,2] parameter(2)\nt = "
       "f32[5,4] parameter(3)\nROOT r = f32[3,5] scaled-dot(a, b, s, t), lhs_contracting_dims={1}, "
       "rhs_contracting_dims={1}"},
  };
}

}  // namespace gspmd::testing
