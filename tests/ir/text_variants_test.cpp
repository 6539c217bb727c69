// Spellings that other readers take: instructions as operands, splats, elements left out, older
// headers, layouts behind blanks and between them, operands bound late.

#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"

namespace gspmd {
namespace {

// The instructions of the entry; checks that the text is a fixed point and reads as an equal
// module.
std::string entry_of(const std::string& source) {
  const auto module = parse_module(source, "m.hlo");
  const std::string printed = to_text(*module);
  const auto again = parse_module(printed, "printed.hlo");
  CHECK(to_text(*again) == printed);
  CHECK(structurally_equal(*module, *again));
  CHECK(to_text(*module->clone()) == printed);
  const size_t begin = printed.find("{\n", printed.find("ENTRY")) + 2;
  return printed.substr(begin, printed.rfind("\n}") - begin);
}

std::string read(const std::string& body) {
  return entry_of("HloModule m\nENTRY e {\n" + body + "\n}\n");
}

}  // namespace

TEST_CASE("an instruction may stand as an operand") {
  CHECK(read("ROOT r = f32[4] convert(s8[4] parameter(0))") ==
        "  %parameter = s8[4] parameter(0)\n  ROOT %r = f32[4] convert(%parameter)");
  // Without types, inside one another, of what stands below.
  CHECK(read("ROOT r = f32[4] add(negate(exponential(p)), p)\n p = f32[4] parameter(0)") ==
        "  %p = f32[4] parameter(0)\n  %exponential = f32[4] exponential(%p)\n"
        "  %negate = f32[4] negate(%exponential)\n  ROOT %r = f32[4] add(%negate, %p)");
  CHECK(read("ROOT t = (f32[], ()) tuple(f32[] constant(1), () tuple())") ==
        "  %constant = f32[] constant(1)\n  %tuple = () tuple()\n"
        "  ROOT %t = (f32[], ()) tuple(%constant, %tuple)");
  // Names of the text win.
  CHECK(read("ROOT r = f32[4] add(negate(p), negate)\n negate = f32[4] abs(p)\n"
             "p = f32[4] parameter(0)") ==
        "  %p = f32[4] parameter(0)\n  %negate_ = f32[4] negate(%p)\n"
        "  %negate = f32[4] abs(%p)\n  ROOT %r = f32[4] add(%negate_, %negate)");
  CHECK(entry_of("ROOT r = f32[4] negate(f32[4] abs(f32[4] parameter(0)))") ==
        "  %parameter = f32[4] parameter(0)\n  %abs = f32[4] abs(%parameter)\n"
        "  ROOT %r = f32[4] negate(%abs)");
}

TEST_CASE("an element of a tuple may stand as an operand, %t#1") {
  CHECK(read("t = (f32[4], s32[]) parameter(0)\nn = f32[4] negate(%t#0)\n"
             "ROOT r = (f32[4], f32[4], s32[]) tuple(n, %t#0, s32[] %t#1)") ==
        "  %t = (f32[4], s32[]) parameter(0)\n"
        "  %t.element0 = f32[4] get-tuple-element(%t), index=0\n"
        "  %n = f32[4] negate(%t.element0)\n"
        "  %t.element1 = s32[] get-tuple-element(%t), index=1\n"
        "  ROOT %r = (f32[4], f32[4], s32[]) tuple(%n, %t.element0, %t.element1)");
  // Of an element, of a tuple that stands below, beside names of the text.
  CHECK(read("ROOT r = f32[] add(%t#0#1, %t#1)\nt.element1 = f32[] constant(2)\n"
             "t = ((s32[], f32[]), f32[]) parameter(0)") ==
        "  %t.element1 = f32[] constant(2)\n  %t = ((s32[], f32[]), f32[]) parameter(0)\n"
        "  %t.element0 = (s32[], f32[]) get-tuple-element(%t), index=0\n"
        "  %t.element0.element1 = f32[] get-tuple-element(%t.element0), index=1\n"
        "  %t.element1_ = f32[] get-tuple-element(%t), index=1\n"
        "  ROOT %r = f32[] add(%t.element0.element1, %t.element1_)");
  CHECK_THROWS_WITH(read("t = (f32[], f32[]) parameter(0)\nROOT r = f32[] negate(%t#2)"),
                    Catch::Contains("m.hlo:4:"));
  CHECK_THROWS_WITH(read("ROOT r = f32[] negate(%t#0)"), Catch::Contains("\"t\" is not defined"));
  CHECK_THROWS_WITH(read("t = f32[4] parameter(0)\nROOT r = f32[4] negate(%t#0)"),
                    Catch::Contains("m.hlo:4:"));
  CHECK_THROWS_WITH(read("t = (f32[], f32[]) parameter(0)\nROOT r = f32[] negate(%t#x)"),
                    Catch::Contains("\"t#x\" is not defined"));
}

TEST_CASE("an instruction as an operand has no attributes, and nests 64 deep at most") {
  CHECK_THROWS_WITH(read("p = f32[2,3] parameter(0)\nROOT r = f32[3,2] copy(transpose(p))"),
                    Catch::Contains("m.hlo:4:24: transpose: the attribute dimensions"));
  CHECK_THROWS_WITH(
      read("ROOT r = f32[4] negate(f32[4] broadcast(f32[] parameter(0), dimensions={}))"),
      Catch::Contains("m.hlo:3:61: the attribute dimensions among operands"));
  std::string deep = "f32[] parameter(0)";
  for (int i = 0; i < 64; ++i) deep = "negate(" + deep + ")";
  CHECK_THROWS_WITH(read("ROOT r = f32[] negate(" + deep + ")"),
                    Catch::Contains("more than 64 deep"));
}

TEST_CASE("one value may stand for all elements of an array") {
  CHECK(read("ROOT c = f32[2,3] constant(0)") ==
        "  ROOT %c = f32[2,3] constant({{0, 0, 0}, {0, 0, 0}})");
  CHECK(read("ROOT c = c64[2] constant((1, -2))") ==
        "  ROOT %c = c64[2] constant({(1, -2), (1, -2)})");
  CHECK(read("ROOT c = pred[2] constant(true)") == "  ROOT %c = pred[2] constant({true, true})");
  CHECK(read("ROOT c = s4[3] constant(-8)") == "  ROOT %c = s4[3] constant({-8, -8, -8})");
  CHECK(read("ROOT c = f32[0] constant(1)") == "  ROOT %c = f32[0] constant({})");
}

TEST_CASE("a comma may stand behind the last element") {
  CHECK(read("ROOT c = s32[2,2] constant({{1,2,},{3,4},})") ==
        "  ROOT %c = s32[2,2] constant({{1, 2}, {3, 4}})");
}

TEST_CASE("elements that the text leaves out stay out") {
  CHECK(read("ROOT c = f32[2,3] constant({...})") == "  ROOT %c = f32[2,3] constant({...})");
  CHECK(read("ROOT c = f32[300000,300000] constant({ ... })") ==
        "  ROOT %c = f32[300000,300000] constant({...})");
  CHECK(read("ROOT c = (f32[2], s32[1]) constant(({...}, {3}))") ==
        "  %c.element = f32[2] constant({...})\n  %c.element.1 = s32[1] constant({3})\n"
        "  ROOT %c = (f32[2], s32[1]) tuple(%c.element, %c.element.1)");
}

TEST_CASE("operands that imply a type need no written one") {
  CHECK(read("t = after-all()\n u = after-all(t, t)\n ROOT r = tuple(u, partition-id())") ==
        "  %t = token[] after-all()\n  %u = token[] after-all(%t, %t)\n"
        "  %partition-id = u32[] partition-id()\n"
        "  ROOT %r = (token[], u32[]) tuple(%u, %partition-id)");
}

TEST_CASE("a colon may stand behind the names of modules and computations") {
  const std::string body = "{\n ROOT p = f32[] parameter(0)\n}\n";
  for (const char* head : {"HloModule m:\nENTRY e ",
                           "HloModule %m\nENTRY e: ", "HloModule m: \n%e: (p: f32[]) -> f32[] "}) {
    CAPTURE(head);
    CHECK(entry_of(std::string(head) + body) == "  ROOT %p = f32[] parameter(0)");
    CHECK(parse_module(std::string(head) + body)->name == "m");
  }
}

TEST_CASE("a # may stand inside a name") {
  CHECK(read("p0#0 = f32[] parameter(0)\n %q#1 = f32[] negate(p0#0)\n"
             "ROOT r = f32[] add(%p0#0, f32[] q#1)") ==
        "  %p0#0 = f32[] parameter(0)\n  %q#1 = f32[] negate(%p0#0)\n"
        "  ROOT %r = f32[] add(%p0#0, %q#1)");
  CHECK_THROWS_WITH(read("#p = f32[] parameter(0)"), Catch::Contains("m.hlo:3:1"));
}

TEST_CASE("a layout may stand behind a blank, and is told from a body") {
  CHECK(read("p = f32[2,3] {1,0} parameter(0)\n"
             "ROOT r = f32[2,3]\n{0,1:T(8,128)} copy(f32[2,3] {1,0} p)") ==
        "  %p = f32[2,3]{1,0} parameter(0)\n  ROOT %r = f32[2,3]{0,1:T(8,128)} copy(%p)");
  CHECK(entry_of("HloModule m\nENTRY e (p: f32[2] {0}) -> f32[2] {0} {\n"
                 "  ROOT p = f32[2] parameter(0)\n}\n") == "  ROOT %p = f32[2] parameter(0)");
  CHECK(entry_of("HloModule m\nENTRY e () -> f32[1] {\n  0 = f32[1] constant(f32[1] {7})\n}\n") ==
        "  ROOT %0 = f32[1] constant({7})");
}

TEST_CASE("a bitcast between layouts is the transposes that keep the bits where they lie") {
  // f32[2,3] row by row, read as f32[3,2] column by column: a transpose.
  CHECK(read("p = f32[2,3]{1,0} parameter(0)\nROOT b = f32[3,2]{0,1} bitcast(p)") ==
        "  %p = f32[2,3]{1,0} parameter(0)\n"
        "  ROOT %b = f32[3,2]{0,1} transpose(%p), dimensions={1,0}");
  CHECK(
      read(
          "p = f32[2,3]{0,1} parameter(0)\nROOT b = f32[6] bitcast(p), metadata={op_name=\"x\"}") ==
      "  %p = f32[2,3]{0,1} parameter(0)\n  %b.order = f32[3,2] transpose(%p), dimensions={1,0}\n"
      "  ROOT %b = f32[6] bitcast(%b.order), metadata={op_name=\"x\"}");
  CHECK(read("p = f32[6] parameter(0)\nROOT b = s32[2,3]{0,1} bitcast(p)") ==
        "  %p = f32[6] parameter(0)\n  %b.order = s32[3,2] bitcast(%p)\n"
        "  ROOT %b = s32[2,3]{0,1} transpose(%b.order), dimensions={1,0}");
  // [a,b,c] lies as c,a,b; the result's dims lie as its dim 1, 2, 0: they are b, c, a.
  CHECK(read("p = f32[2,3,4]{1,0,2} parameter(0)\nROOT b = f32[2,3,4]{1,0,2} bitcast(p)") ==
        "  %p = f32[2,3,4]{1,0,2} parameter(0)\n  ROOT %b = f32[2,3,4]{1,0,2} bitcast(%p)");
  CHECK(read("p = f32[2,3,4]{1,0,2} parameter(0)\nROOT b = f32[3,4,2]{0,2,1} bitcast(p)") ==
        "  %p = f32[2,3,4]{1,0,2} parameter(0)\n"
        "  ROOT %b = f32[3,4,2]{0,2,1} transpose(%p), dimensions={1,2,0}");
  // Dims of one element lie anywhere.
  CHECK(read("p = f32[1,8]{0,1} parameter(0)\nROOT b = f32[8,1]{0,1} bitcast(p)") ==
        "  %p = f32[1,8]{0,1} parameter(0)\n  ROOT %b = f32[8,1]{0,1} bitcast(%p)");
}

TEST_CASE("updates of an asynchronous call may bind its last operands") {
  const std::string called = R"(HloModule m

%add (p: f32[4], q: f32[4]) -> f32[4] {
  %p = f32[4] parameter(0)
  %q = f32[4] parameter(1)
  ROOT %n = f32[4] add(%p, %q)
}

ENTRY %e (a: f32[4], b: f32[4]) -> f32[4] {
)";
  const std::string grows = R"(  %a = f32[4] parameter(0)
  %b = f32[4] parameter(1)
  %s = ((), f32[4], s32[]) async-start(), calls=%add
  %u = ((f32[4]), f32[4], s32[]) async-update(%s, %a)
  %v = ((f32[4], f32[4]), f32[4], s32[]) async-update(%u, %b)
  ROOT %d = f32[4] async-done(%v))";
  CHECK(entry_of(called + grows + "\n}\n") == grows);
  const std::string whole = R"(  %a = f32[4] parameter(0)
  %b = f32[4] parameter(1)
  %s = ((f32[4], f32[4]), f32[4], s32[]) async-start(%a), calls=%add
  %u = ((f32[4], f32[4]), f32[4], s32[]) async-update(%s, %b)
  ROOT %d = f32[4] async-done(%u))";
  CHECK(entry_of(called + whole + "\n}\n") == whole);
  CHECK_THROWS_WITH(parse_module(R"(HloModule m
add {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  ROOT n = f32[4] add(p, q)
}
ENTRY e {
  a = s32[4] parameter(0)
  ROOT s = ((s32[4]), f32[4], s32[]) async-start(a), calls=add
})"),
                    Catch::Contains("parameter 0 is f32[4], s32[4] is needed"));
}

}  // namespace gspmd
