// Complex numbers by loops over their parts.
#include <catch2/catch.hpp>
#include <cmath>
#include <complex>
#include <vector>

#include "gspmd/ir/op.h"
#include "gspmd/ir/text.h"
#include "gspmd/kernels/prepared_kernel.h"
#include "kernels/run_kernel.h"
#include "ops/fast_kernels.h"

namespace gspmd::testing::fast_complex_test {
namespace {

std::string text_of(const std::string& op, const std::string& from, const std::string& to,
                    int64_t operands, int64_t n) {
  std::string names, parameters;
  for (int64_t i = 0; i < operands; ++i) {
    names += fmt::format("{}x{}", i == 0 ? "" : ", ", i);
    parameters += fmt::format("x{0} = {1}[{2},3] parameter({0})\n", i, from, n);
  }
  return fmt::format("HloModule m\nENTRY e {{\n{}ROOT r = {}[{},3] {}({})\n}}\n", parameters, to, n,
                     op, names);
}

}  // namespace

TEST_CASE("fast complex ops: the numbers of the reference", "[elementwise]") {
  struct Case {
    const char *op, *from, *to;
    int64_t operands;
    double tolerance;
  };
  const Case cases[] = {
      {"real", "c64", "f32", 1, 0},       {"imag", "c64", "f32", 1, 0},
      {"real", "c128", "f64", 1, 0},      {"imag", "c128", "f64", 1, 0},
      {"complex", "f32", "c64", 2, 0},    {"complex", "f64", "c128", 2, 0},
      {"add", "c64", "c64", 2, 0},        {"subtract", "c128", "c128", 2, 0},
      {"negate", "c64", "c64", 1, 0},     {"multiply", "c64", "c64", 2, 1e-6},
      {"multiply", "c128", "c128", 2, 0}, {"abs", "c64", "f32", 1, 0},
      {"divide", "c64", "c64", 2, 1e-6},
  };
  for (const Case& c : cases)
    for (const int64_t n : {1, 5, 64, 7000}) {
      const std::string text = text_of(c.op, c.from, c.to, c.operands, n);
      const auto module = parse_module(text);
      std::vector<Array> arguments;
      for (const Node* x : module->entry()->parameters())
        arguments.push_back(special_values(x->shape, unsigned(x->attrs.index) + 1, false));
      expect_fast(text, arguments, c.tolerance);
    }
}

TEST_CASE("fast complex conversions: the bits of the reference, from and to any type",
          "[elementwise]") {
  for (const char* type : {"c64", "c128"})
    for (const char* other : {"f32", "f64", "bf16", "f16", "s32", "u8", "pred", "c64", "c128"})
      for (const int64_t n : {1, 64, 7000})
        for (const bool to : {false, true}) {
          if (std::string(type) == other) continue;
          const std::string text = text_of("convert", to ? other : type, to ? type : other, 1, n);
          INFO(text);
          const Shape x = parse_module(text)->entry()->parameters()[0]->shape;
          expect_fast(text, {special_values(x, 3, false)});
        }
}

TEST_CASE("fast complex selections and equalities: the bits of the reference", "[elementwise]") {
  for (const char* type : {"c64", "c128"})
    for (const int64_t n : {1, 5, 7000}) {
      const DType dtype = type == std::string("c64") ? DType::c64 : DType::c128;
      const Shape shape(dtype, {n, 3});
      const Array a = special_values(shape, 1, true), b = special_values(shape, 2, true);
      for (const char* chosen : {"pred[]", "pred[{},3]"}) {
        const std::string mask = fmt::format(fmt::runtime(chosen), n);
        const Shape of(DType::pred, mask == "pred[]" ? Dims{} : shape.dims);
        for (const unsigned seed : {1, 2})
          expect_fast(fmt::format("HloModule m\nENTRY e {{\np = {0} parameter(0)\na = {1} "
                                  "parameter(1)\nb = {1} parameter(2)\nROOT r = {1} select(p, a, "
                                  "b)\n}}\n",
                                  mask, to_string(shape)),
                      {special_values(of, seed, false), a, b});
      }
      for (const char* direction : {"EQ", "NE"})
        for (const Array& other : {a, b})
          expect_fast(fmt::format("HloModule m\nENTRY e {{\na = {0} parameter(0)\nb = {0} "
                                  "parameter(1)\nROOT r = pred[{1},3] compare(a, b), "
                                  "direction={2}\n}}\n",
                                  to_string(shape), n, direction),
                      {a, other});
    }
}

TEST_CASE("fast complex sizes: the largest, the least, infinite ones and none", "[elementwise]") {
  const auto module = parse_module(text_of("abs", "c64", "f32", 1, 2));
  Array x(Shape(DType::c64, {2, 3}));
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const std::complex<float> numbers[] = {{3e38f, 1e38f},    {1e-45f, 0}, {nan, -inf},
                                         {-3e-20f, 4e-20f}, {nan, 1},    {inf, 0}};
  std::copy_n(numbers, 6, x.data<std::complex<float>>().begin());
  const Array size = first_run(*module->entry()->root(), x);
  for (int64_t i = 0; i < 6; ++i) {
    const auto& z = numbers[i];
    const auto want = static_cast<float>(std::hypot(double(z.real()), double(z.imag())));
    CHECK((size.at(i) == double(want) || (std::isnan(want) && std::isnan(size.at(i)))));
  }
}

// What C gives: infinite quotients by zeros, of infinities and by them, in any place of a vector.
TEST_CASE("fast complex quotients: zeros, infinities, NaN, the largest and the least",
          "[elementwise]") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const float parts[] = {0, -0.0f, 1, -2.5f, inf, -inf, nan, 3e38f, -1e-38f, 1e-44f};
  std::vector<std::complex<float>> numbers;
  for (const float re : parts)
    for (const float im : parts) numbers.emplace_back(re, im);
  const auto count = int64_t(numbers.size());
  const Shape shape(DType::c64, {count * count, 3});  // each pair three times
  Array a(shape), b(shape);
  for (int64_t i = 0; i < a.size(); ++i) {
    a.data<std::complex<float>>()[size_t(i)] = numbers[size_t(i / count % count)];
    b.data<std::complex<float>>()[size_t(i)] = numbers[size_t(i % count)];
  }
  const auto module = parse_module(text_of("divide", "c64", "c64", 2, count * count));
  const Node& root = *module->entry()->root();
  const Array got = run_kernel(root.op().lower(root), {a, b}, {root.shape})[0];
  const auto is_same = [](float x, float y) {
    return (std::isnan(x) && std::isnan(y)) ||
           (x == y && (x != 0 || std::signbit(x) == std::signbit(y))) ||
           std::abs(x - y) <= 2e-7f * std::abs(y);
  };
  for (int64_t i = 0; i < a.size(); ++i) {
    const auto &x = numbers[size_t(i / count % count)], &y = numbers[size_t(i % count)];
    const std::complex<float> want = x / y, is = got.data<std::complex<float>>()[size_t(i)];
    INFO(x << " / " << y << " is " << is << ", not " << want);
    REQUIRE((is_same(is.real(), want.real()) && is_same(is.imag(), want.imag())));
  }
}

