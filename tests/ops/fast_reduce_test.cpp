// Reduces by computations that are no op.
#include <catch2/catch.hpp>
#include <random>

#include "gspmd/ir/text.h"
#include "load.h"
#include "ops/fast_kernels.h"
#include "ops/reduce/combiner_structure.h"

namespace gspmd::testing::fast_reduce_test {
namespace {

struct Random {
  std::mt19937_64 bits;
  int64_t below(int64_t n) { return int64_t(bits() % uint64_t(n)); }
};

// Pairs of a value and its place, as JAX compares them; `or_equal`: the place of what came first.
std::string extremum(const std::string& value, const std::string& place, bool greatest,
                     bool or_equal) {
  return fmt::format(R"(extremum {{
  a = {0}[] parameter(0)
  i = {1}[] parameter(1)
  b = {0}[] parameter(2)
  j = {1}[] parameter(3)
  better = pred[] compare(a, b), direction={2}
  nan = pred[] compare(a, a), direction=NE
  first = pred[] or(better, nan)
  ties = pred[] compare(a, b), direction=EQ
  less = pred[] compare(i, j), direction=LT
  earlier = pred[] and(ties, less)
  is_place = pred[] or(first, earlier)
  v = {0}[] select(first, a, b)
  p = {1}[] select(is_place, i, j)
  ROOT pair = ({0}[], {1}[]) tuple(v, p)
}}
)",
                     value, place, fmt::format("{}{}", greatest ? 'G' : 'L', or_equal ? 'E' : 'T'));
}

// As this library writes them: of NaNs the earlier one whatever the order.
std::string own_extremum(const std::string& value, const std::string& place, bool greatest) {
  return fmt::format(R"(extremum {{
  a = {0}[] parameter(0)
  i = {1}[] parameter(1)
  b = {0}[] parameter(2)
  j = {1}[] parameter(3)
  better = pred[] compare(a, b), direction={2}
  an = pred[] compare(a, a), direction=NE
  bn = pred[] compare(b, b), direction=NE
  wins = pred[] or(better, an)
  same = pred[] compare(a, b), direction=EQ
  both = pred[] and(an, bn)
  ties = pred[] or(same, both)
  less = pred[] compare(i, j), direction=LT
  more = pred[] compare(j, i), direction=LT
  earlier = pred[] and(ties, less)
  lost = pred[] and(ties, more)
  kept = pred[] not(lost)
  ahead = pred[] or(wins, earlier)
  first = pred[] and(ahead, kept)
  v = {0}[] select(first, a, b)
  p = {1}[] select(first, i, j)
  ROOT pair = ({0}[], {1}[]) tuple(v, p)
}}
)",
                     value, place, greatest ? "GT" : "LT");
}

std::string worst(DType dtype, bool greatest) {
  if (is_floating(dtype)) return greatest ? "-inf" : "inf";
  return greatest ? "-2147483648" : "2147483647";
}

Array places_of(const Shape& shape, Random& random, bool grow, int64_t along) {
  Array places(shape);
  int64_t inner = 1;
  for (size_t d = size_t(along) + 1; d < shape.dims.size(); ++d) inner *= shape.dims[d];
  for (int64_t i = 0; i < places.size(); ++i) {
    const int64_t k = i / inner % shape.dims[size_t(along)];
    places.set(i, double(grow ? 3 * k - 5 : random.below(7)));
  }
  return places;
}

}  // namespace

