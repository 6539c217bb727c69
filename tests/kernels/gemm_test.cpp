#include "gspmd/kernels/gemm.h"

#include <cmath>
#include <random>

#include "kernels/gemm_product.h"
#include "kernels/run_kernel.h"
#include "load.h"

namespace gspmd {
namespace {

// A product as a list of loops in random memory orders, on small integers: every order of sums is
// exact.
struct Case {
  GemmSpec spec;
  int64_t a_size = 1, b_size = 1, c_size = 1;
};

Case make_case(uint64_t seed, DType dtype) {
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  static const int64_t sizes[] = {1, 2, 3, 7, 16, 33, 64};
  Case c;
  c.spec.dtype = c.spec.result = dtype;
  std::vector<GemmLoop>* lists[] = {&c.spec.batch, &c.spec.m, &c.spec.n, &c.spec.k};
  for (auto* list : lists) {
    const int64_t loops = below(3);
    for (int64_t i = 0; i < loops; ++i)
      list->push_back({sizes[below(list == &c.spec.batch ? 4 : 7)]});
  }
  const auto lay_out = [&](std::vector<std::vector<GemmLoop>*> which, int64_t GemmLoop::*step) {
    std::vector<GemmLoop*> loops;
    for (auto* list : which) {
      for (GemmLoop& loop : *list) loops.push_back(&loop);
    }
    if (below(2) == 1) std::shuffle(loops.begin(), loops.end(), random);
    int64_t size = 1;
    for (size_t i = loops.size(); i-- > 0;) {
      loops[i]->*step = size;
      size *= loops[i]->size;
    }
    return size;
  };
  c.a_size = lay_out({lists[0], lists[1], lists[3]}, &GemmLoop::a);
  c.b_size = lay_out({lists[0], lists[3], lists[2]}, &GemmLoop::b);
  c.c_size = lay_out({lists[0], lists[1], lists[2]}, &GemmLoop::c);
  return c;
}

Array reference(const Case& c, const Array& a, const Array& b) {
  std::vector<double> sums(size_t(c.c_size), 0.0);
  std::vector<GemmLoop> all;
  for (const auto* list : {&c.spec.batch, &c.spec.m, &c.spec.n, &c.spec.k}) {
    all.insert(all.end(), list->begin(), list->end());
  }
  int64_t total = 1;
  for (const GemmLoop& loop : all) total *= loop.size;
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i, at_a = 0, at_b = 0, at_c = 0;
    for (const GemmLoop& loop : all) {
      const int64_t x = rest % loop.size;
      rest /= loop.size;
      at_a += x * loop.a;
      at_b += x * loop.b;
      at_c += x * loop.c;
    }
    sums[size_t(at_c)] += a.at(at_a) * b.at(at_b);
  }
  Array result(c.spec.result, {c.c_size});
  for (int64_t i = 0; i < c.c_size; ++i) result.set(i, sums[size_t(i)]);
  return result;
}

void check(uint64_t seed, DType dtype, DType result) {
  Case c = make_case(seed, dtype);
  c.spec.result = result;
  int64_t work = c.c_size;
  for (const GemmLoop& loop : c.spec.k) work *= loop.size;
  if (work > 3'000'000) return;
  Array a(dtype, {c.a_size}), b(dtype, {c.b_size});
  std::mt19937 random{unsigned(seed)};
  for (int64_t i = 0; i < c.a_size; ++i) a.set(i, double(int(random() % 7) - 3));
  for (int64_t i = 0; i < c.b_size; ++i) b.set(i, double(int(random() % 7) - 3));
  const PreparedKernel kernel = prepare_gemm(c.spec);
  const Array got = run_kernel(kernel, {a, b}, {Shape(result, {c.c_size})})[0];
  INFO("seed " << seed << " " << dtype_name(dtype) << " to " << dtype_name(result));
  REQUIRE(bitwise_equal(got, reference(c, a, b)));
}

GemmSpec plain(DType dtype, int64_t m, int64_t n, int64_t k) {
  return {dtype, dtype, {}, {{m, k, 0, n}}, {{n, 0, 1, 1}}, {{k, 1, n, 0}}};
}

}  // namespace

