#include "gspmd/kernels/loop_program.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/loop_functions.h"
#include "kernels/run_kernel.h"
#include "load.h"

namespace gspmd::loop_program_test {
namespace {

// Values as doubles over all dims (or over the kept dims, broadcast), one op at a time.
class Reference {
 public:
  Reference(const LoopProgram& p, const std::vector<Array>& operands) : p_(p) {
    for (const LoopValue& v : p.values) values_.push_back(compute(v, operands));
  }
  Array output(size_t o, const Shape& shape) const {
    const LoopOutput& out = p_.outputs[o];
    Array result(shape);
    for (int64_t i = 0; i < total(); ++i) {
      const int64_t at = out.reduced ? kept_index(i) : i;
      result.set(at, values_[size_t(out.value)][size_t(i)]);
    }
    return result;
  }

 private:
  int64_t total() const {
    int64_t n = 1;
    for (const int64_t d : p_.dims) n *= d;
    return n;
  }
  Dims index(int64_t flat) const {
    Dims at(p_.dims.size());
    for (size_t d = p_.dims.size(); d-- > 0;) {
      at[d] = flat % p_.dims[d];
      flat /= p_.dims[d];
    }
    return at;
  }
  int64_t kept_index(int64_t flat) const {
    const Dims at = index(flat);
    int64_t kept = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      if (!p_.reduced[d]) kept = kept * p_.dims[d] + at[d];
    }
    return kept;
  }
  static double apply(LoopOp op, double a, double b, double c) {
    switch (op) {
      case LoopOp::add:
        return a + b;
      case LoopOp::subtract:
        return a - b;
      case LoopOp::multiply:
        return a * b;
      case LoopOp::maximum:
        return a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
      case LoopOp::minimum:
        return a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
      case LoopOp::gt:
        return a > b;
      case LoopOp::lt:
        return a < b;
      case LoopOp::select:
        return a != 0 ? b : c;
      case LoopOp::negate:
        return -a;
      case LoopOp::abs:
        return std::fabs(a);
      case LoopOp::convert:
      case LoopOp::copy:
        return a;
      case LoopOp::tanh:
        return std::tanh(a);
      case LoopOp::exp:
        return std::exp(a);
      default:
        FAIL("op without reference");
        return 0;
    }
  }
  static double rounded(DType dtype, double x) {
    if (dtype == DType::f32) return float(x);
    if (dtype == DType::bf16) return bfloat16(float(x));
    return dtype == DType::f16 ? double(float16(float(x))) : x;
  }
  std::vector<double> compute(const LoopValue& v, const std::vector<Array>& operands) const {
    std::vector<double> out(static_cast<size_t>(total()));
    const auto in = [&](int value, int64_t i) {
      return value < 0 ? 0.0 : values_[size_t(value)][size_t(i)];
    };
    if (v.op >= LoopOp::reduce_sum) {
      std::map<int64_t, double> folded;
      for (int64_t i = 0; i < total(); ++i) {
        const auto [entry, fresh] = folded.try_emplace(kept_index(i), in(v.b, i));
        const double x = in(v.a, i);
        entry->second = v.op == LoopOp::reduce_sum ? entry->second + x
                                                   : apply(LoopOp::maximum, entry->second, x, 0);
      }
      for (int64_t i = 0; i < total(); ++i)
        out[size_t(i)] = rounded(v.dtype, folded[kept_index(i)]);
      return out;
    }
    for (int64_t i = 0; i < total(); ++i) {
      const Dims at = index(i);
      double& r = out[size_t(i)];
      if (v.op == LoopOp::operand) {
        int64_t offset = 0;
        for (size_t d = 0; d < at.size(); ++d) offset += at[d] * v.strides[d];
        r = operands[size_t(v.operand)].at(offset);
      } else if (v.op == LoopOp::iota) {
        r = double(at[size_t(v.operand)]);
      } else if (v.op == LoopOp::constant) {
        r = v.constant.at(0);
      } else {
        r = apply(v.op, in(v.a, i), in(v.b, i), in(v.c, i));
      }
      r = rounded(v.dtype, r);
    }
    return out;
  }
  const LoopProgram& p_;
  std::vector<std::vector<double>> values_;
};

struct Case {
  LoopProgram program;
  std::vector<Array> operands;
  std::vector<Shape> results;
};

class Generator {
 public:
  // Programs on numbers of `dtype`, with conversions from and to f32 where that is another.
  Generator(uint64_t seed, DType dtype) : random_(seed), dtype_(dtype) {}
  int64_t below(int64_t n) { return int64_t(random_() % uint64_t(n)); }

