#include <catch2/catch.hpp>
#include <random>

#include "load.h"
#include "ops/fast_kernels.h"

namespace gspmd::testing::fast_window_test {
namespace {

struct Random {
  std::mt19937_64 bits;
  int64_t below(int64_t n) { return int64_t(bits() % uint64_t(n)); }
};

std::string computation(const char* op, DType dtype, const char* attributes = "") {
  const std::string type(dtype_name(dtype));
  const bool compares = std::string(op) == "compare";
  return fmt::format(
      "{{\na = {0}[] parameter(0)\nb = {0}[] parameter(1)\nROOT r = {1}[] {2}(a, b){3}\n}}\n", type,
      compares ? "pred" : type, op, attributes);
}

// Numbers of which sums and products of a line are exact in double and, but for products, in f32.
Array whole_values(const Shape& shape, unsigned seed, bool product) {
  std::mt19937 random(seed);
  Array array(Shape(shape.dtype, shape.dims));
  for (int64_t i = 0; i < array.size(); ++i) {
    double value = product ? (random() % 16 == 0 ? 2 : 1) : int(random() % 7) - 3;
    if (shape.dtype == DType::pred) value = random() % 2;
    if (is_unsigned_integer(shape.dtype)) value = std::abs(value);
    array.set(i, value);
  }
  return array;
}

void check_cumulative(unsigned seed) {
  Random random{std::mt19937_64(seed)};
  static const DType kTypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::s8,
                                 DType::s16, DType::u8,  DType::u64,  DType::s32, DType::s64,
                                 DType::u16, DType::u32, DType::pred};
  const DType type = kTypes[random.below(13)];
  static const int64_t kSizes[] = {2, 3, 15, 16, 17, 64, 130, 300};
  static const int64_t kOthers[] = {1, 2, 15, 16, 17, 33, 70, 600};
  const int64_t rank = 1 + random.below(3), along = random.below(rank);
  Dims dims;
  for (int64_t d = 0; d < rank; ++d)
    dims.push_back(d == along ? kSizes[random.below(8)] : kOthers[random.below(d == 0 ? 8 : 7)]);
  if (Shape(type, dims).elements_count() > 60000) return;
  const int64_t n = dims[size_t(along)];
  // Inclusive, exclusive by some, or with more positions than elements.
  const bool reverse = random.below(2) == 1;
  const int64_t kind = random.below(4), extra = 1 + random.below(3);
  int64_t far = n - 1, near = 0, size = n;
  if (kind == 0) {
    far += extra;
    near -= extra;
  } else if (kind == 1 && !reverse) {
    far += extra;
    near += extra;
    size += extra;
  }
  std::string window = "size=", pad = " pad=";
  Dims out = dims;
  out[size_t(along)] = far + near + n - size + 1;
  for (int64_t d = 0; d < rank; ++d) {
    const std::string x = d > 0 ? "x" : "";
    window += fmt::format("{}{}", x, d == along ? size : 1);
    if (d == along)
      pad += fmt::format("{}{}_{}", x, reverse ? near : far, reverse ? far : near);
    else
      pad += x + "0_0";
  }
  static const char* const kOps[] = {"add", "multiply", "maximum", "minimum", "and", "or"};
  const int64_t op = random.below(is_floating(type) ? 4 : 6);
  const Shape shape(type, dims);
  const bool special = op == 2 || op == 3;
  const Array x = special ? special_values(shape, seed, true) : whole_values(shape, seed, op == 1);
  const Array init = special ? special_values(Shape(type, {}), seed + 1, true)
                             : whole_values(Shape(type, {}), seed + 1, op == 1);
  expect_fast(fmt::format("HloModule m\nc {}ENTRY e {{\nx = {} parameter(0)\nz = {} "
                          "parameter(1)\nROOT r = {} reduce-window(x, z), window={{{}{}}}, "
                          "to_apply=c\n}}\n",
                          computation(kOps[op], type), to_string(shape), to_string(init.shape()),
                          to_string(Shape(type, out)), window, pad),
              {x, init});
}

// A window with strides, padding of any sign, and dilations.
struct Window {
  std::string text;
  Dims positions;
};
Window random_window(Random& random, const Dims& dims, bool dilate, int64_t apart) {
  Window w;
  std::string size = "size=", stride = " stride=", pad = " pad=", lhs = " lhs_dilate=",
              rhs = " rhs_dilate=";
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool plain = int64_t(d) < apart || random.below(3) == 0;
    const int64_t n = plain ? 1 : 1 + random.below(4), s = plain ? 1 : 1 + random.below(3);
    const int64_t low = plain ? 0 : random.below(4) - 1, high = plain ? 0 : random.below(4) - 1;
    const int64_t base = plain || !dilate ? 1 : 1 + random.below(2);
    const int64_t hole = plain || !dilate ? 1 : 1 + random.below(2);
    const std::string x = d > 0 ? "x" : "";
    size += x + std::to_string(n);
    stride += x + std::to_string(s);
    pad += fmt::format("{}{}_{}", x, low, high);
    lhs += x + std::to_string(base);
    rhs += x + std::to_string(hole);
    const int64_t room = (dims[d] - 1) * base + 1 + low + high - ((n - 1) * hole + 1);
    w.positions.push_back(room < 0 ? 0 : room / s + 1);
  }
  w.text = "window={" + size + stride + pad + (dilate ? lhs + rhs : "") + "}";
  return w;
}

