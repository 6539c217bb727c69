// What only the result wants split: each device makes its own part, and nothing is sent but what
// the part needs.

#include <complex>

#include "gspmd/ir/text.h"
#include "gspmd/passes/explain/collective_stats.h"
#include "passes/combiners.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

CompiledModule compiled(const Module& module, int64_t devices) {
  PipelineOptions options;
  options.num_devices = devices;
  return run_pipeline(module, options);
}

// Equal bits for some starts and elements; the program.
CompiledModule checked(const std::string& body, int64_t devices) {
  const auto module = parse_module("HloModule m\nENTRY e {\n" + body + "}\n");
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const std::string difference = difference_when_partitioned(*module, devices, seed);
    INFO(difference);
    CHECK(difference.empty());
  }
  return compiled(*module, devices);
}

// The elements of the largest result of an opcode.
int64_t largest(const CompiledModule& program, Opcode opcode) {
  int64_t most = 0;
  for (const auto& node : program.local->entry()->nodes())
    if (node->is(opcode)) most = std::max(most, node->shape.elements_count());
  return most;
}

int64_t bytes(const CompiledModule& program) {
  int64_t sum = 0;
  for (const CollectiveStats& s : collective_stats(*program.local)) sum += s.bytes;
  return sum;
}

}  // namespace

TEST_CASE("gather: each device looks up its part of every slice", "[parts]") {
  for (const int64_t devices : {2, 3, 4, 8})
    for (const int64_t width : {3, 8, 10}) {
      INFO(devices << " devices, slices of " << width);
      const CompiledModule program = checked(
          fmt::format(
              " a = f32[20,6] parameter(0), sharding={{replicated}}\n i = s32[5,1] "
              "parameter(1), sharding={{replicated}}\n k = s32[] constant(4)\n b = s32[5,1] "
              "broadcast(k), dimensions={{}}\n j = s32[5,1] multiply(i, b)\n ROOT g = "
              "f32[5,{0},6] gather(a, j), offset_dims={{1,2}}, collapsed_slice_dims={{}}, "
              "start_index_map={{0}}, index_vector_dim=1, slice_sizes={{{0},6}}, "
              "sharding={{devices=[1,{1},1]<=[{1}]}}\n",
              width, devices),
          devices);
      CHECK(collectives(program).empty());
      CHECK(largest(program, Opcode::gather) == 5 * ceil_div(width, devices) * 6);
    }
}

TEST_CASE("gather: parts of slices that begin at zero, or of a second dim", "[parts]") {
  const CompiledModule program = checked(
      " a = f32[20,9] parameter(0), sharding={replicated}\n i = s8[5,1] parameter(1), "
      "sharding={devices=[2,1,3]<=[6] last_tile_dim_replicate}\n ROOT g = f32[5,4,7] gather(a, i), "
      "offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, "
      "slice_sizes={4,7}, sharding={devices=[2,1,3]<=[6]}\n",
      6);
  CHECK(collectives(program).empty());
  CHECK(largest(program, Opcode::gather) == 3 * 4 * 3);
}

TEST_CASE("dynamic-slice: each device takes its part of the slice", "[parts]") {
  for (const int64_t devices : {2, 3, 4, 8})
    for (const char* const start : {"-3", "0", "5", "12", "90"}) {
      INFO(devices << " devices, from " << start);
      const CompiledModule program = checked(
          fmt::format(" a = f32[20,6] parameter(0), sharding={{replicated}}\n n = s32[] "
                      "parameter(1)\n z = s32[] constant(0)\n f = s32[] constant({0})\n o = "
                      "s32[] multiply(n, z)\n s = s32[] add(f, o)\n ROOT r = f32[7,6] "
                      "dynamic-slice(a, s, z), dynamic_slice_sizes={{7,6}}, "
                      "sharding={{devices=[{1},1]<=[{1}]}}\n",
                      start, devices),
          devices);
      CHECK(collectives(program).empty());
      CHECK(largest(program, Opcode::dynamic_slice) <= ceil_div(7, devices) * 6);
    }
}

