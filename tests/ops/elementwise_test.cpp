#include <catch2/catch.hpp>

#include "ops/evaluate_cases.h"

namespace gspmd::testing {
namespace {

struct Row {
  const char* name;
  const char* type;  // "s8[3]" of all operands
  std::vector<const char*> operands;
  const char* call;    // "add", then attributes
  const char* result;  // element type, "" = as the operands
  const char* expected;
};

void check_rows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    std::string body;
    std::string names;
    for (size_t i = 0; i < row.operands.size(); ++i) {
      body += fmt::format("p{} = {} constant({})\n", i, row.type, row.operands[i]);
      names += fmt::format("{}p{}", i ? ", " : "", i);
    }
    const std::string type = row.type;
    const std::string result =
        *row.result ? fmt::format("{}{}", row.result, type.substr(type.find('['))) : type;
    const std::string call = row.call;
    const std::string opcode = call.substr(0, call.find(' '));
    const std::string attributes = call.substr(opcode.size());
    check_case({row.name,
                fmt::format("{}ROOT r = {} {}({}){}{}", body, result, opcode, names,
                            attributes.empty() ? "" : ",", attributes),
                fmt::format("{} {}", result, row.expected)});
  }
}

}  // namespace

TEST_CASE("integer arithmetic wraps around", "[elementwise]") {
  check_rows({
      {"add s8", "s8[3]", {"{127,-128,5}", "{1,-1,-7}"}, "add", "", "{-128,127,-2}"},
      {"add u8", "u8[2]", {"{255,3}", "{2,4}"}, "add", "", "{1,7}"},
      {"subtract u16", "u16[2]", {"{0,9}", "{1,4}"}, "subtract", "", "{65535,5}"},
      {"multiply u16", "u16[1]", {"{65535}", "{65535}"}, "multiply", "", "{1}"},
      {"multiply s32", "s32[2]", {"{2147483647,-3}", "{2,7}"}, "multiply", "", "{-2,-21}"},
      {"multiply s64",
       "s64[1]",
       {"{9223372036854775807}", "{3}"},
       "multiply",
       "",
       "{9223372036854775805}"},
      {"negate lowest", "s32[2]", {"{-2147483648,4}"}, "negate", "", "{-2147483648,-4}"},
      {"negate u8", "u8[2]", {"{1,0}"}, "negate", "", "{255,0}"},
      {"abs lowest", "s8[3]", {"{-128,-5,5}"}, "abs", "", "{-128,5,5}"},
      {"sign", "s32[3]", {"{-9,0,4}"}, "sign", "", "{-1,0,1}"},
      {"power",
       "s32[6]",
       {"{2,-3,7,1,-1,5}", "{10,3,0,-5,-3,-1}"},
       "power",
       "",
       "{1024,-27,1,1,-1,0}"},
      {"power wraps", "u8[1]", {"{3}", "{6}"}, "power", "", "{217}"},
  });
}

TEST_CASE("integer division by zero and overflow have HLO's values", "[elementwise]") {
  check_rows({
      {"divide",
       "s32[5]",
       {"{7,-7,5,-2147483648,0}", "{2,2,0,-1,0}"},
       "divide",
       "",
       "{3,-3,-1,-2147483648,-1}"},
      {"divide u8", "u8[2]", {"{7,7}", "{2,0}"}, "divide", "", "{3,255}"},
      {"divide s8", "s8[2]", {"{-128,7}", "{-1,-1}"}, "divide", "", "{-128,-7}"},
      {"remainder",
       "s32[5]",
       {"{7,-7,5,-2147483648,7}", "{4,4,0,-1,-4}"},
       "remainder",
       "",
       "{3,-3,5,0,3}"},
      {"remainder u32", "u32[2]", {"{7,7}", "{4,0}"}, "remainder", "", "{3,7}"},
      {"divide f32", "f32[4]", {"{1,-1,0,6}", "{0,0,0,4}"}, "divide", "", "{inf,-inf,nan,1.5}"},
      {"remainder f32", "f32[3]", {"{5.5,-5.5,1}", "{2,2,0}"}, "remainder", "", "{1.5,-1.5,nan}"},
  });
}

TEST_CASE("shifts by the width and more move all bits out", "[elementwise]") {
  check_rows({
      {"left", "s32[4]", {"{1,3,-1,5}", "{31,32,4,-1}"}, "shift-left", "", "{-2147483648,0,-16,0}"},
      {"left u8", "u8[3]", {"{129,1,1}", "{1,7,8}"}, "shift-left", "", "{2,128,0}"},
      {"arithmetic",
       "s32[4]",
       {"{-8,-8,8,8}", "{1,32,99,-1}"},
       "shift-right-arithmetic",
       "",
       "{-4,-1,0,0}"},
      {"arithmetic u8", "u8[2]", {"{128,128}", "{1,9}"}, "shift-right-arithmetic", "", "{192,255}"},
      {"logical",
       "s32[3]",
       {"{-8,-8,8}", "{1,32,2}"},
       "shift-right-logical",
       "",
       "{2147483644,0,2}"},
      {"logical s8", "s8[1]", {"{-1}", "{4}"}, "shift-right-logical", "", "{15}"},
  });
}

