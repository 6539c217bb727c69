#include <catch2/catch.hpp>
#include <random>

#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "load.h"
#include "ops/fast_kernels.h"

namespace gspmd::testing::fast_sort_test {
namespace {

const DType kTypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::s8,
                        DType::s16, DType::s32, DType::s64,  DType::u8,  DType::u16,
                        DType::u32, DType::u64, DType::pred};

struct Random {
  std::mt19937_64 bits;
  int64_t below(int64_t n) { return int64_t(bits() % uint64_t(n)); }
  template <class T, size_t N>
  T of(const T (&choices)[N]) {
    return choices[below(N)];
  }
};

std::string shape_text(DType dtype, const Dims& dims) { return to_string(Shape(dtype, dims)); }

// Each operand is a key, of any type; a later one decides where those before it are equal.
std::string lexicographic_body(const std::vector<DType>& types, Random& random) {
  std::string body, rest;
  for (size_t i = types.size(); i-- > 0;) {
    const char* const own = is_floating(types[i]) ? ", type=TOTALORDER" : "";
    const bool is_last = i + 1 == types.size();
    const char* const root = i == 0 ? "ROOT " : "";
    body += fmt::format("{3}l{0} = pred[] compare(a{0}, b{0}), direction={1}{2}\n", i,
                        random.below(2) == 0 ? "LT" : "GT", own, is_last ? root : "");
    if (!is_last)
      body += fmt::format(
          "e{0} = pred[] compare(a{0}, b{0}), direction=EQ{1}\nf{0} = pred[] and(e{0}, {2})\n"
          "{3}r{0} = pred[] or(l{0}, f{0})\n",
          i, own, rest, root);
    rest = fmt::format("{}{}", is_last ? "l" : "r", i);
  }
  return body;
}

// A sort of 1 to 3 operands by a comparator of `kind`.
void check_sort(unsigned seed) {
  Random random{std::mt19937_64(seed)};
  static const int64_t kSizes[] = {0, 1, 2, 7, 8, 9, 33, 60, 130, 700, 4100};
  Dims dims{random.of(kSizes)};
  size_t along = 0;
  if (random.below(2) == 1) {
    along = size_t(random.below(2));
    dims.insert(along == 0 ? dims.end() : dims.begin(), 1 + random.below(4));
  }
  const int64_t operands = 1 + random.below(3), kind = random.below(8);
  std::vector<Array> arguments;
  std::vector<DType> types;
  std::string parameters, names, results, scalars;
  for (int64_t i = 0; i < operands; ++i) {
    types.push_back(kind >= 3 && kind < 6 && i < 2 ? DType::f32 : random.of(kTypes));
    arguments.push_back(
        special_values(Shape(types.back(), dims), unsigned(random.bits()), random.below(2) == 1));
    const std::string type(dtype_name(types.back())), comma = i > 0 ? ", " : "";
    parameters += fmt::format("x{0} = {1} parameter({0})\n", i, shape_text(types.back(), dims));
    names += fmt::format("{}x{}", comma, i);
    results += comma + shape_text(types.back(), dims);
    scalars += fmt::format("a{0} = {1}[] parameter({2})\nb{0} = {1}[] parameter({3})\n", i, type,
                           2 * i, 2 * i + 1);
  }
  const std::string type(dtype_name(types[0])),
      last = std::to_string(std::min(operands - 1, int64_t(1)));
  const char* const direction = random.below(2) == 0 ? "LT" : "GT";
  const char* const total =
      is_floating(types[0]) && random.below(2) == 0 ? ", type=TOTALORDER" : "";
  std::string body;
  switch (kind) {
    case 0:
    case 1:  // one key
      body = fmt::format("ROOT r = pred[] compare(a0, b0), direction={}{}\n", direction, total);
      break;
    case 2:  // no order
      body = fmt::format("ROOT r = pred[] compare(a0, b0), direction={}\n",
                         random.below(2) == 0 ? "GE" : "LE");
      break;
    case 3:  // a key of two operands
      body = fmt::format(
          "x = f32[] add(a0, a{0})\ny = f32[] add(b0, b{0})\nROOT r = pred[] compare(x, y), "
          "direction={1}{2}\n",
          last, direction, total);
      break;
    case 4:  // nothing that anybody recognizes
      body = fmt::format(
          "x = f32[] add(a0, a{0})\ny = f32[] add(b0, b{0})\nd = f32[] subtract(x, y)\nz = f32[] "
          "constant(0)\nROOT r = pred[] compare(d, z), direction={1}\n",
          last, direction);
      break;
    case 6:
    case 7:
      body = lexicographic_body(types, random);
      break;
    default:  // two keys, the first as frameworks write it
      body = fmt::format(
          "z = f32[] constant(0)\nx = pred[] compare(a0, z), direction=EQ\ny = pred[] compare(b0, "
          "z), direction=EQ\nu = f32[] select(x, z, a0)\nv = f32[] select(y, z, b0)\nl = pred[] "
          "compare(u, v), direction={1}, type=TOTALORDER\ne = pred[] compare(u, v), direction=EQ, "
          "type=TOTALORDER\nm = pred[] compare(a{0}, b{0}), direction=LT, type=TOTALORDER\nf = "
          "pred[] and(e, m)\nROOT r = pred[] or(l, f)\n",
          last, direction);
  }
  if (operands > 1) results = "(" + results + ")";
  expect_fast(fmt::format("HloModule m\nc {{\n{}{}}}\nENTRY e {{\n{}ROOT r = {} sort({}), "
                          "dimensions={{{}}}, to_apply=c\n}}\n",
                          scalars, body, parameters, results, names, along),
              arguments);
}

}  // namespace

