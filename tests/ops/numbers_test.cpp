// Values of the ops on complex and narrow numbers and of the rarer functions; expected values were
// computed in double precision elsewhere and rounded.

#include <catch2/catch.hpp>

#include "ops/evaluate_cases.h"

namespace gspmd::testing::numbers_test {
namespace {

// The op on constants of one type: operands and result as literals.
struct Row {
  const char* call;
  const char* type;
  std::vector<const char*> operands;
  const char* result;
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
    const std::string call = row.call;
    const std::string opcode = call.substr(0, call.find(' '));
    const std::string attributes = call.substr(opcode.size());
    check_case({row.call,
                fmt::format("{}ROOT r = {} {}({}){}{}", body, row.result, opcode, names,
                            attributes.empty() ? "" : ",", attributes),
                fmt::format("{} {}", row.result, row.expected)});
  }
}

constexpr const char* kPoints = "{0.5,-2.25,3.5,0}";
constexpr const char* kInside = "{0.5,-0.25,0.75,1}";
constexpr const char* kComplex = "{(1,2),(-0.5,-0.25),(3,-1)}";

}  // namespace

TEST_CASE("real functions are exact to the last place of f32", "[numbers]") {
  check_rows({
      {"acos", "f32[4]", {kInside}, "f32[4]", "{1.0471976,1.8234766,0.7227343,0}"},
      {"asin", "f32[4]", {kInside}, "f32[4]", "{0.5235988,-0.25268024,0.8480621,1.5707964}"},
      {"atanh", "f32[4]", {kInside}, "f32[4]", "{0.54930615,-0.25541282,0.97295505,inf}"},
      {"acosh", "f32[3]", {"{1,1.5,10}"}, "f32[3]", "{0,0.9624236,2.993223}"},
      {"asinh", "f32[4]", {kPoints}, "f32[4]", "{0.4812118,-1.5501579,1.9657204,0}"},
      {"cbrt", "f32[4]", {kPoints}, "f32[4]", "{0.7937005,-1.3103707,1.5182945,0}"},
      {"cosh", "f32[4]", {kPoints}, "f32[4]", "{1.127626,4.7965674,16.572824,1}"},
      {"sinh", "f32[4]", {kPoints}, "f32[4]", "{0.5210953,-4.6911683,16.542627,0}"},
      {"tan", "f32[4]", {kPoints}, "f32[4]", "{0.5463025,1.2386277,0.37458563,0}"},
      {"erf", "f32[4]", {"{0.5,-0.25,3,0}"}, "f32[4]", "{0.5204999,-0.2763264,0.9999779,0}"},
      {"atan2",
       "f32[5]",
       {"{1,-1,0,-0,2}", "{-1,-1,-1,-1,3}"},
       "f32[5]",
       "{2.3561945,-2.3561945,3.1415927,-3.1415927,0.5880026}"},
      {"round-nearest-afz",
       "f32[6]",
       {"{0.5,-0.5,1.5,2.5,-2.5,0.49999997}"},
       "f32[6]",
       "{1,-1,2,3,-3,0}"},
      {"round-nearest-even",
       "f32[6]",
       {"{0.5,-0.5,1.5,2.5,-2.5,0.49999997}"},
       "f32[6]",
       "{0,-0,2,2,-2,0}"},
      {"exponential-minus-one", "f32[3]", {"{1e-10,-1e-10,-200}"}, "f32[3]", "{1e-10,-1e-10,-1}"},
      {"log-plus-one", "f32[3]", {"{1e-10,-1e-10,-1}"}, "f32[3]", "{1e-10,-1e-10,-inf}"},
      {"sign", "f32[4]", {"{-0,0,nan,-3}"}, "f32[4]", "{-0,0,nan,-1}"},
  });
}

