// How fast StableHLO text is read and printed: ops a second, bytes of constants a second, and the
// memory that a large constant takes beside its text.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string>

#include "bench/report.h"
#include "gspmd/ir/module.h"
#include "gspmd/stablehlo/text.h"

namespace {

using namespace gspmd;

// `count` ops as JAX prints them, with locations.
std::string ops_text(int64_t count) {
  std::string text = R"(module @jit_step attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32> loc(#loc1)
)";
  std::string before = "arg0";
  for (int64_t i = 0; i < count / 12; ++i) {  // the shares of ops are those of exported programs
    fmt::format_to(
        std::back_inserter(text),
        R"(    %d{0} = stablehlo.dot_general %{1}, %{1}, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x8xf32> loc(#loc2)
    %r{0} = stablehlo.reduce(%d{0} init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32> loc(#loc2)
    %b{0} = stablehlo.broadcast_in_dim %r{0}, dims = [0] : (tensor<8xf32>) -> tensor<8x16xf32> loc(#loc1)
    %a{0} = stablehlo.add %b{0}, %arg0 : tensor<8x16xf32> loc(#loc1)
    %cst_{0} = stablehlo.constant dense<{0}.000000e+00> : tensor<f32> loc(#loc1)
    %c{0} = stablehlo.broadcast_in_dim %cst_{0}, dims = [] : (tensor<f32>) -> tensor<8x16xf32> loc(#loc1)
    %m{0} = stablehlo.multiply %a{0}, %c{0} : tensor<8x16xf32> loc(#loc1)
    %z_{0} = stablehlo.constant dense<0.000000e+00> : tensor<f32> loc(#loc1)
    %z{0} = stablehlo.broadcast_in_dim %z_{0}, dims = [] : (tensor<f32>) -> tensor<8x16xf32> loc(#loc1)
    %p{0} = stablehlo.compare  GT, %m{0}, %z{0},  FLOAT : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xi1> loc(#loc1)
    %s{0} = stablehlo.select %p{0}, %m{0}, %z{0} : tensor<8x16xi1>, tensor<8x16xf32> loc(#loc1)
    %t{0} = stablehlo.tanh %s{0} : tensor<8x16xf32> loc("jit(step)/layer_{0}/tanh"(#loc1))
)",
        i, before);
    before = fmt::format("t{}", i);
  }
  fmt::format_to(std::back_inserter(text), R"(    return %{} : tensor<8x16xf32> loc(#loc)
  }} loc(#loc)
}} loc(#loc)
#loc = loc(unknown)
#loc1 = loc("model.py":10:6 to :11)
#loc2 = loc("jit(step)/dot_general"(#loc1))
)",
                 before);
  return text;
}

// One constant of `count` floats, as bytes in hex or as a list.
std::string constant_text(int64_t count, bool as_bytes) {
  std::string text = "func.func @main() -> tensor<0xf32> {\n%c = stablehlo.constant dense<";
  text.reserve(static_cast<size_t>(count) * (as_bytes ? 8 : 14) + 1000);
  if (as_bytes) text += "\"0x";
  for (int64_t i = 0; i < count; ++i) {
    if (as_bytes)
      fmt::format_to(std::back_inserter(text), "{:08X}", static_cast<uint32_t>(i) * 2654435761U);
    else
      fmt::format_to(std::back_inserter(text), "{}{:.6e}", i == 0 ? "[" : ", ",
                     static_cast<double>(i) * 1.37e-3);
  }
  text += as_bytes ? "\"" : "]";
  fmt::format_to(std::back_inserter(text),
                 "> : tensor<{0}xf32>\n%s = stablehlo.slice %c [0:0] : (tensor<{0}xf32>) -> "
                 "tensor<0xf32>\nreturn %s : tensor<0xf32>\n}}\n",
                 count);
  return text;
}

// By the clock, and of all threads on the processors: what else the machine does is left out of
// these.
struct Seconds {
  double clock = 0, processors = 0;
};
template <class F>
Seconds seconds(F&& f) {
  const std::clock_t used = std::clock();
  const auto start = std::chrono::steady_clock::now();
  f();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  return {passed.count(), static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC};
}

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void measure_ops(int64_t count, Report& report) {
  const std::string text = ops_text(count);
  std::unique_ptr<Module> module;
  std::string printed;
  const Seconds read = seconds([&] { module = parse_stablehlo(text, "bench.mlir"); });
  const Seconds written = seconds([&] { printed = to_stablehlo(*module); });
  report.add(fmt::format("{} ops", count),
             {{"text_mb", double(text.size()) / 1e6, Better::same},
              {"read_s", read.clock},
              {"read_ops_per_s", double(count) / read.clock, Better::higher},
              {"read_processor_s", read.processors},
              {"print_processor_s", written.processors},
              {"print_ops_per_processor_s", double(count) / written.processors, Better::higher}});
}

void measure_constant(int64_t count, bool as_bytes, Report& report) {
  const std::string text = constant_text(count, as_bytes);
  const double before = peak_megabytes();
  std::unique_ptr<Module> module;
  const double read = seconds([&] { module = parse_stablehlo(text, "bench.mlir"); }).processors;
  const double text_mb = double(text.size()) / 1e6;
  report.add(
      fmt::format("constant of {} MB as {}", count * 4 / 1'000'000, as_bytes ? "bytes" : "list"),
      {{"text_mb", text_mb, Better::same},
       {"read_processor_s", read},
       {"text_mb_per_processor_s", text_mb / read, Better::higher},
       {"peak_grows_by_mb", peak_megabytes() - before}});
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line("Time to read and print StableHLO text.");
  Report report(line, "stablehlo_text");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    // Before others, whose memory would hide what these take.
    measure_constant(5'000'000, false, report);
    measure_constant(50'000'000, true, report);
    for (const int64_t count : {24'000, 300'000}) measure_ops(count, report);
    report.write();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
