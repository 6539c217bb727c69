// What the partitioner sends for each op when one dim of one operand is split over four devices:
// the table of docs/design/0013. Hidden; run `test_passes "[.survey]"` to print it.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "passes/conformance_programs.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace survey_test {
namespace {

constexpr int64_t kDevices = 4;

// The lines of the entry; the root is the op, or what takes one leaf of it.
const Program kOps[] = {
    {"add",
     "a = f32[16,32] parameter(0)\n b = f32[16,32] parameter(1)\n ROOT r = f32[16,32] add(a, b)"},
    {"exponential", "a = f32[16,32] parameter(0)\n ROOT r = f32[16,32] exponential(a)"},
    {"select",
     "p = pred[16,32] parameter(0)\n a = f32[16,32] parameter(1)\n b = f32[16,32] parameter(2)\n "
     "ROOT r = f32[16,32] select(p, a, b)"},
    {"compare",
     "a = f32[16,32] parameter(0)\n b = f32[16,32] parameter(1)\n ROOT r = pred[16,32] compare(a, "
     "b), direction=LT"},
    {"convert", "a = f32[16,32] parameter(0)\n ROOT r = s32[16,32] convert(a)"},
    {"clamp between scalars",
     "a = f32[16,32] parameter(0)\n l = f32[] parameter(1)\n h = f32[] parameter(2)\n ROOT r = "
     "f32[16,32] clamp(l, a, h)"},
    {"complex",
     "a = f32[16,32] parameter(0)\n b = f32[16,32] parameter(1)\n ROOT r = c64[16,32] complex(a, "
     "b)"},
    {"opt-barrier", "a = f32[16,32] parameter(0)\n ROOT r = f32[16,32] opt-barrier(a)"},
    {"while",
     "a = f32[16,32] parameter(0)\n z = s32[] constant(0)\n t = (s32[], f32[16,32]) tuple(z, a)\n "
     "w = (s32[], f32[16,32]) while(t), condition=goes_on, body=doubled\n ROOT r = f32[16,32] "
     "get-tuple-element(w), index=1"},
    {"conditional",
     "p = pred[] parameter(0)\n a = f32[16,32] parameter(1)\n b = f32[16,32] parameter(2)\n ROOT r "
     "= f32[16,32] conditional(p, a, b), true_computation=negated, false_computation=as_it_is"},
    {"call", "a = f32[16,32] parameter(0)\n ROOT r = f32[16,32] call(a), to_apply=negated"},
    {"X64Combine",
     "a = u32[16,32] parameter(0)\n b = u32[16,32] parameter(1)\n ROOT r = u64[16,32] "
     "custom-call(a, b), custom_call_target=\"X64Combine\""},
    {"LayoutConstraint",
     "a = f32[16,32] parameter(0)\n ROOT r = f32[16,32] custom-call(a), "
     "custom_call_target=\"LayoutConstraint\""},
    {"broadcast", "a = f32[16] parameter(0)\n ROOT r = f32[16,32] broadcast(a), dimensions={0}"},
    {"transpose",
     "a = f32[16,32] parameter(0)\n ROOT r = f32[32,16] transpose(a), dimensions={1,0}"},
    {"reshape, merge", "a = f32[16,32] parameter(0)\n ROOT r = f32[512] reshape(a)"},
    {"reshape, split", "a = f32[512] parameter(0)\n ROOT r = f32[16,32] reshape(a)"},
    {"bitcast-convert, same rank",
     "a = f32[16,32] parameter(0)\n ROOT r = s32[16,32] bitcast-convert(a)"},
    {"bitcast-convert, new dim",
     "a = f32[16,32] parameter(0)\n ROOT r = u8[16,32,4] bitcast-convert(a)"},
    {"bitcast-convert, dim goes",
     "a = u8[16,32,4] parameter(0)\n ROOT r = f32[16,32] bitcast-convert(a)"},
    {"dot",
     "a = f32[8,16,32] parameter(0)\n b = f32[8,32,64] parameter(1)\n ROOT r = f32[8,16,64] dot(a, "
     "b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
     "rhs_contracting_dims={1}"},
    {"ragged-dot",
     "a = f32[32,16] parameter(0)\n b = f32[4,16,64] parameter(1)\n s = s32[4] parameter(2)\n ROOT "
     "r = f32[32,64] ragged-dot(a, b, s), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
     "lhs_ragged_dims={0}, rhs_group_dims={0}"},
    {"convolution",
     "a = f32[8,32,16] parameter(0)\n k = f32[3,16,24] parameter(1)\n ROOT r = f32[8,32,24] "
     "convolution(a, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f"},
    {"convolution, groups",
     "a = f32[8,32,16] parameter(0)\n k = f32[3,1,16] parameter(1)\n ROOT r = f32[8,32,16] "
     "convolution(a, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, feature_group_count=16"},
    {"convolution, stride 2",
     "a = f32[8,32,12] parameter(0)\n k = f32[3,12,24] parameter(1)\n ROOT r = f32[8,16,24] "
     "convolution(a, k), window={size=3 stride=2 pad=1_1}, dim_labels=b0f_0io->b0f"},
    {"reduce",
     "a = f32[16,32] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[16] reduce(a, z), "
     "dimensions={1}, to_apply=sum"},
    {"reduce, any computation",
     "a = u32[16,32] parameter(0)\n z = u32[] constant(0)\n ROOT r = u32[16] reduce(a, z), "
     "dimensions={1}, to_apply=xor_u32"},
    {"reduce, argmax",
     "a = f32[16,32] parameter(0)\n p = s32[16,32] iota(), iota_dimension=1\n i = f32[] "
     "constant(-inf)\n j = s32[] constant(2147483647)\n r = (f32[16], s32[16]) reduce(a, p, i, j), "
     "dimensions={1}, to_apply=largest\n ROOT k = s32[16] get-tuple-element(r), index=1"},
    {"reduce-window",
     "a = f32[16,32] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[16,32] reduce-window(a, "
     "z), window={size=1x3 pad=0_0x1_1}, to_apply=sum"},
    {"reduce-window, stride 2",
     "a = f32[16,32] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[16,16] reduce-window(a, "
     "z), window={size=1x2 stride=1x2}, to_apply=sum"},
    {"reduce-window, cumulative",
     "a = f32[16,32] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[16,32] reduce-window(a, "
     "z), window={size=1x32 pad=0_0x31_0}, to_apply=sum"},
    {"reduce-window, whole",
     "a = f32[16,32] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[16,1] reduce-window(a, "
     "z), window={size=1x32}, to_apply=sum"},
    {"select-and-scatter",
     "a = f32[24,32] parameter(0)\n s = f32[24,16] parameter(1)\n z = f32[] constant(0)\n ROOT r = "
     "f32[24,32] select-and-scatter(a, s, z), window={size=1x2 stride=1x2}, select=at_least, "
     "scatter=sum"},
    {"scan, associative",
     "a = f32[32,4] parameter(0)\n c = f32[4] parameter(1)\n r = (f32[32,4], f32[4]) scan(a, c), "
     "dimensions={0}, num_carries=1, to_apply=running\n ROOT y = f32[32,4] get-tuple-element(r), "
     "index=0"},
    {"scan, in order",
     "a = f32[32,4] parameter(0)\n c = f32[4] parameter(1)\n r = (f32[32,4], f32[4]) scan(a, c), "
     "dimensions={0}, num_carries=1, to_apply=decayed\n ROOT y = f32[32,4] get-tuple-element(r), "
     "index=0"},
    {"pad",
     "a = f32[16,30] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[16,32] pad(a, z), "
     "padding=0_0x1_1"},
    {"pad, interior",
     "a = f32[24,16] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[24,32] pad(a, z), "
     "padding=0_0x1_0_1"},
    {"slice", "a = f32[16,32] parameter(0)\n ROOT r = f32[16,30] slice(a), slice={[0:16], [1:31]}"},
    {"slice in one tile",
     "a = f32[16,32] parameter(0)\n ROOT r = f32[16,6] slice(a), slice={[0:16],[9:15]}"},
    {"slices of one value",
     "a = f32[16,48] parameter(0)\n q = f32[16,16] slice(a), slice={[0:16],[0:16]}\n k = "
     "f32[16,16] "
     "slice(a), slice={[0:16],[16:32]}\n v = f32[16,16] slice(a), slice={[0:16],[32:48]}\n u = "
     "f32[16,16] multiply(q, k)\n ROOT r = f32[16,16] multiply(u, v)"},
    {"slice, stride 2",
     "a = f32[16,32] parameter(0)\n ROOT r = f32[16,16] slice(a), slice={[0:16], [0:32:2]}"},
    {"concatenate",
     "a = f32[16,32] parameter(0)\n b = f32[16,32] parameter(1)\n ROOT r = f32[16,64] "
     "concatenate(a, b), dimensions={1}"},
    {"reverse", "a = f32[16,32] parameter(0)\n ROOT r = f32[16,32] reverse(a), dimensions={1}"},
    {"dynamic-slice",
     "a = f32[16,32] parameter(0)\n i = s32[] parameter(1)\n z = s32[] constant(0)\n ROOT r = "
     "f32[16,4] dynamic-slice(a, z, i), dynamic_slice_sizes={16,4}"},
    {"roll by a run-time number",
     "a = f32[16,32] parameter(0)\n n = s32[] parameter(1)\n z = s32[] constant(0)\n c = "
     "f32[16,64] concatenate(a, a), dimensions={1}\n ROOT r = f32[16,32] dynamic-slice(c, z, n), "
     "dynamic_slice_sizes={16,32}"},
    {"dynamic-update-slice",
     "a = f32[16,32] parameter(0)\n u = f32[16,4] parameter(1)\n i = s32[] parameter(2)\n z = "
     "s32[] constant(0)\n ROOT r = f32[16,32] dynamic-update-slice(a, u, z, i)"},
    {"gather",
     "a = f32[32,16] parameter(0)\n i = s32[64] parameter(1)\n ROOT r = f32[64,16] gather(a, i), "
     "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
     "slice_sizes={1,16}"},
    {"gather, batching",
     "a = f32[8,32,16] parameter(0)\n i = s32[8,64] parameter(1)\n ROOT r = f32[8,64,16] gather(a, "
     "i), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, "
     "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, "
     "slice_sizes={1,1,16}"},
    {"scatter",
     "a = f32[32,16] parameter(0)\n i = s32[64] parameter(1)\n u = f32[64,16] parameter(2)\n ROOT "
     "r = f32[32,16] scatter(a, i, u), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum"},
    {"sort",
     "a = f32[16,32] parameter(0)\n ROOT r = f32[16,32] sort(a), dimensions={1}, to_apply=below"},
    {"sort of one dim",
     "a = f32[64] parameter(0)\n ROOT r = f32[64] sort(a), dimensions={0}, to_apply=below"},
    {"topk",
     "a = f32[16,32] parameter(0)\n r = (f32[16,2], s32[16,2]) topk(a), k=2, largest=true\n ROOT v "
     "= f32[16,2] get-tuple-element(r), index=0"},
    {"topk as a custom-call",
     "a = f32[16,32] parameter(0)\n t = (f32[16,2], s32[16,2]) custom-call(a), "
     "custom_call_target=\"TopK\"\n ROOT r = f32[16,2] get-tuple-element(t), index=0"},
    {"topk by sort and slice",
     "a = f32[16,32] parameter(0)\n p = s32[16,32] iota(), iota_dimension=1\n s = (f32[16,32], "
     "s32[16,32]) sort(a, p), dimensions={1}, is_stable=true, to_apply=more\n v = f32[16,32] "
     "get-tuple-element(s), index=0\n ROOT w = f32[16,2] slice(v), slice={[0:16], [0:2]}"},
    {"fft",
     "a = c64[16,32] parameter(0)\n ROOT r = c64[16,32] fft(a), fft_type=FFT, fft_length={32}"},
    {"fft of one dim",
     "a = c64[64] parameter(0)\n ROOT r = c64[64] fft(a), fft_type=FFT, fft_length={64}"},
    {"fft, real",
     "a = f32[16,32] parameter(0)\n ROOT r = c64[16,17] fft(a), fft_type=RFFT, fft_length={32}"},
    {"cholesky", "a = f32[8,16,16] parameter(0)\n ROOT r = f32[8,16,16] cholesky(a), lower=true"},
    {"triangular-solve",
     "a = f32[8,16,16] parameter(0)\n b = f32[8,16,32] parameter(1)\n ROOT r = f32[8,16,32] "
     "triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE"},
    {"batch-norm-training",
     "a = f32[8,16,32] parameter(0)\n s = f32[32] parameter(1)\n o = f32[32] parameter(2)\n r = "
     "(f32[8,16,32], f32[32], f32[32]) batch-norm-training(a, s, o), epsilon=0.001, "
     "feature_index=2\n ROOT y = f32[8,16,32] get-tuple-element(r), index=0"},
    {"batch-norm-inference",
     "a = f32[8,16,32] parameter(0)\n s = f32[32] parameter(1)\n o = f32[32] parameter(2)\n m = "
     "f32[32] parameter(3)\n v = f32[32] parameter(4)\n ROOT r = f32[8,16,32] "
     "batch-norm-inference(a, s, o, m, v), epsilon=0.001, feature_index=2"},
    {"map",
     "a = f32[16,32] parameter(0)\n b = f32[16,32] parameter(1)\n ROOT r = f32[16,32] map(a, b), "
     "dimensions={0,1}, to_apply=sum"},
    {"get-dimension-size",
     "a = f32[16,32] parameter(0)\n ROOT r = s32[] get-dimension-size(a), dimensions={1}"},
    {"custom-call of the user's",
     "a = f32[16,32] parameter(0)\n ROOT r = f32[16,32] custom-call(a), "
     "custom_call_target=\"mine\""},
};

std::unique_ptr<Module> module_of(const Program& program) {
  return parse_module(std::string(R"(HloModule m
sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] add(a, b) }
at_least { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = pred[] compare(a, b), direction=GE }
negated { a = f32[16,32] parameter(0)
 ROOT s = f32[16,32] negate(a) }
as_it_is { ROOT a = f32[16,32] parameter(0) }
doubled { t = (s32[], f32[16,32]) parameter(0)
 i = s32[] get-tuple-element(t), index=0
 one = s32[] constant(1)
 n = s32[] add(i, one)
 x = f32[16,32] get-tuple-element(t), index=1
 y = f32[16,32] add(x, x)
 ROOT r = (s32[], f32[16,32]) tuple(n, y) }
goes_on { t = (s32[], f32[16,32]) parameter(0)
 i = s32[] get-tuple-element(t), index=0
 n = s32[] constant(3)
 ROOT r = pred[] compare(i, n), direction=LT }
)") + order_computations() +
                      "ENTRY e {\n " + program.body + "\n}\n");
}

