// Hot HLO ops at real sizes, each beside what bounds it, measured in turn with it on as many
// threads (op_limits.h): the rate of matrix products for ops that multiply, or a copy of their
// bytes where that takes longer, copies or reads of the same bytes for ops that move data, plain
// loops and the standard library's sorts for others. One JSON object per line: milliseconds, the
// limit's, and their ratio.
//   hlo_ops [--threads 2] [--repeat 5] [--only TEXT] [--file FILE.hlo ...] [--write
//   resnet50|bert-layer]
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <span>

#include "bench/hlo_models.h"
#include "bench/op_limits.h"
#include "bench/report.h"
#include "examples/peak.h"
#include "gspmd/ir/op.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/pipeline.h"
#include "gspmd/runtime/executor.h"

namespace {

using namespace gspmd;

const char* const kComputations = R"(sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
sum_bf16 {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT c = bf16[] add(a, b)
}
below {
  t = (s32[], f32[1024,4096], f32[1024,4096]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(1024)
  ROOT c = pred[] compare(i, n), direction=LT
}
put_row {
  t = (s32[], f32[1024,4096], f32[1024,4096]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[1024,4096] get-tuple-element(t), index=1
  y = f32[1024,4096] get-tuple-element(t), index=2
  z = s32[] constant(0)
  one = s32[] constant(1)
  row = f32[1,4096] dynamic-slice(x, i, z), dynamic_slice_sizes={1,4096}
  new = f32[1024,4096] dynamic-update-slice(y, row, i, z)
  j = s32[] add(i, one)
  ROOT u = (s32[], f32[1024,4096], f32[1024,4096]) tuple(j, x, new)
}
most {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
at_least {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}
greater {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GT, type=TOTALORDER
}
greater_pairs {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT c = pred[] compare(a, b), direction=GT, type=TOTALORDER
}
less_pairs {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = f32[] parameter(2)
  j = f32[] parameter(3)
  ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER
}
less_sums {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = f32[] parameter(2)
  j = f32[] parameter(3)
  x = f32[] add(a, i)
  y = f32[] add(b, j)
  ROOT c = pred[] compare(x, y), direction=LT
}
less_products {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = f32[] parameter(2)
  j = f32[] parameter(3)
  x = f32[] add(a, i)
  y = f32[] add(b, j)
  d = f32[] subtract(y, x)
  z = f32[] constant(0)
  ROOT c = pred[] compare(d, z), direction=GT
}
)";

// What bounds an op.
enum class Bound : uint8_t {
  products,  // multiplications at the rate of matrix products, or a copy if that takes longer
  tenth,     // operations at a tenth of that rate, as Fourier transforms of packaged libraries run,
             // or a copy
  copies,    // a copy of as many bytes
  reads,     // a sum of the bytes read
  own,       // `limit`
};

using bench::Limit;
using Pool = std::shared_ptr<WorkerPool>;

struct Op {
  const char* name;
  const char* body;
  Bound bound = Bound::products;
  Limit (*limit)(const Pool& pool) = nullptr;
};
const Op kOps[] = {
    {"dot 2048",
     "a = f32[2048,2048] parameter(0)\nb = f32[2048,2048] parameter(1)\nROOT r = f32[2048,2048] "
     "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"dot 64x2048 by 2048",
     "a = f32[64,2048] parameter(0)\nb = f32[2048,2048] parameter(1)\nROOT r = f32[64,2048] "
     "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"dot of a row by 8192x8192",
     "a = f32[1,8192] parameter(0)\nb = f32[8192,8192] parameter(1)\nROOT r = f32[1,8192] "
     "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     Bound::reads},
    {"dot of a row by 8192x8192 of bf16",
     "a = bf16[1,8192] parameter(0)\nb = bf16[8192,8192] parameter(1)\nROOT r = bf16[1,8192] "
     "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     Bound::reads},
    {"conv 7x7/2 of the image",
     "a = f32[8,224,224,3] parameter(0)\nb = f32[7,7,3,64] parameter(1)\nROOT r = "
     "f32[8,112,112,64] convolution(a, b), window={size=7x7 stride=2x2 pad=3_3x3_3}, "
     "dim_labels=b01f_01io->b01f"},
    {"conv 3x3 56x56x64",
     "a = f32[8,56,56,64] parameter(0)\nb = f32[3,3,64,64] parameter(1)\nROOT r = f32[8,56,56,64] "
     "convolution(a, b), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
    {"conv 3x3 14x14x256",
     "a = f32[8,14,14,256] parameter(0)\nb = f32[3,3,256,256] parameter(1)\nROOT r = "
     "f32[8,14,14,256] convolution(a, b), window={size=3x3 pad=1_1x1_1}, "
     "dim_labels=b01f_01io->b01f"},
    {"conv 3x3 7x7x512",
     "a = f32[8,7,7,512] parameter(0)\nb = f32[3,3,512,512] parameter(1)\nROOT r = f32[8,7,7,512] "
     "convolution(a, b), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
    {"conv 1x1 56x56 64->256",
     "a = f32[8,56,56,64] parameter(0)\nb = f32[1,1,64,256] parameter(1)\nROOT r = "
     "f32[8,56,56,256] convolution(a, b), window={size=1x1}, dim_labels=b01f_01io->b01f"},
    {"conv 3x3 56x56x64 channels first",
     "a = f32[8,64,56,56] parameter(0)\nb = f32[64,64,3,3] parameter(1)\nROOT r = f32[8,64,56,56] "
     "convolution(a, b), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"},
    {"conv depthwise 3x3 56x56x128",
     "a = f32[8,56,56,128] parameter(0)\nb = f32[3,3,1,128] parameter(1)\nROOT r = "
     "f32[8,56,56,128] convolution(a, b), window={size=3x3 pad=1_1x1_1}, "
     "dim_labels=b01f_01io->b01f, feature_group_count=128"},
    {"conv depthwise 3x3 56x56x128 channels first",
     "a = f32[8,128,56,56] parameter(0)\nb = f32[128,1,3,3] parameter(1)\nROOT r = "
     "f32[8,128,56,56] convolution(a, b), window={size=3x3 pad=1_1x1_1}, "
     "dim_labels=bf01_oi01->bf01, feature_group_count=128"},
    {"conv depthwise 3x3 56x56x128 of bf16",
     "a = bf16[8,56,56,128] parameter(0)\nb = bf16[3,3,1,128] parameter(1)\nROOT r = "
     "bf16[8,56,56,128] convolution(a, b), window={size=3x3 pad=1_1x1_1}, "
     "dim_labels=b01f_01io->b01f, feature_group_count=128"},
    {"conv 3x3 28x28x128 of 32 groups",
     "a = f32[8,28,28,128] parameter(0)\nb = f32[3,3,4,128] parameter(1)\nROOT r = "
     "f32[8,28,28,128] convolution(a, b), window={size=3x3 pad=1_1x1_1}, "
     "dim_labels=b01f_01io->b01f, feature_group_count=32"},
    {"conv input gradient 3x3/2",
     "a = f32[8,28,28,128] parameter(0)\nb = f32[3,3,128,64] parameter(1)\nROOT r = "
     "f32[8,56,56,64] convolution(a, b), window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2 "
     "rhs_reversal=1x1}, dim_labels=b01f_01io->b01f"},
    {"conv kernel gradient 3x3",
     "a = f32[8,56,56,64] parameter(0)\nb = f32[8,56,56,64] parameter(1)\nROOT r = f32[3,3,64,64] "
     "convolution(a, b), window={size=56x56 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf"},
    {"max pool 3x3/2",
     "a = f32[8,112,112,64] parameter(0)\nz = f32[] constant(-inf)\nROOT r = f32[8,56,56,64] "
     "reduce-window(a, z), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0}, "
     "to_apply=most",
     Bound::copies},
    {"max pool gradient",
     "a = f32[8,112,112,64] parameter(0)\ns = f32[8,56,56,64] parameter(1)\nz = f32[] "
     "constant(0)\nROOT r = f32[8,112,112,64] select-and-scatter(a, s, z), window={size=1x3x3x1 "
     "stride=1x2x2x1 pad=0_0x1_1x1_1x0_0}, select=at_least, scatter=sum",
     Bound::own, [](const Pool& pool) { return bench::pool_gradient_limit(pool); }},
    {"cumulative sum 1024x4096",
     "a = f32[1024,4096] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[1024,4096] "
     "reduce-window(a, z), window={size=1x4096 pad=0_0x4095_0}, to_apply=sum",
     Bound::copies},
    {"sort 1M",
     "a = f32[1048576] parameter(0)\nROOT r = f32[1048576] sort(a), dimensions={0}, to_apply=less",
     Bound::own, [](const Pool&) { return bench::radix_limit(1 << 20, false); }},
    {"sort 1M by any comparator",
     "a = f32[1048576] parameter(0)\nb = f32[1048576] parameter(1)\nROOT r = (f32[1048576], "
     "f32[1048576]) sort(a, b), dimensions={0}, to_apply=less_sums",
     Bound::own, [](const Pool&) { return bench::stable_sort_limit(1 << 20); }},
    {"sort 4096 lines of 256",
     "a = f32[4096,256] parameter(0)\nROOT r = f32[4096,256] sort(a), dimensions={1}, "
     "to_apply=less",
     Bound::own, [](const Pool& pool) { return bench::line_sort_limit(pool, 4096, 256); }},
    {"topk 8 of 1024x32000",
     "a = f32[1024,32000] parameter(0)\nROOT r = (f32[1024,8], s32[1024,8]) topk(a), k=8, "
     "largest=true",
     Bound::reads},
    {"fft 1024x1024",
     "a = f32[1024,1024] parameter(0)\nROOT r = c64[1024,513] fft(a), fft_type=RFFT, "
     "fft_length={1024}",
     Bound::tenth},
    {"cholesky 16x256",
     "a = f32[16,256,256] parameter(0)\nROOT r = f32[16,256,256] cholesky(a), lower=true"},
    {"triangular-solve 16x256 of 256",
     "a = f32[16,256,256] parameter(0)\nb = f32[16,256,256] parameter(1)\nROOT r = "
     "f32[16,256,256] triangular-solve(a, b), left_side=true, lower=true, "
     "transpose_a=NO_TRANSPOSE"},
    {"triangular-solve 1024 of 256 from the right, transposed",
     "a = f32[1024,1024] parameter(0)\nb = f32[256,1024] parameter(1)\nROOT r = f32[256,1024] "
     "triangular-solve(a, b), lower=true, transpose_a=TRANSPOSE"},
    {"reduce 4096x4096",
     "a = f32[4096,4096] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[4096] reduce(a, z), "
     "dimensions={1}, to_apply=sum",
     Bound::reads},
    {"transpose 4096x4096",
     "a = f32[4096,4096] parameter(0)\nROOT r = f32[4096,4096] transpose(a), dimensions={1,0}",
     Bound::copies},
    {"exponential 4096x4096",
     "a = f32[4096,4096] parameter(0)\nROOT r = f32[4096,4096] exponential(a)", Bound::copies},
    {"max pool 3x3/2 channels first",
     "a = f32[8,64,112,112] parameter(0)\nz = f32[] constant(-inf)\nROOT r = f32[8,64,56,56] "
     "reduce-window(a, z), window={size=1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x1_1x1_1}, "
     "to_apply=most",
     Bound::copies},
    {"max pool gradient channels first",
     "a = f32[8,64,112,112] parameter(0)\ns = f32[8,64,56,56] parameter(1)\nz = f32[] "
     "constant(0)\nROOT r = f32[8,64,112,112] select-and-scatter(a, s, z), "
     "window={size=1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x1_1x1_1}, select=at_least, scatter=sum",
     Bound::own, [](const Pool& pool) { return bench::pool_gradient_limit(pool); }},
    {"cumulative sum of columns 4096x1024",
     "a = f32[4096,1024] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[4096,1024] "
     "reduce-window(a, z), window={size=4096x1 pad=4095_0x0_0}, to_apply=sum",
     Bound::copies},
    {"cumulative maximum from behind",
     "a = f32[1024,4096] parameter(0)\nz = f32[] constant(-inf)\nROOT r = f32[1024,4096] "
     "reduce-window(a, z), window={size=1x4096 pad=0_0x0_4095}, to_apply=most",
     Bound::copies},
    {"sort 1M with a payload",
     "a = f32[1048576] parameter(0)\nb = f32[1048576] parameter(1)\nROOT r = (f32[1048576], "
     "f32[1048576]) sort(a, b), dimensions={0}, is_stable=true, to_apply=less_pairs",
     Bound::own, [](const Pool&) { return bench::radix_limit(1 << 20, true); }},
    {"sort 1M by a difference",
     "a = f32[1048576] parameter(0)\nb = f32[1048576] parameter(1)\nROOT r = (f32[1048576], "
     "f32[1048576]) sort(a, b), dimensions={0}, to_apply=less_products",
     Bound::own, [](const Pool&) { return bench::stable_sort_limit(1 << 20); }},
    {"first 8 of a sort of 1024x32000",
     "a = f32[1024,32000] parameter(0)\ni = s32[1024,32000] iota(), iota_dimension=1\ns = "
     "(f32[1024,32000], s32[1024,32000]) sort(a, i), dimensions={1}, is_stable=true, "
     "to_apply=greater_pairs\nv = f32[1024,32000] get-tuple-element(s), index=0\nj = "
     "s32[1024,32000] get-tuple-element(s), index=1\nx = f32[1024,8] slice(v), slice={[0:1024], "
     "[0:8]}\ny = s32[1024,8] slice(j), slice={[0:1024], [0:8]}\nROOT r = (f32[1024,8], "
     "s32[1024,8]) tuple(x, y)",
     Bound::reads},
    {"ApproxTopK 8 of 1024x32000",
     "a = f32[1024,32000] parameter(0)\ni = s32[1024,32000] iota(), iota_dimension=1\nu = f32[] "
     "constant(-inf)\nv = s32[] constant(-1)\nROOT r = (f32[1024,8], s32[1024,8]) "
     "custom-call(a, i, u, v), custom_call_target=\"ApproxTopK\", called_computations={"
     "greater_pairs}, backend_config={\"top_k\" = 8 : i64, \"reduction_dim\" = 1 : i64}",
     Bound::reads},
    {"fft 1024x1024 complex",
     "a = c64[1024,1024] parameter(0)\nROOT r = c64[1024,1024] fft(a), fft_type=FFT, "
     "fft_length={1024}",
     Bound::tenth},
    {"fft 1024x1024 in two dims",
     "a = c64[1024,1024] parameter(0)\nROOT r = c64[1024,1024] fft(a), fft_type=FFT, "
     "fft_length={1024,1024}",
     Bound::tenth},
    {"fft 1024x1000",
     "a = c64[1024,1000] parameter(0)\nROOT r = c64[1024,1000] fft(a), fft_type=FFT, "
     "fft_length={1000}",
     Bound::tenth},
    {"reduce 4096x4096 along dim 0",
     "a = f32[4096,4096] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[4096] reduce(a, z), "
     "dimensions={0}, to_apply=sum",
     Bound::reads},
    {"reduce 256x256x256 along dim 1",
     "a = f32[256,256,256] parameter(0)\nz = f32[] constant(-inf)\nROOT r = f32[256,256] "
     "reduce(a, z), dimensions={1}, to_apply=most",
     Bound::reads},
    {"reduce 4096x4096 to one",
     "a = f32[4096,4096] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[] reduce(a, z), "
     "dimensions={0,1}, to_apply=sum",
     Bound::reads},
    {"reduce 16384 lines of 49",
     "a = f32[16384,49] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[16384] reduce(a, z), "
     "dimensions={1}, to_apply=sum",
     Bound::reads},
    {"transpose 8x512x8x64 of heads",
     "a = f32[8,512,8,64] parameter(0)\nROOT r = f32[8,8,512,64] transpose(a), "
     "dimensions={0,2,1,3}",
     Bound::copies},
    {"transpose 32x56x56x64 to channels first",
     "a = f32[32,56,56,64] parameter(0)\nROOT r = f32[32,64,56,56] transpose(a), "
     "dimensions={0,3,1,2}",
     Bound::copies},
    {"transpose 256x256x256 reversed",
     "a = f32[256,256,256] parameter(0)\nROOT r = f32[256,256,256] transpose(a), "
     "dimensions={2,1,0}",
     Bound::copies},
    {"transpose 4096x4096 of bf16",
     "a = bf16[4096,4096] parameter(0)\nROOT r = bf16[4096,4096] transpose(a), dimensions={1,0}",
     Bound::copies},
    {"transpose 4096x4096 of f64",
     "a = f64[4096,4096] parameter(0)\nROOT r = f64[4096,4096] transpose(a), dimensions={1,0}",
     Bound::copies},
    {"select 4096x4096",
     "p = pred[4096,4096] parameter(0)\na = f32[4096,4096] parameter(1)\nb = f32[4096,4096] "
     "parameter(2)\nROOT r = f32[4096,4096] select(p, a, b)",
     Bound::copies},
    {"concatenate two 4096x2048 along dim 1",
     "a = f32[4096,2048] parameter(0)\nb = f32[4096,2048] parameter(1)\nROOT r = f32[4096,4096] "
     "concatenate(a, b), dimensions={1}",
     Bound::copies},
    {"concatenate two 2048x4096 along dim 0",
     "a = f32[2048,4096] parameter(0)\nb = f32[2048,4096] parameter(1)\nROOT r = f32[4096,4096] "
     "concatenate(a, b), dimensions={0}",
     Bound::copies},
    {"pad 32x56x56x64 by 1",
     "a = f32[32,56,56,64] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[32,58,58,64] "
     "pad(a, z), padding=0_0x1_1x1_1x0_0",
     Bound::copies},
    {"pad 4096x2048 between",
     "a = f32[4096,2048] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[4096,4095] "
     "pad(a, z), padding=0_0x0_0_1",
     Bound::copies},
    {"slice 4096x4096 by 2",
     "a = f32[4096,4096] parameter(0)\nROOT r = f32[4096,2048] slice(a), slice={[0:4096], "
     "[0:4096:2]}",
     Bound::copies},
    {"reverse 4096x4096 along dim 1",
     "a = f32[4096,4096] parameter(0)\nROOT r = f32[4096,4096] reverse(a), dimensions={1}",
     Bound::copies},
    {"reverse 4096x4096 along dim 0",
     "a = f32[4096,4096] parameter(0)\nROOT r = f32[4096,4096] reverse(a), dimensions={0}",
     Bound::copies},
    {"sum pool 3x3/2",
     "a = f32[8,112,112,64] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[8,56,56,64] "
     "reduce-window(a, z), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0}, "
     "to_apply=sum",
     Bound::copies},
    {"sum pool 2x2/2 channels first",
     "a = f32[8,256,56,56] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[8,256,28,28] "
     "reduce-window(a, z), window={size=1x1x2x2 stride=1x1x2x2}, to_apply=sum",
     Bound::copies},
    {"sum pool 7x7 channels first",
     "a = f32[8,512,14,14] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[8,512,2,2] "
     "reduce-window(a, z), window={size=1x1x7x7 stride=1x1x7x7}, to_apply=sum",
     Bound::reads},
    {"concatenate 1Mx3 and 1Mx5",
     "a = f32[1048576,3] parameter(0)\nb = f32[1048576,5] parameter(1)\nROOT r = "
     "f32[1048576,8] concatenate(a, b), dimensions={1}",
     Bound::copies},
    {"reduce 64x512x512 of bf16 along dim 1",
     "a = bf16[64,512,512] parameter(0)\nz = bf16[] constant(0)\nROOT r = bf16[64,512] "
     "reduce(a, z), dimensions={1}, to_apply=sum_bf16",
     Bound::reads},
    {"causal mask 4096x4096",
     "a = f32[4096,4096] parameter(0)\ni = s32[4096,4096] iota(), iota_dimension=0\nj = "
     "s32[4096,4096] iota(), iota_dimension=1\np = pred[4096,4096] compare(i, j), "
     "direction=GE\nm = f32[] constant(-inf)\nn = f32[4096,4096] broadcast(m), dimensions={}\n"
     "ROOT r = f32[4096,4096] select(p, a, n)",
     Bound::copies},
    {"gather 65536 columns of 128",
     "a = f32[128,32000] parameter(0)\ni = s32[65536] parameter(1)\nROOT r = "
     "f32[128,65536] gather(a, i), offset_dims={0}, collapsed_slice_dims={1}, "
     "start_index_map={1}, index_vector_dim=1, slice_sizes={128,1}",
     Bound::copies},
    {"rows written in a loop 1024x4096",
     "a = f32[1024,4096] parameter(0)\nn = s32[] constant(0)\nz = f32[] constant(0)\n"
     "b = f32[1024,4096] broadcast(z), dimensions={}\n"
     "t = (s32[], f32[1024,4096], f32[1024,4096]) tuple(n, a, b)\n"
     "w = (s32[], f32[1024,4096], f32[1024,4096]) while(t), condition=below, body=put_row\n"
     "ROOT r = f32[1024,4096] get-tuple-element(w), index=2",
     Bound::copies},
    {"gather 65536 rows of 128",
     "a = f32[32000,128] parameter(0)\ni = s32[65536] parameter(1)\nROOT r = "
     "f32[65536,128] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,128}",
     Bound::own, [](const Pool& pool) { return bench::gather_limit(pool, 32000, 65536, 128); }},
    {"scatter 65536 rows of 128",
     "a = f32[32000,128] parameter(0)\ni = s32[65536] parameter(1)\nu = f32[65536,128] "
     "parameter(2)\nROOT r = f32[32000,128] scatter(a, i, u), update_window_dims={1}, "
     "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
     "to_apply=sum",
     Bound::own, [](const Pool&) { return bench::scatter_limit(32000, 65536, 128); }},
    {"4096 products of 32x32x8",
     "a = f32[4096,32,8] parameter(0)\nb = f32[4096,8,32] parameter(1)\nROOT r = "
     "f32[4096,32,32] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, "
     "lhs_contracting_dims={2}, rhs_contracting_dims={1}"},
    {"4096 products of 32x32x8 transposed",
     "a = f32[4096,32,8] parameter(0)\nb = f32[4096,32,8] parameter(1)\nROOT r = "
     "f32[4096,32,32] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, "
     "lhs_contracting_dims={2}, rhs_contracting_dims={2}"},
    {"4096 products of 20x20x20",
     "a = f32[4096,20,20] parameter(0)\nb = f32[4096,20,20] parameter(1)\nROOT r = "
     "f32[4096,20,20] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, "
     "lhs_contracting_dims={2}, rhs_contracting_dims={1}"},
};

// Matrices whose diagonal outweighs their rows: positive definite as their triangles say, and
// easily solved.
void make_positive(Array& values) {
  const int64_t n = values.dims().back();
  for (int64_t i = 0; i < values.size() / n; ++i)
    values.set(i * n + i % n, static_cast<double>(n) + values.at(i * n + i % n));
}

// Floats of [-1, 1), whole numbers below 32,000, pred of either value.
std::vector<std::shared_ptr<DeviceBuffer>> random_arguments(const Module& module) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<std::shared_ptr<DeviceBuffer>> arguments;
  for (const Node* parameter : module.entry()->parameters()) {
    const Shape& shape = parameter->shape;
    Array values(shape);
    const bool complex = shape.dtype == DType::c64;
    for (int64_t i = 0; i < shape.elements_count() * (complex ? 2 : 1); ++i) {
      if (shape.dtype == DType::f32 || complex)
        reinterpret_cast<float*>(values.bytes().data())[i] = static_cast<float>(uniform(random));
      else
        values.set(i, shape.dtype == DType::s32    ? static_cast<double>(random() % 32000)
                      : shape.dtype == DType::pred ? static_cast<double>(random() % 2)
                                                   : uniform(random));
    }
    for (const Node* user : parameter->users())
      if (user->is(Opcode::cholesky) ||
          (user->is(Opcode::triangular_solve) && user->operand(0) == parameter))
        make_positive(values);
    arguments.push_back(std::make_shared<DeviceBuffer>(shape, 1));
    std::memcpy(arguments.back()->shard(0), values.bytes().data(), values.bytes().size());
  }
  return arguments;
}

// A program with its arguments, and what it does in a run.
class Program {
 public:
  Program(const std::string& text, const Pool& pool) {
    const auto module = parse_module(text);
    executor_.emplace(build_program(run_pipeline(*module, {}), {}), pool);
    arguments_ = random_arguments(*module);
    for (const auto& node : module->entry()->nodes())
      if (node->op().flops != nullptr) flops += static_cast<double>(node->op().flops(*node));
    for (const Node* parameter : module->entry()->parameters())
      bytes_read += static_cast<double>(parameter->shape.bytes());
    bytes = bytes_read;
    for (const Shape& leaf : leaf_shapes(module->entry()->root()->shape))
      bytes += static_cast<double>(leaf.bytes());
  }
  void run() { executor_->run(arguments_, results_); }

  double flops = 0, bytes = 0, bytes_read = 0;

 private:
  std::optional<Executor> executor_;
  std::vector<std::shared_ptr<DeviceBuffer>> arguments_, results_;
};

class Bench {
 public:
  Bench(int threads, int repeat, Report& report)
      : report_(report),
        pool_(make_worker_pool(threads)),
        repeat_(repeat),
        peak_(examples::measure_peak_gflops(threads) * 1e9) {
    const double bytes = 256e6;
    const double seconds = best(bench::copy_limit(pool_, bytes), {}).first;
    report_.add(fmt::format("limits of {} threads", threads),
                {{"product_gflops", peak_ * 1e-9, Better::higher},
                 {"copy_gb_per_s", bytes / seconds * 1e-9, Better::higher}});
  }

  void report(const std::string& name, const std::string& text, Bound bound,
              Limit (*own)(const Pool&)) {
    Program program(text, pool_);
    Limit limit;
    double limit_seconds = program.flops / (bound == Bound::tenth ? peak_ / 10 : peak_);
    const bool computes = bound == Bound::products || bound == Bound::tenth;
    if (bound == Bound::copies || computes) limit = bench::copy_limit(pool_, program.bytes);
    if (bound == Bound::reads) limit = bench::read_limit(pool_, program.bytes_read);
    if (bound == Bound::own) limit = own(pool_);
    const auto [seconds, measured] = best([&] { program.run(); }, limit);
    limit_seconds = computes ? std::max(limit_seconds, measured) : measured;
    report_.add(name, {{"ms", seconds * 1e3},
                       {"limit_ms", limit_seconds * 1e3},
                       {"ratio", seconds / limit_seconds},
                       {"gflops", program.flops / seconds * 1e-9, Better::higher},
                       {"gb_per_s", program.bytes / seconds * 1e-9, Better::higher}});
  }

 private:
  // The best of `repeat` runs of both in turn after one to warm up.
  std::pair<double, double> best(const std::function<void()>& work, const Limit& limit) const {
    std::pair<double, double> least{1e30, 1e30};
    for (int i = 0; i <= repeat_; ++i) {
      const double seconds = bench::seconds_of(work), other = limit ? bench::seconds_of(limit) : 0;
      if (i > 0) least = {std::min(least.first, seconds), std::min(least.second, other)};
    }
    return least;
  }

  Report& report_;
  Pool pool_;
  int repeat_;
  double peak_;
};

}  // namespace

int main(int argc, char** argv) {
  int threads = 2, repeat = 5;
  std::string only, write;
  std::vector<std::string> files;
  CommandLine line("Hot HLO ops against the rates of products and copies.");
  line.number("--threads", threads);
  line.number("--repeat", repeat);
  line.option("--only", only, "ops whose name has this text");
  line.option("--file", files, "these programs instead, beside copies of their bytes");
  line.option("--write", write, "print a model as HLO text: resnet50 or bert-layer");
  Report figures(line, "hlo_ops");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    if (!write.empty()) {
      fmt::print("{}", write == "resnet50" ? bench::resnet50(8) : bench::bert_layer(8, 512));
      return 0;
    }
    Bench timing(threads, repeat, figures);
    const auto report = [&](const char* name, const std::string& text, Bound bound,
                            Limit (*limit)(const Pool&)) {
      if (std::string(name).find(only) != std::string::npos)
        timing.report(name, text, bound, limit);
    };
    for (const std::string& file : files) {
      std::ifstream in(file);
      timing.report(file, std::string(std::istreambuf_iterator<char>(in), {}), Bound::copies,
                    nullptr);
    }
    for (const Op& op : files.empty() ? std::span<const Op>(kOps) : std::span<const Op>())
      report(op.name, fmt::format("HloModule m\n{}ENTRY main {{\n{}\n}}\n", kComputations, op.body),
             op.bound, op.limit);
    if (!files.empty()) return figures.write(), 0;
    for (const char* dtype : {"f32", "bf16", "f16"})
      report(fmt::format("rotary embedding {}[4,512,16,64]", dtype).c_str(),
             bench::rotary_embedding(4, 512, 16, 64, dtype), Bound::copies, nullptr);
    report("associative scan 1024x4096", bench::associative_scan(1024, 4096), Bound::copies,
           nullptr);
    report("resnet50, batch 8", bench::resnet50(8), Bound::products, nullptr);
    report("bert layer, 8x512", bench::bert_layer(8, 512), Bound::products, nullptr);
    figures.write();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