TEST_CASE("complex functions agree with double precision", "[numbers]") {
  check_rows({
      {"exponential",
       "c64[3]",
       {kComplex},
       "c64[3]",
       "{(-1.1312044,2.4717267),(0.5876751,-0.15005809),(10.852262,-16.901396)}"},
      {"log",
       "c64[3]",
       {kComplex},
       "c64[3]",
       "{(0.804719,1.1071488),(-0.5815754,-2.6779451),(1.1512926,-0.32175055)}"},
      {"sine",
       "c64[3]",
       {kComplex},
       "c64[3]",
       "{(3.1657784,1.959601),(-0.4944858,-0.22168817),(0.21775955,1.1634403)}"},
      {"cosine",
       "c64[3]",
       {kComplex},
       "c64[3]",
       "{(2.032723,-3.0518978),(0.9051502,-0.12110879),(-1.5276382,0.1658444)}"},
      {"tanh",
       "c64[3]",
       {kComplex},
       "c64[3]",
       "{(1.1667362,-0.2434582),(-0.48548728,-0.19805545),(1.0020549,-0.004517137)}"},
      {"tan",
       "c64[3]",
       {kComplex},
       "c64[3]",
       "{(0.033812825,1.0147936),(-0.5045007,-0.3124207),(-0.05916854,-0.76801765)}"},
      {"asinh",
       "c64[3]",
       {kComplex},
       "c64[3]",
       "{(1.4693518,1.06344),(-0.4926757,-0.22432846),(1.8641615,-0.30760366)}"},
      {"acosh",
       "c64[3]",
       {kComplex},
       "c64[3]",
       "{(1.5285709,1.1437178),(0.28139606,-2.072405),(1.8241987,-0.3377011)}"},
      {"acos",
       "c64[3]",
       {kComplex},
       "c64[3]",
       "{(1.1437178,-1.5285709),(2.072405,0.28139606),(0.3377011,1.8241987)}"},
      {"sqrt",
       "c64[3]",
       {kComplex},
       "c64[3]",
       "{(1.2720196,0.78615135),(0.17178038,-0.72767335),(1.7553173,-0.28484878)}"},
      {"exponential-minus-one",
       "c64[3]",
       {kComplex},
       "c64[3]",
       "{(-2.1312044,2.4717267),(-0.4123249,-0.15005809),(9.852262,-16.901396)}"},
      {"log-plus-one",
       "c64[3]",
       {kComplex},
       "c64[3]",
       "{(1.0397208,0.7853982),(-0.5815754,-0.4636476),(1.4166067,-0.24497867)}"},
      {"power",
       "c64[3]",
       {kComplex, "{(3,-1),(-0.5,-0.25),(1,2)}"},
       "c64[3]",
       "{(-27.436382,19.78931),(0.059109427,0.68219596),(-2.3991346,5.519355)}"},
  });
}

TEST_CASE("complex arithmetic, branch cuts and values at zero and infinity", "[numbers]") {
  check_rows({
      {"add", "c64[1]", {"{(1,2)}", "{(3,-1)}"}, "c64[1]", "{(4,1)}"},
      {"multiply", "c64[1]", {"{(1,2)}", "{(3,-1)}"}, "c64[1]", "{(5,5)}"},
      {"divide", "c64[1]", {"{(5,5)}", "{(3,-1)}"}, "c64[1]", "{(1,2)}"},
      {"divide", "c64[1]", {"{(1e30,1e30)}", "{(1e30,1e30)}"}, "c64[1]", "{(1,0)}"},
      {"negate", "c64[1]", {"{(1,-2)}"}, "c64[1]", "{(-1,2)}"},
      {"abs", "c64[2]", {"{(3,4),(3e30,-4e30)}"}, "f32[2]", "{5,5e30}"},
      {"sign", "c64[2]", {"{(3,-4),(0,0)}"}, "c64[2]", "{(0.6,-0.8),(0,0)}"},
      {"log", "c64[2]", {"{(-1,0),(-1,-0)}"}, "c64[2]", "{(0,3.1415927),(0,-3.1415927)}"},
      {"sqrt", "c64[2]", {"{(-4,0),(-4,-0)}"}, "c64[2]", "{(0,2),(0,-2)}"},
      {"rsqrt", "c64[3]", {"{(4,0),(inf,3),(-inf,nan)}"}, "c64[3]", "{(0.5,0),(0,0),(0,0)}"},
      {"log-plus-one", "c64[1]", {"{(1e-20,1e-10)}"}, "c64[1]", "{(1.5e-20,1e-10)}"},
      {"log-plus-one", "c64[1]", {"{(-1,1e-10)}"}, "c64[1]", "{(-23.02585,1.5707964)}"},
      {"exponential-minus-one", "c64[1]", {"{(1e-10,0)}"}, "c64[1]", "{(1e-10,0)}"},
      {"power", "c64[2]", {"{(0,0),(0,0)}", "{(0,0),(2,1)}"}, "c64[2]", "{(1,0),(0,0)}"},
      {"compare direction=EQ",
       "c64[2]",
       {"{(1,2),(nan,0)}", "{(1,2),(nan,0)}"},
       "pred[2]",
       "{1,0}"},
      {"compare direction=NE", "c64[2]", {"{(1,2),(1,2)}", "{(1,2),(1,3)}"}, "pred[2]", "{0,1}"},
      {"complex", "f64[2]", {"{1,2}", "{3,-0}"}, "c128[2]", "{(1,3),(2,-0)}"},
      {"real", "c64[2]", {"{(1,3),(2,-0)}"}, "f32[2]", "{1,2}"},
      {"imag", "c64[2]", {"{(1,3),(2,-0)}"}, "f32[2]", "{3,-0}"},
      {"imag", "f32[2]", {"{1,nan}"}, "f32[2]", "{0,0}"},
      {"convert", "c64[2]", {"{(1.5,3),(0,2)}"}, "s32[2]", "{1,0}"},
      {"convert", "c64[3]", {"{(0,0),(0,2),(nan,0)}"}, "pred[3]", "{0,0,1}"},
      {"convert", "s32[2]", {"{4,-5}"}, "c64[2]", "{(4,0),(-5,0)}"},
      {"convert", "c128[1]", {"{(0.1,1e300)}"}, "c64[1]", "{(0.1,inf)}"},
  });
}

