#include "gspmd/passes/simplify/simplify.h"

#include <catch2/catch.hpp>
#include <chrono>

#include "passes/body_text.h"
#include "passes/rewrite_check.h"

namespace gspmd::simplify_test {
namespace {

// The root's line after simplification, for a root `line` over a,b: f32[4,8], i: s32[], p:
// pred[4,8].
std::string simplified(const std::string& line) {
  const auto module = module_of(R"(  %a = f32[4,8] parameter(0)
  %b = f32[4,8] parameter(1)
  %i = s32[] parameter(2)
  %p = pred[4,8] parameter(3)
  %one = f32[] constant(1)
  %zero = f32[] constant(0)
  %minus = f32[] constant(-0)
  %ones = f32[4,8] broadcast(%one), dimensions={}
  %zeros = f32[4,8] broadcast(%zero), dimensions={}
  %minuses = f32[4,8] broadcast(%minus), dimensions={}
  %izero = s32[] constant(0)
  %ione = s32[] constant(1)
  %two = s32[] constant(2)
  %yes = pred[] constant(true)
  %always = pred[4,8] broadcast(%yes), dimensions={}
  )" + line);
  simplify_algebra(*module);
  verify_module(*module);
  return to_text(*module->entry()->root());
}

}  // namespace

TEST_CASE("identities give the operand") {
  const auto [line, wanted] = GENERATE(table<std::string, std::string>({
      {"ROOT %r = f32[4,8] multiply(%a, %ones)", "ROOT %a ="},
      {"ROOT %r = f32[4,8] multiply(%ones, %a)", "ROOT %a ="},
      {"ROOT %r = f32[4,8] divide(%a, %ones)", "ROOT %a ="},
      {"ROOT %r = f32[4,8] subtract(%a, %zeros)", "ROOT %a ="},
      {"ROOT %r = f32[4,8] add(%a, %minuses)", "ROOT %a ="},
      {"ROOT %r = f32[4,8] maximum(%a, %a)", "ROOT %a ="},
      {"ROOT %r = s32[] add(%izero, %i)", "ROOT %i ="},
      {"ROOT %r = s32[] multiply(%i, %izero)", "ROOT %izero ="},
      {"ROOT %r = pred[4,8] and(%p, %always)", "ROOT %p ="},
      {"ROOT %r = f32[4,8] select(%always, %a, %b)", "ROOT %a ="},
      {"ROOT %r = f32[4,8] select(%p, %b, %b)", "ROOT %b ="},
      {"%n = f32[4,8] negate(%a)\n ROOT %r = f32[4,8] negate(%n)", "ROOT %a ="},
      {"ROOT %r = f32[4,8] copy(%a)", "ROOT %a ="},
      {"ROOT %r = f32[4,8] convert(%a)", "ROOT %a ="},
      {"ROOT %r = f32[4,8] reshape(%a)", "ROOT %a ="},
      {"ROOT %r = f32[4,8] transpose(%a), dimensions={0,1}", "ROOT %a ="},
      {"ROOT %r = f32[4,8] broadcast(%a), dimensions={0,1}", "ROOT %a ="},
      {"ROOT %r = f32[4,8] slice(%a), slice={[0:4], [0:8]}", "ROOT %a ="},
      {"ROOT %r = f32[4,8] pad(%a, %zero), padding=0_0x0_0", "ROOT %a ="},
      {"ROOT %r = f32[4,8] concatenate(%a), dimensions={1}", "ROOT %a ="},
      {"ROOT %r = f32[4,8] dynamic-slice(%a, %i, %i), dynamic_slice_sizes={4,8}", "ROOT %a ="},
      {"ROOT %r = f32[4,8] dynamic-update-slice(%a, %b, %i, %i)", "ROOT %b ="},
      {"%t = (f32[4,8], s32[]) tuple(%a, %i)\n ROOT %r = s32[] get-tuple-element(%t), index=1",
       "ROOT %i ="},
      {"%w = f64[4,8] convert(%a)\n ROOT %r = f32[4,8] convert(%w)", "ROOT %a ="},
      {"ROOT %r = f32[4,8] all-reduce(%a), replica_groups={{0},{1},{2},{3}}, to_apply=%sum",
       "ROOT %a ="},
  }));
  CHECK_THAT(simplified(line), Catch::StartsWith(wanted));
}

TEST_CASE("chains become one op") {
  const auto [line, wanted] = GENERATE(table<std::string, std::string>({
      {"%x = f32[32] reshape(%a)\n ROOT %r = f32[2,16] reshape(%x)", "reshape(%a)"},
      {"%x = f32[8,4] transpose(%a), dimensions={1,0}\n"
       " ROOT %r = f32[4,8] transpose(%x), dimensions={1,0}",
       "ROOT %a = f32[4,8] parameter(0)"},
      {"%x = f32[3,4,8] broadcast(%a), dimensions={1,2}\n"
       " ROOT %r = f32[3,5,4,8] broadcast(%x), dimensions={0,2,3}",
       "broadcast(%a), dimensions={2,3}"},
      {"%x = f32[2,8] slice(%a), slice={[0:4:2], [0:8]}\n"
       " ROOT %r = f32[1,3] slice(%x), slice={[1:2], [1:7:2]}",
       "slice(%a), slice={[2:3:2], [1:6:2]}"},
      {"ROOT %r = f32[32] reshape(%ones)", "broadcast(%one), dimensions={}"},
      {"ROOT %r = f32[2,2] dynamic-slice(%ones, %i, %i), dynamic_slice_sizes={2,2}",
       "broadcast(%one), dimensions={}"},
      {"%x = bf16[4,8] convert(%a)\n ROOT %r = f32[4,8] convert(%x)", "convert(%x)"},
      {"%x = s64[] convert(%i)\n ROOT %r = u8[] convert(%x)", "convert(%i)"},
      {"%x = f64[] convert(%i)\n ROOT %r = u8[] convert(%x)", "convert(%x)"},  // no wrapping round
      {"ROOT %r = s32[] multiply(%two, %two)", "constant(4)"},
      {"ROOT %r = pred[] compare(%two, %ione), direction=GT", "constant(true)"},
      {"ROOT %r = f32[4,8] add(%a, %zeros)", "add(%a, %zeros)"},
      {"ROOT %r = f32[] exponential(%one)", "exponential(%one)"},
      {"%id = u32[] partition-id()\n %n = u32[] constant(4)\n ROOT %r = u32[] remainder(%id, %n)",
       "ROOT %id = u32[] partition-id()"},
      {"%id = u32[] partition-id()\n %n = u32[] constant(2)\n ROOT %r = u32[] remainder(%id, %n)",
       "remainder(%id, %n)"},
  }));
  CHECK_THAT(simplified(line), Catch::Contains(wanted));
}

TEST_CASE("a node with a sharding is not replaced by one without it") {
  CHECK_THAT(simplified("ROOT %r = f32[4,8] copy(%a), sharding={devices=[4,1]<=[4]}"),
             Catch::StartsWith("ROOT %r = f32[4,8] copy(%a)"));
}

TEST_CASE("a rewritten node keeps metadata, sharding and phase") {
  CHECK_THAT(simplified("%x = f32[32] reshape(%a)\n ROOT %r = f32[2,16] reshape(%x), "
                        "sharding={devices=[2,1]<=[2]}, metadata={op_name=\"n\"}, "
                        "frontend_attributes={gspmd.phase=\"backward\"}"),
             Catch::Contains("sharding={devices=[2,1]<=[2]}, "
                             "frontend_attributes={gspmd.phase=\"backward\"}, "
                             "metadata={op_name=\"n\"}"));
}

// Values of which many are equal: of these the first come first.
TEST_CASE("the first elements of a sort with indices, and ApproxTopK of them, are a topk") {
  const std::string head = R"(HloModule m
c {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER
}
v {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT
}
ENTRY e {
  x = f32[3,40] parameter(0)
  i = s32[3,40] iota(), iota_dimension=1
  k = s32[3,40] iota(), iota_dimension=0
)";
  const auto sliced = [&](const char* operands, const char* comparator, const char* slice,
                          int64_t count, bool other_reader = false) {
    const std::string part = fmt::format("[3,{}]", count);
    return head + "s = (f32[3,40], s32[3,40]) sort(" + operands +
           "), dimensions={1}, to_apply=" + comparator +
           "\nv = f32[3,40] get-tuple-element(s), index=0\n" +
           "j = s32[3,40] get-tuple-element(s), index=1\n" +
           (other_reader ? "n = f32[3,40] negate(v)\n" : "") + "a = f32" + part +
           " slice(v), slice={" + slice + "}\nb = s32" + part + " slice(j), slice={" + slice +
           "}\nROOT r = (f32" + part + ", s32" + part +
           (other_reader ? ", f32[3,40]) tuple(a, b, n)\n}\n" : ") tuple(a, b)\n}\n");
  };
  const auto pass = [](Module& module) { return simplify_algebra(module); };
  const auto module = changed(sliced("x, i", "c", "[0:3], [0:4]", 4), pass);
  CHECK(count(*module, Opcode::sort) == 0);
  CHECK(count(*module, Opcode::iota) == 0);
  const auto call =
      changed(head +
                  "f = f32[] constant(-inf)\nn = s32[] constant(-1)\nROOT r = (f32[3,4], s32[3,4]) "
                  "custom-call(x, i, f, n), custom_call_target=\"ApproxTopK\", "
                  "called_computations={c}, backend_config={\"reduction_dim\" = 1 : i64}\n}\n",
              pass);
  CHECK(count(*call, Opcode::topk) == 1);
  // Other indices, floats by value (NaN has no order), others than the first, many, another reader.
  for (const std::string& text :
       {sliced("x, k", "c", "[0:3], [0:4]", 4), sliced("x, i", "v", "[0:3], [0:4]", 4),
        sliced("x, i", "c", "[0:3], [1:5]", 4), sliced("x, i", "c", "[0:3], [0:30]", 30),
        sliced("x, i", "c", "[0:3], [0:4]", 4, true)}) {
    auto other = parse_module(text);
    simplify_algebra(*other);
    CHECK(count(*other, Opcode::topk) == 0);
  }
}

TEST_CASE("convolutions read what was padded with zeros or cut before, with another window") {
  const auto folded = [](const std::string& line) {
    const auto module = module_of(R"(  %x = f32[2,5,6,3] parameter(0)
  %w = f32[3,3,3,4] parameter(1)
  %zero = f32[] constant(0)
  %one = f32[] constant(1)
  )" + line,
                                  1);
    const std::vector<Value> inputs = arguments(*module, 1)[0];
    const Array before = evaluate(*module, inputs).array;
    simplify_algebra(*module);
    verify_module(*module);
    CHECK(bitwise_equal(evaluate(*module, inputs).array, before));
    const std::string text = to_text(*module->entry()->root());
    return text.substr(text.find("convolution("));
  };
  const std::string labels = ", dim_labels=b01f_01io->b01f", half = ", padding=0_0x1_1_1x0_0x0_0";
  const std::string padded =
      "%p = f32[2,11,6,3] pad(%x, %zero)" + half +
      "\n  %s = f32[2,10,6,3] slice(%p), slice={[0:2], [0:10], [0:6], [0:3]}\n";
  CHECK(folded(padded +
               "ROOT %r = f32[2,8,6,4] convolution(%s, %w), window={size=3x3 pad=0_0x1_1}" +
               labels) ==
        "convolution(%x, %w), window={size=3x3 pad=1_0x1_1 lhs_dilate=2x1}" + labels);
  CHECK(folded("%s = f32[2,3,6,3] slice(%x), slice={[0:2], [1:4], [0:6], [0:3]}\n  ROOT %r = "
               "f32[2,1,3,4] convolution(%s, %w), window={size=3x3 stride=2x2 pad=0_0x1_1}" +
               labels) ==
        "convolution(%x, %w), window={size=3x3 stride=2x2 pad=-1_-1x1_1}" + labels);
  CHECK(
      folded("%p = f32[2,8,6,3] pad(%x, %zero), padding=0_0x2_1x0_0x0_0\n  ROOT %r = f32[2,6,4,4] "
             "convolution(%p, %w), window={size=3x3}" +
             labels) == "convolution(%x, %w), window={size=3x3 pad=2_1x0_0}" + labels);
  // What was cut is not read where zeros were put in its place, by a pad or by the window.
  CHECK(folded("%s = f32[2,3,6,3] slice(%x), slice={[0:2], [1:4], [0:6], [0:3]}\n  %p = "
               "f32[2,5,6,3] pad(%s, %zero), padding=0_0x1_1x0_0x0_0\n  ROOT %r = f32[2,3,4,4] "
               "convolution(%p, %w), window={size=3x3}" +
               labels) == "convolution(%s, %w), window={size=3x3 pad=1_1x0_0}" + labels);
  for (const char* padding : {"1_0", "0_1"}) {
    const std::string line =
        "%s = f32[2,3,6,3] slice(%x), slice={[0:2], [1:4], [0:6], [0:3]}\n  ROOT %r = f32[2,2,4,4] "
        "convolution(%s, %w), window={size=3x3 pad=";
    CHECK_THAT(folded(line + padding + "x0_0}" + labels), Catch::StartsWith("convolution(%s, %w)"));
  }
  // Other values than zeros, strides over what would be spread, padding that a whole window lies
  // in, spread twice, batches.
  for (const std::string& line :
       {"%p = f32[2,11,6,3] pad(%x, %one)" + half +
            "\n  ROOT %r = f32[2,9,4,4] convolution(%p, %w), window={size=3x3}",
        "%p = f32[2,11,6,3] pad(%x, %zero)" + half +
            "\n  ROOT %r = f32[2,5,2,4] convolution(%p, %w), window={size=3x3 stride=2x2}",
        "%p = f32[2,13,6,3] pad(%x, %zero), padding=0_0x3_1_1x0_0x0_0\n  ROOT %r = f32[2,11,4,4] "
        "convolution(%p, %w), window={size=3x3}" +
            std::string(),
        "%p = f32[2,11,6,3] pad(%x, %zero)" + half +
            "\n  ROOT %r = f32[2,19,4,4] convolution(%p, %w), window={size=3x3 lhs_dilate=2x1}",
        std::string("%p = f32[3,5,6,3] pad(%x, %zero), padding=0_1x0_0x0_0x0_0\n  ROOT %r = "
                    "f32[3,3,4,4] convolution(%p, %w), window={size=3x3}")})
    CHECK_THAT(folded(line + labels), Catch::StartsWith("convolution(%p, %w)"));
}