TEST_CASE("logic works on bits of integers and on pred", "[elementwise]") {
  check_rows({
      {"and", "s32[2]", {"{12,-1}", "{10,5}"}, "and", "", "{8,5}"},
      {"or", "u8[1]", {"{12}", "{10}"}, "or", "", "{14}"},
      {"xor", "pred[4]", {"{0,0,1,1}", "{0,1,0,1}"}, "xor", "", "{0,1,1,0}"},
      {"not s8", "s8[2]", {"{0,5}"}, "not", "", "{-1,-6}"},
      {"not pred", "pred[2]", {"{0,1}"}, "not", "", "{1,0}"},
      {"add pred is or", "pred[4]", {"{0,0,1,1}", "{0,1,0,1}"}, "add", "", "{0,1,1,1}"},
      {"multiply pred is and", "pred[4]", {"{0,0,1,1}", "{0,1,0,1}"}, "multiply", "", "{0,0,0,1}"},
  });
}

TEST_CASE("NaN passes through maximum, minimum and clamp and fails comparisons", "[elementwise]") {
  check_rows({
      {"maximum", "f32[4]", {"{nan,1,3,-0}", "{1,nan,2,0}"}, "maximum", "", "{nan,nan,3,0}"},
      {"maximum of zeros the other way", "f32[1]", {"{0}", "{-0}"}, "maximum", "", "{0}"},
      {"minimum", "bf16[4]", {"{nan,1,3,0}", "{1,nan,2,-0}"}, "minimum", "", "{nan,nan,2,-0}"},
      {"clamp",
       "f32[5]",
       {"{0,0,0,nan,0}", "{nan,-5,5,1,0.5}", "{1,1,1,1,1}"},
       "clamp",
       "",
       "{nan,0,1,nan,0.5}"},
      {"clamp with crossed bounds", "s32[1]", {"{5}", "{7}", "{2}"}, "clamp", "", "{2}"},
      {"EQ", "f32[3]", {"{nan,1,0}", "{nan,1,-0}"}, "compare direction=EQ", "pred", "{0,1,1}"},
      {"NE", "f32[3]", {"{nan,1,0}", "{nan,1,-0}"}, "compare direction=NE", "pred", "{1,0,0}"},
      {"LT", "f32[3]", {"{nan,1,2}", "{1,nan,3}"}, "compare direction=LT", "pred", "{0,0,1}"},
      {"GE", "f32[3]", {"{nan,3,2}", "{1,3,3}"}, "compare direction=GE", "pred", "{0,1,0}"},
      {"total order",
       "f32[4]",
       {"{-0,nan,1,-inf}", "{0,inf,nan,-1}"},
       "compare direction=LT, type=TOTALORDER",
       "pred",
       "{1,0,1,1}"},
      {"total order, as the order",
       "f32[4]",
       {"{-0,nan,1,-inf}", "{0,inf,nan,-1}"},
       "compare direction=LT, order=TOTAL",
       "pred",
       "{1,0,1,1}"},
      {"total order beside the type",
       "f32[2]",
       {"{-0,inf}", "{0,nan}"},
       "compare direction=LT, order=TOTAL, type=FLOAT",
       "pred",
       "{1,1}"},
      {"partial order",
       "f32[2]",
       {"{-0,1}", "{0,nan}"},
       "compare direction=LT, order=PARTIAL",
       "pred",
       "{0,0}"},
      {"total order is reflexive",
       "f16[1]",
       {"{nan}", "{nan}"},
       "compare direction=EQ, type=TOTALORDER",
       "pred",
       "{1}"},
      {"unsigned", "u8[2]", {"{200,3}", "{100,3}"}, "compare direction=GT", "pred", "{1,0}"},
      {"is-finite", "f32[4]", {"{1,inf,-inf,nan}"}, "is-finite", "pred", "{1,0,0,0}"},
      {"sign", "f32[4]", {"{nan,-3,-0,7}"}, "sign", "", "{nan,-1,-0,1}"},
  });
}

