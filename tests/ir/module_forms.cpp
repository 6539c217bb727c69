#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "ir/hlo_lines.h"

namespace gspmd {
namespace {

// The text of `source`; checks that it is a fixed point and reads as an equal module.
std::string settle(const std::string& source) {
  const auto module = parse_module(source, "m.hlo");
  const std::string printed = to_text(*module);
  const auto again = parse_module(printed, "printed.hlo");
  CHECK(to_text(*again) == printed);
  CHECK(structurally_equal(*module, *again));
  CHECK(to_text(*module->clone()) == printed);
  return printed;
}

// The instructions of the entry, without the lines around them.
std::string settle_entry(const std::string& source) {
  const std::string printed = settle(source);
  const size_t entry = printed.find("ENTRY");
  const size_t begin = printed.find("{\n", entry) + 2;
  return printed.substr(begin, printed.rfind("\n}") - begin);
}

}  // namespace

TEST_CASE("attributes are read in the forms and orders that other printers write") {
  const auto [written, wanted] = GENERATE(table<std::string, std::string>({
      // Any order, no blanks, comments between.
      {"%r=pred[4] compare(f32[4] %a,f32[4] %b),type=FLOAT,/*c*/direction=EQ",
       "%r = pred[4] compare(%a, %b), direction=EQ, type=FLOAT"},
      {"%r = f32[4] negate(f32[4]{0} %a), metadata={op_name=\"x\"}, sharding={replicated}",
       "%r = f32[4] negate(%a), sharding={replicated}, metadata={op_name=\"x\"}"},
      {"r = f32[4] negate(f32[4] a) // why", "%r = f32[4] negate(%a)"},
      {"f32[4] negate(f32[4])", "%result = f32[4] negate(%arg0)"},
      {"(f32[4], f32[2]) tuple(f32[4], f32[2] %x)", "%result = (f32[4], f32[2]) tuple(%arg0, %x)"},
      {"%r = abs(f32[4] %a)", "%r = f32[4] abs(%a)"},
      {"%r = compare(s32[4] %a, s32[4] %b), direction=LE",
       "%r = pred[4] compare(%a, %b), direction=LE"},
      {"%r = (f32[4], s32[]) tuple(f32[4] %a, s32[] %b), sharding={replicated}",
       "%r = (f32[4], s32[]) tuple(%a, %b), sharding={{replicated}, {replicated}}"},
      {"%r = tuple(f32[4] %a), sharding={{devices=[2]<=[2]}}",
       "%r = (f32[4]) tuple(%a), sharding={{devices=[2]<=[2]}}"},
      {"%r = f32[4] broadcast(f32[] %a)", "%r = f32[4] broadcast(%a), dimensions={}"},
      {"%r = f32[2] slice(f32[4] %a), slice={[0:4:2]}", "%r = f32[2] slice(%a), slice={[0:4:2]}"},
      {"%r = f32[2] slice(f32[4] %a), slice={[0:2:1]}", "%r = f32[2] slice(%a), slice={[0:2]}"},
      {"%r = f32[4] pad(f32[4] %a, f32[] %z), padding=0_0_0",
       "%r = f32[4] pad(%a, %z), padding=0_0"},
      // Windows: fields in any order, defaults not printed.
      {"%r = f32[3] reduce-window(f32[4] %a, f32[] %z), window={pad=0_0 rhs_dilate=1 size=2 "
       "stride=1}, "
       "to_apply=%sum",
       "%r = f32[3] reduce-window(%a, %z), window={size=2}, to_apply=%sum"},
      // Groups: no groups in four ways; a mesh by its axes.
      {"%r = f32[4] all-reduce(f32[4] %a), to_apply=%sum",
       "%r = f32[4] all-reduce(%a), replica_groups={}, to_apply=%sum"},
      {"%r = f32[4] all-reduce(f32[4] %a), replica_groups={{}}, to_apply=%sum",
       "%r = f32[4] all-reduce(%a), replica_groups={}, to_apply=%sum"},
      {"%r = f32[4] all-reduce(f32[4] %a), replica_groups=mesh['x'=2,'y'=3] {'y'}, to_apply=%sum",
       "%r = f32[4] all-reduce(%a), replica_groups=[2,3]<=[6], to_apply=%sum"},
      {"%r = f32[4] all-reduce(f32[4] %a), replica_groups=mesh['x'=2,'y'=3]{'x'}, to_apply=%sum",
       "%r = f32[4] all-reduce(%a), replica_groups=[3,2]<=[2,3]T(1,0), to_apply=%sum"},
      {"%r = f32[4] all-reduce(f32[4] %a), replica_groups=mesh['x'=2,'y'=2] {'y','x'}, "
       "to_apply=%sum",
       "%r = f32[4] all-reduce(%a), replica_groups=[1,4]<=[2,2]T(1,0), to_apply=%sum"},
      {"%r = f32[4] all-reduce(f32[4] %a), replica_groups=mesh['x'=8] {'x':(2)2}, to_apply=%sum",
       "%r = f32[4] all-reduce(%a), replica_groups=[4,2]<=[2,2,2]T(0,2,1), to_apply=%sum"},
      {"%r = f32[4] all-reduce(f32[4] %a), replica_groups=mesh['x'=2,'y'=3] {}, to_apply=%sum",
       "%r = f32[4] all-reduce(%a), replica_groups=[6,1]<=[6], to_apply=%sum"},
      {"%r = f32[4] all-reduce(f32[4] %a), replica_groups=mesh['x'=2,'y'=2], device_ids=([4]T(0)) "
       "{'x'}, to_apply=%sum",
       "%r = f32[4] all-reduce(%a), replica_groups=[2,2]<=[2,2]T(1,0), to_apply=%sum"},
      // Computations: in lists, in blocks.
      {"%r = f32[4] conditional(pred[] %p, f32[4] %a, f32[4] %b), branch_computations={%neg, "
       "%same}",
       "%r = f32[4] conditional(%p, %a, %b), true_computation=%neg, false_computation=%same"},
      {"%r = f32[4] custom-call(f32[4] %a), custom_call_target=\"f\", to_apply=%neg",
       "%r = f32[4] custom-call(%a), custom_call_target=\"f\", called_computations={%neg}"},
      {"%r = f32[4] fusion(f32[4] %a), kind=kLoop, calls={%neg}",
       "%r = f32[4] fusion(%a), kind=kLoop, calls=%neg"},
      {"%r = f32[4] call(f32[4] %a), to_apply={ROOT %p = f32[4] parameter(0)}",
       "%r = f32[4] call(%a), to_apply=%r.called"},
      {"%r = f32[4] conditional(s32[] %i, f32[4] %a, f32[4] %b), branch_computations={{%p = f32[4] "
       "parameter(0)}, %neg}",
       "%r = f32[4] conditional(%i, %a, %b), branch_computations={%r.called, %neg}"},
      // Raw values end with their line.
      {"%r = f32[4] custom-call(f32[4] %a), custom_call_target=\"f\", x=a /*b*/ {c /*d*/ , e}, y=1",
       "%r = f32[4] custom-call(%a), custom_call_target=\"f\", x=a {c , e}, y=1"},
      {"%r = f32[4] custom-call(f32[4] %a), custom_call_target=\"f\", x=\"/*kept*/  \"",
       "%r = f32[4] custom-call(%a), custom_call_target=\"f\", x=\"/*kept*/  \""},
      {"%r = f32[4] negate(f32[4] %a), frontend_attributes={a={\"x\":1},b=c}",
       "%r = f32[4] negate(%a), frontend_attributes={a=\"{\\\"x\\\":1}\",b=\"c\"}"},
  }));
  CAPTURE(written);
  const std::string entry = settle_entry(hlo_prelude() + written);
  CHECK(entry.substr(entry.find("  ROOT ")) == "  ROOT " + wanted);
}

TEST_CASE("literals are read with types before them, in tuples, and in other spellings") {
  const auto [written, wanted] = GENERATE(table<std::string, std::string>({
      {"f32[2] constant(f32[2] {1,2})", "  ROOT %c = f32[2] constant({1, 2})"},
      {"constant(s32[] 7)", "  ROOT %c = s32[] constant(7)"},
      {"c64[] constant(c64[] (1, 2))", "  ROOT %c = c64[] constant((1, 2))"},
      {"c64[2] constant({1, (2, 3)})", "  ROOT %c = c64[2] constant({(1, 0), (2, 3)})"},
      {"u8[2] constant({0xff, true})", "  ROOT %c = u8[2] constant({255, 1})"},
      {"bf16[] constant(1.00390625)", "  ROOT %c = bf16[] constant(1)"},
      // Above the middle of two f16 values by less than a float can say: rounded once, not twice.
      {"f16[] constant(1.000488281250001)", "  ROOT %c = f16[] constant(1.0009766)"},
      {"f8e4m3fn[] constant(1.07)", "  ROOT %c = f8e4m3fn[] constant(1.125)"},
      {"f32[] constant(true)", "  ROOT %c = f32[] constant(1)"},
      {"(s32[], (f32[2], pred[])) constant((7, ({1, nan}, true)))",
       "  %c.element = s32[] constant(7)\n"
       "  %c.element.2 = f32[2] constant({1, nan})\n"
       "  %c.element.3 = pred[] constant(true)\n"
       "  %c.element.1 = (f32[2], pred[]) tuple(%c.element.2, %c.element.3)\n"
       "  ROOT %c = (s32[], (f32[2], pred[])) tuple(%c.element, %c.element.1)"},
      {"(s32[], f32[]) constant((s32[] 1, f32[] 2))",
       "  %c.element = s32[] constant(1)\n  %c.element.1 = f32[] constant(2)\n"
       "  ROOT %c = (s32[], f32[]) tuple(%c.element, %c.element.1)"},
      {"(c64[], s32[]) constant((c64[], s32[]) ((1, 2), 3))",
       "  %c.element = c64[] constant((1, 2))\n  %c.element.1 = s32[] constant(3)\n"
       "  ROOT %c = (c64[], s32[]) tuple(%c.element, %c.element.1)"},
      {"() constant(())", "  ROOT %c = () tuple()"},
  }));
  CHECK(settle_entry("HloModule m\nENTRY e {\n  ROOT c = " + written + "\n}\n") == wanted);
}

TEST_CASE("start indices given as one vector are taken out of it") {
  CHECK(
      settle_entry(
          "%d = f32[2,1] dynamic-slice(f32[4,8] %a, s32[2] %i), dynamic_slice_sizes={2,1}") ==
      "  %a = f32[4,8] parameter(0)\n  %i = s32[2] parameter(1)\n"
      "  %d.start = s32[1] slice(%i), slice={[0:1]}\n"
      "  %d.start.1 = s32[] reshape(%d.start)\n"
      "  %d.start.2 = s32[1] slice(%i), slice={[1:2]}\n"
      "  %d.start.3 = s32[] reshape(%d.start.2)\n"
      "  ROOT %d = f32[2,1] dynamic-slice(%a, %d.start.1, %d.start.3), dynamic_slice_sizes={2,1}");
  CHECK_THAT(settle_entry("%d = f32[4] dynamic-update-slice(f32[4] %a, f32[2] %u, s32[1] %i)"),
             Catch::Contains("ROOT %d = f32[4] dynamic-update-slice(%a, %u, %d.start.1)"));
}

TEST_CASE(
    "floats of several precisions are converted to the widest, the result to what is declared") {
  CHECK(settle_entry("%r = f32[4] add(bf16[4] %a, f32[4] %b), sharding={devices=[2]<=[2]}") ==
        "  %a = bf16[4] parameter(0)\n  %b = f32[4] parameter(1)\n"
        "  %r.wide = f32[4] convert(%a)\n"
        "  ROOT %r = f32[4] add(%r.wide, %b), sharding={devices=[2]<=[2]}");
  CHECK(settle_entry("%r = bf16[4] select(pred[4] %p, bf16[4] %a, f16[4] %b)") ==
        "  %p = pred[4] parameter(0)\n  %a = bf16[4] parameter(1)\n  %b = f16[4] parameter(2)\n"
        "  %r.wide = f32[4] convert(%a)\n  %r.wide.1 = f32[4] convert(%b)\n"
        "  %r.wide.2 = f32[4] select(%p, %r.wide, %r.wide.1)\n"
        "  ROOT %r = bf16[4] convert(%r.wide.2)");
  CHECK_THAT(settle_entry("%r = compare(bf16[4] %a, f32[4] %b), direction=LT"),
             Catch::Contains("ROOT %r = pred[4] compare(%r.wide, %b), direction=LT"));
  CHECK_THROWS_WITH(parse_module("%r = f32[4] add(s32[4] %a, f32[4] %b)"),
                    Catch::Contains("differ in element type"));
  CHECK_THROWS_WITH(parse_module("%r = f32[4] add(bf16[2] %a, f32[4] %b)"),
                    Catch::Contains("differ in dims"));
}

TEST_CASE("a name in the text wins over one made for an element of a tuple constant") {
  CHECK(settle_entry("HloModule m\nENTRY e {\n  c = (s32[]) constant((1))\n"
                     "  c.element = s32[] constant(2)\n  ROOT t = ((s32[]), s32[]) tuple(c, "
                     "c.element)\n}") ==
        "  %c.element_ = s32[] constant(1)\n  %c = (s32[]) tuple(%c.element_)\n"
        "  %c.element = s32[] constant(2)\n  ROOT %t = ((s32[]), s32[]) tuple(%c, %c.element)");
}

TEST_CASE("instructions may stand above their operands, in any order") {
  CHECK(settle_entry(R"(HloModule m
ENTRY e {
  ROOT t = (f32[2], f32[2]) tuple(c, b)
  c = f32[2] add(a, b), control-predecessors={d, a}
  b = f32[2] negate(f32[2] a), sharding={devices=[2]<=[2]}
  d = get-tuple-element(t), index=0
  a = f32[2] parameter(0)
})") == "  %a = f32[2] parameter(0)\n"
        "  %b = f32[2] negate(%a), sharding={devices=[2]<=[2]}\n"
        "  %c = f32[2] add(%a, %b), control-predecessors={%d, %a}\n"
        "  ROOT %t = (f32[2], f32[2]) tuple(%c, %b)\n"
        "  %d = f32[2] get-tuple-element(%t), index=0");
}

TEST_CASE("control predecessors that a pass removed are not printed") {
  const auto module = parse_module(R"(HloModule m
ENTRY e {
  a = f32[2] parameter(0)
  gone = f32[2] negate(a)
  ROOT c = f32[2] add(a, a), control-predecessors={gone, a}
})");
  module->entry()->remove_dead();
  CHECK(to_text(*module->entry()->root()) ==
        "ROOT %c = f32[2] add(%a, %a), control-predecessors={%a}");
}

TEST_CASE("asynchronous starts of one instruction are starts of a computation of it") {
  CHECK(settle(R"(HloModule m
%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %z = f32[] add(%x, %y)
}
ENTRY %e (a: f32[4]) -> f32[2] {
  %a = f32[4] parameter(0)
  %s = ((f32[4]), f32[2], u32[]) reduce-scatter-start(%a), dimensions={0}, replica_groups={{0,1}}, to_apply=%sum, async_execution_thread="side", metadata={op_name="x"}
  %u = ((f32[4]), f32[2], u32[]) reduce-scatter-update(%s)
  ROOT %d = f32[2] reduce-scatter-done(%u)
})") == R"(HloModule m

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %z = f32[] add(%x, %y)
}

%async_reduce-scatter (param_0: f32[4]) -> f32[2] {
  %param_0 = f32[4] parameter(0)
  ROOT %reduce-scatter = f32[2] reduce-scatter(%param_0), replica_groups={{0,1}}, dimensions={0}, to_apply=%sum
}, execution_thread="side"

ENTRY %e (a: f32[4]) -> f32[2] {
  %a = f32[4] parameter(0)
  %s = ((f32[4]), f32[2], u32[]) async-start(%a), calls=%async_reduce-scatter, async_execution_thread="side", metadata={op_name="x"}
  %u = ((f32[4]), f32[2], u32[]) async-update(%s)
  ROOT %d = f32[2] async-done(%u)
}
)");
}

