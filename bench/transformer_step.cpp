// One training step of a decoder-only Transformer (layer norm, biases, learned positions, f32,
// Adam) on one device and on a (2,4) mesh with recipe 2d, in turn, with the peak measured between
// them; the last line has medians and ratios of the rounds that nothing disturbed, those before it
// how fused loops run and the memory.
//   transformer_step [--steps 15] [--layers 4] [--d 512] [--ff 2048] [--heads 8] [--seq 256]
//   [--batch 8]
//                    [--vocab 8192] [--threads 2] [--recipe 2d] [--bf16] [--mesh] [--json FILE]
// In several processes: mpirun -n 2 transformer_step --mesh --threads 1, against transformer_step
// --mesh.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "bench/measure.h"
#include "bench/report.h"
#include "examples/peak.h"
#include "gspmd/kernels/loop_program.h"
#include "models/step_memory.h"
#include "models/transformer_run.h"

namespace {

using namespace gspmd;

struct BenchOptions {
  int64_t steps = 15, warm_up = 2;
  int64_t layers = 4, d = 512, ff = 2048, heads = 8, seq = 256, batch = 8, vocab = 8192;
  int threads = 2;
  std::string recipe = "2d";
  bool bf16 = false, mesh = false;
};

models::TransformerConfig config_of(const BenchOptions& options) {
  models::TransformerConfig config;
  config.layers = options.layers;
  config.model = options.d;
  config.hidden = options.ff;
  config.heads = options.heads;
  config.seq = options.seq;
  config.vocab = options.vocab;
  config.norm = models::Norm::layer;
  config.bias = true;
  config.head = models::Head::untied;
  return config;
}

std::unique_ptr<models::Trainer> trainer_on(const Mesh& mesh, const BenchOptions& options,
                                            DType compute = DType::f32) {
  models::TransformerRun trainer;
  trainer.precision.compute = compute;
  trainer.config = config_of(options);
  trainer.mesh = mesh;
  trainer.layout = models::layout_of_recipe(options.recipe, mesh);
  trainer.batch = options.batch;
  trainer.threads = options.threads;
  return models::make_trainer(trainer);
}

double timed_step(models::Trainer& trainer, const models::Leaves<Array>& batch) {
  const auto start = std::chrono::steady_clock::now();
  trainer.step(batch, 1e-3);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// What is planned for a device, and what theory asks for, in MB.
void report_memory(const std::string& name, const models::Trainer& trainer, Report& report) {
  const ExecutableStats& stats = trainer.executable().stats();
  const models::StepMemory theory = models::step_memory(trainer);
  report.add(name, {{"predicted_peak_mb", double(stats.predicted_peak_bytes) * 1e-6},
                    {"arena_mb", double(stats.arena_bytes) * 1e-6},
                    {"theory_mb", theory.total() * 1e-6, Better::same},
                    {"predicted_to_theory", double(stats.predicted_peak_bytes) / theory.total()}});
}

struct Round {
  double single = 0, mesh = 0;  // seconds
  double peak = 0;              // GFLOP/s
};

// Without the rounds whose peak is a tenth below the middle one: something else had a core.
std::vector<Round> undisturbed(std::vector<Round> rounds) {
  const double least = 0.9 * median(rounds, &Round::peak);
  std::erase_if(rounds, [&](const Round& round) { return round.peak < least; });
  return rounds;
}

void report_loops(Report& report) {
  const LoopCodeStats loops = loop_code_stats();
  report.add("fused loops", {{"generated", double(loops.generated), Better::same},
                             {"shared", double(loops.shared), Better::same},
                             {"interpreted", double(loops.interpreted), Better::same},
                             {"code_bytes", double(loops.bytes), Better::same}});
}

void measure(const BenchOptions& options, Report& report) {
  const Mesh mesh{{"data", 2}, {"model", 4}};
  const auto single = trainer_on(Mesh(), options);
  const auto sharded = trainer_on(mesh, options);
  const models::Leaves<Array> batch = models::random_batch(config_of(options), options.batch, 1);
  const double gflop = models::training_flops(config_of(options), options.batch) * 1e-9;
  std::vector<Round> rounds;
  for (int64_t i = 0; i < options.warm_up + options.steps; ++i) {
    Round round{timed_step(*single, batch), timed_step(*sharded, batch)};
    round.peak = examples::measure_peak_gflops(options.threads);
    fmt::print("{{\"step\":{},\"single_ms\":{:.1f},\"mesh_ms\":{:.1f},\"peak_gflops\":{:.1f}}}\n",
               i, round.single * 1e3, round.mesh * 1e3, round.peak);
    std::fflush(stdout);
    if (i >= options.warm_up) rounds.push_back(round);
  }
  report_loops(report);
  report_memory("memory of one device", *single, report);
  report_memory("memory of a device of the mesh", *sharded, report);
  rounds = undisturbed(std::move(rounds));
  fmt::print("{{\"undisturbed_rounds\":{}}}\n", rounds.size());
  const auto percent = [&](double seconds, const Round& round) {
    return 100 * gflop / seconds / round.peak;
  };
  report.add(fmt::format("step of {:.2f} GFLOP, {} threads", gflop, options.threads),
             {{"single_ms", median(rounds, &Round::single) * 1e3},
              {"mesh_ms", median(rounds, &Round::mesh) * 1e3},
              {"peak_gflops", median(rounds, &Round::peak), Better::higher},
              {"single_gflops", gflop / median(rounds, &Round::single), Better::higher},
              {"single_percent_of_peak",
               median(rounds, [&](const Round& round) { return percent(round.single, round); }),
               Better::higher},
              {"mesh_percent_of_peak",
               median(rounds, [&](const Round& round) { return percent(round.mesh, round); }),
               Better::higher},
              {"mesh_to_single",
               median(rounds, [](const Round& round) { return round.mesh / round.single; })}});
}

// Steps on the mesh and nothing between them, for which processes would wait.
void measure_mesh(const BenchOptions& options, Report& report) {
  const Mesh mesh{{"data", 2}, {"model", 4}};
  const auto trainer = trainer_on(mesh, options);
  const models::Leaves<Array> batch = models::random_batch(config_of(options), options.batch, 1);
  std::vector<double> seconds;
  for (int64_t i = 0; i < options.warm_up + options.steps; ++i) {
    const double took = timed_step(*trainer, batch);
    if (i >= options.warm_up) seconds.push_back(took);
  }
  report.add(fmt::format("{} processes, {} threads", process_count(), options.threads),
             {{"mesh_ms", median(seconds) * 1e3}});
}

// Steps in f32 and in bf16 in turn, on one device and on the mesh.
void measure_bf16(const BenchOptions& options, Report& report) {
  const models::Leaves<Array> batch = models::random_batch(config_of(options), options.batch, 1);
  for (const Mesh& mesh : {Mesh(), Mesh{{"data", 2}, {"model", 4}}}) {
    const auto wide = trainer_on(mesh, options);
    const auto narrow = trainer_on(mesh, options, DType::bf16);
    std::vector<double> f32_seconds, bf16_seconds, ratios;
    for (int64_t i = 0; i < options.warm_up + options.steps; ++i) {
      const double f32 = timed_step(*wide, batch);
      const double bf16 = timed_step(*narrow, batch);
      if (i < options.warm_up) continue;
      f32_seconds.push_back(f32);
      bf16_seconds.push_back(bf16);
      ratios.push_back(bf16 / f32);
    }
    report.add(fmt::format("{} devices, {} threads", mesh.num_devices(), options.threads),
               {{"f32_ms", median(f32_seconds) * 1e3},
                {"bf16_ms", median(bf16_seconds) * 1e3},
                {"bf16_to_f32", median(ratios)}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  BenchOptions options;
  CommandLine line("One Transformer training step, one device against a (2,4) mesh.");
  line.number("--steps", options.steps);
  line.option("--layers", options.layers);
  line.option("--d", options.d);
  line.option("--ff", options.ff);
  line.option("--heads", options.heads);
  line.option("--seq", options.seq);
  line.option("--batch", options.batch);
  line.option("--vocab", options.vocab);
  line.option("--threads", options.threads);
  line.option("--recipe", options.recipe);
  line.flag("--mesh", options.mesh, "the mesh alone: of several processes, with mpirun");
  line.flag("--bf16", options.bf16, "compare steps computed in bf16 with steps in f32");
  Report report(line, "transformer_step");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    print_from_first_process();
    if (options.mesh)
      measure_mesh(options, report);
    else
      options.bf16 ? measure_bf16(options, report) : measure(options, report);
    report.write();
  } catch (const std::exception& error) {
    return end_job(error.what(), 2);
  }
}