  Case make() {
    const int64_t rank = below(5);
    static const int64_t sizes[] = {1, 2, 3, 5, 16, 70, 200};
    int64_t total = 1;
    for (int64_t d = 0; d < rank; ++d) {
      c_.program.dims.push_back(sizes[below(total > 4000 ? 3 : 7)]);
      total *= c_.program.dims.back();
      c_.program.reduced.push_back(false);
    }
    reducing_ = below(2) == 1;
    for (int64_t d = 0; d < rank && reducing_; ++d) c_.program.reduced[size_t(d)] = below(2) == 1;
    for (int64_t i = 0; i <= below(4); ++i) add_operand();
    LoopValue one;
    one.op = LoopOp::constant;
    one.dtype = dtype_;
    one.constant = Array::full(Shape(dtype_, {}), 0.25);
    zero_ = push(one, 0);
    for (int64_t i = 0; i <= below(9); ++i) add_op();
    for (int64_t i = 0; i <= below(3); ++i) add_output();
    return std::move(c_);
  }

 private:
  // Space 0: over all dims; 1: depends on a reduce.
  int push(LoopValue v, int space) {
    c_.program.values.push_back(std::move(v));
    spaces_.push_back(space);
    return int(c_.program.values.size()) - 1;
  }
  void add_operand() {
    LoopValue v;
    v.dtype = dtype_;
    v.operand = int64_t(c_.operands.size());
    const int kind = int(below(3));  // dense, broadcast along some dims, transposed
    Dims extents;
    std::vector<size_t> order;
    for (size_t d = 0; d < c_.program.dims.size(); ++d) order.push_back(d);
    if (kind == 2) std::shuffle(order.begin(), order.end(), random_);
    v.strides.assign(order.size(), 0);
    int64_t stride = 1;
    for (size_t i = order.size(); i-- > 0;) {
      if (kind == 1 && below(2) == 1) continue;
      v.strides[order[i]] = stride;
      stride *= c_.program.dims[order[i]];
    }
    Array data(dtype_, {stride});
    for (int64_t i = 0; i < stride; ++i) data.set(i, double(below(17) - 8) / 4);
    c_.operands.push_back(data);
    push(v, 0);
  }
  int pick(DType dtype, int space) {
    for (int tries = 0; tries < 50; ++tries) {
      const int v = int(below(int64_t(c_.program.values.size())));
      if (c_.program.values[size_t(v)].dtype == dtype && spaces_[size_t(v)] <= space) return v;
    }
    return zero_;
  }
  void add_op() {
    static const LoopOp binary[] = {LoopOp::add, LoopOp::subtract, LoopOp::maximum, LoopOp::minimum,
                                    LoopOp::gt};
    LoopValue v;
    v.dtype = dtype_;
    const int64_t kind = below(reducing_ ? 6 : 4);
    const int space = int(below(2));
    if (dtype_ != DType::f32 && below(4) == 0) {
      const bool back = below(2) == 0;
      v.op = LoopOp::convert;
      v.a = pick(back ? DType::f32 : dtype_, space);
      if (!back) v.dtype = DType::f32;
    } else if (kind == 0) {
      v.op = LoopOp::negate;
      v.a = pick(dtype_, space);
    } else if (kind == 1) {
      v.op = LoopOp::iota;
      if (c_.program.dims.empty()) return;
      v.operand = below(int64_t(c_.program.dims.size()));
    } else if (kind == 4) {
      v.op = below(2) == 0 ? LoopOp::reduce_sum : LoopOp::reduce_max;
      v.a = pick(dtype_, 0);
      v.b = zero_;
      push(v, 1);
      return;
    } else {
      v.op = binary[below(5)];
      v.a = pick(dtype_, space);
      v.b = pick(dtype_, space);
      if (v.op == LoopOp::gt) {
        v.dtype = DType::pred;
        const int s = std::max(spaces_[size_t(v.a)], spaces_[size_t(v.b)]);
        LoopValue select;
        select.op = LoopOp::select;
        select.dtype = dtype_;
        select.a = push(v, s);
        select.b = pick(dtype_, space);
        select.c = pick(dtype_, space);
        push(select, std::max({s, spaces_[size_t(select.b)], spaces_[size_t(select.c)]}));
        return;
      }
    }
    const int sa = v.a >= 0 ? spaces_[size_t(v.a)] : 0, sb = v.b >= 0 ? spaces_[size_t(v.b)] : 0;
    push(v, std::max(sa, sb));
  }
  void add_output() {
    LoopOutput o;
    o.value = int(below(int64_t(c_.program.values.size())));
    o.reduced = c_.program.values[size_t(o.value)].op >= LoopOp::reduce_sum;
    Dims dims;
    for (size_t d = 0; d < c_.program.dims.size(); ++d) {
      if (!o.reduced || !c_.program.reduced[d]) dims.push_back(c_.program.dims[d]);
    }
    c_.program.outputs.push_back(o);
    c_.results.emplace_back(c_.program.values[size_t(o.value)].dtype, dims);
  }