// Channels first or last, and what is neither.
Dims random_dims(Random& random, int64_t& apart) {
  const int64_t kind = random.below(4);
  apart = kind == 0 ? 2 : kind == 1 ? 1 : 0;
  if (kind == 0)
    return {1 + random.below(3), 1 + random.below(20), 1 + random.below(9),
            1 + random.below(random.below(2) == 0 ? 9 : 60)};
  if (kind == 1)
    return {1 + random.below(3), 1 + random.below(7), 1 + random.below(7), 1 + random.below(80)};
  if (kind == 2) return {1 + random.below(90)};
  return {1 + random.below(9), 1 + random.below(9), 1 + random.below(9)};
}

}  // namespace

TEST_CASE("fast cumulative windows: the bits of the reference along any dim", "[window]") {
  for (int64_t seed = 1; seed <= random_load(500); ++seed) {
    INFO("seed " << seed);
    check_cumulative(unsigned(seed));
  }
}

TEST_CASE("fast cumulative windows: large results, whole cache lines or not", "[window]") {
  for (const int64_t n : {8192, 8195})
    for (const bool columns : {false, true})
      for (const bool reverse : {false, true}) {
        const Dims dims = columns ? Dims{n, 259} : Dims{259, n};
        const std::string pad = reverse ? fmt::format("0_{}", n - 1) : fmt::format("{}_0", n - 1);
        const Shape shape(DType::f32, dims);
        INFO(to_string(shape) << (reverse ? " from behind" : ""));
        expect_fast(fmt::format("HloModule m\nc {}ENTRY e {{\nx = {} parameter(0)\nz = f32[] "
                                "parameter(1)\nROOT r = {} reduce-window(x, z), window={{{}}}, "
                                "to_apply=c\n}}\n",
                                computation("add", DType::f32), to_string(shape), to_string(shape),
                                columns ? fmt::format("size={}x1 pad={}x0_0", n, pad)
                                        : fmt::format("size=1x{} pad=0_0x{}", n, pad)),
                    {whole_values(shape, 5, false), Array(DType::f32, {})});
      }
}