TEST_CASE("the header keeps every attribute; aliases have a long and a short form") {
  CHECK(
      settle(R"(HloModule m.1-x, is_scheduled=true, alias_passthrough_params=true,
  input_output_alias={ {0}: (0, {}, must-alias), {1}: 1 }, buffer_donor={ (2, {}),
  (2, {0}) }, entry_computation_layout={(f32[2]{0}, f32[],(f32[3]{0}))->(f32[2]{0}, f32[])},
  allow_spmd_sharding_propagation_to_parameters={false,true,true}, replica_count=4,
  num_partitions=2, frontend_attributes={a="1"}, device_assignment="AA=="
ENTRY e {
  p = f32[2]{0} parameter(0)
  q = f32[] parameter(1)
  s = (f32[3]{0}) parameter(2)
  ROOT t = (f32[2]{0}, f32[]) tuple(p, q)
}, execution_thread="main", x={1, 2})") ==
      R"(HloModule m.1-x, is_scheduled=true, alias_passthrough_params=true, buffer_donor={ (2, {}), (2, {0}) }, entry_computation_layout={(f32[2]{0}, f32[],(f32[3]{0}))->(f32[2]{0}, f32[])}, allow_spmd_sharding_propagation_to_parameters={false,true,true}, device_assignment="AA==", input_output_alias={ {0}: (0, {}, must-alias), {1}: (1, {}, may-alias) }, replica_count=4, num_partitions=2, frontend_attributes={a="1"}

ENTRY %e (p: f32[2], q: f32[], s: (f32[3])) -> (f32[2], f32[]) {
  %p = f32[2]{0} parameter(0)
  %q = f32[] parameter(1)
  %s = (f32[3]{0}) parameter(2)
  ROOT %t = (f32[2]{0}, f32[]) tuple(%p, %q)
}, execution_thread="main", x={1, 2}
)");
}