  std::mt19937_64 random_;
  DType dtype_;
  Case c_;
  std::vector<int> spaces_;
  int zero_ = 0;
  bool reducing_ = false;
};

// How many of the programs of seeds 1 to n have a kernel; each gives what plain loops give.
int64_t programs_that_ran(DType dtype, int64_t n) {
  int64_t ran = 0;
  for (int64_t seed = 1; seed <= n; ++seed) {
    const Case c = Generator(uint64_t(seed), dtype).make();
    const PreparedKernel kernel = prepare_loop(c.program);
    if (!kernel.run) continue;
    ++ran;
    const std::vector<Array> got = run_kernel(kernel, c.operands, c.results);
    const Reference reference(c.program, c.operands);
    for (size_t o = 0; o < got.size(); ++o) {
      INFO("seed " << seed << " output " << o << " " << to_string(c.results[o]));
      REQUIRE(bitwise_equal(got[o], reference.output(o, c.results[o])));
    }
  }
  return ran;
}

Array converted(const Array& x, DType dtype) {
  LoopProgram p;
  p.dims = {x.size()};
  LoopValue in, v;
  in.dtype = x.dtype();
  in.strides = {1};
  v.op = LoopOp::convert;
  v.dtype = dtype;
  v.a = 0;
  p.values = {in, v};
  p.outputs = {{1, false}};
  return run_kernel(prepare_loop(p), {x}, {Shape(dtype, {x.size()})})[0];
}

}  // namespace

TEST_CASE("loop program: random programs equal plain loops bit by bit on small integers",
          "[loop]") {
  CHECK(programs_that_ran(DType::f32, random_load(700)) > random_load(450));
}

TEST_CASE("loop program: 16-bit floats are rounded after every op, sums once at their end",
          "[loop]") {
  for (const DType dtype : {DType::bf16, DType::f16})
    CHECK(programs_that_ran(dtype, random_load(120)) > random_load(70));
}

