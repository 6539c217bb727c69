// How long a training step of a Transformer takes to complete and to partition, on meshes of 8 to
// 65,536 devices; the same program but for its mesh, so that the times should be the same. Sizes
// are large enough that every mesh splits them.
//   partition_scaling [--layers 6] [--runs 5] [--recipe 2d]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "gspmd/ir/module.h"
#include "gspmd/passes/pipeline.h"
#include "models/transformer_run.h"

namespace {

using namespace gspmd;

struct BenchOptions {
  int64_t layers = 6, runs = 5;
  std::string recipe = "2d";
};

models::TransformerRun trainer_on(const Mesh& mesh, const BenchOptions& options) {
  models::TransformerRun trainer;
  trainer.config.layers = options.layers;
  trainer.config.model = 1 << 14;
  trainer.config.hidden = 1 << 16;
  trainer.config.heads = 256;
  trainer.config.seq = 2048;
  trainer.config.vocab = 1 << 16;
  trainer.mesh = mesh;
  trainer.layout = models::layout_of_recipe(options.recipe, mesh);
  trainer.batch = 1024;
  trainer.prepare = false;
  return trainer;
}

int64_t instructions(const Module& module) {
  int64_t count = 0;
  for (const auto& computation : module.computations())
    count += static_cast<int64_t>(computation->nodes().size());
  return count;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Times {
  double total = 0;
  std::map<std::string, double> of_pass;
};

// Medians over runs of the pipeline on the traced program.
Times measure(const Mesh& mesh, const BenchOptions& options) {
  const auto trainer = models::make_trainer(trainer_on(mesh, options));
  const Module& traced = trainer->executable().traced().module();
  PipelineOptions pipeline;
  pipeline.num_devices = mesh.num_devices();
  std::vector<double> totals;
  std::map<std::string, std::vector<double>> of_pass;
  int64_t before = 0, after = 0;
  for (int64_t run = 0; run < options.runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    const CompiledModule compiled = run_pipeline(traced, pipeline);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    totals.push_back(seconds.count());
    for (const PassTime& time : compiled.seconds) of_pass[time.pass].push_back(time.seconds);
    before = instructions(*compiled.completed);
    after = instructions(*compiled.local);
  }
  Times times{median(totals), {}};
  for (const auto& [pass, seconds] : of_pass) times.of_pass[pass] = median(seconds);
  fmt::print("{:>7} devices: {} instructions, {} of the per-device program, {:.3f} s\n",
             mesh.num_devices(), before, after, times.total);
  return times;
}

void report(const BenchOptions& options) {
  const std::vector<Mesh> meshes = {Mesh{{"data", 2}, {"model", 4}},
                                    Mesh{{"data", 16}, {"model", 32}},
                                    Mesh{{"data", 256}, {"model", 256}}};
  std::vector<Times> all;
  for (const Mesh& mesh : meshes) all.push_back(measure(mesh, options));
  fmt::print("{:<24}", "pass");
  for (const Mesh& mesh : meshes) fmt::print("{:>10}", mesh.num_devices());
  fmt::print("\n");
  for (const auto& [pass, seconds] : all.front().of_pass) {
    fmt::print("{:<24}", pass);
    for (const Times& times : all) fmt::print("{:>10.4f}", times.of_pass.at(pass));
    fmt::print("\n");
  }
  fmt::print("{{\"seconds_8\":{:.4f},\"seconds_65536\":{:.4f},\"ratio\":{:.3f}}}\n",
             all.front().total, all.back().total, all.back().total / all.front().total);
}

}  // namespace

int main(int argc, char** argv) {
  BenchOptions options;
  CLI::App app{"Time to partition a training step, for 8 to 65,536 devices."};
  app.add_option("--layers", options.layers);
  app.add_option("--runs", options.runs)->check(CLI::PositiveNumber);
  app.add_option("--recipe", options.recipe);
  CLI11_PARSE(app, argc, argv);
  try {
    report(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
