// Every sample of the op table on the executor, with reference and with fast kernels.

#include <catch2/catch.hpp>
#include <cmath>

#include "ops/samples.h"
#include "runtime/run_text.h"

namespace gspmd {
namespace {

// Complex numbers (of Fourier transforms) up to some places of the largest part: each is a sum of
// all.
bool near_largest(const Array& a, const Array& b) {
  if (!(a.shape() == b.shape())) return false;
  const auto near = [&](const auto* x, const auto* y, double unit) {
    double most = 0, apart = 0;
    for (int64_t i = 0; i < 2 * a.size(); ++i) {
      most = std::max(most, double(std::fabs(y[i])));
      apart = std::max(apart, double(std::fabs(x[i] - y[i])));
    }
    return apart <= unit * most;
  };
  const std::byte *x = a.bytes().data(), *y = b.bytes().data();
  if (a.dtype() == DType::c64)
    return near(reinterpret_cast<const float*>(x), reinterpret_cast<const float*>(y), 0x1p-20);
  return near(reinterpret_cast<const double*>(x), reinterpret_cast<const double*>(y), 0x1p-49);
}

// The same up to the last place of the element type: fast functions are not rounded as the
// reference is.
bool close(const Array& a, const Array& b) {
  if (bitwise_equal(a, b)) return true;
  const DType dtype = a.dtype();
  if (is_complex(dtype)) return near_largest(a, b);
  if (!is_floating(dtype) || !(a.shape() == b.shape())) return false;
  const double unit = dtype == DType::f64   ? 0x1p-50
                      : dtype == DType::f32 ? 0x1p-21
                      : dtype == DType::f16 ? 0x1p-10
                                            : 0x1p-7;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = a.at(i), y = b.at(i);
    if (x != y && !(std::isnan(x) && std::isnan(y)) && !(std::fabs(x - y) <= unit * std::fabs(y)))
      return false;
  }
  return true;
}

void check_sample(const testing::Sample& sample, bool reference, int workers) {
  const std::unique_ptr<Module> module = testing::sample_module(sample);
  std::vector<std::vector<Value>> arguments;
  for (int64_t d = 0; d < sample.devices; ++d)
    arguments.push_back(
        testing::sample_arguments(sample, *module, testing::Values::integers, uint64_t(d) + 3));
  const std::vector<Value> wanted = evaluate_devices(*module, sample.devices, arguments);
  ProgramOptions options;
  options.num_devices = sample.devices;
  options.reference_kernels = reference;
  options.poison = true;
  Executor executor(build_program(*module, options), make_worker_pool(workers));
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
  if (!leaves(Value::tuple(arguments[0])).empty()) buffers = to_buffers(arguments);
  for (int run = 0; run < 2; ++run) {
    const auto results = executor.run(buffers);
    for (int64_t d = 0; d < sample.devices; ++d) {
      const std::vector<Array> expected = leaves(wanted[size_t(d)]);
      REQUIRE(results.size() == expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        INFO(sample.name << ": " << (reference ? "reference" : "fast") << " kernels, device " << d
                         << ", leaf " << i);
        const Array found = shard_array(*results[i], d);
        CHECK((reference ? bitwise_equal(found, expected[i]) : close(found, expected[i])));
      }
    }
  }
}

}  // namespace

TEST_CASE("executor: every sample of the op table runs as in the reference", "[executor]") {
  for (const testing::Sample& sample : testing::samples()) {
    INFO(sample.name);
    CHECK_NOTHROW(check_sample(sample, true, 1));
    CHECK_NOTHROW(check_sample(sample, false, 2));
  }
}

TEST_CASE("executor: fusions of what loops do not know run by their reference", "[executor]") {
  expect_oracle(R"(HloModule m
complex { x = f32[4,6] parameter(0) y = f32[4,6] parameter(1)
  z = c64[4,6] complex(x, y) w = c64[4,6] multiply(z, z) ROOT r = f32[4,6] imag(w) }
bits { n = s32[4,6] parameter(0) p = s32[4,6] popcnt(n) c = s32[4,6] count-leading-zeros(n) ROOT r = s32[4,6] add(p, c) }
narrow { x = f32[4,6] parameter(0) n = f8e4m3fn[4,6] convert(x) m = f8e4m3fn[4,6] add(n, n) ROOT r = f32[4,6] convert(m) }
rounds { x = f32[4,6] parameter(0) h = f32[] constant(0.5) b = f32[4,6] broadcast(h), dimensions={}
  p = f32[4,6] multiply(x, b) q = f32[4,6] round-nearest-afz(p) ROOT r = f32[4,6] reduce-precision(q), exponent_bits=5, mantissa_bits=1 }
ENTRY e {
  x = f32[4,6] parameter(0)
  n = s32[4,6] parameter(1)
  a = f32[4,6] fusion(x, x), kind=kLoop, calls=complex
  b = s32[4,6] fusion(n), kind=kLoop, calls=bits
  c = f32[4,6] fusion(x), kind=kLoop, calls=narrow
  d = f32[4,6] fusion(x), kind=kLoop, calls=rounds
  ROOT out = (f32[4,6], s32[4,6], f32[4,6], f32[4,6]) tuple(a, b, c, d)
}
)",
                1);
}