// "all-gather f32[16,32], ..." of the program, shapes as one device has them.
std::string sent(const Module& module) {
  PipelineOptions options;
  options.num_devices = kDevices;
  const CompiledModule compiled = run_pipeline(module, options);
  std::string text;
  for (const auto& computation : compiled.uncombined->computations())
    for (const auto& node : computation->nodes())
      if (node->op().has(kCollective))
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", opcode_name(node->opcode()),
                            to_string(Shape(node->shape.dtype, node->dims())));
  return text.empty() ? "nothing" : text;
}

Sharding split(int64_t rank, int64_t dim) {
  std::vector<Digits> dims(static_cast<size_t>(rank));
  dims[static_cast<size_t>(dim)] = {{kDevices, 1}};
  return Sharding::tiled(iota_order(kDevices), dims);
}

// The dim of the result that is dim `d` of the operand.
std::optional<int64_t> same_dim(const Node& operand, int64_t d, const Node& result) {
  if (operand.rank() == result.rank() && operand.dim(d) == result.dim(d)) return d;
  for (int64_t e = 0; e < result.rank(); ++e)
    if (result.dim(e) == operand.dim(d)) return e;
  if (operand.rank() == result.rank()) return d;
  if (result.is(Opcode::reshape)) return 0;
  return std::nullopt;
}

}  // namespace