TEST_CASE("narrow numbers are computed in a wider type and rounded back", "[numbers]") {
  check_rows({
      {"add", "s4[3]", {"{7,-8,3}", "{1,-1,2}"}, "s4[3]", "{-8,7,5}"},
      {"multiply", "u4[2]", {"{15,5}", "{15,3}"}, "u4[2]", "{1,15}"},
      {"divide", "s4[3]", {"{-8,7,5}", "{-1,0,2}"}, "s4[3]", "{-8,-1,2}"},
      {"divide", "u4[1]", {"{3}", "{0}"}, "u4[1]", "{15}"},
      {"shift-right-logical", "s4[2]", {"{-1,-8}", "{1,3}"}, "s4[2]", "{7,1}"},
      {"shift-right-arithmetic", "s4[2]", {"{-8,-8}", "{1,5}"}, "s4[2]", "{-4,-1}"},
      {"shift-right-arithmetic", "u4[4]", {"{8,7,13,9}", "{1,1,5,15}"}, "u4[4]", "{12,3,15,15}"},
      {"shift-right-arithmetic", "u8[2]", {"{128,127}", "{1,9}"}, "u8[2]", "{192,0}"},
      {"shift-left", "s4[2]", {"{1,3}", "{3,5}"}, "s4[2]", "{-8,0}"},
      {"popcnt", "s4[2]", {"{-1,5}"}, "s4[2]", "{4,2}"},
      {"count-leading-zeros", "u4[3]", {"{0,1,15}"}, "u4[3]", "{4,3,0}"},
      {"not", "u2[2]", {"{0,2}"}, "u2[2]", "{3,1}"},
      {"compare direction=LT", "s4[2]", {"{-8,7}", "{7,-8}"}, "pred[2]", "{1,0}"},
      {"add", "f8e4m3fn[3]", {"{448,1,17}", "{16,0.0625,1}"}, "f8e4m3fn[3]", "{448,1,16}"},
      {"multiply", "f8e5m2[2]", {"{57344,3}", "{2,1.25}"}, "f8e5m2[2]", "{inf,4}"},
      {"convert", "f32[4]", {"{3.3,1e9,-0,nan}"}, "f8e4m3fn[4]", "{3.25,nan,-0,nan}"},
      {"convert", "f8e4m3fn[3]", {"{3.25,-448,nan}"}, "f32[3]", "{3.25,-448,nan}"},
      {"convert", "f32[4]", {"{7.9,-100,100,nan}"}, "s4[4]", "{7,-8,7,0}"},
      {"convert", "s32[3]", {"{9,-9,16}"}, "s4[3]", "{-7,7,0}"},
      {"convert", "f8e5m2[2]", {"{1.75,-3}"}, "s2[2]", "{1,-2}"},
      {"convert", "f64[1]", {"{1.00048828125000022}"}, "f16[1]", "{1.0009765625}"},
      {"convert", "f64[1]", {"{1.00390625000000022}"}, "bf16[1]", "{1.0078125}"},
      {"exponential", "f8e4m3[2]", {"{0,1}"}, "f8e4m3[2]", "{1,2.75}"},
  });
  check_case({"iota", "ROOT r = u4[18] iota(), iota_dimension=0",
              "u4[18] {0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,0,1}"});
  check_case({"dot",
              "a = f8e4m3fn[2] constant({1.5,-2})\nb = f8e5m2[2] constant({4,0.5})\nROOT r = f32[] "
              "dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
              "f32[] 5"});
  check_case({"dot of nibbles",
              "a = s4[2] constant({-8,7})\nROOT r = s32[] dot(a, a), lhs_contracting_dims={0}, "
              "rhs_contracting_dims={0}",
              "s32[] 113"});
  check_case({"reduce",
              "a = f8e4m3fn[4] constant({1,2,4,0.5})\nz = f8e4m3fn[] constant(8)\nROOT r = "
              "f8e4m3fn[] reduce(a, z), dimensions={0}, to_apply=sum_f8",
              "f8e4m3fn[] 16"});
}