TEST_CASE("fast cumulative windows: zeros keep their signs along a line", "[window]") {
  for (const DType type : {DType::f32, DType::f64, DType::bf16})
    for (const int64_t n : {7, 16, 37})
      for (const bool reverse : {false, true}) {
        const Shape shape(type, {2, n});
        INFO(to_string(shape) << (reverse ? " from behind" : ""));
        Array x(Shape(type, shape.dims)), init(Shape(type, {}));
        for (int64_t i = 0; i < x.size(); ++i) x.set(i, i == n + 4 ? 0.0 : -0.0);
        init.set(0, -0.0);
        expect_fast(fmt::format("HloModule m\nc {}ENTRY e {{\nx = {} parameter(0)\nz = {} "
                                "parameter(1)\nROOT r = {} reduce-window(x, z), "
                                "window={{size=1x{} pad=0_0x{}}}, to_apply=c\n}}\n",
                                computation("add", type), to_string(shape), to_string(init.shape()),
                                to_string(shape), n,
                                reverse ? fmt::format("0_{}", n - 1) : fmt::format("{}_0", n - 1)),
                    {x, init});
      }
}

TEST_CASE("fast cumulative windows: sums of any numbers, to the last bits of f64", "[window]") {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (const int64_t n : {5, 64, 1100}) {
    Array x(Shape(DType::f64, {3, n})), init(Shape(DType::f64, {}));
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, normal(random));
    expect_fast(fmt::format("HloModule m\nc {}ENTRY e {{\nx = f64[3,{n}] parameter(0)\nz = f64[] "
                            "parameter(1)\nROOT r = f64[3,{n}] reduce-window(x, z), "
                            "window={{size=1x{n} pad=0_0x{p}_0}}, to_apply=c\n}}\n",
                            computation("add", DType::f64), fmt::arg("n", n), fmt::arg("p", n - 1)),
                {x, init}, 1e-14);
  }
}

TEST_CASE("fast pools: the bits of the reference for any window", "[window]") {
  int64_t checked = 0;
  for (int64_t seed = 1; seed <= random_load(800); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    static const DType kTypes[] = {DType::f32, DType::f64, DType::s32};
    const DType type = kTypes[random.below(3)];
    int64_t apart = 0;
    const Shape shape(type, random_dims(random, apart));
    const Window window = random_window(random, shape.dims, true, apart);
    if (Shape(type, window.positions).elements_count() == 0) continue;
    static const char* const kOps[] = {"add", "maximum", "minimum"};
    const int64_t op = random.below(3);
    const Array x = op == 0 ? whole_values(shape, unsigned(seed), false)
                            : special_values(shape, unsigned(seed), true);
    ++checked;
    expect_fast(
        fmt::format("HloModule m\nc {}ENTRY e {{\nx = {} parameter(0)\nz = {}[] parameter(1)\nROOT "
                    "r = {} reduce-window(x, z), {}, to_apply=c\n}}\n",
                    computation(kOps[op], type), to_string(shape), dtype_name(type),
                    to_string(Shape(type, window.positions)), window.text),
        {x, special_values(Shape(type, {}), unsigned(seed) % 5, false)});
  }
  CHECK(checked > random_load(400));
}

TEST_CASE("fast pools: the windows of models along rows of any length", "[window]") {
  struct Along {
    const char *size, *stride, *pad;
    int64_t positions(int64_t n) const {
      const int64_t padded = n + (pad[0] - '0') + (pad[2] - '0');
      return (padded - (size[0] - '0')) / (stride[0] - '0') + 1;
    }
  };
  static const Along kAlong[] = {{"3", "2", "1_1"}, {"3", "2", "1_0"}, {"3", "2", "0_1"},
                                 {"3", "2", "0_0"}, {"2", "2", "0_0"}, {"3", "1", "1_1"}};
  for (int64_t seed = 1; seed <= random_load(600); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    static const DType kTypes[] = {DType::f32, DType::f64, DType::s32};
    const DType type = kTypes[random.below(3)];
    const Along along = kAlong[random.below(6)];
    // Windows over images of one to seven rows, some outside of them.
    const int64_t images = 1 + random.below(3), height = 1 + random.below(40),
                  width = 16 + random.below(60), rows = 1 + random.below(7),
                  step = 1 + random.below(3), low = random.below(4), high = random.below(4);
    if (height + low + high < rows) continue;
    const Shape shape(type, {images, height, width});
    const Shape out(type,
                    {images, (height + low + high - rows) / step + 1, along.positions(width)});
    expect_fast(
        fmt::format("HloModule m\nc {}ENTRY e {{\nx = {} parameter(0)\nz = {}[] parameter(1)\nROOT "
                    "r = {} reduce-window(x, z), window={{size=1x{}x{} stride=1x{}x{} "
                    "pad=0_0x{}_{}x{}}}, to_apply=c\n}}\n",
                    computation(random.below(2) == 0 ? "maximum" : "minimum", type),
                    to_string(shape), dtype_name(type), to_string(out), rows, along.size, step,
                    along.stride, low, high, along.pad),
        {special_values(shape, unsigned(seed), random.below(2) == 0),
         special_values(Shape(type, {}), unsigned(seed) % 7, random.below(4) == 0)});
  }
}