TEST_CASE("loop program: stored 16-bit floats are combined one rounding each, in place too",
          "[loop]") {
  constexpr int64_t kSize = 601;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Array a(dtype, {kSize}), b(dtype, {kSize});
    for (int64_t i = 0; i < kSize; ++i) {
      a.set(i, std::sin(double(i)) * 30);
      b.set(i, std::cos(double(7 * i)));
    }
    for (const LoopOp op : {LoopOp::add, LoopOp::multiply, LoopOp::maximum, LoopOp::minimum})
      for (const uint32_t scalars : {0u, 1u, 2u}) {
        const auto x = [&](int64_t i) { return a.at(scalars == 1 ? 0 : i); };
        const auto y = [&](int64_t i) { return b.at(scalars == 2 ? 0 : i); };
        Array got = scalars == 1 ? b.clone() : a.clone();  // the operand whose place it takes
        const std::byte* const first = scalars == 1 ? a.bytes().data() : got.bytes().data();
        const std::byte* const second = scalars == 1 ? got.bytes().data() : b.bytes().data();
        find_loop_function(op, dtype, dtype)(got.bytes().data(), first, second, nullptr, kSize,
                                             scalars);
        int64_t wrong = 0;
        for (int64_t i = 0; i < kSize; ++i) {
          const double sum = x(i) + y(i), product = x(i) * y(i);
          const double want = op == LoopOp::add        ? sum
                              : op == LoopOp::multiply ? product
                              : op == LoopOp::maximum  ? std::max(x(i), y(i))
                                                       : std::min(x(i), y(i));
          Array rounded(dtype, {1});
          rounded.set(0, want);
          wrong += got.at(i) != rounded.at(0);
        }
        INFO(dtype_name(dtype) << " op " << int(op) << " scalars " << scalars);
        CHECK(wrong == 0);
      }
  }
}

TEST_CASE("loop program: an output in 16 bits is stored before another takes its operand's place",
          "[loop]") {
  constexpr int64_t kSize = 1000;
  LoopProgram p;
  p.dims = {kSize};
  LoopValue x, narrow, sum;
  x.strides = {1};
  narrow.op = LoopOp::convert;
  narrow.a = 0;
  sum.op = LoopOp::add;
  sum.a = sum.b = 0;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    narrow.dtype = dtype;
    p.values = {x, narrow, sum};
    p.outputs = {{1, false}, {2, false}};
    const PreparedKernel kernel = prepare_loop(p);
    Array in_place(DType::f32, {kSize}), halves(dtype, {kSize});
    for (int64_t i = 0; i < kSize; ++i) in_place.set(i, double(i % 100));
    const std::byte* const operands[] = {in_place.bytes().data()};
    std::byte* const results[] = {halves.bytes().data(), in_place.bytes().data()};
    std::vector<std::byte> scratch(static_cast<size_t>(kernel.scratch_bytes) + 64);
    KernelArgs args;
    args.operands = operands;
    args.results = results;
    const auto address = reinterpret_cast<uintptr_t>(scratch.data());
    args.scratch = scratch.data() + (64 - address % 64) % 64;
    for (args.part = 0; args.part < kernel.parts; ++args.part) kernel.run(args);
    int64_t wrong = 0;
    for (int64_t i = 0; i < kSize; ++i)
      wrong += halves.at(i) != double(i % 100) || in_place.at(i) != double(2 * (i % 100));
    CHECK(wrong == 0);
  }
}

TEST_CASE("loop program: 16-bit floats are read and rounded as their C++ types do", "[loop]") {
  std::vector<uint16_t> bits(1 << 16);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = uint16_t(i);
  const auto n = int64_t(bits.size());
  std::vector<float> floats;  // each 16-bit number, the middle to the next, and beside it
  for (const uint16_t b : bits) {
    for (const uint32_t low : {0x0000u, 0x7fffu, 0x8000u, 0x8001u})
      floats.push_back(std::bit_cast<float>((uint32_t(b) << 16) | low));
    for (const float step : {0.5f, 0.4999f, 0.5001f})
      floats.push_back(gspmd::half_to_float(b) +
                       step * (gspmd::half_to_float(uint16_t(b + 1)) - gspmd::half_to_float(b)));
  }
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Array stored(dtype, {n});
    std::memcpy(stored.bytes().data(), bits.data(), bits.size() * 2);
    const Array wide = converted(stored, DType::f32);
    const Array rounded = converted(Array::of<float>({int64_t(floats.size())}, floats), dtype);
    const auto same = [](double want, double got) {
      return std::isnan(want) ? std::isnan(got) : got == want;
    };
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; ++i) wrong += !same(stored.at(i), wide.at(i));
    for (size_t i = 0; i < floats.size(); ++i) {
      const double want =
          dtype == DType::bf16 ? float(bfloat16(floats[i])) : float(float16(floats[i]));
      wrong += !same(want, rounded.at(int64_t(i)));
    }
    INFO(dtype_name(dtype));
    CHECK(wrong == 0);
  }
}

