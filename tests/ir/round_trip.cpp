#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"

namespace gspmd {
namespace {

std::string reprint(const std::string& text) { return to_text(*parse_module(text)); }

// One instruction `line` (named %r) on parameters a, b: f32[4,8], i: s32[4], s: f32[].
std::string with_line(const std::string& line) {
  return R"(HloModule m

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %z = f32[] add(%x, %y)
}

%less (state: (s32[], f32[4,8])) -> pred[] {
  %state = (s32[], f32[4,8]) parameter(0)
  %n = s32[] get-tuple-element(%state), index=0
  %ten = s32[] constant(10)
  ROOT %go = pred[] compare(%n, %ten), direction=LT
}

%next (state: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  ROOT %state = (s32[], f32[4,8]) parameter(0)
}

ENTRY %main (a: f32[4,8], b: f32[4,8], i: s32[4], s: f32[], t: (s32[], f32[4,8])) -> f32[] {
  %a = f32[4,8] parameter(0)
  %b = f32[4,8] parameter(1)
  %i = s32[4] parameter(2)
  %s = f32[] parameter(3)
  %t = (s32[], f32[4,8]) parameter(4)
  )" + line +
         R"(
  ROOT %result = f32[] negate(%s)
}
)";
}

// The body line of %r after parse and print.
std::string reprint_line(const std::string& line) {
  const std::string text = reprint(with_line(line));
  const size_t begin = text.find("  %r = ") + 2;
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

TEST_CASE("every instruction form prints as it was read") {
  const char* const line = GENERATE(
      "%r = f32[4,8]{1,0:T(8,128)} add(%a, %b)", "%r = f32[4,8] tanh(%a), sharding={replicated}",
      "%r = pred[4,8] compare(%a, %b), direction=GE, type=TOTALORDER",
      "%r = f32[4,8] constant({...})", "%r = s32[4,8] iota(), iota_dimension=1",
      "%r = f32[4,8,3] broadcast(%a), dimensions={0,1}", "%r = f32[3] broadcast(%s), dimensions={}",
      "%r = f32[8,4] transpose(%a), dimensions={1,0}",
      "%r = f32[2,3] slice(%a), slice={[1:3], [0:8:3]}",
      "%r = f32[6,8] pad(%a, %s), padding=1_1x0_0",
      "%r = f32[5,15] pad(%a, %s), padding=-1_2x0_0_1",
      "%r = f32[8,8] concatenate(%a, %b), dimensions={0}",
      "%r = f32[8,8] dot(%a, %b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
      "%r = f32[4] dot(%a, %b), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, "
      "rhs_contracting_dims={1}, operand_precision={highest,default}",
      "%r = f32[4] reduce(%a, %s), dimensions={1}, to_apply=%sum",
      "%r = f32[4,8] gather(%a, %i), offset_dims={1}, collapsed_slice_dims={0}, "
      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}, indices_are_sorted=true",
      "%r = f32[4,8] scatter(%a, %i, %b), update_window_dims={1}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=%sum",
      "%r = (s32[], f32[4,8]) while(%t), condition=%less, body=%next",
      "%r = (s32[], f32[4,8]) while(%t), condition=%less, body=%next, "
      "sharding={{replicated}, {devices=[2,1]<=[2]}}",
      "%r = f32[4,8] get-tuple-element(%t), index=1",
      "%r = f32[4,8] all-reduce(%a), channel_id=1, replica_groups={{0,1},{2,3}}, "
      "use_global_device_ids=true, to_apply=%sum",
      "%r = f32[4,8] all-reduce(%a), replica_groups={}, to_apply=%sum",
      "%r = f32[8,8] all-gather(%a), channel_id=2, replica_groups=[2,2]<=[2,2]T(1,0), "
      "dimensions={0}, use_global_device_ids=true",
      "%r = f32[4,8] collective-permute(%a), channel_id=3, source_target_pairs={{0,1},{1,0}}",
      "%r = f32[4,8] custom-call(%a), custom_call_target=\"Sharding\", "
      "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}, "
      "backend_config=\"unspecified_dims=[1]\"",
      "%r = f32[4,8] copy(%a), frontend_attributes={a=\"x,y\",gspmd.phase=\"backward\"}, "
      "metadata={op_type=\"cp\" op_name=\"jit(f)/\\\"x\\\"\" source_file=\"a.py\" source_line=3 "
      "deduplicated_name=\"q\"}");
  const std::string text = line;
  CHECK(reprint_line(text) == text);
  const std::string once = reprint(with_line(text));
  CHECK(reprint(once) == once);
  CHECK(structurally_equal(*parse_module(with_line(text)), *parse_module(once)));
}