TEST_CASE("fast sort: the bits of the reference for any types, dims and comparators", "[sort]") {
  for (int64_t seed = 1; seed <= random_load(400); ++seed) {
    INFO("seed " << seed);
    check_sort(unsigned(seed));
  }
}

TEST_CASE("fast topk: the bits of the reference for any types and k", "[sort]") {
  for (int64_t seed = 1; seed <= random_load(150); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    static const int64_t kSizes[] = {1, 5, 64, 65, 900, 3000};
    const Dims dims{1 + random.below(4), random.of(kSizes)};
    const int64_t k =
        random.below(2) == 0 ? random.below(dims[1] + 1) : std::min<int64_t>(8, dims[1]);
    const DType type = kTypes[random.below(std::size(kTypes) - 1)];  // pred has no order
    expect_fast(fmt::format("HloModule m\nENTRY e {{\nx = {} parameter(0)\nROOT r = ({}, {}) "
                            "topk(x), k={}, largest={}\n}}\n",
                            shape_text(type, dims), shape_text(type, {dims[0], k}),
                            shape_text(DType::s32, {dims[0], k}), k, random.below(2) == 0),
                {special_values(Shape(type, dims), unsigned(seed), true)});
  }
}

TEST_CASE("fast ApproxTopK: the first elements of a sort along any dim", "[sort]") {
  for (int64_t seed = 1; seed <= random_load(60); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    const Dims dims{1 + random.below(200), 1 + random.below(200)};
    const size_t along = size_t(random.below(2));
    Dims result = dims;
    result[along] = 1 + random.below(std::min<int64_t>(dims[along], 12));
    const std::string x = shape_text(DType::f32, dims), i = shape_text(DType::s32, dims);
    expect_fast(
        fmt::format("HloModule m\nc {{\na = f32[] parameter(0)\nb = f32[] parameter(1)\ni = s32[] "
                    "parameter(2)\nj = s32[] parameter(3)\nROOT r = pred[] compare(a, b), "
                    "direction=GT{}\n}}\nENTRY e {{\nx = {} parameter(0)\ni = {} parameter(1)\nu = "
                    "f32[] parameter(2)\nv = s32[] parameter(3)\nROOT r = ({}, {}) custom-call(x, "
                    "i, u, v), custom_call_target=\"ApproxTopK\", called_computations={{c}}, "
                    "backend_config={{\"reduction_dim\" = {} : i64}}\n}}\n",
                    random.below(2) == 0 ? ", type=TOTALORDER" : "", x, i,
                    shape_text(DType::f32, result), shape_text(DType::s32, result), along),
        {special_values(Shape(DType::f32, dims), unsigned(seed), random.below(2) == 0),
         special_values(Shape(DType::s32, dims), unsigned(seed) + 1, false), Array(DType::f32, {}),
         Array(DType::s32, {})});
  }
}

// Only what the slices read is made: the rest of the result stays as it was.
TEST_CASE("fast sort: of a sort whose first elements are read no others are made", "[sort]") {
  const auto module = parse_module(R"(HloModule m
c {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}
ENTRY e {
  x = f32[2,100] parameter(0)
  s = f32[2,100] sort(x), dimensions={1}, to_apply=c
  ROOT r = f32[2,3] slice(s), slice={[0:2], [1:6:2]}
}
)");
  const Array x = special_values(Shape(DType::f32, {2, 100}), 5, false);
  const Array sorted = first_run(*module->entry()->root()->operand(0), x);
  const Array wanted = evaluate(*module, std::vector<Value>{{x, {}, false}}).array;
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t i = 0; i < 3; ++i)
      CHECK(sorted.at(100 * row + 1 + 2 * i) == wanted.at(3 * row + i));
    for (int64_t i = 6; i < 100; ++i) CHECK(sorted.at(100 * row + i) == 77);
  }
}

}  // namespace gspmd::testing::fast_sort_test
