#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "ir/hlo_lines.h"

namespace gspmd {
namespace {

// An instruction as it is printed, with the types of its operands, and the attributes that are kept
// as text because no field holds them.
struct Form {
  std::string line;
  std::string kept;
};

void check(const Form& form) {
  CAPTURE(form.line);
  const auto module = parse_module(hlo_prelude() + form.line, "form.hlo");
  const Node& node = *module->entry()->root();
  CHECK(to_text(node) == "ROOT " + without_operand_types(form.line));
  std::string kept;
  for (const auto& [name, value] : node.attrs.other) kept += (kept.empty() ? "" : " ") + name;
  CHECK(kept == form.kept);
  const std::string printed = to_text(*module);
  const auto again = parse_module(printed, "printed.hlo");
  CHECK(to_text(*again) == printed);
  CHECK(structurally_equal(*module, *again));
  CHECK(structurally_equal(*module, *module->clone()));
}

void check_all(const std::vector<Form>& forms) {
  for (const Form& form : forms) check(form);
}

}  // namespace

TEST_CASE("instructions without attributes of their own are read and printed") {
  check_all({
      {"%r = f32[4] parameter(0)", ""},
      {"%r = token[] parameter(0)", ""},
      {"%r = opaque[] parameter(0)", ""},
      {"%r = (f32[4], (s32[], token[]), ()) parameter(0)", ""},
      {"%r = s4[3] parameter(0)", ""},
      {"%r = u2[3]{0:E(2)} parameter(0)", ""},
      {"%r = f8e4m3fn[2,2] parameter(0)", ""},
      {"%r = f32[<=4,3] parameter(0)", ""},
      {"%r = (f32[3,<=4]{1,0}, s32[<=2]) parameter(0)", ""},
      {"%r = f32[2,3]{1,0:T(8,128)(2,1)} parameter(0)", ""},
      {"%r = f32[2,3]{0,1:T(8,128)S(5)} parameter(0)", ""},
      {"%r = f32[2,3]{1,0:D(D,C)T(2)} parameter(0)", ""},
      {"%r = f32[2,3]{1,0:T(8)L(1024)#(u32)*(s64)M(4)P((f32[2]{0}))} parameter(0)", ""},
      {"%r = f32[]{:T(128)S(2)} parameter(0)", ""},
      {"%r = () tuple()", ""},
      {"%r = (f32[4], s32[]) tuple(f32[4] %a, s32[] %b)", ""},
      {"%r = f32[4] add(f32[4] %a, f32[4] %b)", ""},
      {"%r = f32[4] add(f32[4] %a.1-x, f32[4] %b_2)", ""},
      {"%r = f32[4] add(f32[4] %a:1, f32[4] %b/c)", ""},
      {"%r = f32[4] select(pred[4] %p, f32[4] %a, f32[4] %b)", ""},
      {"%r = f32[4] clamp(f32[] %l, f32[4] %a, f32[] %h)", ""},
      {"%r = f32[2,2] reshape(f32[4] %a)", ""},
      {"%r = s32[4] bitcast-convert(f32[4] %a)", ""},
      {"%r = bf16[4] convert(f32[4] %a)", ""},
      {"%r = f32[4] tanh(f32[4] %a)", ""},
      {"%r = f32[4] round-nearest-even(f32[4] %a)", ""},
      {"%r = f32[4] opt-barrier(f32[4] %a)", ""},
      {"%r = token[] after-all()", ""},
      {"%r = token[] after-all(token[] %a, token[] %b)", ""},
      {"%r = f32[4] add-dependency(f32[4] %a, token[] %t)", ""},
      {"%r = u32[] partition-id()", ""},
      {"%r = u32[] replica-id()", ""},
      {"%r = f32[4] dynamic-update-slice(f32[4] %a, f32[2] %u, s32[] %i)", ""},
      {"%r = (f32[4], f32[4], u32[]) copy-start(f32[4] %a)", ""},
      {"%r = f32[4] copy-done((f32[4], f32[4], u32[]) %a)", ""},
  });
}

TEST_CASE("attributes of shape and index instructions are fields, printed as read") {
  check_all({
      {"%r = s32[4,8] iota(), iota_dimension=1", ""},
      {"%r = f32[4] get-tuple-element((s32[], f32[4]) %t), index=1", ""},
      {"%r = f32[4] reduce-precision(f32[4] %a), exponent_bits=5, mantissa_bits=10", ""},
      {"%r = f32[4,3] broadcast(f32[4] %a), dimensions={0}", ""},
      {"%r = f32[3] broadcast(f32[] %a), dimensions={}", ""},
      {"%r = f32[3,4] transpose(f32[4,3] %a), dimensions={1,0}", ""},
      {"%r = f32[4,3] reverse(f32[4,3] %a), dimensions={0,1}", ""},
      {"%r = f32[7] concatenate(f32[4] %a, f32[3] %b), dimensions={0}", ""},
      {"%r = f32[6] pad(f32[4] %a, f32[] %z), padding=1_1", ""},
      {"%r = f32[8,2] pad(f32[4,3] %a, f32[] %z), padding=1_0_1x-1_0", ""},
      {"%r = f32[] pad(f32[] %a, f32[] %z), padding=", ""},
      {"%r = f32[2,3] slice(f32[4,8] %a), slice={[1:3], [0:8:3]}", ""},
      {"%r = f32[] slice(f32[] %a), slice={}", ""},
      {"%r = f32[2] dynamic-slice(f32[4] %a, s32[] %i), dynamic_slice_sizes={2}", ""},
      {"%r = f32[2,8] gather(f32[4,8] %a, s32[2,1] %i), offset_dims={1}, collapsed_slice_dims={0}, "
       "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}",
       ""},
      {"%r = f32[2,8] gather(f32[4,8] %a, s32[2,1] %i), offset_dims={1}, collapsed_slice_dims={0}, "
       "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}, indices_are_sorted=true",
       ""},
      {"%r = f32[4,2] gather(f32[4,8] %a, s32[4,2,1] %i), offset_dims={}, "
       "collapsed_slice_dims={1}, "
       "start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
       "index_vector_dim=2, slice_sizes={1,1}",
       ""},
      {"%r = f32[4,8] scatter(f32[4,8] %a, s32[2,1] %i, f32[2,8] %u), update_window_dims={1}, "
       "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
       "to_apply=%sum",
       ""},
      {"%r = f32[4,8] scatter(f32[4,8] %a, s32[4,2,1] %i, f32[4,2] %u), update_window_dims={}, "
       "inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
       "scatter_indices_batching_dims={0}, index_vector_dim=2, indices_are_sorted=true, "
       "unique_indices=true, to_apply=%sum",
       ""},
      {"%r = (f32[4], s32[4]) scatter(f32[4] %a, s32[4] %b, s32[2,1] %i, f32[2] %u, s32[2] %v), "
       "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
       "index_vector_dim=1, to_apply=%argmax",
       ""},
      {"%r = pred[4] compare(f32[4] %a, f32[4] %b), direction=LT", ""},
      {"%r = pred[4] compare(f32[4] %a, f32[4] %b), direction=NE, type=TOTALORDER", ""},
      {"%r = pred[4] compare(s32[4] %a, s32[4] %b), direction=GE, type=SIGNED", ""},
      {"%r = s32[] get-dimension-size(f32[4,8] %a), dimensions={1}", ""},
      {"%r = f32[<=4,8] set-dimension-size(f32[4,8] %a, s32[] %n), dimensions={0}", ""},
  });
}

TEST_CASE("attributes of products and convolutions are fields, printed as read") {
  const std::string dot =
      "%r = f32[4,6] dot(f32[4,5] %a, f32[5,6] %b), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={0}";
  const std::string conv = "convolution(f32[2,8,8,3] %a, f32[3,3,3,16] %k), ";
  check_all({
      {dot, ""},
      {dot + ", algorithm=dot_bf16_bf16_f32_x3", ""},
      {dot + ", operand_precision={highest,default}", "operand_precision"},
      {"%r = f32[2,4,6] dot(f32[2,4,5] %a, f32[2,5,6] %b), lhs_batch_dims={0}, "
       "lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}",
       ""},
      {"%r = f32[4,6] dot(f32[4] %a, f32[6] %b), lhs_contracting_dims={}, "
       "rhs_contracting_dims={}",
       ""},
      {"%r = f32[6,4] ragged-dot(f32[6,5] %a, f32[2,5,4] %b, s32[2] %g), lhs_contracting_dims={1}, "
       "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
       ""},
      {"%r = f32[2,8,8,16] " + conv + "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
       ""},
      {"%r = f32[2,4,4,16] " + conv +
           "window={size=3x3 stride=2x2 pad=0_1x0_1}, dim_labels=b01f_01io->b01f",
       ""},
      {"%r = f32[2,6,6,16] " + conv +
           "window={size=3x3 rhs_reversal=1x1}, dim_labels=b01f_01io->b01f",
       ""},
      {"%r = f32[2,4,4,16] " + conv +
           "window={size=3x3 rhs_dilate=2x2}, dim_labels=b01f_01io->b01f",
       ""},
      {"%r = f32[2,13,13,16] " + conv +
           "window={size=3x3 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f",
       ""},
      {"%r = f32[2,6,6,16] " + conv +
           "window={size=3x3}, dim_labels=b10f_10io->b10f, operand_precision={high,highest}",
       "operand_precision"},
      {"%r = f32[2,4,8,16] " + conv + "window={size=3x3 pad=-1_-1x1_1}, dim_labels=b01f_01io->b01f",
       ""},
      {"%r = f32[1,4,6] convolution(f32[1,4,8] %a, f32[4,1,3] %k), window={size=3}, "
       "dim_labels=bf0_oi0->bf0, feature_group_count=4",
       ""},
      {"%r = f32[2,4,6] convolution(f32[4,1,8] %a, f32[4,1,3] %k), window={size=3}, "
       "dim_labels=bf0_oi0->bf0, batch_group_count=2",
       ""},
      {"%r = f32[4,6] convolution(f32[4,5] %a, f32[5,6] %k), dim_labels=bf_io->bf", ""},
      {"%r = f32[4,5,5,5,2] convolution(f32[4,7,7,7,3] %a, f32[3,3,3,3,2] %k), "
       "window={size=3x3x3}, dim_labels=b012f_012io->b012f",
       ""},
  });
}

TEST_CASE("attributes of reductions, windows and decompositions are fields, printed as read") {
  check_all({
      {"%r = f32[4] reduce(f32[4,8] %a, f32[] %z), dimensions={1}, to_apply=%sum", ""},
      {"%r = (f32[4], s32[4]) reduce(f32[4,8] %a, s32[4,8] %b, f32[] %z, s32[] %y), "
       "dimensions={1}, to_apply=%argmax",
       ""},
      {"%r = f32[3] reduce-window(f32[4] %a, f32[] %z), window={size=2}, to_apply=%sum", ""},
      {"%r = f32[2,4] reduce-window(f32[4,8] %a, f32[] %z), window={size=3x2 stride=2x2 "
       "pad=0_1x0_0}, "
       "to_apply=%sum",
       ""},
      {"%r = f32[] reduce-window(f32[] %a, f32[] %z), to_apply=%sum", ""},
      {"%r = f32[4] select-and-scatter(f32[4] %a, f32[2] %s, f32[] %z), window={size=2 stride=2}, "
       "select=%less2, scatter=%sum",
       ""},
      {"%r = f32[4,4] cholesky(f32[4,4] %a), lower=true", ""},
      {"%r = f32[4,4] cholesky(f32[4,4] %a)", ""},
      {"%r = f32[4,2] triangular-solve(f32[4,4] %a, f32[4,2] %b), left_side=true, lower=true, "
       "unit_diagonal=true, transpose_a=NO_TRANSPOSE",
       ""},
      {"%r = f32[2,4] triangular-solve(f32[4,4] %a, f32[2,4] %b), transpose_a=ADJOINT", ""},
      {"%r = c64[4,8] fft(c64[4,8] %a), fft_type=FFT, fft_length={8}", ""},
      {"%r = c64[4,5] fft(f32[4,8] %a), fft_type=RFFT, fft_length={8}", ""},
      {"%r = f32[4,8] fft(c64[4,5] %a), fft_type=IRFFT, fft_length={8}", ""},
      {"%r = (f32[2,3], f32[3], f32[3]) batch-norm-training(f32[2,3] %a, f32[3] %s, f32[3] %o), "
       "epsilon=0.001, feature_index=1",
       ""},
      {"%r = f32[2,3] batch-norm-inference(f32[2,3] %a, f32[3] %s, f32[3] %o, f32[3] %m, f32[3] "
       "%v), "
       "epsilon=1e-05, feature_index=1",
       ""},
      {"%r = (f32[2,3], f32[3], f32[3]) batch-norm-grad(f32[2,3] %a, f32[3] %s, f32[3] %m, f32[3] "
       "%v, "
       "f32[2,3] %g), epsilon=0, feature_index=1",
       ""},
  });
}

TEST_CASE("attributes of sorts, scans and random numbers are fields, printed as read") {
  check_all({
      {"%r = f32[4] sort(f32[4] %a), dimensions={0}, to_apply=%less2", ""},
      {"%r = f32[4] sort(f32[4] %a), dimensions={0}, is_stable=true, to_apply=%less2", ""},
      {"%r = (f32[4], s32[4]) sort(f32[4] %a, s32[4] %b), dimensions={0}, to_apply=%less4", ""},
      {"%r = (f32[2,3], s32[2,3]) topk(f32[2,8] %a), k=3, largest=true", ""},
      {"%r = (f32[2,3], s32[2,3]) topk(f32[2,8] %a), k=3, largest=false", ""},
      {"%r = (f32[4], f32[]) scan(f32[4] %a, f32[] %i), dimensions={0}, num_carries=1, "
       "to_apply=%step",
       ""},
      {"%r = (f32[4], f32[]) scan(f32[4] %a, f32[] %i), dimensions={0}, is_reverse=true, "
       "is_associative=false, num_carries=1, to_apply=%step",
       ""},
      {"%r = (f32[4], f32[]) scan(f32[4] %a, f32[] %i), dimensions={0}, is_associative=true, "
       "num_carries=1, to_apply=%step",
       ""},
      {"%r = f32[4] rng(f32[] %a, f32[] %b), distribution=rng_uniform", ""},
      {"%r = f32[4] rng(f32[] %a, f32[] %b), distribution=rng_normal", ""},
      {"%r = (u64[2], u32[4]) rng-bit-generator(u64[2] %a), algorithm=rng_three_fry", ""},
      {"%r = (u64[3], u32[4]) rng-bit-generator(u64[3] %a), algorithm=rng_philox", ""},
      {"%r = (u64[2], u32[4]) rng-bit-generator(u64[2] %a), algorithm=rng_default", ""},
      {"%r = u64[2] rng-get-and-update-state(), delta=4096", ""},
      {"%r = f32[4] map(f32[4] %a), dimensions={0}, to_apply=%square", ""},
      {"%r = f32[] map(f32[] %a), to_apply=%square", ""},
  });
}

TEST_CASE("calls of every kind name their computations as read") {
  check_all({
      {"%r = f32[4] call(f32[4] %a), to_apply=%neg", ""},
      {"%r = f32[4] call(f32[4] %a), to_apply=%neg, is_composite=true", "is_composite"},
      {"%r = f32[4] fusion(f32[4] %a), kind=kLoop, calls=%neg", ""},
      {"%r = f32[4] fusion(f32[4] %a), kind=kCustom, calls=%neg, "
       "backend_config={\"fusion\":{\"kind\":\"__x\"}}, output_to_operand_aliasing={{}: (0, {})}",
       "backend_config output_to_operand_aliasing"},
      {"%r = (s32[], f32[4]) while((s32[], f32[4]) %t), condition=%below, body=%next", ""},
      {"%r = (s32[], f32[4]) while((s32[], f32[4]) %t), condition=%below, body=%next, "
       "backend_config={\"known_trip_count\":{\"n\":\"10\"}}",
       "backend_config"},
      {"%r = f32[4] conditional(pred[] %p, f32[4] %a, f32[4] %b), true_computation=%neg, "
       "false_computation=%same",
       ""},
      {"%r = f32[4] conditional(s32[] %i, f32[4] %a, f32[4] %b, f32[4] %c), "
       "branch_computations={%neg, %same, %neg}",
       ""},
      {"%r = f32[4] conditional(s32[] %i, f32[4] %a), branch_computations={%neg}", ""},
      {"%r = f32[4] custom-call(f32[4] %a), custom_call_target=\"f\"", ""},
      {"%r = f32[4] custom-call(f32[4] %a), custom_call_target=\"a\\\"b\\\\c\"", ""},
      {"%r = f32[4] custom-call(f32[4] %a), custom_call_target=\"f\", called_computations={%neg}",
       ""},
      {"%r = f32[4] custom-call(f32[4] %a), custom_call_target=\"f\", "
       "called_computations={%neg, %same}",
       ""},
      {"%r = f32[2,8,8,16] custom-call(f32[2,8,8,3] %a, f32[3,3,3,16] %k), "
       "custom_call_target=\"conv\", window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, "
       "feature_group_count=2",
       ""},
      {"%r = f32[4] custom-call(f32[4] %a), custom_call_target=\"f\", "
       "api_version=API_VERSION_TYPED_FFI, backend_config=\"x=1, y={\", "
       "custom_call_has_side_effect=true, literal=f32[2] {1, 2}, "
       "operand_layout_constraints={f32[4]{0}}, output_to_operand_aliasing={{}: (0, {})}, "
       "padding_type=PADDING_SAME, schedule=SCHEDULE_LATEST",
       "api_version backend_config custom_call_has_side_effect literal operand_layout_constraints "
       "output_to_operand_aliasing padding_type schedule"},
      {"%r = ((f32[4]), f32[4], u32[]) async-start(f32[4] %a), calls=%neg, "
       "async_execution_thread=\"side\"",
       "async_execution_thread"},
      {"%r = ((f32[4]), f32[4], u32[]) async-update(((f32[4]), f32[4], u32[]) %a)", ""},
      {"%r = f32[4] async-done(((f32[4]), f32[4], u32[]) %a)", ""},
      {"%r = f32[4] async-done(((f32[4]), f32[4], u32[]) %a), calls=%neg", ""},
  });
}

TEST_CASE("attributes of collectives and transfers are fields, printed as read") {
  check_all({
      {"%r = f32[4] all-reduce(f32[4] %a), replica_groups={}, to_apply=%sum", ""},
      {"%r = f32[4] all-reduce(f32[4] %a), channel_id=7, replica_groups={{0,1},{2,3}}, "
       "use_global_device_ids=true, to_apply=%sum",
       ""},
      {"%r = f32[4] all-reduce(f32[4] %a), replica_groups=[2,4]<=[4,2]T(1,0), to_apply=%sum", ""},
      {"%r = f32[4] all-reduce(f32[4] %a), replica_groups={{0},{1,2}}, to_apply=%sum", ""},
      {"%r = (f32[4], f32[2]) all-reduce(f32[4] %a, f32[2] %b), replica_groups={}, to_apply=%sum",
       ""},
      {"%r = f32[4] all-reduce-start(f32[4] %a), channel_id=1, replica_groups=[1,4]<=[4], "
       "use_global_device_ids=true, to_apply=%sum",
       ""},
      {"%r = f32[4] all-reduce-done(f32[4] %a)", ""},
      {"%r = f32[8] all-gather(f32[4] %a), channel_id=1, replica_groups=[1,2]<=[2], "
       "dimensions={0}, "
       "use_global_device_ids=true",
       ""},
      {"%r = f32[8] all-gather(f32[4] %a), replica_groups={{0,1}}, dimensions={0}, "
       "constrain_layout=true",
       "constrain_layout"},
      {"%r = (f32[4], f32[8]) all-gather-start(f32[4] %a), channel_id=1, "
       "replica_groups=[1,2]<=[2], "
       "dimensions={0}",
       ""},
      {"%r = f32[8] all-gather-done((f32[4], f32[8]) %a)", ""},
      {"%r = f32[2] reduce-scatter(f32[4] %a), replica_groups={{0,1}}, dimensions={0}, "
       "to_apply=%sum",
       ""},
      {"%r = f32[4] all-to-all(f32[4] %a), replica_groups={{0,1}}, dimensions={0}", ""},
      {"%r = (f32[4], f32[4]) all-to-all(f32[4] %a, f32[4] %b), channel_id=2, "
       "replica_groups={{0,1}}",
       ""},
      {"%r = f32[4] collective-permute(f32[4] %a), channel_id=3, source_target_pairs={{0,1},{1,0}}",
       ""},
      {"%r = (f32[4], f32[4], u32[], u32[]) collective-permute-start(f32[4] %a), channel_id=3, "
       "source_target_pairs={{0,1}}",
       ""},
      {"%r = f32[4] collective-permute-done((f32[4], f32[4], u32[], u32[]) %a)", ""},
      {"%r = f32[4] collective-broadcast(f32[4] %a), channel_id=1, replica_groups={{2,0,1}}", ""},
      {"%r = f32[4] ragged-all-to-all(f32[4] %a, f32[4] %o, s32[2] %i, s32[2] %s, s32[2] %j, "
       "s32[2] %t), channel_id=1, replica_groups={{0,1}}",
       ""},
      {"%r = (f32[4], token[]) infeed(token[] %t)", ""},
      {"%r = (f32[4], token[]) infeed(token[] %t), infeed_config=\"c\"", "infeed_config"},
      {"%r = token[] outfeed(f32[4] %a, token[] %t), outfeed_config=\"c\\001\", "
       "outfeed_shape=f32[4]{0}",
       "outfeed_config outfeed_shape"},
      {"%r = token[] outfeed(f32[4] %a, token[] %t), sharding={{devices=[2]<=[2]}, {maximal "
       "device=0}}",
       ""},
      {"%r = token[] outfeed((f32[4], s32[]) %a, token[] %t), sharding={{replicated}, "
       "{replicated}, "
       "{maximal device=0}}",
       ""},
      {"%r = token[] outfeed(f32[4] %a, token[] %t), sharding={maximal device=0}", ""},
      {"%r = (f32[4], u32[], token[]) send(f32[4] %a, token[] %t), channel_id=15", ""},
      {"%r = (f32[4], u32[], token[]) send(f32[4] %a, token[] %t), channel_id=15, "
       "is_host_transfer=true",
       "is_host_transfer"},
      {"%r = token[] send-done((f32[4], u32[], token[]) %s), channel_id=15", ""},
      {"%r = (f32[4], u32[], token[]) recv(token[] %t), channel_id=15", ""},
      {"%r = (f32[4], token[]) recv-done((f32[4], u32[], token[]) %s), channel_id=15", ""},
  });
}

TEST_CASE("annotations of any instruction are printed as read") {
  const std::string copy = "%r = f32[4] copy(f32[4] %a), ";
  check_all({
      {copy + "sharding={replicated}", ""},
      {copy + "sharding={manual}", ""},
      {copy + "sharding={unknown}", ""},
      {copy + "sharding={maximal device=1}", ""},
      {copy + "sharding={devices=[2]<=[2]}", ""},
      {copy + "sharding={devices=[2]1,0}", ""},
      {copy + "sharding={devices=[2,2]<=[4] last_tile_dim_replicate}", ""},
      {copy + "sharding={devices=[1,2,2]<=[4] last_tile_dims={manual, replicated}}", ""},
      {copy + "sharding={mesh['x'=2,'y'=2], [{'x'}]}", ""},
      {"%r = (f32[4], s32[]) parameter(0), sharding={{devices=[2]<=[2]}, {replicated}}", ""},
      {copy + "frontend_attributes={a=\"b\",c=\"d,e}\"}", ""},
      {copy + "metadata={op_type=\"add\" op_name=\"x/y\" source_file=\"f.py\" source_line=3}", ""},
      {copy + "metadata={op_name=\"x\" profile_type={1} size_of_generated_code_in_bytes=3}", ""},
      {copy + "original_value={{\"v\" {0}}}", "original_value"},
      {copy + "statistics={visualizing_index=1,count=1.5}", "statistics"},
      {copy + "outer_dimension_partitions={0,2}", "outer_dimension_partitions"},
      {copy + "result_accuracy={tolerance={atol=0.1,rtol=0,ulps=2}}", "result_accuracy"},
      {copy + "backend_config={\"a\":[1,{\"b\":\"}\"}]}", "backend_config"},
      {"%r = f32[4] parameter(0), parameter_replication={true,false}", "parameter_replication"},
      {"%r = f32[4] domain(f32[4] %a), domain={kind=\"sharding\", entry={maximal device=0}, "
       "exit={maximal device=1}}",
       "domain"},
  });
}

TEST_CASE("literals of every element type are printed as read") {
  const auto [type, value] = GENERATE(table<std::string, std::string>({
      {"s4[4]", "{-8, -1, 0, 7}"},
      {"u4[2]", "{0, 15}"},
      {"s2[2]", "{-2, 1}"},
      {"u2[2]", "{0, 3}"},
      {"u1[2]", "{0, 1}"},
      {"f8e4m3fn[4]", "{448, -0.5, nan, 0.001953125}"},
      {"f8e5m2[4]", "{57344, -inf, inf, -0}"},
      {"f8e4m3[2]", "{240, -inf}"},
      {"f8e3m4[2]", "{15.5, 0.25}"},
      {"f8e4m3fnuz[2]", "{240, nan}"},
      {"f8e5m2fnuz[2]", "{57344, nan}"},
      {"f8e4m3b11fnuz[2]", "{30, nan}"},
      {"f8e8m0fnu[3]", "{1, 2, nan}"},
      {"f4e2m1fn[3]", "{6, -1.5, 0}"},
      {"f6e2m3fn[3]", "{7.5, -0.125, 0}"},
      {"f6e3m2fn[3]", "{28, -0.0625, 0}"},
      {"f32[3]", "{nan(0x1), -nan(0x7fffff), -nan}"},
      {"f64[2]", "{nan(0x8000000000001), -nan}"},
      {"f16[2]", "{nan(0x3ff), 5.9604645e-08}"},
      {"bf16[2]", "{-nan(0x1), 3.3895314e+38}"},
      {"c64[2]", "{(nan(0x1), -0), (-inf, 1e-45)}"},
      {"c128[1,1]", "{{(0.1, 1e+300)}}"},
      {"pred[2,2]", "{{true, false}, {false, true}}"},
      {"s64[2]", "{-9223372036854775808, 9223372036854775807}"},
      {"u64[]", "18446744073709551615"},
      {"f32[2,0,3]", "{}"},
      {"s4[0]", "{}"},
  }));
  check({"%r = " + type + " constant(" + value + ")", ""});
}

}  // namespace gspmd
