#include "ops/sort/sort.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "gspmd/ir/text.h"
#include "ops/evaluate_cases.h"
#include "ops/samples.h"

namespace gspmd::testing {
namespace {

// A sort in a module with a comparator of its own.
Array sorted(const std::string& comparator, const std::string& entry,
             std::vector<Value> arguments) {
  const auto module =
      parse_module("HloModule m\nc {\n" + comparator + "}\nENTRY e {\n" + entry + "}\n");
  return leaves(evaluate(*module, arguments))[0];
}

// How frameworks compare floats: all zeros alike, all NaN alike and last.
const char* const kTotalLess = R"(x = f32[] parameter(0)
y = f32[] parameter(1)
z = f32[] constant(0)
n = f32[] constant(nan)
x0 = pred[] compare(x, z), direction=EQ
x1 = f32[] select(x0, z, x)
x2 = pred[] compare(x, x), direction=NE
x3 = f32[] select(x2, n, x1)
y0 = pred[] compare(y, z), direction=EQ
y1 = f32[] select(y0, z, y)
y2 = pred[] compare(y, y), direction=NE
y3 = f32[] select(y2, n, y1)
ROOT r = pred[] compare(x3, y3), direction=LT, type=TOTALORDER
)";

}  // namespace

TEST_CASE("sort orders each line by the comparator, stably", "[sort]") {
  const std::vector<EvaluateCase> cases = {
      {"ascending",
       "a = f32[2,4] constant({{3,1,2,0},{-1,5,-7,inf}})\nROOT r = f32[2,4] sort(a), "
       "dimensions={1}, to_apply=less",
       "f32[2,4] {{0,1,2,3},{-7,-1,5,inf}}"},
      {"the other dim",
       "a = f32[2,4] constant({{3,1,2,0},{-1,5,-7,9}})\nROOT r = f32[2,4] sort(a), dimensions={0}, "
       "to_apply=less",
       "f32[2,4] {{-1,1,-7,0},{3,5,2,9}}"},
      {"descending by total order",
       "a = f32[5] constant({-0,1,nan,0,-inf})\nROOT r = f32[5] sort(a), dimensions={0}, "
       "to_apply=greater_total",
       "f32[5] {nan,1,0,-0,-inf}"},
      {"zeros are equal by value",
       "a = f32[4] constant({0,-0,-1,-0})\nROOT r = f32[4] sort(a), dimensions={0}, to_apply=less",
       "f32[4] {-1,0,-0,-0}"},
      {"two keys, the second descending",
       "a = f32[5] constant({2,1,2,1,2})\ni = s32[5] constant({1,7,9,8,5})\nROOT r = (f32[5], "
       "s32[5]) sort(a, i), dimensions={0}, to_apply=less_pairs",
       "f32[5] {1,1,2,2,2} s32[5] {8,7,9,5,1}"},
      {"a comparator that reads both operands",
       "a = f32[4] constant({4,3,2,1})\nb = f32[4] constant({0,5,1,9})\nROOT r = (f32[4], f32[4]) "
       "sort(a, b), dimensions={0}, to_apply=less_sums",
       "f32[4] {2,4,3,1} f32[4] {1,0,5,9}"},
      {"equal keys keep their order",
       "a = f32[4] constant({1,1,0,1})\nb = f32[4] constant({0,0,0,0})\nz = f32[4] multiply(a, "
       "b)\nROOT r = (f32[4], f32[4]) sort(z, a), dimensions={0}, is_stable=true, "
       "to_apply=less_sums",
       "f32[4] {0,0,0,0} f32[4] {0,1,1,1}"},
      {"no order at all stays inside",
       "a = f32[9] constant({1,2,3,4,5,6,7,8,9})\nROOT r = f32[9] sort(a), dimensions={0}, "
       "to_apply=at_least",
       "f32[9] {9,8,7,6,5,4,3,2,1}"},
      {"nothing",
       "a = f32[2,0] constant({{},{}})\nROOT r = f32[2,0] sort(a), dimensions={1}, to_apply=less",
       "f32[2,0] {{},{}}"},
  };
  for (const EvaluateCase& test : cases) check_case(test);
}

TEST_CASE("comparators of one key are recognized, others run as they are", "[sort]") {
  const auto keys = [](const std::string& body) {
    const auto module = parse_module("HloModule m\nENTRY c {\n" + body + "}\n");
    const auto found = sort_keys(*module->entry());
    return found ? static_cast<int>(found->size()) : 0;
  };
  const std::string two = "x = f32[] parameter(0)\ny = f32[] parameter(1)\n";
  const std::string four = two + "i = s32[] parameter(2)\nj = s32[] parameter(3)\n";
  CHECK(keys(kTotalLess) == 1);
  CHECK(keys(two + "ROOT r = pred[] compare(x, y), direction=GT\n") == 1);
  CHECK(keys(two + "ROOT r = pred[] compare(y, x), direction=GT\n") == 1);
  CHECK(keys(two + "ROOT r = pred[] compare(x, y), direction=LE\n") == 0);
  CHECK(keys(two + "ROOT r = pred[] compare(x, x), direction=LT\n") == 0);
  CHECK(keys(two + "n = f32[] negate(y)\nROOT r = pred[] compare(x, n), direction=LT\n") == 0);
  CHECK(keys(four + "ROOT r = pred[] compare(j, i), direction=LT\n") == 1);
  const std::string both =
      four + "a = pred[] compare(x, y), direction=LT\nb = pred[] compare(i, j), direction=LT\n";
  CHECK(keys(both + "e = pred[] compare(x, y), direction=EQ\nc = pred[] and(e, b)\nROOT r = pred[] "
                    "or(a, c)\n") == 2);
  CHECK(keys(both + "e = pred[] compare(x, y), direction=EQ, type=TOTALORDER\nc = pred[] and(e, "
                    "b)\nROOT r = pred[] or(a, c)\n") == 0);
  CHECK(keys(both + "e = pred[] compare(i, j), direction=EQ\nc = pred[] and(e, b)\nROOT r = pred[] "
                    "or(a, c)\n") == 0);
  CHECK(keys(both + "ROOT r = pred[] and(a, b)\n") == 0);
}

