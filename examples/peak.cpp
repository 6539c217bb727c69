#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)  // as the library's kernels
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "examples/peak.cpp"  // this file again, once per instruction set
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway asks.
#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "examples/peak.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd::examples {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// `rounds` times 12 multiply-adds that do not wait for each other (latency 4, two units a cycle
// need 8). Returns the operations done; `sink` keeps the results alive.
template <class T>
double multiply_add(int64_t rounds, double* sink) {
  const hn::ScalableTag<T> d;
  const auto factor = hn::Set(d, T(0.999));
  const auto term = hn::Set(d, T(0.001));
  // Twelve different starts: of equal ones the compiler would compute one.
  auto a0 = hn::Set(d, T(1)), a1 = hn::Set(d, T(2)), a2 = hn::Set(d, T(3)), a3 = hn::Set(d, T(4));
  auto a4 = hn::Set(d, T(5)), a5 = hn::Set(d, T(6)), a6 = hn::Set(d, T(7)), a7 = hn::Set(d, T(8));
  auto a8 = hn::Set(d, T(9)), a9 = hn::Set(d, T(10)), a10 = hn::Set(d, T(11)),
       a11 = hn::Set(d, T(12));
  for (int64_t i = 0; i < rounds; ++i) {
    a0 = hn::MulAdd(a0, factor, term);
    a1 = hn::MulAdd(a1, factor, term);
    a2 = hn::MulAdd(a2, factor, term);
    a3 = hn::MulAdd(a3, factor, term);
    a4 = hn::MulAdd(a4, factor, term);
    a5 = hn::MulAdd(a5, factor, term);
    a6 = hn::MulAdd(a6, factor, term);
    a7 = hn::MulAdd(a7, factor, term);
    a8 = hn::MulAdd(a8, factor, term);
    a9 = hn::MulAdd(a9, factor, term);
    a10 = hn::MulAdd(a10, factor, term);
    a11 = hn::MulAdd(a11, factor, term);
  }
  const auto low = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(a4, a5));
  const auto high = hn::Add(hn::Add(hn::Add(a6, a7), hn::Add(a8, a9)), hn::Add(a10, a11));
  *sink += double(hn::GetLane(hn::Add(low, high)));
  return 2.0 * 12 * double(hn::Lanes(d)) * double(rounds);
}

double multiply_add_f32(int64_t rounds, double* sink) { return multiply_add<float>(rounds, sink); }
double multiply_add_f64(int64_t rounds, double* sink) { return multiply_add<double>(rounds, sink); }

}  // namespace HWY_NAMESPACE
}  // namespace gspmd::examples
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd::examples {
namespace {

HWY_EXPORT(multiply_add_f32);
HWY_EXPORT(multiply_add_f64);

constexpr int kRuns = 5;
constexpr int64_t kRounds = 2'000'000;

double time_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// All threads at once; each counts its own rate, so that a late start does not lower it.
double one_run(int threads, DType dtype) {
  std::vector<double> rates(static_cast<size_t>(threads)), sinks(rates.size());
  std::vector<std::thread> workers;
  for (size_t t = 0; t < rates.size(); ++t) {
    workers.emplace_back([&, t] {
      const auto kernel = dtype == DType::f64 ? HWY_DYNAMIC_DISPATCH(multiply_add_f64)
                                              : HWY_DYNAMIC_DISPATCH(multiply_add_f32);
      kernel(kRounds / 8, &sinks[t]);
      const double start = time_now();
      const double operations = kernel(kRounds, &sinks[t]);
      rates[t] = operations / (time_now() - start) * 1e-9;
    });
  }
  double total = 0;
  for (size_t t = 0; t < rates.size(); ++t) {
    workers[t].join();
    total += rates[t];
  }
  return total;
}

}  // namespace

double measure_peak_gflops(int threads, DType dtype) {
  // More threads than cores reach no higher rate, each after the other.
  const int cores = std::max(1, default_threads());
  threads = threads < 1 ? cores : std::min(threads, cores);
  std::vector<double> runs;
  for (int i = 0; i < kRuns; ++i) runs.push_back(one_run(threads, dtype));
  std::sort(runs.begin(), runs.end());
  return runs[kRuns / 2];
}

}  // namespace gspmd::examples
#endif  // HWY_ONCE