TEST_CASE("modules without a header, an ENTRY, names, or computations are read") {
  const auto [text, entry] = GENERATE(table<std::string, std::string>({
      {"ENTRY e { ROOT p = f32[] parameter(0) }", "e"},
      {"ENTRY { ROOT p = f32[] parameter(0) }", "entry"},
      {"ENTRY (p: f32[]) -> f32[] { ROOT p = f32[] parameter(0) }", "entry"},
      {"%f (p: f32[]) -> f32[] { ROOT %p = f32[] parameter(0) }", "f"},
      {"%f (%p:f32[]) -> f32[]{ ROOT %p = f32[] parameter(0) }", "f"},
      {"HloModule m f { p = f32[] parameter(0) } g { p = f32[] parameter(0) }", "g"},
      {"HloModule m f { p = f32[] call(), to_apply=g } g { p = f32[] constant(0) }", "f"},
      {"HloModule m\nROOT foo = f32[10] parameter(0)", "entry"},
      {"a = f32[10] parameter(0)\nROOT b = f32[10] negate(a)\nc = f32[10] copy(b)", "entry"},
  }));
  CAPTURE(text);
  const std::string printed = settle(text);
  CHECK_THAT(printed, Catch::Contains("ENTRY %" + entry + " ("));
}

TEST_CASE("inline computations nest, and a computation may be defined below its caller") {
  CHECK(settle(R"(f32[2] while(f32[2]), condition={
  x = f32[2] parameter(0)
  ROOT y = pred[] call(x), to_apply={ x = f32[2] parameter(0) ROOT y = pred[] constant(true) }
}, body={ ROOT x = f32[2] parameter(0) })") == R"(HloModule module

%y.called (x: f32[2]) -> pred[] {
  %x = f32[2] parameter(0)
  ROOT %y = pred[] constant(true)
}

%result.called (x: f32[2]) -> pred[] {
  %x = f32[2] parameter(0)
  ROOT %y = pred[] call(%x), to_apply=%y.called
}

%result.called.1 (x: f32[2]) -> f32[2] {
  ROOT %x = f32[2] parameter(0)
}

ENTRY %entry (arg0: f32[2]) -> f32[2] {
  %arg0 = f32[2] parameter(0)
  ROOT %result = f32[2] while(%arg0), condition=%result.called, body=%result.called.1
}
)");
}

