// Loops of integers below 32 bits and of floats below 16: the bits of the reference kernels.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "load.h"
#include "ops/fast_kernels.h"

namespace gspmd::testing::fast_narrow_test {
namespace {

const DType kNarrow[] = {DType::s1,       DType::s2,         DType::s4,
                         DType::s8,       DType::s16,        DType::u1,
                         DType::u2,       DType::u4,         DType::u8,
                         DType::u16,      DType::f4e2m1fn,   DType::f6e2m3fn,
                         DType::f6e3m2fn, DType::f8e3m4,     DType::f8e4m3,
                         DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e4m3b11fnuz,
                         DType::f8e5m2,   DType::f8e5m2fnuz, DType::f8e8m0fnu};
const DType kIntegers[] = {DType::s4, DType::u4, DType::s8, DType::u8, DType::s16, DType::u16};
const DType kFloats[] = {DType::f8e4m3fn, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e8m0fnu,
                         DType::f4e2m1fn};
const DType kWide[] = {DType::pred, DType::s32,  DType::u32, DType::s64, DType::u64,
                       DType::f16,  DType::bf16, DType::f32, DType::f64};

// Every code of a narrow type, in turn.
Array every_code(DType dtype, int64_t size) {
  Array array(dtype, {size});
  int bits = int(8 * dtype_size(dtype));
  if (dtype == DType::s1 || dtype == DType::u1) bits = 1;
  if (dtype == DType::s2 || dtype == DType::u2) bits = 2;
  if (dtype == DType::s4 || dtype == DType::u4 || dtype == DType::f4e2m1fn) bits = 4;
  if (dtype == DType::f6e2m3fn || dtype == DType::f6e3m2fn) bits = 6;
  for (int64_t i = 0; i < size; ++i) {
    const auto code = uint16_t(i * 4099 & ((1 << bits) - 1));
    std::memcpy(array.bytes().data() + i * dtype_size(dtype), &code, size_t(dtype_size(dtype)));
  }
  return array;
}

// Of a wide type: numbers about every power of two, ties of narrow floats and what lies beside
// them, infinities, NaNs and numbers below the normal ones.
Array wide_numbers(DType dtype, int64_t size) {
  std::mt19937_64 random(5);
  Array array(dtype, {size});
  for (int64_t i = 0; i < size; ++i) {
    const int exponent = int(random() % 300) - 165;
    const double step = std::ldexp(double(random() % 65), -5);
    double value = std::ldexp(step, random() % 2 == 0 ? exponent : int(random() % 40) - 20);
    if (random() % 3 == 0) value = std::nextafter(value, random() % 2 == 0 ? 0.0 : 1e300);
    if (random() % 3 == 0) value = double(float(value)) * (1 + std::ldexp(1, -23));
    if (random() % 2 == 0) value = -value;
    const uint64_t draw = random() % 64;
    if (draw < 3 && is_floating(dtype)) value = draw == 0 ? NAN : draw == 1 ? INFINITY : -INFINITY;
    if (is_floating(dtype)) {
      array.set(i, value);
    } else {  // any bits, and small numbers
      const uint64_t bits = dtype == DType::pred ? draw & 1 : random() >> random() % 64;
      std::memcpy(array.bytes().data() + i * dtype_size(dtype), &bits, size_t(dtype_size(dtype)));
    }
  }
  return array;
}

Array every_upper_half(uint32_t below) {
  Array x(DType::f32, {65536});
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint32_t bits = i << 16 | below;
    std::memcpy(x.bytes().data() + 4 * i, &bits, 4);
  }
  return x;
}

Array shaped(const Array& x, const Dims& dims) { return {Shape(x.dtype(), dims), x.storage()}; }

Array numbers(DType dtype, int64_t size) {
  const bool narrow = is_narrow(dtype) || (is_integer(dtype) && dtype_size(dtype) < 4);
  return narrow ? every_code(dtype, size) : wide_numbers(dtype, size);
}

void expect_convert(DType from, DType to, int64_t size) {
  const Array x = numbers(from, size);
  expect_fast(fmt::format("HloModule m\nENTRY e {{\nx = {} parameter(0)\nROOT r = {} "
                          "convert(x)\n}}\n",
                          to_string(x.shape()), to_string(Shape(to, {size}))),
              {x});
}

// `op` of operands of a type, all of a size that leaves a tail; `more` are attributes.
void expect_op(const std::string& op, DType dtype, DType result, int operands,
               const std::string& more = "") {
  const int64_t size = 65536 + 13;
  std::string text = "HloModule m\nENTRY e {\n", names;
  std::vector<Array> arguments;
  for (int i = 0; i < operands; ++i) {
    Array x = numbers(dtype, size);
    if (i > 0) {  // in another order
      const int64_t bytes = dtype_size(dtype);
      for (int64_t k = 0; k < size; ++k)
        std::memcpy(x.bytes().data() + k * bytes,
                    arguments[0].bytes().data() + (k * (1009 + 2 * i) + k / 256 * 3) % size * bytes,
                    size_t(bytes));
    }
    text += fmt::format("x{} = {} parameter({})\n", i, to_string(x.shape()), i);
    names += (i > 0 ? ", x" : "x") + std::to_string(i);
    arguments.push_back(x);
  }
  text +=
      fmt::format("ROOT r = {} {}({}){}\n}}\n", to_string(Shape(result, {size})), op, names, more);
  expect_fast(text, arguments);
}

}  // namespace