TEST_CASE("fast places of extremes: the bits of the reference for any types and dims", "[reduce]") {
  static const DType kValues[] = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::s32};
  static const int64_t kSizes[] = {1, 2, 7, 33, 64, 300, 5000};
  int64_t searched = 0;
  for (int64_t seed = 1; seed <= random_load(150); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    Dims dims;
    const int64_t rank = 1 + random.below(3), along = random.below(rank);
    for (int64_t d = 0; d < rank; ++d) dims.push_back(kSizes[random.below(d == along ? 7 : 5)]);
    Dims kept = dims;
    kept.erase(kept.begin() + along);
    const DType type = kValues[random.below(5)];
    const DType place = random.below(2) == 0 ? DType::s32 : DType::s64;
    const bool greatest = random.below(2) == 0;
    const int64_t form = random.below(3);
    const bool known = random.below(2) == 0, grow = random.below(3) > 0;
    const Shape x(type, dims), p(place, dims);
    const std::string value_name(dtype_name(type)), place_name(dtype_name(place));
    const std::string initial = random.below(4) > 0 ? worst(type, greatest) : "1";
    const std::string text =
        "HloModule m\n" +
        (form == 0 ? own_extremum(value_name, place_name, greatest)
                   : extremum(value_name, place_name, greatest, form == 1)) +
        fmt::format(
            "ENTRY e {{\nx = {} parameter(0)\np = {} {}\nv = {}[] constant({})\nq = {}[] "
            "constant({})\nROOT r = ({}, {}) reduce(x, p, v, q), dimensions={{{}}}, "
            "to_apply=extremum\n}}\n",
            to_string(x), to_string(p),
            known ? fmt::format("iota(), iota_dimension={}", along) : "parameter(1)", value_name,
            initial, place_name, random.below(2) == 0 ? 0 : 99999, to_string(Shape(type, kept)),
            to_string(Shape(place, kept)), along);
    std::vector<Array> arguments{special_values(x, unsigned(seed), random.below(2) == 0)};
    if (random.below(3) == 0) {  // no extreme beyond zeros of both signs
      for (int64_t i = 0; i < arguments[0].size(); ++i)
        if (const double v = arguments[0].at(i); greatest ? v > 0 : v < 0)
          arguments[0].set(i, random.below(2) == 0 ? 0.0 : -0.0);
    }
    if (!known) arguments.push_back(places_of(p, random, grow, along));
    expect_fast(text, arguments);
    const auto module = parse_module(text);
    searched += extreme_place_of(*module->entry()->root()->called[0]).has_value();
  }
  CHECK(searched == random_load(150));
}

TEST_CASE("combiners that are no search for a place of an extreme", "[reduce]") {
  const auto found = [](std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const auto module = parse_module("HloModule m\n" + text + R"(ENTRY e {
  x = f32[4] parameter(0)
  p = s32[4] iota(), iota_dimension=0
  v = f32[] constant(-inf)
  q = s32[] constant(0)
  ROOT r = (f32[], s32[]) reduce(x, p, v, q), dimensions={0}, to_apply=extremum
}
)");
    return extreme_place_of(*module->entry()->root()->called[0]);
  };
  const std::string text = extremum("f32", "s32", true, false);
  REQUIRE(found(text, "direction=GT", "direction=GT"));
  CHECK(found(text, "direction=GT", "direction=GT")->greatest);
  CHECK_FALSE(found(text, "direction=GT", "direction=LT")->greatest);
  CHECK(found(text, "direction=GT", "direction=GT")->least_place);
  CHECK_FALSE(found(text, "direction=GT", "direction=GE")->least_place);
  CHECK_FALSE(found(text, "direction=GT", "direction=GT, type=TOTALORDER"));
  CHECK_FALSE(found(text, "compare(a, a), direction=NE", "compare(b, b), direction=NE"));
  CHECK_FALSE(found(text, "compare(i, j), direction=LT", "compare(i, j), direction=GT"));
  CHECK_FALSE(found(text, "select(is_place, i, j)", "select(is_place, j, i)"));
  CHECK_FALSE(found(text, "or(better, nan)", "and(better, nan)"));
}