TEST_CASE("gemm: products over loops of any order and strides are exact on small integers",
          "[gemm]") {
  for (int64_t seed = 1; seed <= random_load(250); ++seed) check(seed, DType::f32, DType::f32);
  for (const DType dtype : {DType::f64, DType::s32, DType::s64}) {
    for (int64_t seed = 1; seed <= random_load(60); ++seed) check(seed, dtype, dtype);
  }
}

// Sums of small integers are exact in f32 and rounded once.
TEST_CASE("gemm: 16-bit floats are summed in f32 and rounded once", "[gemm]") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (int64_t seed = 1; seed <= random_load(40); ++seed) {
      check(uint64_t(seed), dtype, dtype);
      check(uint64_t(seed) + 500, dtype, DType::f32);
    }
  }
  CHECK_FALSE(prepare_gemm({DType::f64, DType::f32, {}, {}, {}, {{2, 1, 1, 0}}}).run);
  CHECK_FALSE(prepare_gemm({DType::bf16, DType::f16, {}, {}, {}, {{2, 1, 1, 0}}}).run);
}

TEST_CASE("gemm: large products are cut into parts, the last one shorter", "[gemm]") {
  const int64_t m = 1100, n = 96, k = random_load(8) == 8 ? 130 : 40;
  const GemmSpec specs[] = {
      plain(DType::f32, m, n, k),
      {DType::f32, DType::f32, {}, {{m, 1, 0, n}}, {{n, 0, 1, 1}}, {{k, m, n, 0}}},
      {DType::f32, DType::f32, {}, {{m, 1, 0, 1}}, {{n, 0, k, m}}, {{k, m, 1, 0}}}};
  for (const GemmSpec& spec : specs) {
    const PreparedKernel kernel = prepare_gemm(spec);
    // Stored by columns, its rows are the 96, which are cut only where columns are cut too.
    if (spec.m[0].c != 1) CHECK(kernel.parts > 1);
    const Case c{spec, m * k, n * k, m * n};
    Array a(DType::f32, {m * k}), b(DType::f32, {n * k});
    for (int64_t i = 0; i < m * k; ++i) a.set(i, double(i % 5 - 2));
    for (int64_t i = 0; i < n * k; ++i) b.set(i, double(i % 11 - 5));
    CHECK(bitwise_equal(run_kernel(kernel, {a, b}, {Shape(DType::f32, {m * n})})[0],
                        reference(c, a, b)));
  }
}

TEST_CASE("gemm: a sum over nothing is zero", "[gemm]") {
  const PreparedKernel kernel = prepare_gemm(plain(DType::f32, 3, 2, 0));
  const Array got = run_kernel(kernel, {Array(DType::f32, {0}), Array(DType::f32, {0})},
                               {Shape(DType::f32, {6})})[0];
  CHECK(bitwise_equal(got, Array(DType::f32, {6})));
}

TEST_CASE("gemm: integers wrap around", "[gemm]") {
  const Array a = Array::of<int32_t>({2}, {1 << 30, 1 << 30});
  const Array b = Array::of<int32_t>({2}, {4, 3});
  const Array got =
      run_kernel(prepare_gemm(plain(DType::s32, 1, 1, 2)), {a, b}, {Shape(DType::s32, {1})})[0];
  CHECK(bitwise_equal(got, Array::of<int32_t>({1}, {-(1 << 30)})));
}