TEST_CASE("equal nodes merge, collectives within one phase only") {
  const std::string body = R"(  %a = f32[4] parameter(0)
  %b = f32[4] parameter(1)
  %s1 = f32[4] add(%a, %b)
  %s2 = f32[4] add(%b, %a)
  %d1 = f32[4] subtract(%s1, %b)
  %d2 = f32[4] subtract(%s2, %b)
  %d3 = f32[4] subtract(%b, %s2)
  %g1 = f32[16] all-gather(%d1), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}
  %g2 = f32[16] all-gather(%d2), channel_id=2, replica_groups={{0,1,2,3}}, dimensions={0}
  %g3 = f32[16] all-gather(%d2), channel_id=3, replica_groups={{0,1,2,3}}, dimensions={0}, frontend_attributes={gspmd.phase="backward"}
  ROOT %t = (f32[16], f32[16], f32[16], f32[4]) tuple(%g1, %g2, %g3, %d3))";
  auto module = module_of(body);
  CHECK(eliminate_common_subexpressions(*module));
  CHECK(body_text(*module) == R"(  %a = f32[4] parameter(0)
  %b = f32[4] parameter(1)
  %s1 = f32[4] add(%a, %b)
  %d1 = f32[4] subtract(%s1, %b)
  %d3 = f32[4] subtract(%b, %s1)
  %g1 = f32[16] all-gather(%d1), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}
  %g3 = f32[16] all-gather(%d1), channel_id=3, replica_groups={{0,1,2,3}}, dimensions={0}, frontend_attributes={gspmd.phase="backward"}
  ROOT %t = (f32[16], f32[16], f32[16], f32[4]) tuple(%g1, %g1, %g3, %d3)
)");
  CHECK_FALSE(eliminate_common_subexpressions(*module));
  CHECK(eliminate_common_subexpressions(*module, true));
  CHECK_THAT(body_text(*module), Catch::Contains("tuple(%g1, %g1, %g1, %d3)"));
}