TEST_CASE("loop program: softmax of a row is one program", "[loop]") {
  const int64_t rows = 37, n = 301;
  LoopProgram p;
  p.dims = {rows, n};
  p.reduced = {false, true};
  const auto add = [&](LoopValue v) {
    p.values.push_back(v);
    return int(p.values.size()) - 1;
  };
  const auto op = [&](LoopOp o, int a, int b = -1) {
    LoopValue v;
    v.op = o;
    v.a = a;
    v.b = b;
    return add(v);
  };
  LoopValue x, zero, low;
  x.strides = {n, 1};
  zero.op = low.op = LoopOp::constant;
  zero.constant = Array::scalar<float>(0);
  low.constant = Array::scalar<float>(-INFINITY);
  const int in = add(x), z = add(zero), l = add(low);
  const int e = op(LoopOp::exp, op(LoopOp::subtract, in, op(LoopOp::reduce_max, in, l)));
  p.outputs = {{op(LoopOp::divide, e, op(LoopOp::reduce_sum, e, z)), false}};
  Array data(DType::f32, {rows, n});
  for (int64_t i = 0; i < rows * n; ++i) data.set(i, std::sin(double(i)) * 30);
  const PreparedKernel kernel = prepare_loop(p);
  REQUIRE(kernel.run);
  const Array got = run_kernel(kernel, {data}, {data.shape()})[0];
  for (int64_t r = 0; r < rows; ++r) {
    double most = -1e30, sum = 0;
    for (int64_t i = 0; i < n; ++i) most = std::max(most, data.at(r * n + i));
    for (int64_t i = 0; i < n; ++i) sum += std::exp(data.at(r * n + i) - most);
    for (int64_t i = 0; i < n; ++i) {
      REQUIRE(got.at(r * n + i) ==
              Approx(std::exp(data.at(r * n + i) - most) / sum).epsilon(1e-5).margin(1e-35));
    }
  }
}

namespace {

template <class T>
std::vector<Array> one_op(LoopOp op, const std::vector<T>& x, DType result) {
  LoopProgram p;
  const int64_t n = int64_t(x.size());
  p.dims = {n};
  LoopValue in, v;
  in.dtype = dtype_of<T>();
  in.strides = {1};
  v.op = op;
  v.dtype = result;
  v.a = 0;
  p.values = {in, v};
  p.outputs = {{1, false}};
  return run_kernel(prepare_loop(p), {Array::of<T>({n}, x)}, {Shape(result, {n})});
}

template <class T, class F>
double worst_ulps(LoopOp op, double low, double high, F&& f) {
  std::vector<T> x;
  for (int i = 0; i < 20011; ++i) x.push_back(T(low + (high - low) * i / 20010));
  const Array got = one_op<T>(op, x, dtype_of<T>())[0];
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const long double want = f(static_cast<long double>(x[i]));
    const T near = T(want);
    const long double ulp =
        std::nextafter(std::fabs(near), std::numeric_limits<T>::infinity()) - std::fabs(near);
    worst = std::max(worst, double(std::fabs(got.data<T>()[i] - want) / ulp));
  }
  return worst;
}

}  // namespace

TEST_CASE("loop program: exp, log, tanh and their kin are within a few ulps", "[loop]") {
  using L = long double;
  CHECK(worst_ulps<float>(LoopOp::exp, -87, 88, [](L x) { return std::exp(x); }) < 2);
  CHECK(worst_ulps<float>(LoopOp::tanh, -10, 10, [](L x) { return std::tanh(x); }) < 2);
  CHECK(worst_ulps<float>(LoopOp::erf, -5, 5, [](L x) { return std::erf(x); }) < 1.25);
  CHECK(worst_ulps<float>(LoopOp::log, 1e-6, 50, [](L x) { return std::log(x); }) < 4);
  CHECK(worst_ulps<float>(LoopOp::log1p, -0.9, 50, [](L x) { return std::log1p(x); }) < 6);
  CHECK(worst_ulps<float>(LoopOp::expm1, -5, 20, [](L x) { return std::expm1(x); }) < 2);
  CHECK(worst_ulps<float>(LoopOp::logistic, -20, 20, [](L x) { return 1 / (1 + std::exp(-x)); }) <
        4);
  CHECK(worst_ulps<double>(LoopOp::exp, -700, 700, [](L x) { return std::exp(x); }) < 2);
  CHECK(worst_ulps<double>(LoopOp::tanh, -10, 10, [](L x) { return std::tanh(x); }) < 2.5);
  CHECK(worst_ulps<double>(LoopOp::expm1, -45, 709, [](L x) { return std::expm1(x); }) < 2);
  CHECK(worst_ulps<double>(LoopOp::expm1, -1, 1, [](L x) { return std::expm1(x); }) < 2);
  CHECK(worst_ulps<double>(LoopOp::log, 1e-6, 50, [](L x) { return std::log(x); }) < 5);
}