// Whichever product this processor prefers. Scratch and what lies between the rows of the result
// are left alone; sums of small integers are exact.
template <class T>
void check_packed(DType dtype) {
  std::mt19937 random{20261127};
  const auto below = [&](int64_t n) { return int64_t(random() % unsigned(n)); };
  constexpr int64_t kGuard = 64;
  for (int64_t i = 0; i < random_load(120); ++i) {
    PackedExtents e{1 + below(i % 8 == 0 ? 300 : 40), 1 + below(i % 8 == 1 ? 2200 : 80),
                    1 + below(i % 8 == 2 ? 1100 : 70)};
    if (i % 8 == 3) e.rows = 96, e.n = 64, e.k = 320;
    if (i % 8 == 4) e.rows = 130, e.n = 530, e.k = 520;
    const int64_t a_gap = 1 + below(3), b_gap = 1 + below(3);
    e.a_row = a_gap * e.k, e.a_k = a_gap;
    e.b_k = b_gap * e.n, e.b_n = b_gap;
    if (below(2) == 1) e.a_row = a_gap, e.a_k = a_gap * e.rows;
    if (i % 8 == 5) e.a_row = 1024, e.a_k = 1, e.n += i % 16 == 5 ? 200 : 0;  // whole pages
    if (below(2) == 1) e.b_k = b_gap, e.b_n = b_gap * e.k;
    e.c_row = e.n + below(3);
    INFO("case " << i << ": " << e.rows << "x" << e.n << "x" << e.k << ", steps " << e.a_row << " "
                 << e.a_k << ", " << e.b_k << " " << e.b_n << ", " << e.c_row);
    // As many elements as the strides reach: an address sanitizer sees what is read behind them.
    std::vector<T> a(size_t((e.rows - 1) * e.a_row + (e.k - 1) * e.a_k + 1)),
        b(size_t((e.k - 1) * e.b_k + (e.n - 1) * e.b_n + 1));
    for (auto* operand : {&a, &b})
      for (T& x : *operand) x = T(below(7) - 3);
    std::vector<T> c(size_t(e.rows * e.c_row), 77);
    const auto product = packed_product(dtype, e);
    const int64_t used = product->scratch_bytes();
    const Rubbish scratch(used + kGuard);
    product->run(reinterpret_cast<const std::byte*>(a.data()),
                 reinterpret_cast<const std::byte*>(b.data()),
                 reinterpret_cast<std::byte*>(c.data()), scratch.data());
    const std::byte* const guard = scratch.data() + used;
    REQUIRE(std::all_of(guard, guard + kGuard, [](std::byte x) { return x == std::byte{0xff}; }));
    bool equal = true;
    for (int64_t y = 0; y < e.rows; ++y)
      for (int64_t x = 0; x < e.c_row; ++x) {
        double sum = x < e.n ? 0 : 77;
        for (int64_t k = 0; x < e.n && k < e.k; ++k)
          sum += double(a[size_t(y * e.a_row + k * e.a_k)]) * b[size_t(k * e.b_k + x * e.b_n)];
        equal &= c[size_t(y * e.c_row + x)] == T(sum);
      }
    REQUIRE(equal);
  }
}

TEST_CASE("gemm: packed products take operands in any order, across panels and their edges",
          "[gemm]") {
  SECTION("f32") { check_packed<float>(DType::f32); }
  SECTION("f64") { check_packed<double>(DType::f64); }
  SECTION("s32") { check_packed<int32_t>(DType::s32); }
}