TEST_CASE("bits are counted, cut off, rounded away and regrouped", "[numbers]") {
  check_rows({
      {"popcnt", "s32[3]", {"{-1,0,255}"}, "s32[3]", "{32,0,8}"},
      {"mulhi", "s8[4]", {"{-128,-1,127,16}", "{-128,1,127,16}"}, "s8[4]", "{64,-1,63,1}"},
      {"mulhi", "u16[2]", {"{65535,256}", "{65535,255}"}, "u16[2]", "{65534,0}"},
      {"mulhi", "u64[1]", {"{18446744073709551615}", "{3}"}, "u64[1]", "{2}"},
      {"mulhi", "s64[2]", {"{-9223372036854775808,-1}", "{2,1}"}, "s64[2]", "{-1,-1}"},
      {"count-leading-zeros", "s16[3]", {"{-1,0,255}"}, "s16[3]", "{0,16,8}"},
      {"reduce-precision exponent_bits=8, mantissa_bits=7",
       "f32[4]",
       {"{1.00390625,1.01171875,nan,3.4e38}"},
       "f32[4]",
       "{1,1.015625,nan,inf}"},
      {"reduce-precision exponent_bits=5, mantissa_bits=10",
       "f32[6]",
       {"{65519,65520,6e-5,-6.2e-5,-1e-9,1.0004882}"},
       "f32[6]",
       "{65504,inf,0,-6.1988831e-05,-0,1}"},
      {"reduce-precision exponent_bits=3, mantissa_bits=0",
       "bf16[3]",
       {"{1.5,20,nan}"},
       "bf16[3]",
       "{2,inf,inf}"},
      {"reduce-precision exponent_bits=11, mantissa_bits=52",
       "f32[2]",
       {"{1.2345678,-inf}"},
       "f32[2]",
       "{1.2345678,-inf}"},
      {"bitcast-convert", "u8[2]", {"{33,255}"}, "s4[2,2]", "{{1,2},{-1,-1}}"},
      {"bitcast-convert", "u4[1,4]", {"{{1,2,3,4}}"}, "u16[1]", "{17185}"},
      {"bitcast-convert", "f64[1]", {"{1}"}, "u32[1,2]", "{{0,1072693248}}"},
      {"bitcast-convert", "f8e5m2[2]", {"{1,-2}"}, "u8[2]", "{60,192}"},
      {"bitcast", "f32[2,3]", {"{{1,2,3},{4,5,6}}"}, "f32[3,2]", "{{1,2},{3,4},{5,6}}"},
      {"bitcast", "u8[4]", {"{1,2,3,4}"}, "u32[]", "67305985"},
  });
  check_case(
      {"stochastic-convert",
       "a = f32[4] constant({1.25,-1.25,1.25,300})\nb = u32[4] "
       "constant({1073741823,1073741823,1073741824,0})\nROOT r = s8[4] stochastic-convert(a, b)",
       "s8[4] {2,-2,1,127}"});
}

