#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "ir/hlo_lines.h"

namespace gspmd {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_module(text, "m.hlo");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string repeat(const std::string& piece, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += piece;
  return text;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The module is the computations of the prelude and this line, where the error stands.
void check_error(const std::string& line, int column, const std::string& message) {
  CAPTURE(line);
  const std::string text = hlo_prelude() + line;
  const auto lines =
      1 + std::count(text.begin(), text.end(), '\n') - std::count(line.begin(), line.end(), '\n');
  const std::string error = error_of(text);
  CHECK_THAT(error, Catch::StartsWith(fmt::format("m.hlo:{}:{}: ", lines, column)));
  CHECK_THAT(error, Catch::Contains(message));
}

}  // namespace

TEST_CASE("one mistake in a type is one located message") {
  const auto [line, column, message] = GENERATE(table<std::string, int, std::string>({
      {"%r = f32[4611686018427387904] parameter(0)", 6, "more bytes than 64 bits can count"},
      {"%r = pred[4611686018427387904] parameter(0)", 6, "more bytes than 64 bits can count"},
      {"%r = f32[2147483648,2147483648] parameter(0)", 6, "more bytes than 64 bits can count"},
      {"%r = f32[9223372036854775808] parameter(0)", 10, "does not fit into 64 bits"},
      {"%r = f32[<=-1] parameter(0)", 10, "dim -1 is negative"},
      {"%r = f32[<2] parameter(0)", 10, "expected an integer for a dim"},
      {"%r = f32[?,2] parameter(0)", 10, "a dim of unknown size"},
      {"%r = f32[2,3]{1} parameter(0)", 14, "does not order the 2 dims"},
      {"%r = f32[2,3]{1,1} parameter(0)", 14, "does not order the 2 dims"},
      {"%r = f32[2,3]{1,2:T(8)} parameter(0)", 14, "does not order the 2 dims"},
      {"%r = f32[2]{0,} parameter(0)", 12, "does not order the 1 dims"},
      {"%r = f32[2]{0:T(8} parameter(0)", 18, "')' is wanted first"},
      {"%r = f33[2] parameter(0)", 6, "\"f33\" is not an element type"},
  }));
  check_error(line, column, message);
}

TEST_CASE("one mistake in the structure of a module is one located message") {
  const auto [line, column, message] = GENERATE(table<std::string, int, std::string>({
      {"%r = f32[2] add(f32[2] %a, f32[2] %r)", 28, "\"r\" reads itself"},
      {"%r = f32[2] abs(%a)", 17, "\"a\" is not defined"},
      {"%r = f32[2] abs(f32[2] %a)\n%s = f32[2] abs(f32[2] %b)", 17, "operand that is not defined"},
      {"%r = add(f32[2] %a, f32[3] %b)", 6, "the type is missing"},
      {"%r = convert(f32[2] %a)", 6, "the type is missing"},
      {"%r = iota(), iota_dimension=0", 6, "the type is missing"},
      {"%r = constant(1)", 6, "constant: the type is missing"},
      {"%r = nop-start(f32[2] %a)", 6, "unknown opcode \"nop-start\""},
      {"%r = f32[2] abs-start(f32[2] %a)", 13, "the type is a tuple of the operands' tuple"},
      {"%r = f32[2] abs(f32[2] %a), control-predecessors={q}", 51, "\"q\" is not defined"},
      {"%r = f32[2] abs(f32[2] %a), x=1, x=2", 34, "x is given twice"},
      {"%r = f32[2] abs(f32[2] %a), x=", 31, "expected a value for x"},
      {"%r = f32[4] call(f32[4] %a), to_apply=%none", 39, "there is no computation \"none\""},
      {"%r = f32[4] call(f32[4] %a), to_apply={%neg, %neg}", 39, "names one computation"},
      {"%r = f32[4] call(f32[4] %a), to_apply={ }", 13, "0 called computations, at least 1"},
      {"%r = f32[4] call(f32[4] %a)", 13, "the attribute to_apply=computation is missing"},
      {"%r = f32[4] call(f32[4] %a), to_apply={ROOT %p = f32[4] parameter(1)}", 39,
       "parameter(0) is missing"},
      {"%r = f32[4] conditional(s32[] %i, f32[4] %a), true_computation=%neg", 13,
       "false_computation=computation is missing"},
      {"%r = f32[4] conditional(pred[] %i, f32[4] %a), true_computation=%neg, "
       "branch_computations={%neg}",
       92, "given in two ways"},
      {"%r = f32[4] custom-call(f32[4] %a), custom_call_target=\"f\", to_apply=%neg, "
       "called_computations={%neg}",
       97, "given in two ways"},
      {"%r = f32[4] conditional(s32[] %i, f32[4] %a), branch_computations={%neg, %neg}", 1,
       "2 operands given for 2 branches"},
      {"%r = f32[4] conditional(s32[] %i, f32[4] %a), branch_computations={%sum}", 1,
       "has 2 parameters, 1 are needed"},
      {"%r = f32[4] sort(f32[4] %a), dimensions={0}, to_apply=%sum", 1, "pred[] is needed"},
      {"%r = f32[4] sort(f32[4] %a), dimensions={0}, to_apply=%less4", 1, "2 scalars are needed"},
      {"%r = f32[4] reduce(f32[4,8] %a, f32[] %z), dimensions={1}, to_apply=%less2", 1,
       "f32[] is needed"},
  }));
  check_error(line, column, message);
}

TEST_CASE("one mistake in a window or its labels is one located message") {
  const auto [line, column, message] = GENERATE(table<std::string, int, std::string>({
      {"%r = f32[3] reduce-window(f32[4] %a, f32[] %z), window={size=2x}, to_apply=%sum", 64,
       "needs a 64-bit number here"},
      {"%r = f32[3] reduce-window(f32[4] %a, f32[] %z), window={size=2 pad=1}, to_apply=%sum", 68,
       "pad is low_high per dim"},
      {"%r = f32[3] reduce-window(f32[4] %a, f32[] %z), window={size=2 stride=1x1}, to_apply=%sum",
       64, "stride has 2 dims, the fields before it have 1"},
      {"%r = f32[3] reduce-window(f32[4] %a, f32[] %z), window={size=2 size=2}, to_apply=%sum", 64,
       "size is given twice"},
      {"%r = f32[3] reduce-window(f32[4] %a, f32[] %z), window={sizes=2}, to_apply=%sum", 57,
       "\"sizes\" is no field"},
      {"%r = f32[4,6] convolution(f32[4,5] %a, f32[5,6] %k)", 15, "dim_labels=... is missing"},
      {"%r = f32[4,6] convolution(f32[4,5] %a, f32[5,6] %k), dim_labels=bf_io", 65,
       "not of the form"},
      {"%r = f32[4,6] convolution(f32[4,5] %a, f32[5,6] %k), dim_labels=bb_io->bf", 66,
       "'b' stands twice"},
      {"%r = f32[4,6] convolution(f32[4,5] %a, f32[5,6] %k), dim_labels=b1_io->bf", 65,
       "needs 'b'"},
      {"%r = f32[4,6] convolution(f32[4,5] %a, f32[5,6] %k), dim_labels=bf0_io->bf", 65,
       "1, 0 and 0 spatial dims"},
      {"%r = f32[4,6] convolution(f32[4,5] %a, f32[5,6] %k), dim_labels=bf_ix->bf", 69, "'x' in"},
  }));
  check_error(line, column, message);
}

TEST_CASE("one mistake in a literal or another number is one located message") {
  const auto [line, column, message] = GENERATE(table<std::string, int, std::string>({
      {"%r = s4[] constant(8)", 20, "8 does not fit into s4"},
      {"%r = u4[] constant(-1)", 20, "-1 does not fit into u4"},
      {"%r = f8e4m3fn[] constant(1e9)", 26, "1e9 does not fit into f8e4m3fn"},
      {"%r = f8e4m3fn[] constant(inf)", 26, "inf does not fit into f8e4m3fn"},
      {"%r = f4e2m1fn[] constant(nan)", 26, "nan does not fit into f4e2m1fn"},
      {"%r = f16[] constant(65520)", 21, "65520 does not fit into f16"},
      {"%r = bf16[] constant(1e39)", 22, "1e39 does not fit into bf16"},
      {"%r = f64[] constant(1e999)", 21, "1e999 does not fit into f64"},
      {"%r = s64[] constant(9223372036854775808)", 21, "does not fit into s64"},
      {"%r = f32[] constant(nan(0x0))", 25, "NaN payload 0x0 does not fit"},
      {"%r = f32[] constant(nan(0x800000))", 25, "23 mantissa bits"},
      {"%r = f32[] constant(nan(q))", 25, "\"q\" is no NaN payload"},
      {"%r = s32[2] constant({1, {2}})", 26, "the braces are deeper"},
      {"%r = s32[2] constant({1 2})", 25, "expected ',' between elements"},
      {"%r = s32[2] constant(f32[2] {1,2})", 22, "elements of f32[2] in a constant of s32[2]"},
      {"%r = (s32[], f32[]) constant((1))", 32, "expected ',' between the elements of a tuple"},
      {"%r = (s32[]) constant((1, 2))", 25, "expected ')' after the elements of a tuple"},
      {"%r = s32[2,2] constant({{...}, {1,2}})", 25, "elements left out ({...})"},
      {"%r = f32[70000,70000] constant(0)", 32, "takes 19600000000 bytes; up to 268435456"},
      {"%r = token[] constant(0)", 23, "no value that can be written"},
      {"%r = f32[2] abs(f32[2] %a), sharding={devices=[2]<=[3]}", 52, "sharding"},
      {"%r = f32[2,3] batch-norm-inference(f32[2,3] %a, f32[3] %s, f32[3] %o, f32[3] %m, f32[3] "
       "%v), "
       "epsilon=inf, feature_index=1",
       102, "no finite number"},
      {"%r = f32[2,3] batch-norm-inference(f32[2,3] %a, f32[3] %s, f32[3] %o, f32[3] %m, f32[3] "
       "%v), "
       "epsilon=1e39, feature_index=1",
       102, "\"1e39\" is no finite number of f32"},
      {"%r = f32[4] all-reduce(f32[4] %a), replica_groups=mesh['x'=2], to_apply=%sum", 64,
       "expected 'device_ids'"},
      {"%r = f32[4] all-reduce(f32[4] %a), replica_groups=mesh['x'=2] {'y'}, to_apply=%sum", 51,
       "axis 'y' is not in"},
      {"%r = f32[4] all-reduce(f32[4] %a), replica_groups=[2147483648,2]<=[4294967296], "
       "to_apply=%sum",
       51, "the iota has 4294967296 devices, at most 2^31 are supported"},
  }));
  check_error(line, column, message);
}

TEST_CASE("a cycle through instructions in any order is named") {
  CHECK_THAT(error_of("HloModule m\nENTRY e {\n  a = f32[] negate(c)\n  b = f32[] negate(a)\n"
                      "  ROOT c = f32[] negate(b)\n}"),
             Catch::StartsWith("m.hlo:4:20: \"a\" reads itself through \"b\""));
  CHECK_THAT(error_of("HloModule m\nENTRY e {\n  a = f32[] negate(c)\n  ROOT b = f32[] copy(a)\n}"),
             Catch::StartsWith("m.hlo:3:20: \"c\" is not defined in \"e\""));
  CHECK_THAT(error_of("HloModule m\nENTRY e {\n  a = f32[] negate(b)\n  b = f32[] constant(1)\n"
                      "  a = f32[] constant(2)\n}"),
             Catch::StartsWith("m.hlo:5:3: \"a\" is defined twice"));
  CHECK_THAT(
      error_of("HloModule m\nENTRY e {\n  a = f32[] negate(f32[2] b)\n  b = f32[] constant(1)\n"
               "}"),
      Catch::StartsWith("m.hlo:3:20: operand \"b\" is written as f32[2], but is f32[]"));
}

TEST_CASE("nesting of any depth is refused or read without recursion") {
  const int deep = 100000;
  const std::string head = "HloModule m\nENTRY e { ";
  CHECK_THAT(error_of(head + "a = " + repeat("(", deep) + "f32[]"), Catch::Contains("nested more"));
  CHECK_THAT(error_of(head + "a = f32[] constant(" + repeat("{", deep)), Catch::Contains("deeper"));
  CHECK_THAT(error_of(head + "a = (f32[]) constant(" + repeat("(", deep)),
             Catch::Contains("expected a number"));
  CHECK_THAT(error_of(head + "a = f32[] parameter(0), x=" + repeat("{", deep)),
             Catch::Contains("not closed"));
  CHECK_THAT(
      error_of(head + "a = f32[] parameter(0), x=" + repeat("[(", deep) + repeat("})", deep)),
      Catch::Contains("is wanted first"));
  CHECK(error_of(head + "a = f32[] parameter(0), x=" + repeat("{(", deep) + repeat(")}", deep) +
                 "}") == "no error");
  CHECK_THAT(error_of(head + repeat("a = f32[] call(), to_apply={ ", deep)),
             Catch::Contains("computations inside one another"));
  CHECK_THAT(error_of(head + "a = f32[] parameter(0), sharding=" + repeat("{", deep) +
                      repeat("}", deep) + "}"),
             Catch::Contains("sharding"));
  CHECK_THAT(error_of(head + "a = f32[2]{0:" + repeat("T(8)", deep) + " parameter(0)"),
             Catch::Contains("not closed"));
  CHECK(error_of(head + "a = f32[2]{0:" + repeat("T(8)", deep) + "} parameter(0) }") == "no error");
}

TEST_CASE("lists of any length are read in time that grows with them only") {
  const int many = 100000;
  std::string attributes, branches, operands, groups;
  for (int i = 0; i < many; ++i) {
    attributes += fmt::format(", x{}=1", i);
    branches += i ? ", f" : "f";
    operands += ", a";
    groups += fmt::format("{}{{{}}}", i ? "," : "", i);
  }
  const std::string head =
      "HloModule m\nf { a = f32[] parameter(0) }\nENTRY e { a = f32[] parameter(0)\n";
  CHECK(error_of(head + "b = f32[] negate(a)" + attributes + " }") == "no error");
  CHECK_THAT(error_of(head + "b = f32[] negate(a)" + attributes + ", x7=2 }"),
             Catch::Contains("x7 is given twice"));
  CHECK(error_of(head + "i = s32[] constant(0)\nb = f32[] conditional(i" + operands +
                 "), branch_computations={" + branches + "} }") == "no error");
  CHECK(error_of(head + "b = f32[1] custom-call(a" + operands + "), custom_call_target=\"f\" }") ==
        "no error");
  const std::string sum =
      "s { a = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT c = f32[] add(a, b) }\n";
  CHECK(error_of("HloModule m\n" + sum +
                 "ENTRY e { a = f32[] parameter(0)\n"
                 "b = f32[] all-reduce(a), to_apply=s, replica_groups={" +
                 groups + "} }") == "no error");
  // 10,000 readers of one value above it, each with a list of predecessors.
  std::string readers;
  for (int i = 0; i < 10000; ++i)
    readers +=
        fmt::format("r{} = f32[] negate(z), control-predecessors={{r{}}}\n", i, i ? i - 1 : 1);
  const std::string text = "HloModule m\nENTRY e {\n" + readers + "z = f32[] parameter(0) }";
  const std::string printed = to_text(*parse_module(text));
  CHECK(to_text(*parse_module(printed)) == printed);
}

TEST_CASE("a constant of many dims prints in time that grows with its text only") {
  const std::string text = "HloModule m\nENTRY e { a = s8[" + repeat("1,", 2000) +
                           "20000] constant(" + repeat("{", 2001) + "1" + repeat(",1", 19999) +
                           repeat("}", 2001) + ") }";
  const std::string printed = to_text(*parse_module(text));
  CHECK(to_text(*parse_module(printed)) == printed);
}

TEST_CASE("bytes that are no text, and text cut anywhere, are refused or read") {
  std::string text = hlo_prelude() +
                     "ENTRY %e (p: f32[4]) -> f32[4] {\n  %p = f32[4]{0} parameter(0)\n  ROOT %c = "
                     "f32[4] call(%p), to_apply={ ROOT %q = f32[4] parameter(0) }\n}\n";
  for (size_t length = 0; length < text.size(); ++length)
    CHECK_NOTHROW(error_of(text.substr(0, length)));
  for (int byte = 0; byte < 256; ++byte) {
    text[text.size() - 30] = static_cast<char>(byte);
    CHECK_NOTHROW(error_of(text));
    CHECK_NOTHROW(error_of(std::string(3, static_cast<char>(byte))));
  }
}

TEST_CASE("every input that once broke the reader is refused, or read into a fixed point") {
  const std::filesystem::path folder =
      std::filesystem::path(GSPMD_SOURCE_DIR) / "tests/data/fuzz/parse";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  CHECK_FALSE(files.empty());
  for (const std::filesystem::path& file : files) {
    CAPTURE(file.filename().string());
    std::unique_ptr<Module> module;
    try {
      module = parse_module(read_file(file), "fuzz");
    } catch (const UserError&) {
      continue;
    }
    const std::string printed = to_text(*module);
    const auto again = parse_module(printed, "printed");
    CHECK(to_text(*again) == printed);
    CHECK(structurally_equal(*module, *again));
  }
}

}  // namespace gspmd