TEST_CASE("the survey of what each op sends", "[.survey]") {
  std::puts("| op | split | result whole | result split alike |\n|---|---|---|---|");
  for (const Program& op : kOps) {
    const auto whole = module_of(op);
    std::vector<std::pair<std::string, std::string>> rows;  // splits, what they send
    for (Node* parameter : whole->entry()->parameters())
      for (int64_t d = 0; d < parameter->rank(); ++d) {
        std::string row;
        for (const bool alike : {false, true}) {
          const auto module = whole->clone();
          Node& root = *module->entry()->root();
          const auto e = alike ? same_dim(*parameter, d, root) : std::nullopt;
          module->entry()->parameters().at(static_cast<size_t>(parameter->attrs.index))->sharding =
              split(parameter->rank(), d);
          root.sharding = e ? split(root.rank(), *e) : Sharding::replicated();
          try {
            row += fmt::format(" {} |", alike && !e ? "" : sent(*module));
          } catch (const Error& error) {
            row += fmt::format(" error: {} |", error.what());
          }
        }
        const std::string name = fmt::format("{}.{}", parameter->name(), d);
        const auto same = std::find_if(rows.begin(), rows.end(),
                                       [&](const auto& other) { return other.second == row; });
        if (same == rows.end())
          rows.emplace_back(name, row);
        else
          same->first += ", " + name;
      }
    for (const auto& [splits, row] : rows)
      std::puts(fmt::format("| {} | {} |{}", op.name, splits, row).c_str());
  }
}

}  // namespace survey_test