TEST_CASE("loop program: special values are those of the maths library", "[loop]") {
  const float inf = INFINITY, nan = NAN;
  const std::vector<float> x = {0.f, -0.f, inf, -inf, nan, 1000.f, -1000.f, -1.f, 1e-40f};
  const auto expect = [&](LoopOp op, auto f) {
    const Array got = one_op<float>(op, x, DType::f32)[0];
    for (size_t i = 0; i < x.size(); ++i) {
      const float want = f(x[i]), value = got.data<float>()[i];
      INFO("op " << int(op) << " of " << x[i] << " is " << value << ", not " << want);
      CHECK((std::isnan(want) ? std::isnan(value)
                              : value == Approx(want).epsilon(1e-5).margin(1e-44)));
    }
  };
  expect(LoopOp::exp, [](float v) { return std::exp(v); });
  expect(LoopOp::expm1, [](float v) { return std::expm1(v); });
  expect(LoopOp::log, [](float v) { return std::log(v); });
  expect(LoopOp::log1p, [](float v) { return std::log1p(v); });
  expect(LoopOp::tanh, [](float v) { return std::tanh(v); });
  expect(LoopOp::erf, [](float v) { return std::erf(v); });
  expect(LoopOp::logistic, [](float v) { return 1 / (1 + std::exp(-v)); });
  expect(LoopOp::sqrt, [](float v) { return std::sqrt(v); });
}

TEST_CASE("loop program: a float becomes the nearest integer of the range towards zero", "[loop]") {
  const std::vector<float> x = {1.9f, -1.9f, 3e9f, -3e9f, NAN, INFINITY};
  const Array got = one_op<float>(LoopOp::convert, x, DType::s32)[0];
  CHECK(bitwise_equal(got, Array::of<int32_t>({6}, {1, -1, INT32_MAX, INT32_MIN, 0, INT32_MAX})));
}

TEST_CASE(
    "loop program: shifts by all the bits of a number, and by more, leave nothing but the sign",
    "[loop]") {
  const Array x = Array::of<int32_t>({5}, {-5, -5, 3, 3, -5}),
              by = Array::of<int32_t>({5}, {31, 32, 100, 1, -1});
  LoopProgram p;
  p.dims = {5};
  for (int operand = 0; operand < 2; ++operand) {
    LoopValue in;
    in.dtype = DType::s32;
    in.operand = operand;
    in.strides = {1};
    p.values.push_back(in);
  }
  for (const LoopOp op :
       {LoopOp::shift_left, LoopOp::shift_right_logical, LoopOp::shift_right_arithmetic}) {
    LoopValue v;
    v.op = op;
    v.dtype = DType::s32;
    v.a = 0;
    v.b = 1;
    p.outputs.push_back({int(p.values.size()), false});
    p.values.push_back(v);
  }
  const Shape shape(DType::s32, {5});
  const std::vector<Array> got = run_kernel(prepare_loop(p), {x, by}, {shape, shape, shape});
  CHECK(bitwise_equal(got[0], Array::of<int32_t>({5}, {INT32_MIN, 0, 0, 6, 0})));
  CHECK(bitwise_equal(got[1], Array::of<int32_t>({5}, {1, 0, 0, 1, 0})));
  CHECK(bitwise_equal(got[2], Array::of<int32_t>({5}, {-1, -1, 0, 1, -1})));
}

}  // namespace gspmd::loop_program_test