TEST_CASE("modules that differ in one attribute are not equal") {
  const auto [one, other] = GENERATE(table<std::string, std::string>({
      {"%r = f32[3] reduce-window(f32[4] %a, f32[] %z), window={size=2}, to_apply=%sum",
       "%r = f32[3] reduce-window(f32[4] %a, f32[] %z), window={size=2 rhs_reversal=1}, "
       "to_apply=%sum"},
      {"%r = f32[4] sort(f32[4] %a), dimensions={0}, to_apply=%less2",
       "%r = f32[4] sort(f32[4] %a), dimensions={0}, is_stable=true, to_apply=%less2"},
      {"%r = f32[4,4] cholesky(f32[4,4] %a)", "%r = f32[4,4] cholesky(f32[4,4] %a), lower=true"},
      {"%r = f32[4,6] convolution(f32[4,5] %a, f32[5,6] %k), dim_labels=bf_io->bf",
       "%r = f32[4,6] convolution(f32[4,5] %a, f32[5,6] %k), dim_labels=bf_io->bf, x=1"},
      {"%r = f32[4] parameter(0)", "%r = f32[<=4] parameter(0)"},
      {"%r = f32[] constant(nan)", "%r = f32[] constant(nan(0x1))"},
      {"%r = s4[] constant(1)", "%r = s4[] constant(2)"},
      {"%r = f32[4] call(f32[4] %a), to_apply=%neg", "%r = f32[4] call(f32[4] %a), to_apply=%same"},
      {"%r = f32[4] rng(f32[] %a, f32[] %b), distribution=rng_uniform",
       "%r = f32[4] rng(f32[] %a, f32[] %b), distribution=rng_normal"},
  }));
  CAPTURE(one);
  CHECK_FALSE(
      structurally_equal(*parse_module(hlo_prelude() + one), *parse_module(hlo_prelude() + other)));
}

}  // namespace gspmd