TEST_CASE("fast gradients of max-pools: the bits of the reference for any window", "[window]") {
  int64_t checked = 0;
  for (int64_t seed = 1; seed <= random_load(800); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    const DType type = random.below(3) == 0 ? DType::f64 : DType::f32;
    int64_t apart = 0;
    const Shape shape(type, random_dims(random, apart));
    const Window window = random_window(random, shape.dims, false, apart);
    const Shape source(type, window.positions);
    if (source.elements_count() == 0) continue;
    ++checked;
    expect_fast(
        fmt::format("HloModule m\ns {}c {}ENTRY e {{\nx = {} parameter(0)\ny = {} "
                    "parameter(1)\nz = {}[] parameter(2)\nROOT r = {} "
                    "select-and-scatter(x, y, z), {}, select=s, scatter=c\n}}\n",
                    computation("compare", type, ", direction=GE"), computation("add", type),
                    to_string(shape), to_string(source), dtype_name(type), to_string(shape),
                    window.text),
        {special_values(shape, unsigned(seed), true), whole_values(source, unsigned(seed), false),
         whole_values(Shape(type, {}), unsigned(seed), false)});
  }
  CHECK(checked > random_load(400));
}

TEST_CASE("fast Fourier transforms: the numbers of the reference for any length and dims",
          "[fft]") {
  static const int64_t kLengths[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17, 30, 49, 64, 97, 100};
  for (int64_t seed = 1; seed <= random_load(300); ++seed) {
    INFO("seed " << seed);
    Random random{std::mt19937_64(uint64_t(seed))};
    const bool wide = random.below(3) == 0;
    const int64_t dims = 1 + random.below(3);
    Dims lengths, x;
    if (random.below(2) == 0) x.push_back(random.below(40));
    for (int64_t d = 0; d < dims; ++d)
      lengths.push_back(kLengths[random.below(dims == 1 ? 17 : 10)]);
    static const char* const kKinds[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
    const int64_t kind = random.below(4);
    x.insert(x.end(), lengths.begin(), lengths.end());
    Dims y = x;
    const DType complex = wide ? DType::c128 : DType::c64, real = wide ? DType::f64 : DType::f32;
    if (kind == 2) y.back() = y.back() / 2 + 1;
    if (kind == 3) x.back() = x.back() / 2 + 1;
    const Shape from(kind == 2 ? real : complex, x), to(kind == 3 ? real : complex, y);
    if (from.elements_count() == 0) continue;
    Array array = special_values(Shape(complex, x), unsigned(seed), false);
    if (kind == 2) {
      array = Array(real, x);
      for (int64_t i = 0; i < array.size(); ++i)
        array.set(i, double(random.below(2001) - 1000) / 64);
    }
    expect_fast(fmt::format("HloModule m\nENTRY e {{\nx = {} parameter(0)\nROOT r = {} fft(x), "
                            "fft_type={}, fft_length={{{}}}\n}}\n",
                            to_string(from), to_string(to), kKinds[kind], fmt::join(lengths, ",")),
                {array}, wide ? 1e-14 : 1e-6);
  }
}

}  // namespace gspmd::testing::fast_window_test