// Whichever way a shape takes, so that shards have the bits of the whole: each sum one value of k
// after the other, as a machine with fused multiply-adds does.
TEST_CASE("gemm: sums of f64 have the order of k in all shapes", "[gemm]") {
  if (packed_lanes() < 8) return;
  struct Sizes {
    int64_t m, n, k;
  };
  std::mt19937 random{20261201};
  for (const Sizes& s : {Sizes{17, 19, 23}, Sizes{47, 47, 300}, Sizes{50, 77, 1030},
                         Sizes{61, 530, 270}, Sizes{19, 1100, 260}, Sizes{700, 21, 513}}) {
    std::vector<double> x(size_t(s.m * s.k)), y(size_t(s.n * s.k)), sums(size_t(s.m * s.n), 0);
    for (auto* operand : {&x, &y})
      for (double& value : *operand) value = double(int(random() % 20001) - 10000) / 3;
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t p = 0; p < s.k; ++p)
        for (int64_t j = 0; j < s.n; ++j) {
          double& sum = sums[size_t(i * s.n + j)];
          sum = std::fma(x[size_t(i * s.k + p)], y[size_t(p * s.n + j)], sum);
        }
    for (int order = 0; order < 8; ++order) {
      GemmSpec spec = plain(DType::f64, s.m, s.n, s.k);
      GemmLoop &m = spec.m[0], &n = spec.n[0], &k = spec.k[0];
      if (order % 2 == 1) m.a = 1, k.a = s.m;
      if (order / 2 % 2 == 1) n.b = s.k, k.b = 1;
      if (order / 4 == 1) m.c = 1, n.c = s.m;
      Array a(DType::f64, {s.m * s.k}), b(DType::f64, {s.n * s.k}), want(DType::f64, {s.m * s.n});
      for (int64_t i = 0; i < s.m * s.k; ++i) a.set(i / s.k * m.a + i % s.k * k.a, x[size_t(i)]);
      for (int64_t i = 0; i < s.n * s.k; ++i) b.set(i / s.n * k.b + i % s.n * n.b, y[size_t(i)]);
      for (int64_t i = 0; i < s.m * s.n; ++i)
        want.set(i / s.n * m.c + i % s.n * n.c, sums[size_t(i)]);
      INFO(s.m << "x" << s.n << "x" << s.k << ", order " << order);
      REQUIRE(bitwise_equal(
          run_kernel(prepare_gemm(spec), {a, b}, {Shape(DType::f64, {s.m * s.n})})[0], want));
    }
  }
}

// A grid of parts, the last of each kind smaller, beside the whole product. Sums of small integers
// are exact.
TEST_CASE("gemm: large products are cut into rows and columns", "[gemm]") {
  const int64_t m = 610, n = 733, k = 1203;
  const bool is_transposed = GENERATE(true, false);
  const GemmSpec spec{DType::f32,
                      DType::f32,
                      {},
                      {{m, is_transposed ? 1 : k, 0, n}},
                      {{n, 0, 1, 1}},
                      {{k, is_transposed ? m : 1, n, 0}}};
  Array a(DType::f32, {m * k}), b(DType::f32, {n * k}), whole(DType::f32, {m * n});
  for (int64_t i = 0; i < m * k; ++i) a.set(i, double(i % 7 - 3));
  for (int64_t i = 0; i < n * k; ++i) b.set(i, double(i % 11 - 5));
  const auto product =
      packed_product(DType::f32, {m, n, k, spec.m[0].a, spec.k[0].a, spec.k[0].b, spec.n[0].b, n});
  product->run(a.bytes().data(), b.bytes().data(), whole.bytes().data(),
               Rubbish(product->scratch_bytes()).data());
  const PreparedKernel kernel = prepare_gemm(spec);
  CHECK(kernel.parts >= 2);
  CHECK(bitwise_equal(run_kernel(kernel, {a, b}, {Shape(DType::f32, {m * n})})[0], whole));
}

// Tables g,e,c,k by the weights of each expert e: all groups of rows g read the same ones.
TEST_CASE("gemm: groups of rows share the operand that they have in common", "[gemm]") {
  struct Sizes {
    int64_t groups, experts, rows, n, k;
  };
  const bool is_transposed = GENERATE(true, false);
  const DType dtype = GENERATE(DType::f32, DType::f64, DType::u32);
  for (const Sizes& s : {Sizes{5, 3, 37, 131, 48}, Sizes{3, 2, 17, 70, 1030},
                         Sizes{2, 1, 190, 600, 40}, Sizes{4, 1, 100, 64, 32}}) {
    const int64_t ga = s.experts * s.rows * s.k, gc = s.experts * s.rows * s.n;
    const GemmSpec spec{dtype,
                        dtype,
                        {{s.experts, s.rows * s.k, s.k * s.n, s.rows * s.n}},
                        {{s.groups, ga, 0, gc}, {s.rows, s.k, 0, s.n}},
                        {{s.n, 0, is_transposed ? s.k : 1, 1}},
                        {{s.k, 1, is_transposed ? 1 : s.n, 0}}};
    const Case c{spec, s.groups * ga, s.experts * s.k * s.n, s.groups * gc};
    Array a(dtype, {c.a_size}), b(dtype, {c.b_size});
    for (int64_t i = 0; i < c.a_size; ++i) a.set(i, double(i % 7));
    for (int64_t i = 0; i < c.b_size; ++i) b.set(i, double(i % 11));
    INFO(s.groups << " groups of " << s.rows << " rows, " << s.experts << " experts");
    CHECK(bitwise_equal(run_kernel(prepare_gemm(spec), {a, b}, {Shape(dtype, {c.c_size})})[0],
                        reference(c, a, b)));
  }
}