TEST_CASE("literals of every type print as they were read") {
  const auto [type, value] = GENERATE(table<std::string, std::string>({
      {"f32[]", "1"},
      {"f32[]", "-0"},
      {"f32[]", "0.1"},
      {"f32[]", "3.4028235e+38"},
      {"f32[]", "1e-45"},
      {"f32[3]", "{nan, inf, -inf}"},
      {"f64[2]", "{0.1, 1e-300}"},
      {"f16[2]", "{0.5, 65504}"},
      {"bf16[2]", "{1.5, -2}"},
      {"s8[3]", "{-128, 0, 127}"},
      {"u64[1]", "{18446744073709551615}"},
      {"s64[1]", "{-9223372036854775808}"},
      {"pred[2]", "{true, false}"},
      {"c64[2]", "{(1, -2), (0.5, inf)}"},
      {"s32[2,1,2]", "{{{1, 2}}, {{3, 4}}}"},
      {"f32[0,3]", "{}"},
  }));
  const std::string line = "%r = " + type + " constant(" + value + ")";
  CHECK(reprint_line(line) == line);
}

TEST_CASE("literals are read in the forms that other printers write") {
  const auto [type, value, wanted] = GENERATE(table<std::string, std::string, std::string>({
      {"f32[]", "0x1.8p3", "12"},
      {"f32[]", "-0X1p-2", "-0.25"},
      {"f32[]", "+2.50", "2.5"},
      {"f32[]", "nan(0x400000)", "nan"},
      {"f32[]", "1e-60", "0"},
      {"f64[]", "1e-400", "0"},
      {"pred[2]", "{1, 0}", "{true, false}"},
      {"s32[2,2]", "{ /*i0=0*/ {1,2},\n /*i0=1*/ {3,4} }", "{{1, 2}, {3, 4}}"},
      {"f32[2,0]", "{ {}, {} }", "{}"},
  }));
  CHECK(reprint_line("%r = " + type + " constant(" + value + ")") ==
        "%r = " + type + " constant(" + wanted + ")");
}