TEST_CASE("narrow loops: every code of every type becomes a wide number", "[elementwise]") {
  for (const DType from : kNarrow)
    for (const DType to : kWide) expect_convert(from, to, dtype_size(from) == 1 ? 259 : 65539);
}

TEST_CASE("narrow loops: wide numbers become numbers of every type", "[elementwise]") {
  for (const DType from : kWide)
    for (const DType to : kNarrow) expect_convert(from, to, 20011);
}

namespace {

struct Format {
  DType dtype;
  int digits, lowest;  // behind the point; exponent of the smallest normal number
  double largest;
};

// `x`, exactly held, to the nearest number of the format, of two the even one.
double nearest(const Format& format, long double x) {
  if (x == 0 || std::isinf(x)) return double(x);
  const int exponent = std::max(std::ilogb(x), format.lowest);
  const long double ulp = std::ldexp(1.0L, exponent - format.digits);
  const auto rounded = double(std::nearbyint(x / ulp) * ulp);
  if (std::fabs(rounded) <= format.largest) return rounded;
  return std::copysign(INFINITY, rounded);
}

// Middles of neighbours of the format, and what lies beside them by the last digits of `T`.
template <class T>
std::vector<T> about_middles(const Format& format) {
  std::mt19937_64 random(11);
  std::vector<T> numbers;
  for (int64_t i = 0; i < 4099; ++i) {
    const uint64_t digits =
        (uint64_t{2} << format.digits) + 2 * (random() % (1 << format.digits)) + 1;
    if constexpr (std::is_floating_point_v<T>) {
      const int exponent = format.lowest + int(random() % 40) - format.digits - 1;
      const double middle = std::ldexp(double(digits), exponent);
      const int far = int(random() % 30) + 23;
      const double beside = middle * (1 + (int(random() % 3) - 1) * std::ldexp(1.0, -far));
      numbers.push_back(random() % 2 == 0 ? beside : -beside);
    } else {
      const int bits = int(8 * sizeof(T)) - (std::is_signed_v<T> ? 1 : 0);
      const int room = bits - format.digits - 2;
      const int shift = room - int(random() % std::min(room, 45));
      const uint64_t beside = (digits << shift) + random() % 3 - 1;
      const auto value = T(beside);
      numbers.push_back(std::is_signed_v<T> && random() % 2 == 0 ? T(0 - uint64_t(value)) : value);
    }
  }
  return numbers;
}

template <class T>
void expect_nearest(DType from, const Format& format) {
  const std::vector<T> numbers = about_middles<T>(format);
  const auto size = int64_t(numbers.size());
  Array x(from, {size});
  std::memcpy(x.bytes().data(), numbers.data(), x.bytes().size());
  const std::string given = to_string(x.shape()), result = to_string(Shape(format.dtype, {size}));
  const std::string alone = fmt::format("ROOT r = {} convert(x)\n}}\n", result);
  // With an op before and two behind it, in one loop.
  const std::string fused = fmt::format(
      "a = {0} maximum(x, x)\nb = {1} convert(a)\nc = {1} negate(b)\n"
      "ROOT r = {1} negate(c)\n}}\n",
      given, result);
  const std::string parameter = fmt::format("x = {} parameter(0)\n", given);
  const std::string texts[] = {
      "HloModule m\nENTRY e {\n" + parameter + alone,
      "HloModule m\nf {\n" + parameter + fused + "ENTRY e {\n" + parameter +
          fmt::format("ROOT r = {} fusion(x), kind=kLoop, calls=f\n}}\n", result)};
  for (const std::string& text : texts) {
    expect_fast(text, {x});
    const auto module = parse_module(text);
    const Array made = evaluate(*module, std::vector<Value>{{x, {}, false}}).array;
    int64_t wrong = 0;
    for (int64_t i = 0; i < size; ++i)
      wrong += made.at(i) == nearest(format, numbers[size_t(i)]) ? 0 : 1;
    INFO(text);
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("narrow loops: a number becomes the nearest of a shorter type in one step",
          "[elementwise]") {
  const Format formats[] = {{DType::bf16, 7, -126, 0x1.fep127},
                            {DType::f16, 10, -14, 65504},
                            {DType::f8e5m2, 2, -14, 57344},
                            {DType::f8e4m3, 3, -6, 240}};
  for (const Format& format : formats) {
    expect_nearest<double>(DType::f64, format);
    expect_nearest<int32_t>(DType::s32, format);
    expect_nearest<uint32_t>(DType::u32, format);
    expect_nearest<int64_t>(DType::s64, format);
    expect_nearest<uint64_t>(DType::u64, format);
  }
}

TEST_CASE("narrow loops: numbers of one narrow type become those of another", "[elementwise]") {
  for (const DType from : kNarrow)
    for (const DType to : kNarrow) expect_convert(from, to, dtype_size(from) == 1 ? 259 : 65539);
}

TEST_CASE("narrow loops: rounding all upper halves of floats, and what lies beside them",
          "[elementwise]") {
  for (const uint32_t below : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
    for (const DType to : kNarrow) {
      if (!is_floating(to)) continue;
      expect_fast(fmt::format("HloModule m\nENTRY e {{\nx = f32[65536] parameter(0)\nROOT r = {} "
                              "convert(x)\n}}\n",
                              to_string(Shape(to, {65536}))),
                  {every_upper_half(below)});
    }
}

TEST_CASE("narrow loops: integers wrap", "[elementwise]") {
  for (const DType dtype : kIntegers) {
    for (const char* op :
         {"add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "or",
          "xor", "shift-left", "shift-right-logical", "shift-right-arithmetic"})
      expect_op(op, dtype, dtype, 2);
    for (const char* op : {"abs", "sign", "not", "copy", "popcnt", "count-leading-zeros"}) {
      if (op == std::string("abs") && is_unsigned_integer(dtype)) continue;
      expect_op(op, dtype, dtype, 1);
    }
    expect_op("negate", dtype, dtype, 1);
    expect_op("clamp", dtype, dtype, 3);
    for (const char* direction : {"EQ", "NE", "LT", "LE", "GT", "GE"})
      expect_op("compare", dtype, DType::pred, 2, fmt::format(", direction={}", direction));
  }
}

TEST_CASE("loops that count bits", "[elementwise]") {
  for (const DType dtype : {DType::s32, DType::u32, DType::s64, DType::u64})
    for (const char* op : {"popcnt", "count-leading-zeros"}) expect_op(op, dtype, dtype, 1);
}

TEST_CASE("loops that reduce the precision of floats", "[elementwise]") {
  for (const char* format :
       {"exponent_bits=8, mantissa_bits=7", "exponent_bits=8, mantissa_bits=23",
        "exponent_bits=9, mantissa_bits=7"})
    expect_op("reduce-precision", DType::f32, DType::f32, 1, std::string(", ") + format);
  expect_op("reduce-precision", DType::bf16, DType::bf16, 1, ", exponent_bits=8, mantissa_bits=7");
  std::string text =
      "HloModule m\nENTRY e {\nx = f32[65536] parameter(0)\nROOT r = f32[65536] "
      "reduce-precision(x), exponent_bits=8, mantissa_bits=7\n}\n";
  for (const uint32_t below : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
    expect_fast(text, {every_upper_half(below)});
}

TEST_CASE("narrow loops: floats are rounded after every op", "[elementwise]") {
  for (const DType dtype : kFloats) {
    for (const char* op : {"add", "subtract", "multiply", "divide", "maximum", "minimum"})
      expect_op(op, dtype, dtype, 2);
    for (const char* op : {"negate", "abs", "sign", "floor", "ceil", "round-nearest-afz",
                           "round-nearest-even", "copy"})
      expect_op(op, dtype, dtype, 1);
    expect_op("clamp", dtype, dtype, 3);
    expect_op("is-finite", dtype, DType::pred, 1);
    for (const char* direction : {"EQ", "NE", "LT", "LE", "GT", "GE"})
      expect_op("compare", dtype, DType::pred, 2, fmt::format(", direction={}", direction));
  }
}

TEST_CASE("narrow loops: select, broadcasts and single elements", "[elementwise]") {
  for (const DType dtype : {DType::u8, DType::s16, DType::f8e4m3fn, DType::u4}) {
    const std::string type = to_string(Shape(dtype, {37, 53})), one = to_string(Shape(dtype, {}));
    const Array x = shaped(every_code(dtype, 37 * 53), {37, 53});
    Array single(dtype, {});
    single.bytes()[0] = std::byte{3};
    expect_fast(fmt::format("HloModule m\nENTRY e {{\np = pred[37,53] parameter(0)\nx = {} "
                            "parameter(1)\ny = {} parameter(2)\nROOT r = {} select(p, x, y)\n}}\n",
                            type, type, type),
                {special_values(Shape(DType::pred, {37, 53}), 1, false), x, x});
    expect_fast(fmt::format("HloModule m\nENTRY e {{\na = {} parameter(0)\nx = {} parameter(1)\n"
                            "b = {} parameter(2)\nROOT r = {} clamp(a, x, b)\n}}\n",
                            one, type, one, type),
                {single, x, single});
    expect_fast(fmt::format("HloModule m\nENTRY e {{\na = {} parameter(0)\nROOT r = {} "
                            "broadcast(a), dimensions={{}}\n}}\n",
                            one, type),
                {single});
  }
}

TEST_CASE("narrow loops: reductions along any dims", "[reduce]") {
  for (const DType dtype : {DType::s8, DType::u8, DType::s16, DType::u16, DType::s4, DType::pred})
    for (const char* op : {"add", "multiply", "maximum", "minimum", "and", "or"})
      for (const int dims : {0, 1, 2, 3}) {
        const bool pred = dtype == DType::pred;
        const Shape from(dtype, {19, 7, 67});
        const Dims kept = dims == 0   ? Dims{7, 67}
                          : dims == 1 ? Dims{19, 67}
                          : dims == 2 ? Dims{19, 7}
                                      : Dims{7};
        const char* along[] = {"0", "1", "2", "0,2"};
        const std::string one = to_string(Shape(dtype, {}));
        const Array x = pred ? special_values(from, 3, false)
                             : shaped(every_code(dtype, 19 * 7 * 67), from.dims);
        Array init(dtype, {});
        init.set(0, 1);
        expect_fast(
            fmt::format("HloModule m\nc {{\na = {0} parameter(0)\nb = {0} parameter(1)\n"
                        "ROOT s = {0} {1}(a, b)\n}}\nENTRY e {{\nx = {2} parameter(0)\n"
                        "i = {0} parameter(1)\nROOT r = {3} reduce(x, i), "
                        "dimensions={{{4}}}, to_apply=c\n}}\n",
                        one, op, to_string(from), to_string(Shape(dtype, kept)), along[dims]),
            {x, init});
      }
}

}  // namespace gspmd::testing::fast_narrow_test