// Strips of 64 columns, in each line 64 floats or 64 pairs of bf16 of two k; zeros where there is
// no element. Of bf16 that are widened the upper halves of floats. Nothing is written behind the
// strips asked for.
TEST_CASE("gemm: operands are laid out in strips, from any steps", "[gemm]") {
  std::mt19937 random{20261128};
  const auto below = [&](int64_t n) { return int64_t(random() % unsigned(n)); };
  for (int64_t i = 0; i < random_load(120); ++i) {
    const StripKind kind = i % 2 == 0  ? StripKind::floats
                           : i % 8 < 4 ? StripKind::halves
                                       : StripKind::widened;
    const bool halves = kind == StripKind::halves, widened = kind == StripKind::widened;
    PackedExtents e;
    e.k = 1 + below(70), e.n = 1 + below(200);
    const int64_t gap = i % 4 < 2 ? 1 : 1 + below(3);
    e.b_k = gap * e.n, e.b_n = gap;
    if (i % 3 == 0) e.b_k = gap, e.b_n = gap * e.k;
    INFO("case " << i << ": " << e.k << "x" << e.n << ", steps " << e.b_k << " " << e.b_n);
    const int64_t size = halves ? 2 : 4, pair = halves ? 2 : 1, strips = (e.n + 63) / 64;
    const int64_t from = widened ? 2 : size;  // bytes of an element of b
    std::vector<std::byte> b(size_t(((e.k - 1) * e.b_k + (e.n - 1) * e.b_n + 1) * from));
    for (std::byte& x : b) x = std::byte(1 + below(250));
    const int64_t lines = (e.k + 16 * pair - 1) / (16 * pair) * 16;
    REQUIRE(prepacked_bytes(e.n, e.k, kind) == strips * lines * 64 * 4);
    const int64_t first = below(strips), last = first + 1 + below(strips - first);
    const Rubbish to(strips * lines * 256);
    prepack(e, kind, b.data(), first, last, to.data());
    bool equal = true;
    for (int64_t at = 0; at < strips * lines * 64 * pair; ++at) {
      const int64_t strip = at / (lines * 64 * pair), in = at % (lines * 64 * pair);
      const int64_t column = strip * 64 + in % (64 * pair) / pair;
      const int64_t k = in / (64 * pair) * pair + in % pair;
      for (int64_t x = 0; x < size; ++x) {
        std::byte expected{0xff};
        if (strip >= first && strip < last)
          expected = column < e.n && k < e.k && x >= size - from
                         ? b[size_t((k * e.b_k + column * e.b_n) * from + x - (size - from))]
                         : std::byte{0};
        equal &= to.data()[at * size + x] == expected;
      }
    }
    REQUIRE(equal);
  }
}