TEST_CASE("computations that are not one op reduce, scatter and map", "[numbers]") {
  const std::vector<EvaluateCase> cases = {
      {"argmax",
       "a = f32[2,4] constant({{3,9,-1,9},{-5,-7,-6,-8}})\ni = s32[2,4] iota(), "
       "iota_dimension=1\nz = f32[] constant(-inf)\nk = s32[] constant(0)\nROOT r = (f32[2], "
       "s32[2]) reduce(a, i, z, k), dimensions={1}, to_apply=largest_at",
       "f32[2] {9,-5} s32[2] {1,0}"},
      {"the last of many",
       "a = f32[2,3] constant({{3,9,-1},{-5,-7,-6}})\nz = f32[] constant(0)\nROOT r = f32[2] "
       "reduce(a, z), dimensions={1}, to_apply=second",
       "f32[2] {-1,-6}"},
      {"complex sum",
       "a = c64[3] constant({(1,2),(3,4),(-1,0.5)})\nz = c64[] constant((10,0))\nROOT r = c64[] "
       "reduce(a, z), dimensions={0}, to_apply=sum_c64",
       "c64[] (13,6.5)"},
      {"map",
       "a = f32[2] constant({1,2})\nb = f32[2] constant({10,20})\nROOT r = f32[2] map(a, b), "
       "dimensions={0}, to_apply=second",
       "f32[2] {10,20}"},
      {"complex scatter",
       "a = c64[3] constant({(1,1),(2,2),(3,3)})\ni = u8[2] constant({2,2})\nu = c64[2] "
       "constant({(0,1),(1,0)})\nROOT r = c64[3] scatter(a, i, u), update_window_dims={}, "
       "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
       "to_apply=sum_c64",
       "c64[3] {(1,1),(2,2),(4,4)}"},
      {"complex dot",
       "a = c64[2] constant({(1,2),(0,1)})\nb = c64[2] constant({(3,-1),(0,1)})\nROOT r = c64[] "
       "dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
       "c64[] (4,5)"},
      {"bytes into floats",
       "a = s8[2] constant({-128,127})\nROOT r = f32[] dot(a, a), lhs_contracting_dims={0}, "
       "rhs_contracting_dims={0}",
       "f32[] 32513"},
      {"iota", "ROOT r = c64[3] iota(), iota_dimension=0", "c64[3] {(0,0),(1,0),(2,0)}"},
      {"pad",
       "a = c64[2] constant({(1,1),(2,2)})\nz = c64[] constant((0,-1))\nROOT r = c64[4] pad(a, z), "
       "padding=0_1_1",
       "c64[4] {(1,1),(0,-1),(2,2),(0,-1)}"},
      {"slice at a nibble",
       "a = f32[9] iota(), iota_dimension=0\ni = u4[] constant(15)\nROOT r = f32[2] "
       "dynamic-slice(a, i), dynamic_slice_sizes={2}",
       "f32[2] {7,8}"},
  };
  for (const EvaluateCase& test : cases) check_case(test);
}