TEST_CASE("nodes that differ in bits, shape, sharding or attributes do not merge") {
  const std::string body = R"(  %a = f32[4] parameter(0)
  %p = f32[] constant(0)
  %m = f32[] constant(-0)
  %n = s32[] constant(0)
  %i = s32[4] iota(), iota_dimension=0
  %j = s32[4] copy(%i), sharding={devices=[4]<=[4]}
  %k = s32[4] copy(%i)
  %l = f32[4] custom-call(%a), custom_call_target="f"
  %o = f32[4] custom-call(%a), custom_call_target="f"
  ROOT %t = (f32[], f32[], s32[], s32[4], s32[4], f32[4], f32[4]) tuple(%p, %m, %n, %j, %k, %l, %o))";
  const auto module = module_of(body);
  CHECK_FALSE(eliminate_common_subexpressions(*module));
}

TEST_CASE("dead code goes with the computations that only it called, parameters stay") {
  const auto module = module_of(R"(  %a = f32[4] parameter(0)
  %b = f32[4] parameter(1)
  %z = f32[] constant(0)
  %d = f32[] reduce(%a, %z), dimensions={0}, to_apply=%sum
  ROOT %r = f32[4] negate(%a))");
  CHECK(eliminate_dead_code(*module));
  CHECK(module->computations().size() == 1);
  CHECK(body_text(*module) == R"(  %a = f32[4] parameter(0)
  %b = f32[4] parameter(1)
  ROOT %r = f32[4] negate(%a)
)");
  CHECK_FALSE(eliminate_dead_code(*module));
}

