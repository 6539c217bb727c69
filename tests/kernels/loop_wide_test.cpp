// Loops of functions that are computed in doubles, and of roundings, against the maths library.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <type_traits>

#include "gspmd/kernels/loop_program.h"
#include "kernels/loop_functions.h"
#include "kernels/run_kernel.h"

namespace gspmd::loop_wide_test {
namespace {

using Function = std::function<double(double, double)>;

template <class T>
constexpr DType kType = std::is_same_v<T, float> ? DType::f32 : DType::f64;

// All exponents and signs with some fractions, what is special, whole and half numbers, and what is
// drawn by lot: any bits, and numbers of a common size.
std::vector<float> numbers() {
  std::vector<float> out;
  for (uint32_t high = 0; high < 512; ++high)
    for (const uint32_t fraction : {0u, 1u, 0x400000u, 0x2aaaabu, 0x3504f3u, 0x7fffffu})
      out.push_back(std::bit_cast<float>((high << 23) | fraction));
  for (int k = -300; k <= 300; ++k) out.push_back(0.5f * static_cast<float>(k));
  for (int k = -40; k <= 40; ++k)
    out.push_back(static_cast<float>(k * 0.78539816339744831));  // eighths of a turn
  std::mt19937 random(5);
  for (int k = 0; k < 200000; ++k) {
    const auto bits = static_cast<uint32_t>(random());
    const auto any = static_cast<double>(static_cast<int32_t>(random()));
    out.push_back(k % 3 == 0 ? std::bit_cast<float>(bits)
                             : static_cast<float>(std::ldexp(any, k % 3 == 1 ? -28 : -31)));
  }
  return out;
}
// The same, in another order, so that pairs of all kinds come up.
std::vector<float> shuffled(std::vector<float> x) {
  std::mt19937 random(9);
  std::shuffle(x.begin(), x.end(), random);
  return x;
}

template <class T>
int64_t units_apart(T a, T b) {
  using B = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : INT64_MAX;
  if (std::signbit(a) != std::signbit(b)) return INT64_MAX;
  return std::abs(int64_t{std::bit_cast<B>(a)} - int64_t{std::bit_cast<B>(b)});
}

// What is most off, and how many are not the nearest number.
struct Distance {
  int64_t worst = 0, off = 0;
  std::string where;
};
template <class T>
Distance distance(LoopOp op, const Function& f, const std::vector<T>& a, const std::vector<T>& b,
                  size_t n, uint32_t scalars) {
  const LoopFunction run = find_loop_function(op, kType<T>, kType<T>);
  REQUIRE(run != nullptr);
  std::vector<T> out(n + 1, T(77));
  const auto bytes = [](auto& v) { return reinterpret_cast<const std::byte*>(v.data()); };
  run(reinterpret_cast<std::byte*>(out.data()), bytes(a), bytes(b), nullptr,
      static_cast<int64_t>(n), scalars);
  Distance d;
  for (size_t i = 0; i < n; ++i) {
    const T x = a[scalars & 1 ? 0 : i], y = b[scalars & 2 ? 0 : i];
    const T want = static_cast<T>(f(x, y));
    const int64_t units = units_apart(out[i], want);
    d.off += units != 0;
    if (units <= d.worst) continue;
    d.worst = units;
    d.where = fmt::format("of {} and {}: {}, not {}", x, y, out[i], want);
  }
  CHECK(out[n] == T(77));
  return d;
}

// All lengths up to some vectors, one element for all, and results in the place of an operand.
void check_forms(LoopOp op, const Function& f, const std::vector<float>& a,
                 const std::vector<float>& b, int64_t units, bool is_binary) {
  for (size_t n = 1; n < 40; ++n)
    for (uint32_t scalars = 0; scalars < (is_binary ? 4u : 1u); ++scalars) {
      const auto skip = static_cast<std::ptrdiff_t>(911 * n);
      const std::vector<float> p(a.begin() + skip, a.end()), q(b.begin() + skip, b.end());
      const Distance d = distance<float>(op, f, p, q, n, scalars);
      INFO("op " << int(op) << ", " << n << " elements, scalars " << scalars << " " << d.where);
      CHECK(d.worst <= units);
    }
  const LoopFunction run = find_loop_function(op, DType::f32, DType::f32);
  const size_t n = 1003;
  std::vector<float> want(n), p(a.begin(), a.begin() + n), q(b.begin(), b.begin() + n);
  const auto call = [&](std::vector<float>& out) {
    run(reinterpret_cast<std::byte*>(out.data()), reinterpret_cast<const std::byte*>(p.data()),
        reinterpret_cast<const std::byte*>(q.data()), nullptr, static_cast<int64_t>(n), 0);
  };
  call(want);
  std::vector<float>& place = is_binary ? q : p;
  call(place);
  CHECK(std::memcmp(place.data(), want.data(), n * sizeof(float)) == 0);
}

// `most_off`: of what share another number is nearer.
void check_single(LoopOp op, const Function& f, int64_t units, bool is_binary = false,
                  double most_off = 0.002) {
  const std::vector<float> a = numbers(), b = shuffled(a);
  const Distance d = distance<float>(op, f, a, b, a.size(), 0);
  INFO("op " << int(op) << " " << d.where);
  CHECK(d.worst <= units);
  CHECK(static_cast<double>(d.off) <= most_off * static_cast<double>(a.size()));
  check_forms(op, f, b, a, units, is_binary);
}

void check_double(LoopOp op, const Function& f, int64_t units) {
  std::vector<double> x;
  std::mt19937_64 random(3);
  for (const float v : numbers()) x.push_back(v);
  for (int k = 0; k < 50000; ++k) x.push_back(std::bit_cast<double>(random()));
  for (const double v : {0x1p-1074, -0x1.8p-1060, 0x1p52 - 0.5, -0x1p53, 1e308}) x.push_back(v);
  const Distance d = distance<double>(op, f, x, x, x.size(), 0);
  INFO("op " << int(op) << " " << d.where);
  CHECK(d.worst <= units);
}

double cbrt_of(double x) { return static_cast<double>(std::cbrt(static_cast<long double>(x))); }

}  // namespace

TEST_CASE("wide loops: functions of floats are the doubles' rounded, all but a few", "[loop]") {
  check_single(
      LoopOp::sine, [](double x, double) { return std::sin(x); }, 1);
  check_single(
      LoopOp::cosine, [](double x, double) { return std::cos(x); }, 1);
  check_single(
      LoopOp::tan, [](double x, double) { return std::tan(x); }, 1);
  check_single(
      LoopOp::cbrt, [](double x, double) { return cbrt_of(x); }, 1);
  check_single(
      LoopOp::power, [](double x, double y) { return std::pow(x, y); }, 1, true);
  check_single(
      LoopOp::atan2, [](double y, double x) { return std::atan2(y, x); }, 1, true);
}

TEST_CASE("loops of erf are within a unit of the double's rounded", "[loop]") {
  check_single(
      LoopOp::erf, [](double x, double) { return std::erf(x); }, 1, false, 0.05);
}

TEST_CASE("wide loops: remainders and roundings are exact", "[loop]") {
  check_single(
      LoopOp::remainder, [](double x, double y) { return std::fmod(x, y); }, 0, true);
  check_single(
      LoopOp::round_nearest_even, [](double x, double) { return std::nearbyint(x); }, 0);
  check_single(
      LoopOp::round_nearest_afz, [](double x, double) { return std::round(x); }, 0);
  check_double(
      LoopOp::round_nearest_even, [](double x, double) { return std::nearbyint(x); }, 0);
  check_double(
      LoopOp::round_nearest_afz, [](double x, double) { return std::round(x); }, 0);
}

TEST_CASE("wide loops: doubles have the library's functions", "[loop]") {
  check_double(
      LoopOp::cbrt, [](double x, double) { return cbrt_of(x); }, 1);
  check_double(
      LoopOp::erf, [](double x, double) { return std::erf(x); }, 0);
  check_double(
      LoopOp::tan, [](double x, double) { return std::tan(x); }, 0);
  check_double(
      LoopOp::atan2, [](double x, double y) { return std::atan2(x, y); }, 0);
}

TEST_CASE("wide loops: powers and roots of whole numbers are exact", "[loop]") {
  std::vector<float> cubes, bases, exponents;
  for (int k = -250; k <= 250; ++k) cubes.push_back(static_cast<float>(k * k * k));
  for (int base = -16; base <= 16; ++base)
    for (int n = 0; n <= 5; ++n) {
      bases.push_back(static_cast<float>(base));
      exponents.push_back(static_cast<float>(n));
    }
  const auto root = [](double x, double) { return std::round(cbrt_of(x)); };
  const auto power = [](double x, double y) { return std::pow(x, y); };
  CHECK(distance<float>(LoopOp::cbrt, root, cubes, cubes, cubes.size(), 0).worst == 0);
  CHECK(distance<float>(LoopOp::power, power, bases, exponents, bases.size(), 0).worst == 0);
}

// 16-bit floats are computed in f32, and rounded.
TEST_CASE("wide loops: functions of 16-bit floats are within a unit", "[loop]") {
  const struct {
    LoopOp op;
    double (*f)(double);
  } functions[] = {
      {LoopOp::sine, [](double x) { return std::sin(x); }},
      {LoopOp::cosine, [](double x) { return std::cos(x); }},
      {LoopOp::tan, [](double x) { return std::tan(x); }},
      {LoopOp::erf, [](double x) { return std::erf(x); }},
      {LoopOp::cbrt, [](double x) { return std::cbrt(x); }},
      {LoopOp::round_nearest_afz, [](double x) { return std::round(x); }},
      {LoopOp::round_nearest_even, [](double x) { return std::nearbyint(x); }},
  };
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Array x(dtype, {65536});
    for (uint32_t k = 0; k < 65536; ++k) {
      const auto bits = static_cast<uint16_t>(k);
      std::memcpy(x.bytes().data() + 2 * k, &bits, 2);
    }
    for (const auto& [op, f] : functions) {
      LoopProgram p;
      p.dims = {65536};
      LoopValue in, v;
      in.dtype = v.dtype = dtype;
      in.strides = {1};
      v.op = op;
      v.a = 0;
      p.values = {in, v};
      p.outputs = {{1, false}};
      const Array got = run_kernel(prepare_loop(p), {x}, {x.shape()})[0];
      int64_t off = 0;
      for (int64_t k = 0; k < 65536; ++k) {
        Array want(dtype, {1});
        want.set(0, f(x.at(k)));
        const double a = got.at(k), b = want.at(0);
        const bool same =
            std::isnan(b) ? std::isnan(a) : a == b && std::signbit(a) == std::signbit(b);
        off += !same;
        if (!same)
          CHECK(std::fabs(a - b) <= std::fabs(b) * (dtype == DType::f16 ? 0x1p-10 : 0x1p-7));
      }
      INFO("op " << int(op) << " of " << dtype_name(dtype));
      CHECK(off <= 2);
    }
  }
}

}  // namespace gspmd::loop_wide_test