TEST_CASE("executor: devices take branches of their own", "[executor]") {
  const std::string text = R"(HloModule m, num_partitions=4
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
twice { t = (f32[8], s32[]) parameter(0) x = f32[8] get-tuple-element(t), index=0 ROOT y = f32[8] add(x, x) }
first { t = f32[8] parameter(0) ROOT r = f32[8] copy(t) }
same { ROOT t = f32[8] parameter(0) }
ENTRY e {
  x = f32[8] parameter(0)
  n = s32[] parameter(1)
  z = f32[] constant(0)
  d = f32[8] negate(x)
  t = (f32[8], s32[]) tuple(d, n)
  c = f32[8] conditional(n, t, x, d), branch_computations={twice, first, same}
  p = pred[] compare(n, n), direction=NE
  k = f32[8] conditional(p, t, c), true_computation=twice, false_computation=same
  s = f32[] reduce(k, z), dimensions={0}, to_apply=sum
  ROOT out = (f32[8], f32[], f32[8]) tuple(k, s, d)
}
)";
  expect_oracle(text, 1);
  expect_oracle(text, 4);
}

TEST_CASE("executor: collectives inside of a branch that all devices of a group take",
          "[executor]") {
  const std::string text = R"(HloModule m, num_partitions=4
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
over { t = f32[8] parameter(0) ROOT r = f32[8] all-reduce(t), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=sum }
alone { t = f32[8] parameter(0) m = f32[8] multiply(t, t) ROOT r = f32[8] add(m, t) }
ENTRY e {
  x = f32[8] parameter(0)
  i = u32[] partition-id()
  two = u32[] constant(2)
  p = pred[] compare(i, two), direction=LT
  y = f32[8] add(x, x)
  c = f32[8] conditional(p, y, y), true_computation=over, false_computation=alone
  ROOT r = f32[8] add(c, x)
}
)";
  expect_oracle(text, 4);
}

TEST_CASE("executor: a collective that a part of its group reaches is an error", "[executor]") {
  const auto module = parse_module(R"(HloModule m, num_partitions=4
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
over { t = f32[8] parameter(0) ROOT r = f32[8] all-reduce(t), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=sum }
alone { t = f32[8] parameter(0) ROOT r = f32[8] negate(t) }
ENTRY e {
  x = f32[8] parameter(0)
  i = u32[] partition-id()
  one = u32[] constant(1)
  p = pred[] compare(i, one), direction=LT
  ROOT r = f32[8] conditional(p, x, x), true_computation=over, false_computation=alone
}
)");
  const auto arguments = small_arguments(*module, 4);
  const std::string wanted = "is reached by 1 of the 2 devices of its group {0,1} only";
  CHECK_THROWS_WITH(evaluate_devices(*module, 4, arguments), Catch::Contains(wanted));
  ProgramOptions options;
  options.num_devices = 4;
  for (const int workers : {1, 4}) {
    Executor executor(build_program(*module, options), make_worker_pool(workers));
    CHECK_THROWS_WITH(executor.run(to_buffers(arguments)), Catch::Contains(wanted));
  }
}

TEST_CASE("executor: pairs of start and done, also inside of called computations", "[executor]") {
  expect_oracle(R"(HloModule m, num_partitions=2
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
inner { t = f32[8] parameter(0)
  s = f32[8] all-reduce-start(t), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=sum
  u = f32[8] add(t, t)
  d = f32[8] all-reduce-done(s)
  ROOT r = f32[8] subtract(d, u) }
ENTRY e {
  x = f32[8] parameter(0)
  s = ((f32[8]), f32[8], u32[]) async-start(x), calls=inner
  k = token[] after-all()
  c = (f32[8], f32[8], u32[]) copy-start(x)
  y = f32[8] copy-done(c)
  d = f32[8] async-done(s)
  e = f32[8] add-dependency(d, k)
  p = (f32[8], f32[8], u32[], u32[]) collective-permute-start(e), channel_id=2, source_target_pairs={{0,1},{1,0}}
  q = f32[8] collective-permute-done(p)
  ROOT out = (f32[8], f32[8], token[]) tuple(q, y, k)
}
)",
                2);
}

}  // namespace gspmd
