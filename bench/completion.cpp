// How long completion takes on programs of 1k to 64k instructions, and on meshes of 8 to 65,536
// devices.
#include <fmt/format.h>

#include <chrono>

#include "bench/report.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/complete/propagate.h"

namespace {

using namespace gspmd;

// Layers of a gated MLP with norms, one annotated weight per kind in the first layer only.
std::string module_text(int64_t count, int64_t devices) {
  std::string text = fmt::format(R"(HloModule bench, num_partitions={0}

sum {{ x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y) }}

ENTRY main {{
  x = f32[64,128] parameter(0), sharding={{devices=[2,1,{1}]<=[{0}] last_tile_dim_replicate}}
  w = f32[128,512] parameter(1), sharding={{devices=[1,{1},2]<=[2,{1}]T(1,0) last_tile_dim_replicate}}
  v = f32[512,128] parameter(2)
  zero = f32[] constant(0)
)",
                                 devices, devices / 2);
  std::string before = "x";
  for (int64_t i = 0; i < count / 8; ++i) {
    fmt::format_to(
        std::back_inserter(text),
        R"(  up.{0} = f32[64,512] dot({1}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  act.{0} = f32[64,512] tanh(up.{0})
  down.{0} = f32[64,128] dot(act.{0}, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  sum.{0} = f32[64] reduce(down.{0}, zero), dimensions={{1}}, to_apply=sum
  norm.{0} = f32[64,128] broadcast(sum.{0}), dimensions={{0}}
  scaled.{0} = f32[64,128] divide(down.{0}, norm.{0})
  turned.{0} = f32[128,64] transpose(scaled.{0}), dimensions={{1,0}}
  back.{0} = f32[64,128] transpose(turned.{0}), dimensions={{1,0}}
)",
        i, before);
    before = fmt::format("back.{}", i);
  }
  fmt::format_to(std::back_inserter(text), "  ROOT r = f32[64,128] copy({})\n}}\n", before);
  return text;
}

void measure(int64_t instructions, int64_t devices, Report& report) {
  const auto module = parse_module(module_text(instructions, devices));
  PropagateStats stats;
  PropagateOptions options;
  options.allow_parameters = options.allow_output = {true};
  options.stats = &stats;
  const auto start = std::chrono::steady_clock::now();
  propagate(*module, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  report.add(fmt::format("{} instructions, {} devices", instructions, devices),
             {{"s", seconds.count()}, {"sweeps", double(stats.sweeps), Better::same}});
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line("Time to complete shardings.");
  Report report(line, "completion");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    for (const int64_t instructions : {1024, 4096, 16'384, 65'536})
      measure(instructions, 8, report);
    for (const int64_t devices : {64, 4096, 65'536}) measure(16'384, devices, report);
    report.write();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