TEST_CASE("sorting by keys gives what the comparator gives, element by element", "[sort]") {
  std::mt19937_64 random(9);
  for (const int64_t size : {1, 7, 100, 3000}) {
    const Array a(DType::f32, {size});
    for (int64_t i = 0; i < size; ++i) {
      const double draw = static_cast<double>(random() % 200) - 100;
      a.data<float>()[static_cast<size_t>(i)] = draw > 95    ? NAN
                                                : draw < -95 ? -NAN
                                                : draw == 0  ? -0.0f
                                                             : static_cast<float>(draw / 8);
    }
    const std::string entry = fmt::format(
        "a = f32[{0}] parameter(0)\nROOT r = f32[{0}] sort(a), dimensions={{0}}, to_apply=c\n",
        size);
    // "not (x >= y)" written so that nothing recognizes it.
    std::string plain = kTotalLess;
    plain.replace(
        plain.find("ROOT r"), std::string::npos,
        "g = pred[] compare(x3, y3), direction=GE, type=TOTALORDER\nROOT r = pred[] not(g)\n");
    CHECK(bitwise_equal(sorted(kTotalLess, entry, {{a, {}, false}}),
                        sorted(plain, entry, {{a, {}, false}})));
  }
}

TEST_CASE("topk takes the largest or smallest, of equal ones the first", "[sort]") {
  const std::vector<EvaluateCase> cases = {
      {"largest",
       "a = f32[2,5] constant({{1,9,3,9,2},{-1,-2,-3,-4,-5}})\nROOT r = (f32[2,3], s32[2,3]) "
       "topk(a), k=3, largest=true",
       "f32[2,3] {{9,9,3},{-1,-2,-3}} s32[2,3] {{1,3,2},{0,1,2}}"},
      {"smallest",
       "a = s32[4] constant({3,-1,7,-1})\nROOT r = (s32[2], s32[2]) topk(a), k=2, largest=false",
       "s32[2] {-1,-1} s32[2] {1,3}"},
      {"nan comes first",
       "a = f32[4] constant({1,nan,inf,0})\nROOT r = (f32[2], s32[2]) topk(a), k=2, largest=true",
       "f32[2] {nan,inf} s32[2] {1,2}"},
      {"unsigned",
       "a = u8[3] constant({200,3,255})\nROOT r = (u8[2], s32[2]) topk(a), k=2, largest=true",
       "u8[2] {255,200} s32[2] {2,0}"},
      {"none", "a = f32[3] constant({1,2,3})\nROOT r = (f32[0], s32[0]) topk(a), k=0, largest=true",
       "f32[0] {} s32[0] {}"},
  };
  for (const EvaluateCase& test : cases) check_case(test);
}

TEST_CASE("scan carries values along a dim, in either direction", "[scan]") {
  const std::string a =
      "a = f32[5,3] constant({{1,2,3},{0,1,0},{5,5,5},{1,1,1},{2,0,1}})\nt = f32[3,5] "
      "transpose(a), dimensions={1,0}\nc = f32[5] constant({10,20,30,40,50})\n";
  const std::vector<EvaluateCase> cases = {
      {"forward",
       a + "ROOT r = (f32[3,5], f32[5]) scan(t, c), dimensions={0}, num_carries=1, "
           "to_apply=running_sum",
       "f32[3,5] {{22,40,70,82,104},{26,42,80,84,104},{32,42,90,86,106}} f32[5] {16,21,45,43,53}"},
      {"reverse along the other dim",
       a + "ROOT r = (f32[5,3], f32[5]) scan(a, c), dimensions={1}, is_reverse=true, "
           "to_apply=running_sum",
       "f32[5,3] {{32,30,26},{42,42,40},{90,80,70},{86,84,82},{106,102,102}} f32[5] "
       "{16,21,45,43,53}"},
  };
  for (const EvaluateCase& test : cases) check_case(test);
}

TEST_CASE("sorts, topk and scans that cannot be are refused", "[sort]") {
  const std::string a = "a = f32[3] constant({1,2,3})\n";
  CHECK_THAT(error_of(a + "ROOT r = f32[3] sort(a), dimensions={1}, to_apply=less"),
             Catch::Contains("exactly one of their dims"));
  CHECK_THAT(error_of(a + "ROOT r = f32[3] sort(a), dimensions={0}, to_apply=sum"),
             Catch::Contains("pred[] is needed"));
  CHECK_THAT(error_of(a + "ROOT r = (f32[4], s32[4]) topk(a), k=4, largest=true"),
             Catch::Contains("k=4"));
  CHECK_THAT(error_of(a + "c = f32[4] constant({1,2,3,4})\nROOT r = (f32[3], f32[4]) scan(a, c), "
                          "dimensions={0}, to_apply=running_sum"),
             Catch::Contains("running_sum"));
}

}  // namespace gspmd::testing
