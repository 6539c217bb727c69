#include <cmath>

#include "api/support.h"
#include "gspmd/ir/module.h"

using namespace gspmd;
using namespace gspmd::test;

namespace {

struct UnaryCase {
  const char* name;
  Tensor (*traced)(Operand);
  double (*expected)(double);
};

double gelu_value(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

const UnaryCase kUnary[] = {
    {"exp", exp, [](double x) { return std::exp(x); }},
    {"expm1", expm1, [](double x) { return std::expm1(x); }},
    {"log", log, [](double x) { return std::log(x); }},
    {"log1p", log1p, [](double x) { return std::log1p(x); }},
    {"tanh", tanh, [](double x) { return std::tanh(x); }},
    {"sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"sqrt", sqrt, [](double x) { return std::sqrt(x); }},
    {"rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }},
    {"sin", sin, [](double x) { return std::sin(x); }},
    {"cos", cos, [](double x) { return std::cos(x); }},
    {"floor", floor, [](double x) { return std::floor(x); }},
    {"ceil", ceil, [](double x) { return std::ceil(x); }},
    {"square", square, [](double x) { return x * x; }},
    {"abs", abs, [](double x) { return std::fabs(x); }},
    {"sign", sign, [](double x) { return x > 0   ? 1.0
                                         : x < 0 ? -1.0
                                                 : x; }},
    {"relu", relu, [](double x) { return x > 0 ? x : 0 * x; }},
    {"gelu", gelu, gelu_value},
    {"silu", silu, [](double x) { return x / (1 + std::exp(-x)); }},
};

struct BinaryCase {
  const char* name;
  std::function<Tensor(Tensor, Tensor)> traced;
  double (*expected)(double, double);
};

const BinaryCase kBinary[] = {
    {"add", [](Tensor a, Tensor b) { return a + b; }, [](double a, double b) { return a + b; }},
    {"subtract", [](Tensor a, Tensor b) { return a - b; },
     [](double a, double b) { return a - b; }},
    {"multiply", [](Tensor a, Tensor b) { return a * b; },
     [](double a, double b) { return a * b; }},
    {"divide", [](Tensor a, Tensor b) { return a / b; }, [](double a, double b) { return a / b; }},
    {"maximum", [](Tensor a, Tensor b) { return maximum(a, b); },
     [](double a, double b) { return std::max(a, b); }},
    {"minimum", [](Tensor a, Tensor b) { return minimum(a, b); },
     [](double a, double b) { return std::min(a, b); }},
    {"pow", [](Tensor a, Tensor b) { return pow(a, b); },
     [](double a, double b) { return std::pow(a, b); }},
    {"remainder", [](Tensor a, Tensor b) { return remainder(a, b); },
     [](double a, double b) { return std::fmod(a, b); }},
    {"less", [](Tensor a, Tensor b) { return a < b; },
     [](double a, double b) { return double(a < b); }},
    {"less_equal", [](Tensor a, Tensor b) { return a <= b; },
     [](double a, double b) { return double(a <= b); }},
    {"greater", [](Tensor a, Tensor b) { return a > b; },
     [](double a, double b) { return double(a > b); }},
    {"greater_equal", [](Tensor a, Tensor b) { return a >= b; },
     [](double a, double b) { return double(a >= b); }},
    {"equal", [](Tensor a, Tensor b) { return equal(a, b); },
     [](double a, double b) { return double(a == b); }},
    {"not_equal", [](Tensor a, Tensor b) { return not_equal(a, b); },
     [](double a, double b) { return double(a != b); }},
};

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || a == b ||
         std::fabs(a - b) <= 1e-12 * (1 + std::fabs(b));
}

}  // namespace

TEST_CASE("unary functions agree with the C library on f64, NaN where it has NaN", "[api]") {
  const Array x = Array::of<double>({8}, {-2.5, -1, -0.25, 0, 0.25, 1, 3.75, 20});
  for (const UnaryCase& c : kUnary) {
    INFO(c.name);
    const std::vector<double> seen = values(run([&](Tensor t) { return c.traced(t); }, x));
    for (size_t i = 0; i < seen.size(); ++i) {
      INFO(x.at(int64_t(i)) << " gives " << seen[i]);
      CHECK(same(seen[i], c.expected(x.at(int64_t(i)))));
    }
  }
}

TEST_CASE("binary functions broadcast by numpy's rule", "[api]") {
  const Array a = Array::of<double>({2, 1, 3}, {1, 2, 3, 4, 5, 6});
  const Array b = Array::of<double>({4, 1}, {1, 2, 3, 4});
  for (const BinaryCase& c : kBinary) {
    INFO(c.name);
    const Array seen = run(c.traced, a, b);
    REQUIRE(seen.dims() == Dims{2, 4, 3});
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 4; ++j)
        for (int64_t k = 0; k < 3; ++k)
          CHECK(same(seen.at((i * 4 + j) * 3 + k), c.expected(a.at(i * 3 + k), b.at(j))));
  }
}

TEST_CASE("numbers take the dtype of the tensor they meet, on either side", "[api]") {
  const Array f = Array::of<float>({2}, {1, 2});
  const Array s = Array::of<int32_t>({2}, {1, 2});
  CHECK(values(run([](Tensor x) { return 2.5 - x * 2; }, f)) == std::vector<double>{0.5, -1.5});
  CHECK(values(run([](Tensor x) { return 10 - x; }, s)) == std::vector<double>{9, 8});
  CHECK(run([](Tensor x) { return 10 - x; }, s).dtype() == DType::s32);
  CHECK(run([](Tensor x) { return x > 1.5; }, f).dtype() == DType::pred);
}

TEST_CASE("compound assignment and negation update the handle", "[api]") {
  const Array x = Array::of<float>({2}, {3, 5});
  const auto fn = [](Tensor t) {
    t += 1;
    t *= 2;
    t -= 3;
    t /= Tensor(t);
    return -t;
  };
  CHECK(values(run(fn, x)) == std::vector<double>{-1, -1});
}

TEST_CASE("where broadcasts its condition and both values", "[api]") {
  const Array c = Array::of<int32_t>({2, 1}, {1, 0});
  const Array x = Array::of<float>({3}, {1, 2, 3});
  const auto fn = [](Tensor flag, Tensor t) { return where(flag > 0, t, -1); };
  CHECK(values(run(fn, c, x)) == std::vector<double>{1, 2, 3, -1, -1, -1});
  const auto chosen = [](Tensor flag, Tensor t) { return select(equal(flag, 0), t * 2, t); };
  CHECK(values(run(chosen, c, x)) == std::vector<double>{1, 2, 3, 2, 4, 6});
}

TEST_CASE("logic on pred values, clamp and is_finite", "[api]") {
  const Array x = Array::of<double>({4}, {-1, 0, 2, INFINITY});
  const auto both = [](Tensor t) { return logical_and(t > -0.5, logical_not(t > 1)); };
  CHECK(values(run(both, x)) == std::vector<double>{0, 1, 0, 0});
  const auto either = [](Tensor t) { return logical_or(t < 0, is_finite(t)); };
  CHECK(values(run(either, x)) == std::vector<double>{1, 1, 1, 0});
  CHECK(values(run([](Tensor t) { return clamp(-0.5, t, 1); }, x)) ==
        std::vector<double>{-0.5, 0, 1, 1});
}

TEST_CASE("convert changes the dtype and keeps equal ones", "[api]") {
  const Array x = Array::of<float>({3}, {-1.75f, 0, 2.5f});
  CHECK(values(run([](Tensor t) { return convert(t, DType::s32); }, x)) ==
        std::vector<double>{-1, 0, 2});
  const Traced traced = trace([](Tensor t) { return convert(t, DType::f32); }, x);
  CHECK(traced.module().entry()->nodes().size() == 2);  // the parameter and the tuple
}

TEST_CASE("reductions over all, some and no dims, with and without kept dims", "[api]") {
  const Array x = Array::of<double>({2, 3}, {1, -2, 3, 4, 5, -6});
  CHECK(run([](Tensor t) { return sum(t); }, x).item() == 5);
  CHECK(values(run([](Tensor t) { return sum(t, {.axes = -1}); }, x)) == std::vector<double>{2, 3});
  CHECK(values(run([](Tensor t) { return mean(t, {.axes = 0}); }, x)) ==
        std::vector<double>{2.5, 1.5, -1.5});
  CHECK(values(run([](Tensor t) { return max(t, {.axes = {0}}); }, x)) ==
        std::vector<double>{4, 5, 3});
  CHECK(values(run([](Tensor t) { return min(t, {.axes = 1}); }, x)) ==
        std::vector<double>{-2, -6});
  const Array kept = run([](Tensor t) { return sum(t, {.axes = {0, 1}, .keep_dims = true}); }, x);
  CHECK(kept.dims() == Dims{1, 1});
  CHECK(run([](Tensor t) { return sum(t, {.axes = Axes(std::vector<int64_t>{})}); }, x).dims() ==
        Dims{2, 3});
}

TEST_CASE("stochastic_convert rounds up as often as the part cut off says", "[api]") {
  // 1.25 goes up for the lower quarter of the numbers of 32 bits, -1.25 down for it.
  const auto rounded = [](Tensor x, Tensor bits) { return stochastic_convert(x, bits, DType::s8); };
  const Array x = Array::of<float>({4}, {1.25F, -1.25F, 1.25F, 300});
  const Array bits = Array::of<uint32_t>({4}, {1073741823, 1073741823, 1073741824, 0});
  CHECK(values(run(rounded, x, bits)) == std::vector<double>{2, -2, 1, 127});
  const auto average = [](Tensor at) {
    const Tensor drawn = random_bits(3, {4000});
    return mean(
        convert(stochastic_convert(broadcast_to(at, {4000}), drawn, DType::s32), DType::f32));
  };
  CHECK(run(average, Array::of<float>({1}, {2.3F})).item() == Approx(2.3).margin(0.03));
}

TEST_CASE("where and select of two C++ numbers give s32, or f32 where one is floating", "[api]") {
  const Array x = Array::of<double>({3}, {-1, 0, 2});
  const Array mask = run([](Tensor t) { return where(t > 0, 0.f, -1e9f); }, x);
  CHECK(mask.shape() == Shape(DType::f32, {3}));
  CHECK(values(mask) == std::vector<double>{-1e9, -1e9, 0});
  const Array mixed = run([](Tensor t) { return select(t > 0, 1, 0.5); }, x);
  CHECK(mixed.shape() == Shape(DType::f32, {3}));
  CHECK(values(mixed) == std::vector<double>{0.5, 0.5, 1});
  const Array counts = run([](Tensor t) { return where(t > 0, 1, -1); }, x);
  CHECK(counts.shape() == Shape(DType::s32, {3}));
  CHECK(values(counts) == std::vector<double>{-1, -1, 1});
}