TEST_CASE("batch norms take mean and variance of each feature", "[numbers]") {
  const std::string x = "x = f32[2,2,2] constant({{{0,2},{1,1}},{{4,6},{3,7}}})\n";
  const std::string s = "s = f32[2] constant({2,4})\no = f32[2] constant({1,-1})\n";
  check_case(
      {"training",
       x + s +
           "ROOT r = (f32[2,2,2], f32[2], f32[2]) batch-norm-training(x, s, o), epsilon=4, "
           "feature_index=1",
       "f32[2,2,2] {{{-1,0.33333334},{-3.5298221,-3.5298221}},{{1.6666666,3},{-1,4.059644}}} "
       "f32[2] {3,3} f32[2] {5,6}"});
  check_case({"inference",
              x + s +
                  "m = f32[2] constant({1,2})\nv = f32[2] constant({3,12})\nROOT r = f32[2,2,2] "
                  "batch-norm-inference(x, s, o, m, v), epsilon=4, feature_index=1",
              "f32[2,2,2] {{{0.24407105,1.755929},{-2,-2}},{{3.2677867,4.779645},{0,4}}}"});
  check_case(
      {"grad of a constant cotangent",
       x + "s = f32[2] constant({2,4})\nm = f32[2] constant({3,3})\nv = f32[2] constant({5,6})\ng "
           "= f32[2,2,2] constant({{{1,1},{2,2}},{{1,1},{2,2}}})\nROOT r = (f32[2,2,2], f32[2], "
           "f32[2]) batch-norm-grad(x, s, m, v, g), epsilon=4, feature_index=1",
       "f32[2,2,2] {{{0,0},{0,0}},{{0,0},{0,0}}} f32[2] {0,0} f32[2] {4,8}"});
}

TEST_CASE("conditionals clamp the number of the branch to the last one", "[numbers]") {
  const auto branch = [](const char* index) {
    return fmt::format(
        "i = s32[] constant({})\na = f32[3,4] broadcast(f), dimensions={{}}\nt = s32[] "
        "constant(1)\nx = (s32[], f32[3,4]) tuple(t, a)\nc = (s32[], f32[3,4]) conditional(i, x, "
        "x, x), branch_computations={{next, stay, next}}\nROOT r = s32[] get-tuple-element(c), "
        "index=0",
        index);
  };
  const auto run = [&](const char* index) {
    return run_text("f = f32[] constant(1)\n" + branch(index)).array.at(0);
  };
  CHECK(run("0") == 4);
  CHECK(run("1") == 1);
  CHECK(run("2") == 4);
  CHECK(run("7") == 4);
  CHECK(run("-1") == 4);
}

TEST_CASE("custom calls that are known run, sizes that change do not", "[numbers]") {
  check_case({"TopK",
              "a = f32[2,4] constant({{3,9,-1,9},{-5,-7,-6,-8}})\nROOT r = (f32[2,2], s32[2,2]) "
              "custom-call(a), custom_call_target=\"TopK\"",
              "f32[2,2] {{9,9},{-5,-6}} s32[2,2] {{1,3},{0,2}}"});
  check_case({"LayoutConstraint",
              "a = s4[2] constant({3,-4})\nROOT r = s4[2] custom-call(a), "
              "custom_call_target=\"LayoutConstraint\"",
              "s4[2] {3,-4}"});
  check_case({"halves of f64",
              "a = f64[3] constant({1.000000000931322574615478515625,inf,-3})\n"
              "h = f32[3] custom-call(a), custom_call_target=\"X64SplitHigh\"\n"
              "l = f32[3] custom-call(a), custom_call_target=\"X64SplitLow\"\n"
              "b = f64[3] custom-call(l, h), custom_call_target=\"X64Combine\"\n"
              "ROOT r = (f32[3], f32[3], f64[3]) tuple(h, l, b)",
              "f32[3] {1,inf,-3} f32[3] {9.31322574615478515625e-10,0,0} "
              "f64[3] {1.000000000931322574615478515625,inf,-3}"});
  check_case({"size",
              "a = f32[2,7] iota(), iota_dimension=0\nROOT r = s32[] get-dimension-size(a), "
              "dimensions={1}",
              "s32[] 7"});
  CHECK_THAT(error_of("a = f32[4] iota(), iota_dimension=0\nn = s32[] constant(3)\nROOT r = f32[4] "
                      "set-dimension-size(a, n), dimensions={0}"),
             Catch::Contains("only the full size 4 is"));
  CHECK_THAT(error_of("a = f32[2] constant({1,2})\nROOT r = u64[2] custom-call(a, a), "
                      "custom_call_target=\"X64Combine\""),
             Catch::Contains("X64Combine of f32[2] is declared as u64[2]"));
  CHECK_THAT(error_of("t = token[] after-all()\nROOT r = (f32[3], token[]) infeed(t)"),
             Catch::Contains("infeed: \"r\" cannot run here"));
}

}  // namespace gspmd::testing::numbers_test