TEST_CASE("conversions saturate to integers and wrap between them", "[elementwise]") {
  check_rows({
      {"f32 to s8",
       "f32[6]",
       {"{300,-300,nan,inf,1.9,-1.9}"},
       "convert",
       "s8",
       "{127,-128,0,127,1,-1}"},
      {"f32 to s32",
       "f32[4]",
       {"{3e9,-3e9,2147483648,-2147483648}"},
       "convert",
       "s32",
       "{2147483647,-2147483648,2147483647,-2147483648}"},
      {"f64 to u64", "f64[3]", {"{1e30,-1,5}"}, "convert", "u64", "{18446744073709551615,0,5}"},
      {"f32 to s64",
       "f32[2]",
       {"{inf,-inf}"},
       "convert",
       "s64",
       "{9223372036854775807,-9223372036854775808}"},
      {"f32 to pred", "f32[4]", {"{0,-0,0.1,nan}"}, "convert", "pred", "{0,0,1,1}"},
      {"pred to f32", "pred[2]", {"{1,0}"}, "convert", "f32", "{1,0}"},
      {"s32 to u8", "s32[3]", {"{-1,256,77}"}, "convert", "u8", "{255,0,77}"},
      {"u8 to s8", "u8[1]", {"{200}"}, "convert", "s8", "{-56}"},
      {"f32 to bf16 rounds to even",
       "f32[3]",
       {"{257,258,259}"},
       "convert",
       "bf16",
       "{256,258,260}"},
      {"f32 to f16", "f32[3]", {"{2049,70000,1e-9}"}, "convert", "f16", "{2048,inf,0}"},
  });
}

TEST_CASE("16-bit floats are computed in float and rounded once per op", "[elementwise]") {
  check_rows({
      {"add bf16", "bf16[1]", {"{256}", "{1}"}, "add", "", "{256}"},
      {"add f16", "f16[2]", {"{2048,65504}", "{1,65504}"}, "add", "", "{2048,inf}"},
      {"multiply bf16", "bf16[1]", {"{257}", "{3}"}, "multiply", "", "{768}"},
  });
}

TEST_CASE("functions have their values at simple points", "[elementwise]") {
  check_rows({
      {"exp", "f64[3]", {"{0,-inf,nan}"}, "exponential", "", "{1,0,nan}"},
      {"expm1", "f64[2]", {"{0,1e-20}"}, "exponential-minus-one", "", "{0,1e-20}"},
      {"log", "f32[4]", {"{1,0,-1,inf}"}, "log", "", "{0,-inf,nan,inf}"},
      {"log1p", "f64[2]", {"{0,1e-20}"}, "log-plus-one", "", "{0,1e-20}"},
      {"sqrt", "f32[3]", {"{9,0,-1}"}, "sqrt", "", "{3,0,nan}"},
      {"rsqrt", "f32[3]", {"{4,0,inf}"}, "rsqrt", "", "{0.5,inf,0}"},
      {"logistic", "f32[3]", {"{0,inf,-inf}"}, "logistic", "", "{0.5,1,0}"},
      {"tanh", "f32[3]", {"{0,inf,-inf}"}, "tanh", "", "{0,1,-1}"},
      {"sine", "f32[1]", {"{0}"}, "sine", "", "{0}"},
      {"cosine", "f32[1]", {"{0}"}, "cosine", "", "{1}"},
      {"floor", "f32[3]", {"{1.5,-1.5,-0}"}, "floor", "", "{1,-2,-0}"},
      {"ceil", "f32[3]", {"{1.5,-1.5,2}"}, "ceil", "", "{2,-1,2}"},
      {"power", "f32[4]", {"{2,0,4,-1}", "{3,0,0.5,0.5}"}, "power", "", "{8,1,2,nan}"},
  });
}

TEST_CASE("select, scalars and nothing at all", "[elementwise]") {
  const std::vector<EvaluateCase> cases = {
      {"select",
       "p = pred[3] constant({1,0,1})\na = s32[3] constant({1,2,3})\nb = s32[3] "
       "constant({4,5,6})\nROOT r = s32[3] select(p, a, b)",
       "s32[3] {1,5,3}"},
      {"select by a scalar",
       "p = pred[] constant(false)\na = s32[3] constant({1,2,3})\nb = s32[3] "
       "constant({4,5,6})\nROOT r = s32[3] select(p, a, b)",
       "s32[3] {4,5,6}"},
      {"clamp to scalars",
       "l = s32[] constant(0)\nx = s32[2,2] constant({{-1,1},{2,3}})\nh = s32[] constant(2)\nROOT "
       "r = s32[2,2] clamp(l, x, h)",
       "s32[2,2] {{0,1},{2,2}}"},
      {"scalar", "a = f32[] constant(2)\nROOT r = f32[] multiply(a, a)", "f32[] 4"},
      {"empty",
       "a = f32[] constant(2)\nb = f32[0,3] broadcast(a), dimensions={}\nROOT r = f32[0,3] add(b, "
       "b)",
       "f32[0,3] {}"},
      {"bits of a float", "a = f32[2] constant({1,-0})\nROOT r = u32[2] bitcast-convert(a)",
       "u32[2] {1065353216,2147483648}"},
      {"bytes of an integer",
       "a = u32[1] constant({67305985})\nROOT r = u8[1,4] bitcast-convert(a)",
       "u8[1,4] {{1,2,3,4}}"},
      {"an integer of bytes",
       "a = u8[1,4] constant({{1,2,3,4}})\nROOT r = u32[1] bitcast-convert(a)",
       "u32[1] {67305985}"},
  };
  for (const EvaluateCase& test : cases) check_case(test);
}

}  // namespace gspmd::testing