// Whole numbers that wrap, masks and preds, from any initial value: short lines, short rows with
// reduced dims before them, and what is neither.
TEST_CASE("fast reduces by one op: the bits of the reference for integers and preds", "[reduce]") {
  static const DType kTypes[] = {DType::pred, DType::s4,  DType::s8,  DType::u8,  DType::s16,
                                 DType::u16,  DType::s32, DType::u32, DType::s64, DType::u64};
  static const char* const kOps[] = {"and", "or", "add", "multiply", "maximum", "minimum", "xor"};
  static const Dims kDims[] = {{1000, 16},      {70, 2},          {333, 7},       {16, 40, 8, 5},
                               {64, 3, 16, 8},  {5, 1, 61, 9, 7}, {17, 31, 40},   {1, 1},
                               {20, 40, 1, 24}, {50, 11, 33, 1},  {2, 3, 128, 33}};
  for (int64_t seed = 1; seed <= random_load(400); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    const DType type = kTypes[random.below(10)];
    const Dims& dims = kDims[random.below(11)];
    Dims along, kept;
    for (size_t d = 0; d < dims.size(); ++d) {
      const bool reduces = d + 1 == dims.size() ? random.below(4) > 0 : random.below(2) == 0;
      (reduces ? along : kept).push_back(reduces ? int64_t(d) : dims[d]);
    }
    const Shape x(type, dims), initial(type, {});
    Array values(x), from(initial);
    const int64_t op = random.below(7);
    const int64_t bits = type == DType::pred ? 1 : type == DType::s4 ? 15 : 255;
    const auto byte_for = [&] {  // so that no bit of a result is what almost all have
      const int64_t byte = random.below(256);
      if (op == 0) return random.below(999) > 0 ? bits : byte;
      if (op == 1) return random.below(999) > 0 ? 0 : byte;
      return op == 3 ? byte | 1 : byte;
    };
    for (Array* array : {&values, &from})
      for (std::byte& byte : array->bytes()) byte = std::byte(byte_for() & bits);
    expect_fast(fmt::format("HloModule m\nf {{\na = {0}[] parameter(0)\nb = {0}[] "
                            "parameter(1)\nROOT c = {0}[] {1}(a, b)\n}}\nENTRY e {{\nx = {2} "
                            "parameter(0)\nz = {0}[] parameter(1)\nROOT r = {3} reduce(x, z), "
                            "dimensions={{{4}}}, to_apply=f\n}}\n",
                            dtype_name(type), kOps[op], to_string(x), to_string(Shape(type, kept)),
                            fmt::join(along, ",")),
                {values, from});
  }
}

// Each result puts its elements together in the order of the evaluator.
TEST_CASE("fast reduces by any computation: the bits of the reference along any dims", "[reduce]") {
  static const int64_t kSizes[] = {1, 2, 5, 17, 140};
  for (int64_t seed = 1; seed <= random_load(60); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    Dims dims, kept, along;
    const int64_t rank = 1 + random.below(4);
    for (int64_t d = 0; d < rank; ++d) {
      dims.push_back(kSizes[random.below(rank > 2 ? 4 : 5)]);
      (random.below(2) == 0 ? along : kept).push_back(d);
    }
    Dims result;
    for (const int64_t d : kept) result.push_back(dims[size_t(d)]);
    const Shape x(DType::f32, dims), y(DType::s16, dims);
    expect_fast(
        fmt::format(R"(HloModule m
f {{
  a = f32[] parameter(0)
  i = s16[] parameter(1)
  b = f32[] parameter(2)
  j = s16[] parameter(3)
  half = f32[] constant(0.5)
  c = f32[] multiply(a, half)
  d = f32[] add(c, b)
  n = s16[] multiply(i, j)
  m = s16[] subtract(n, i)
  ROOT r = (f32[], s16[]) tuple(d, m)
}}
ENTRY e {{
  x = {0} parameter(0)
  y = {1} parameter(1)
  v = f32[] constant(1)
  w = s16[] constant(3)
  ROOT r = ({2}, {3}) reduce(x, y, v, w), dimensions={{{4}}}, to_apply=f
}}
)",
                    to_string(x), to_string(y), to_string(Shape(DType::f32, result)),
                    to_string(Shape(DType::s16, result)), fmt::join(along, ",")),
        {special_values(x, unsigned(seed), false), special_values(y, unsigned(seed), false)});
  }
}

}  // namespace gspmd::testing::fast_reduce_test