// As the planner of memory may lay them.
TEST_CASE("fast complex products: written over either operand", "[elementwise]") {
  const auto module = parse_module(text_of("multiply", "c64", "c64", 2, 900));
  const Node& root = *module->entry()->root();
  const PreparedKernel kernel = root.op().lower(root);
  for (const size_t over : {0u, 1u}) {
    std::vector<std::complex<float>> x[2];
    for (int i = 0; i < 2700; ++i) {
      x[0].emplace_back(float(i % 7), float(i % 5 - 2));
      x[1].emplace_back(float(i % 3), float(i % 11 - 4));
    }
    const std::vector<std::complex<float>> a = x[0], b = x[1];
    std::vector<std::byte> scratch(size_t(kernel.scratch_bytes) + 64);
    const std::byte* operands[] = {reinterpret_cast<std::byte*>(x[0].data()),
                                   reinterpret_cast<std::byte*>(x[1].data())};
    std::byte* results[] = {reinterpret_cast<std::byte*>(x[over].data())};
    KernelArgs args{operands, results, scratch.data()};
    for (args.part = 0; args.part < kernel.parts; ++args.part) kernel.run(args);
    for (size_t i = 0; i < 2700; ++i) CHECK(x[over][i] == a[i] * b[i]);
  }
}

}  // namespace gspmd::testing::fast_complex_test
