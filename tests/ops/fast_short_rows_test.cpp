// Fused loops whose last dim is short, as the channels of a group are.
#include <catch2/catch.hpp>
#include <random>

#include "gspmd/kernels/loop_program.h"
#include "kernels/loop_short_rows.h"
#include "load.h"
#include "ops/fast_kernels.h"

namespace gspmd::testing::fast_short_rows_test {
namespace {

struct Random {
  std::mt19937_64 bits;
  int64_t below(int64_t n) { return int64_t(bits() % uint64_t(n)); }
};

std::string join(const Dims& dims) { return fmt::format("{}", fmt::join(dims, ",")); }

// An operand over some of the dims, broadcast to all.
struct Some {
  Dims dims, at;
};
Some some_of(const Dims& dims, Random& random) {
  Some some;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (random.below(2) != 0) continue;
    some.dims.push_back(dims[d]);
    some.at.push_back(int64_t(d));
  }
  return some;
}

std::string fused(DType dtype, const Dims& dims, const Some& s, const Some& t,
                  const std::string& root) {
  const auto shape = [&](const Dims& d) { return to_string(Shape(dtype, d)); };
  const std::string name(dtype_name(dtype));
  return fmt::format(R"(HloModule m
sum {{
  a = {0}[] parameter(0)
  b = {0}[] parameter(1)
  ROOT c = {0}[] add(a, b)
}}
most {{
  a = {0}[] parameter(0)
  b = {0}[] parameter(1)
  ROOT c = {0}[] maximum(a, b)
}}
f {{
  x = {1} parameter(0)
  s = {2} parameter(1)
  t = {3} parameter(2)
  z = {0}[] parameter(3)
  sb = {1} broadcast(s), dimensions={{{4}}}
  tb = {1} broadcast(t), dimensions={{{5}}}
  d = {1} subtract(x, sb)
  y = {1} multiply(d, tb)
  {6}
}}
)",
                     name, shape(dims), shape(s.dims), shape(t.dims), join(s.at), join(t.at), root);
}

std::string called(DType dtype, const Dims& dims, const Some& s, const Some& t,
                   const std::string& result, const char* kind) {
  return fmt::format(R"(ENTRY e {{
  x = {} parameter(0)
  s = {} parameter(1)
  t = {} parameter(2)
  z = {}[] parameter(3)
  ROOT r = {} fusion(x, s, t, z), kind={}, calls=f
}}
)",
                     to_string(Shape(dtype, dims)), to_string(Shape(dtype, s.dims)),
                     to_string(Shape(dtype, t.dims)), dtype_name(dtype), result, kind);
}

Dims short_dims(Random& random) {
  Dims dims;
  if (random.below(2) == 0) dims.push_back(1 + random.below(3));
  dims.push_back(40 + random.below(300));
  dims.push_back(1 + random.below(40));
  if (random.below(4) == 0) dims.push_back(1);
  dims.push_back(2 + random.below(40));
  return dims;
}

std::vector<Array> arguments(DType dtype, const Dims& dims, const Some& s, const Some& t,
                             int64_t seed) {
  const auto whole = [&](const Dims& d, int64_t step) {
    Array array(Shape(dtype, d));
    for (int64_t i = 0; i < array.size(); ++i) array.set(i, double((i * step + seed) % 17 - 8));
    return array;
  };
  return {whole(dims, 7), whole(s.dims, 5), whole(t.dims, 3), whole({}, 1)};
}

}  // namespace

TEST_CASE("fast loops of short rows: operands over any of the dims", "[loop]") {
  for (int64_t seed = 1; seed <= random_load(60); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    static const DType kTypes[] = {DType::f32, DType::f64, DType::s32, DType::bf16};
    const DType dtype = kTypes[random.below(4)];
    const Dims dims = short_dims(random);
    const Some s = some_of(dims, random), t = some_of(dims, random);
    const std::string shape = to_string(Shape(dtype, dims));
    expect_fast(fused(dtype, dims, s, t, fmt::format("ROOT w = {} add(y, y)", shape)) +
                    called(dtype, dims, s, t, shape, "kLoop"),
                arguments(dtype, dims, s, t, seed));
  }
}

// Whole numbers: no order of sums matters.
TEST_CASE("fast loops of short rows: reductions along them and others", "[loop]") {
  for (int64_t seed = 1; seed <= random_load(80); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    static const DType kTypes[] = {DType::f32, DType::f64, DType::s32, DType::bf16, DType::f16};
    const DType dtype = kTypes[random.below(5)];
    const Dims dims = short_dims(random);
    const Some s = some_of(dims, random), t = some_of(dims, random);
    Dims along, kept;
    for (size_t d = 0; d < dims.size(); ++d) {
      const bool reduces = d + 1 == dims.size() ? random.below(4) > 0 : random.below(2) == 0;
      (reduces ? along : kept).push_back(reduces ? int64_t(d) : dims[d]);
    }
    const std::string shape = to_string(Shape(dtype, kept));
    const bool both = random.below(3) == 0;
    const auto reduce = [&](const char* of, const char* by) {
      return fmt::format("{} reduce({}, z), dimensions={{{}}}, to_apply={}", shape, of, join(along),
                         by);
    };
    const std::string root =
        both ? fmt::format("v = {}\n  w = {}\n  ROOT p = ({}, {}) tuple(v, w)", reduce("y", "sum"),
                           reduce("d", "most"), shape, shape)
             : "ROOT w = " + reduce("y", random.below(2) == 0 ? "sum" : "most");
    expect_fast(fused(dtype, dims, s, t, root) +
                    called(dtype, dims, s, t, both ? fmt::format("({}, {})", shape, shape) : shape,
                           "kInput"),
                arguments(dtype, dims, s, t, seed), dtype_size(dtype) == 2 ? 1e-2 : 0);
  }
}