TEST_CASE("gemm: products of many rows read what was laid out for all of them", "[gemm]") {
  std::mt19937 random{20261129};
  const auto below = [&](int64_t n) { return int64_t(random() % unsigned(n)); };
  int64_t prepared = 0, cases = random_load(32);
  for (int64_t i = 0; i < cases; ++i) {
    const DType dtype = i % 4 == 3 ? DType::bf16 : DType::f32;
    int64_t m = 256 + below(300), n = 90 + below(150), k = 90 + below(100);
    if (i == 0) m = 4609, n = 48, k = 64;  // the last block is a single row
    GemmSpec spec = plain(dtype, m, n, k);
    if (i % 8 == 7) spec.result = DType::f32;
    if (below(2) == 1) spec.m[0].a = 1, spec.k[0].a = m;
    if (below(2) == 1) spec.n[0].b = k, spec.k[0].b = 1;
    if (below(4) == 0) spec.m[0].c = 1, spec.n[0].c = m;
    if (below(8) == 0)
      std::swap(spec.m, spec.n), std::swap(spec.m[0].a, spec.m[0].b),
          std::swap(spec.n[0].a, spec.n[0].b), std::swap(spec.k[0].a, spec.k[0].b);
    const bool is_swapped = spec.m[0].size == n && m != n;
    const Case c{spec, (is_swapped ? n : m) * k, (is_swapped ? m : n) * k, m * n};
    Array a(dtype, {c.a_size}), b(dtype, {c.b_size});
    for (Array* operand : {&a, &b})
      for (int64_t j = 0; j < operand->size(); ++j) operand->set(j, double(below(5)) - 2);
    const PreparedKernel kernel = prepare_gemm(spec);
    if (kernel.prepare) ++prepared;
    INFO("case " << i << ": " << m << "x" << n << "x" << k << " of " << dtype_name(dtype));
    REQUIRE(bitwise_equal(run_kernel(kernel, {a, b}, {Shape(spec.result, {m * n})})[0],
                          reference(c, a, b)));
  }
  if (packed_lanes() == 16) CHECK(prepared >= cases / 3);
}

// As gradients of weights read activations: rows of a side by side, and parts of some columns.
TEST_CASE("gemm: columns are parts where rows of a are read where they lie", "[gemm]") {
  std::mt19937 random{20261130};
  const auto below = [&](int64_t n) { return int64_t(random() % unsigned(n)); };
  for (int64_t i = 0; i < random_load(16); ++i) {
    const int64_t m = 48 + below(200), n = 128 + below(300), k = 650 + below(500);
    const int64_t a_step = m + below(3), c_step = n + below(2) * 5;
    GemmSpec spec = plain(DType::f32, m, n, k);
    spec.m[0].a = 1, spec.k[0].a = a_step, spec.m[0].c = c_step;
    if (below(2) == 1) spec.n[0].b = k, spec.k[0].b = 1;
    Array a(DType::f32, {a_step * k}), b(DType::f32, {n * k});
    for (Array* operand : {&a, &b})
      for (int64_t j = 0; j < operand->size(); ++j) operand->set(j, double(below(5)) - 2);
    const PreparedKernel kernel = prepare_gemm(spec);
    INFO("case " << i << ": " << m << "x" << n << "x" << k << ", rows of " << a_step);
    if (packed_lanes() == 16 && a_step % 1024 != 0) {
      CHECK(kernel.parts == (n + 127 - (n < 256 ? 64 : 0)) / (n < 256 ? 64 : 128));
      CHECK_FALSE(kernel.prepare);
    }
    std::vector<float> sums(size_t(c_step * m), 77.0F);  // between rows nothing is written
    const float* const x = reinterpret_cast<const float*>(a.bytes().data());
    const float* const y = reinterpret_cast<const float*>(b.bytes().data());
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = 0; column < n; ++column) {
        float sum = 0;
        for (int64_t j = 0; j < k; ++j)
          sum += x[j * a_step + row] * y[j * spec.k[0].b + column * spec.n[0].b];
        sums[size_t(row * c_step + column)] = sum;
      }
    const Array got = run_kernel(kernel, {a, b}, {Shape(DType::f32, {c_step * m})})[0];
    int64_t wrong = 0;
    for (int64_t at = 0; at < got.size(); ++at) wrong += got.at(at) != sums[size_t(at)];
    REQUIRE(wrong == 0);
  }
}

}  // namespace gspmd
