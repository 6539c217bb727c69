#include "ops/common/scalar_program.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <complex>
#include <sstream>

#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "ops/evaluate_cases.h"

namespace gspmd::testing {
namespace {

const double kValues[] = {0,   -0.0, 1,    -1,     0.3,      -2.75,     7,
                          100, -129, 1e10, 3.5e38, HUGE_VAL, -HUGE_VAL, NAN};

CallComputation interpret() {
  return [](const Computation& callee, std::span<const Value> arguments) {
    return evaluate(callee, arguments);
  };
}

Array scalar_of(DType dtype, double value) {
  const Array array(dtype, {});
  if (is_complex(dtype)) {
    if (dtype == DType::c64)
      array.data<std::complex<float>>()[0] = {static_cast<float>(value), 2};
    else
      array.data<std::complex<double>>()[0] = {value, 2};
    return array;
  }
  Array converted = array;
  converted.set(0, value);
  return converted;
}

// The program of a computation on scalars gives what the computation gives, for each pair of
// values.
void compare_with_evaluation(const std::string& lines) {
  const auto module = parse_module("HloModule m\nENTRY e {\n" + lines + "}\n");
  const Computation& entry = *module->entry();
  const CallComputation call = interpret();
  ScalarProgram program(entry, call);
  REQUIRE(program.compiled());
  for (const double x : kValues)
    for (const double y : kValues) {
      std::vector<Value> arguments;
      for (const Node* parameter : entry.parameters())
        arguments.push_back(
            {scalar_of(parameter->shape.dtype, arguments.empty() ? x : y), {}, false});
      for (size_t i = 0; i < arguments.size(); ++i)
        program.set(i, arguments[i].array.bytes().data());
      program.run();
      const std::vector<Array> expected = leaves(evaluate(entry, arguments));
      REQUIRE(program.results() == expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        const Array got(expected[i].shape());
        program.take(i, got.bytes().data());
        INFO(lines << "of " << x << " and " << y << ", result " << i);
        CHECK(bitwise_equal(got, expected[i]));
      }
    }
}

}  // namespace

TEST_CASE("a scalar program gives the bits of the interpreter, op by op", "[scalar_program]") {
  struct Row {
    const char* op;
    const char* types;  // separated by blanks
    int operands;
  };
  const char* const kAll = "pred s8 s32 u16 s64 u64 f16 bf16 f32 f64";
  const char* const kNumbers = "s8 s32 u16 s64 u64 f16 bf16 f32 f64";
  const Row rows[] = {
      {"add", kAll, 2},
      {"multiply", kAll, 2},
      {"maximum", kAll, 2},
      {"minimum", kAll, 2},
      {"subtract", kNumbers, 2},
      {"divide", kNumbers, 2},
      {"remainder", kNumbers, 2},
      {"and", "pred s8 u64", 2},
      {"or", "pred s8 u64", 2},
      {"xor", "pred s8 u64", 2},
      {"not", "pred s8 u64", 1},
      {"negate", "s8 s64 f16 bf16 f32 f64", 1},
      {"abs", "f16 bf16 f32 f64 s32", 1},
      {"exponential", "f16 bf16 f32 f64", 1},
      {"exponential-minus-one", "f16 bf16 f32 f64", 1},
      {"log", "f16 bf16 f32 f64", 1},
      {"log-plus-one", "f16 bf16 f32 f64", 1},
      {"sqrt", "f16 bf16 f32 f64", 1},
      {"tanh", "f16 bf16 f32 f64", 1},
      {"logistic", "f32", 1},
      {"sine", "f32", 1},
      {"power", "f32 s32", 2},
      {"add", "c64 c128 f8e4m3fn s4", 2},
      {"multiply", "c64 c128", 2},
      {"subtract", "c64", 2},
      {"divide", "c64", 2},
      {"exponential", "c64", 1},
  };
  for (const Row& row : rows) {
    std::istringstream types(row.types);
    std::string type;
    while (types >> type) {
      const std::string second =
          row.operands == 2 ? fmt::format("y = {}[] parameter(1)\n", type) : "";
      compare_with_evaluation(fmt::format("x = {0}[] parameter(0)\n{1}ROOT r = {0}[] {2}(x{3})\n",
                                          type, second, row.op, row.operands == 2 ? ", y" : ""));
    }
  }
}

TEST_CASE("a scalar program compares and converts as the interpreter does", "[scalar_program]") {
  for (const char* const type : {"pred", "s8", "u64", "f16", "bf16", "f32", "f64"})
    for (const char* const direction : {"EQ", "NE", "GE", "GT", "LE", "LT"}) {
      const std::string compare = fmt::format(
          "x = {0}[] parameter(0)\ny = {0}[] parameter(1)\nROOT r = pred[] compare(x, y), "
          "direction={1}",
          type, direction);
      compare_with_evaluation(compare + "\n");
      if (std::string_view(type).find('f') != std::string_view::npos)
        compare_with_evaluation(compare + ", type=TOTALORDER\n");
    }
  for (const char* const from : {"pred", "s8", "u64", "bf16", "f32", "f64"})
    for (const char* const to : {"pred", "s16", "u8", "s64", "f16", "f32", "f64"})
      compare_with_evaluation(
          fmt::format("x = {}[] parameter(0)\nROOT r = {}[] convert(x)\n", from, to));
}

TEST_CASE("calls that double at every level are not written out", "[scalar_program]") {
  std::string text = "HloModule m\nc0 {\nROOT p = f32[] parameter(0)\n}\n";
  for (int level = 1; level <= 40; ++level)
    text += fmt::format(
        "c{0} {{\np = f32[] parameter(0)\na = f32[] call(p), to_apply=c{1}\nROOT b = f32[] "
        "call(a), to_apply=c{1}\n}}\n",
        level, level - 1);
  const auto module = parse_module(
      text + "ENTRY e {\np = f32[] parameter(0)\nROOT r = f32[] call(p), to_apply=c40\n}\n");
  const CallComputation call = interpret();
  CHECK_FALSE(ScalarProgram(*module->entry(), call).compiled());
}

TEST_CASE("a scalar program follows calls and tuples, and calls what is no scalar",
          "[scalar_program]") {
  compare_with_evaluation(R"(x = f32[] parameter(0)
y = f32[] parameter(1)
c = f32[] constant(0.5)
t = (f32[], f32[]) tuple(x, c)
u = ((f32[], f32[]), f32[]) tuple(t, y)
v = (f32[], f32[]) get-tuple-element(u), index=0
w = f32[] get-tuple-element(v), index=1
z = f32[] get-tuple-element(u), index=1
b = f32[] broadcast(z), dimensions={}
p = pred[] compare(x, b), direction=GT
s = f32[] select(p, w, b)
i = s32[] bitcast-convert(s)
l = f32[] clamp(c, s, x)
ROOT r = (f32[], s32[], f32[]) tuple(s, i, l)
)");
  const auto module = parse_module(R"(HloModule m
ENTRY e {
x = f32[] parameter(0)
y = f32[] parameter(1)
a = f32[2] broadcast(x), dimensions={}
b = f32[2] broadcast(y), dimensions={}
z = f32[] constant(0)
s = f32[1] slice(a), slice={[1:2]}
ROOT r = f32[] reshape(s)
})");
  const CallComputation call = interpret();
  ScalarProgram program(*module->entry(), call);
  CHECK_FALSE(program.compiled());
  const Array x = Array::scalar(3.0f), y = Array::scalar(4.0f), result(DType::f32, {});
  program.set(0, x.bytes().data());
  program.set(1, y.bytes().data());
  program.run();
  program.take(0, result.bytes().data());
  CHECK(result.item() == 3);
}

}  // namespace gspmd::testing