// Of images with channels first, as a batch norm reads them.
TEST_CASE("fast loops of short rows: planes of images", "[loop]") {
  static const DType kTypes[] = {DType::f32, DType::f64, DType::s32, DType::bf16};
  static const Dims kDims[] = {{20, 30, 7, 7}, {9, 50, 5, 8, 1}, {64, 40, 2, 3}, {33, 21, 4, 3, 4}};
  for (int64_t seed = 1; seed <= random_load(40); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    const DType dtype = kTypes[random.below(4)];
    const Dims& dims = kDims[random.below(4)];
    const Some channels{{dims[1]}, {1}};
    const Some t = random.below(2) == 0 ? channels : some_of(dims, random);
    const std::string whole = to_string(Shape(dtype, dims));
    const std::string kept = to_string(Shape(dtype, {dims[1]}));
    const char* const along = dims.size() == 4 ? "0,2,3" : "0,2,3,4";
    const bool folds = random.below(3) > 0;
    const std::string root =
        folds ? fmt::format(
                    "v = {0} reduce(d, z), dimensions={{{1}}}, to_apply=sum\n  w = {0} "
                    "reduce(y, z), dimensions={{{1}}}, to_apply=most\n  ROOT p = ({0}, "
                    "{0}) tuple(v, w)",
                    kept, along)
              : fmt::format("ROOT w = {} add(y, y)", whole);
    expect_fast(
        fused(dtype, dims, channels, t, root) +
            called(dtype, dims, channels, t, folds ? fmt::format("({0}, {0})", kept) : whole,
                   folds ? "kInput" : "kLoop"),
        arguments(dtype, dims, channels, t, seed), dtype == DType::bf16 ? 1e-2 : 0);
  }
}

TEST_CASE("fast loops of short rows: places along dims of one element and others", "[loop]") {
  const Dims shapes[] = {{1, 1024, 4, 8}, {1024, 1, 4, 8}, {64, 40, 1, 8}, {64, 1, 40, 8, 1}};
  for (const Dims& dims : shapes)
    for (size_t along = 0; along < dims.size(); ++along) {
      const size_t last = dims.size() - (dims.back() == 1 ? 2 : 1);
      const std::string shape = to_string(Shape(DType::f32, dims));
      Array x(Shape(DType::f32, dims)), s(Shape(DType::f32, {dims[last]}));
      for (int64_t i = 0; i < x.size(); ++i) x.set(i, double(i * 7 % 19));
      for (int64_t i = 0; i < s.size(); ++i) s.set(i, double(i + 1));
      expect_fast(fmt::format(R"(HloModule m
f {{
  x = {0} parameter(0)
  s = f32[{1}] parameter(1)
  b = {0} broadcast(s), dimensions={{{2}}}
  p = {0} multiply(x, b)
  i = {0} iota(), iota_dimension={3}
  ROOT r = {0} add(p, i)
}}
ENTRY e {{
  x = {0} parameter(0)
  s = f32[{1}] parameter(1)
  ROOT r = {0} fusion(x, s), kind=kLoop, calls=f
}}
)",
                              shape, dims[last], last, along),
                  {x, s});
    }
}

TEST_CASE("loops of short rows: which ones are laid out, and which not", "[loop]") {
  LoopProgram program;
  program.dims = {4, 512, 32, 8};
  LoopValue x, groups;
  x.strides = row_major_strides(program.dims);
  groups.operand = 1;
  groups.strides = {32, 0, 1, 0};
  program.values = {x, groups, {LoopOp::add, DType::f32, 0, 1}};
  program.outputs = {{2}};
  CHECK(prepare_short_rows(program, {}).run);
  LoopProgram other = program;
  other.values[1].strides = {256, 0, 8, 1};  // one dim as it is
  CHECK_FALSE(prepare_short_rows(other, {}).run);
  other = program;
  other.dims = {1, 8, 32, 8};  // little work
  CHECK_FALSE(prepare_short_rows(other, {}).run);
  other = program;
  other.values[1].strides = {16384, 32, 1, 0};  // as much to lay out as to read
  CHECK_FALSE(prepare_short_rows(other, {}).run);
  other = program;
  other.values[1].op = LoopOp::iota;
  other.values[1].operand = 3;
  other.values[1].strides = {};
  CHECK_FALSE(prepare_short_rows(other, {}).run);
}

}  // namespace gspmd::testing::fast_short_rows_test