TEST_CASE("a chain of 20,000 equal pairs merges in one pass") {
  std::string body = "  %v0 = f32[4] parameter(0)\n  %w0 = f32[4] copy(%v0)\n";
  for (int i = 1; i <= 10000; ++i)
    body += fmt::format("  %v{0} = f32[4] tanh(%v{1})\n  %w{0} = f32[4] tanh(%v{1})\n", i, i - 1);
  const auto module = module_of(body + "  ROOT %r = f32[4] add(%v10000, %w10000)");
  CHECK(eliminate_common_subexpressions(*module));
  CHECK(module->entry()->nodes().size() == 10002);
}

// The numbers of the operands of these sums add up to the same.
TEST_CASE("many sums of mirrored pairs are told apart in seconds") {
  constexpr int kCount = 60000;
  std::string body = "  %v0 = f32[4] parameter(0)\n";
  for (int i = 1; i <= 2 * kCount; ++i)
    body += fmt::format("  %v{} = f32[4] tanh(%v{})\n", i, i - 1);
  for (int i = 1; i <= kCount; ++i)
    body += fmt::format("  %s{} = f32[4] add(%v{}, %v{})\n", i, kCount - i, kCount + i);
  const auto module = module_of(body + "  ROOT %r = f32[4] negate(%s1)");
  const auto start = std::chrono::steady_clock::now();
  CHECK_FALSE(eliminate_common_subexpressions(*module));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
}

}  // namespace gspmd::simplify_test
