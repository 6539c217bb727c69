#include "stablehlo/op_cases.h"

namespace gspmd::stablehlo {

namespace {

const std::string x = "tensor<4xf32>", z = "tensor<4xcomplex<f32>>", p = "tensor<4xi1>";
const std::vector<OpCase> kOwnForms = {
    {"complex", "%a: " + x + ", %b: " + x, z, "%r = stablehlo.complex %a, %b : " + z,
     "%r = \"stablehlo.complex\"(%a, %b) : (" + x + ", " + x + ") -> " + z,
     "ROOT r = c64[4] complex(a, b)"},
    {"abs of complex numbers", "%a: " + z, x, "%r = stablehlo.abs %a : (" + z + ") -> " + x,
     "%r = \"stablehlo.abs\"(%a) : (" + z + ") -> " + x, "ROOT r = f32[4] abs(a)"},
    {"real", "%a: " + z, x, "%r = stablehlo.real %a : (" + z + ") -> " + x,
     "%r = \"stablehlo.real\"(%a) : (" + z + ") -> " + x, "ROOT r = f32[4] real(a)"},
    {"imag", "%a: " + z, x, "%r = stablehlo.imag %a : (" + z + ") -> " + x,
     "%r = \"stablehlo.imag\"(%a) : (" + z + ") -> " + x, "ROOT r = f32[4] imag(a)"},
    {"is_finite", "%a: " + x, p, "%r = stablehlo.is_finite %a : (" + x + ") -> " + p,
     "%r = \"stablehlo.is_finite\"(%a) : (" + x + ") -> " + p, "ROOT r = pred[4] is-finite(a)"},
    {"convert", "%a: " + x, "tensor<4xbf16>",
     "%r = stablehlo.convert %a : (" + x + ") -> tensor<4xbf16>",
     "%r = \"stablehlo.convert\"(%a) : (" + x + ") -> tensor<4xbf16>",
     "ROOT r = bf16[4] convert(a)"},
    {"compare", "%a: " + x + ", %b: " + x, p,
     "%r = stablehlo.compare  LE, %a, %b,  TOTALORDER : (" + x + ", " + x + ") -> " + p,
     "%r = \"stablehlo.compare\"(%a, %b) <{compare_type = #stablehlo<comparison_type "
     "TOTALORDER>, "
     "comparison_direction = #stablehlo<comparison_direction LE>}> : (" +
         x + ", " + x + ") -> " + p,
     "ROOT r = pred[4] compare(a, b), direction=LE, type=TOTALORDER"},
    {"compare by the type's own order", "%a: tensor<ui8>, %b: tensor<ui8>", "tensor<i1>",
     "%r = stablehlo.compare GT, %a, %b, UNSIGNED : (tensor<ui8>, tensor<ui8>) -> tensor<i1>",
     "%r = \"stablehlo.compare\"(%a, %b) {comparison_direction = "
     "#stablehlo<comparison_direction GT>} "
     ": (tensor<ui8>, tensor<ui8>) -> tensor<i1>",
     "ROOT r = pred[] compare(a, b), direction=GT"},
    {"select", "%p: " + p + ", %a: " + x + ", %b: " + x, x,
     "%r = stablehlo.select %p, %a, %b : " + p + ", " + x,
     "%r = \"stablehlo.select\"(%p, %a, %b) : (" + p + ", " + x + ", " + x + ") -> " + x,
     "ROOT r = f32[4] select(p, a, b)"},
    {"select by a scalar", "%p: tensor<i1>, %a: " + x + ", %b: " + x, x,
     "%r = stablehlo.select %p, %a, %b : tensor<i1>, " + x,
     "%r = \"stablehlo.select\"(%p, %a, %b) : (tensor<i1>, " + x + ", " + x + ") -> " + x,
     "q = pred[4] broadcast(p), dimensions={}, frontend_attributes={mlir.implicit=\"true\"}\n"
     "ROOT r = f32[4] select(q, a, b)"},
    {"clamp", "%l: tensor<f32>, %a: " + x + ", %h: " + x, x,
     "%r = stablehlo.clamp %l, %a, %h : (tensor<f32>, " + x + ", " + x + ") -> " + x,
     "%r = \"stablehlo.clamp\"(%l, %a, %h) : (tensor<f32>, " + x + ", " + x + ") -> " + x,
     "m = f32[4] broadcast(l), dimensions={}, frontend_attributes={mlir.implicit=\"true\"}\n"
     "ROOT r = f32[4] clamp(m, a, h)"},
    {"reduce_precision", "%a: " + x, x, "%r = stablehlo.reduce_precision %a, format = e5m10 : " + x,
     "%r = \"stablehlo.reduce_precision\"(%a) <{exponent_bits = 5 : i32, mantissa_bits = 10 : "
     "i32}> : (" +
         x + ") -> " + x,
     "ROOT r = f32[4] reduce-precision(a), exponent_bits=5, mantissa_bits=10"},
    {"map", "%a: " + x, x, "",
     "%r = \"stablehlo.map\"(%a) <{dimensions = array<i64: 0>}> ({^bb0(%s: tensor<f32>):\n"
     "%t = stablehlo.negate %s : tensor<f32>\nstablehlo.return %t : tensor<f32>}) : (" +
         x + ") -> " + x,
     "ROOT r = f32[4] map(a), dimensions={0}, to_apply=f",
     "f { s = f32[] parameter(0)\nROOT t = f32[] negate(s) }"}};

}  // namespace

std::vector<OpCase> elementwise_cases() {
  std::vector<OpCase> cases;
  const auto unary = [&](const std::string& name, const std::string& opcode,
                         const std::string& type = "f32", const std::string& hlo = "f32") {
    const std::string t = "tensor<2x3x" + type + ">";
    cases.push_back({name, "%a: " + t, t, "%r = stablehlo." + name + " %a : " + t,
                     "%r = \"stablehlo." + name + "\"(%a) : (" + t + ") -> " + t,
                     "ROOT r = " + hlo + "[2,3] " + opcode + "(a)"});
  };
  for (const char* name : {"abs", "cbrt", "ceil", "cosine", "exponential", "floor", "log",
                           "logistic", "negate", "rsqrt", "sign", "sine", "sqrt", "tan", "tanh"})
    unary(name, name);
  unary("exponential_minus_one", "exponential-minus-one");
  unary("log_plus_one", "log-plus-one");
  unary("round_nearest_afz", "round-nearest-afz");
  unary("round_nearest_even", "round-nearest-even");
  unary("not", "not", "i1", "pred");
  unary("popcnt", "popcnt", "ui8", "u8");
  unary("count_leading_zeros", "count-leading-zeros", "i64", "s64");
  const auto binary = [&](const std::string& name, const std::string& opcode,
                          const std::string& type = "f32", const std::string& hlo = "f32") {
    const std::string t = "tensor<4x" + type + ">";
    cases.push_back({name, "%a: " + t + ", %b: " + t, t,
                     "%r = stablehlo." + name + " %a, %b : " + t,
                     "%r = \"stablehlo." + name + "\"(%a, %b) : (" + t + ", " + t + ") -> " + t,
                     "ROOT r = " + hlo + "[4] " + opcode + "(a, b)"});
  };
  for (const char* name : {"add", "atan2", "divide", "maximum", "minimum", "multiply", "power",
                           "remainder", "subtract"})
    binary(name, name);
  for (const char* name : {"and", "or", "xor"}) binary(name, name, "i32", "s32");
  binary("shift_left", "shift-left", "i32", "s32");
  binary("shift_right_arithmetic", "shift-right-arithmetic", "i8", "s8");
  binary("shift_right_logical", "shift-right-logical", "ui16", "u16");
  cases.insert(cases.end(), kOwnForms.begin(), kOwnForms.end());
  return cases;
}

}  // namespace gspmd::stablehlo