TEST_CASE("grouped convolution on more devices than groups gathers inputs of a group alone",
          "[parts]") {
  // 8 devices, 2 groups: 4 devices share the inputs of a group, and nobody needs others.
  const CompiledModule features = checked(
      " x = f32[2,6,8] parameter(0), sharding={devices=[1,1,8]<=[8]}\n k = f32[3,4,16] "
      "parameter(1), sharding={devices=[1,1,8]<=[8]}\n ROOT c = f32[2,6,16] convolution(x, k), "
      "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, feature_group_count=2, "
      "sharding={devices=[1,1,8]<=[8]}\n",
      8);
  CHECK(collectives(features) == std::vector<std::string>{"all-gather [2,4]<=[8]"});
  const CompiledModule batches = checked(
      " x = f32[8,6,3] parameter(0), sharding={devices=[8,1,1]<=[8]}\n k = f32[3,3,16] "
      "parameter(1), sharding={devices=[1,1,8]<=[8]}\n ROOT c = f32[2,6,16] convolution(x, k), "
      "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, batch_group_count=4, "
      "sharding={devices=[1,1,8]<=[8]}\n",
      8);
  CHECK(collectives(batches) == std::vector<std::string>{"all-gather [4,2]<=[8]"});
  for (const char* const outputs : {"6", "12", "18"})  // even or not, 2 groups on 6 or 4 devices
    for (const int64_t devices : {4, 6})
      checked(fmt::format(" x = f32[2,6,8] parameter(0), sharding={{devices=[1,1,{1}]<=[{1}]}}\n k "
                          "= f32[3,4,{0}] parameter(1)\n ROOT c = f32[2,6,{0}] convolution(x, k), "
                          "window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f, "
                          "feature_group_count=2, sharding={{devices=[1,1,{1}]<=[{1}]}}\n",
                          outputs, devices),
              devices);
}

TEST_CASE("a transform of the only dim stays split, in three exchanges", "[parts]") {
  for (const char* const type : {"FFT", "IFFT"})
    for (const int64_t devices : {2, 4, 5, 8})
      for (const char* const number : {"c64", "c128"}) {
        INFO(type << " of " << number << " on " << devices);
        const int64_t size = devices * devices * 6;
        const auto module = parse_module(
            fmt::format("HloModule m\nENTRY e {{\n a = {0}[{1}] parameter(0), "
                        "sharding={{devices=[{2}]<=[{2}]}}\n ROOT f = {0}[{1}] fft(a), "
                        "fft_type={3}, fft_length={{{1}}}, sharding={{devices=[{2}]<=[{2}]}}\n}}\n",
                        number, size, devices, type));
        const std::vector<Value> arguments = integer_arguments(*module, 3);
        const CompiledModule program = compiled(*module, devices);
        const Array expected = evaluate(*module, arguments).array;
        const Array got = run_partitioned(program, devices, arguments).array;
        const double limit = std::string(number) == "c64" ? 1e-5 : 1e-13;
        const auto check = [&](const auto& a, const auto& b) {
          for (size_t i = 0; i < a.size(); ++i)
            CHECK(std::abs(std::complex<double>(a[i]) - std::complex<double>(b[i])) <
                  limit * std::sqrt(double(size)));
        };
        if (std::string(number) == "c64")
          check(expected.data<std::complex<float>>(), got.data<std::complex<float>>());
        else
          check(expected.data<std::complex<double>>(), got.data<std::complex<double>>());
        const int64_t element = std::string(number) == "c64" ? 8 : 16;
        const int64_t part = size / devices * element;
        if (devices < 4)
          CHECK(collectives(program).at(0).rfind("all-gather", 0) == 0);
        else
          CHECK(bytes(program) == 3 * (part - part / devices));
      }
}