TEST_CASE("text as JAX prints it: bare names, types at operands, header, tables, later callees") {
  const auto module =
      parse_module(R"(HloModule jit_step, input_output_alias={ {0}: (0, {}, may-alias) },
    entry_computation_layout={(f32[8,16]{1,0}, f32[16]{0})->(f32[8,16]{1,0}, f32[])},
    allow_spmd_sharding_propagation_to_output={true,true}, num_partitions=8

FileNames
1 "model.py"

FunctionNames
1 "loss"

FileLocations
1 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY main.9 {
  Arg_0.1 = f32[8,16]{1,0} parameter(0), sharding={devices=[8,1]0,1,2,3,4,5,6,7} // rows
  Arg_1.2 = f32[16]{0} parameter(1)
  broadcast.3 = f32[8,16]{1,0} broadcast(f32[16]{0} Arg_1.2), dimensions={1}
  add.4 = f32[8,16]{1,0} add(f32[8,16]{1,0} Arg_0.1, f32[8,16]{1,0} broadcast.3), metadata={op_name="jit(step)/add" stack_frame_id=1}
  constant.5 = f32[] constant(0)
  reduce.8 = f32[] reduce(add.4, /*init*/ constant.5), dimensions={0,1}, to_apply=region_0.4
  ROOT tuple.9 = (f32[8,16]{1,0}, /*index=1*/f32[]) tuple(add.4, reduce.8)
}, execution_thread="main"

region_0.4 {
  Arg_0.5 = f32[] parameter(0)
  Arg_1.6 = f32[] parameter(1)
  ROOT add.7 = f32[] add(Arg_0.5, Arg_1.6)
}
)",
                   "step.hlo");
  CHECK(
      to_text(*module) ==
      R"(HloModule jit_step, entry_computation_layout={(f32[8,16]{1,0}, f32[16]{0})->(f32[8,16]{1,0}, f32[])}, allow_spmd_sharding_propagation_to_output={true,true}, input_output_alias={ {0}: (0, {}, may-alias) }, num_partitions=8

%region_0.4 (Arg_0.5: f32[], Arg_1.6: f32[]) -> f32[] {
  %Arg_0.5 = f32[] parameter(0)
  %Arg_1.6 = f32[] parameter(1)
  ROOT %add.7 = f32[] add(%Arg_0.5, %Arg_1.6)
}

ENTRY %main.9 (Arg_0.1: f32[8,16], Arg_1.2: f32[16]) -> (f32[8,16], f32[]) {
  %Arg_0.1 = f32[8,16]{1,0} parameter(0), sharding={devices=[8,1]<=[8]}
  %Arg_1.2 = f32[16]{0} parameter(1)
  %broadcast.3 = f32[8,16]{1,0} broadcast(%Arg_1.2), dimensions={1}
  %add.4 = f32[8,16]{1,0} add(%Arg_0.1, %broadcast.3), metadata={op_name="jit(step)/add" source_file="model.py" source_line=12}
  %constant.5 = f32[] constant(0)
  %reduce.8 = f32[] reduce(%add.4, %constant.5), dimensions={0,1}, to_apply=%region_0.4
  ROOT %tuple.9 = (f32[8,16]{1,0}, f32[]) tuple(%add.4, %reduce.8)
}, execution_thread="main"
)");
}

TEST_CASE("one name in two computations stays as it is") {
  const std::string text = reprint(with_line("%r = f32[] copy(%s)"));
  CHECK(text.find("%state = (s32[], f32[4,8]) parameter(0)") !=
        text.rfind("%state = (s32[], f32[4,8]) parameter(0)"));
}

TEST_CASE("one sharding on a tuple holds for every leaf") {
  CHECK(reprint_line("%r = (s32[], f32[4,8]) opt-barrier(%t), sharding={replicated}") ==
        "%r = (s32[], f32[4,8]) opt-barrier(%t), sharding={{replicated}, {replicated}}");
}

TEST_CASE("the entry layout in the header follows a change of the entry") {
  const auto module = parse_module(R"(HloModule m, entry_computation_layout={(f32[4]{0})->f32[4]{0}}
ENTRY e { ROOT p = f32[4]{0} parameter(0) })");
  module->entry()->root()->shape = Shape(DType::f32, {2});
  CHECK(to_text(*module).substr(0, 72) ==
        "HloModule m, entry_computation_layout={(f32[2])->f32[2]}\n\nENTRY %e (p: f");
}

TEST_CASE("printing may leave out shardings and metadata") {
  const auto module = parse_module(
      "HloModule m\nENTRY e { ROOT p = f32[4] parameter(0), sharding={devices=[2]<=[2]}, "
      "metadata={op_name=\"x\"} }");
  PrintOptions options;
  options.shardings = options.metadata = false;
  CHECK(to_text(*module->entry()->root(), options) == "ROOT %p = f32[4] parameter(0)");
}

TEST_CASE("20,000 instructions and a constant of 200,000 elements read and print at once") {
  std::string text = "HloModule m\nENTRY e {\n  v0 = f32[8] parameter(0)\n";
  for (int i = 1; i < 20000; ++i)
    text += fmt::format("  v{} = f32[8] add(v{}, v{}), metadata={{op_name=\"a/b\"}}\n", i, i - 1,
                        i / 2);
  text += "  c = s32[200000] constant({";
  for (int i = 0; i < 200000; ++i) text += i ? ",1" : "1";
  text += "})\n  ROOT t = (f32[8], s32[200000]) tuple(v19999, c)\n}\n";
  const std::string printed = reprint(text);
  CHECK(std::count(printed.begin(), printed.end(), '\n') == 20006);
}

}  // namespace gspmd
