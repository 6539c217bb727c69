// A Transformer's training step with its blocks as one loop (scan) and blocks whose activations are
// made again in the gradient (checkpoint). Three comparisons, one JSON object each:
//   compile: seconds to trace, complete, partition and plan 2 and `--deep` blocks by scan, in turn;
//   arena:   bytes of the plan per further block, by scan and unrolled, with and without
//   checkpoint,
//            and what theory says a checkpointed block keeps: its input;
//   step:    seconds of a step by scan and unrolled, both with checkpoint, in turn, and the largest
//            difference of their losses.
//   scan_layers [--deep 512] [--rounds 5] [--steps 7] [--layers 8] [--d 256] [--ff 1024] [--heads
//   8]
//               [--seq 128] [--batch 16] [--vocab 1024] [--threads 2] [--recipe 2d] [--mesh]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "bench/measure.h"
#include "bench/report.h"
#include "models/transformer_run.h"

namespace {

using namespace gspmd;

struct BenchOptions {
  int64_t deep = 512, rounds = 5, steps = 7;
  int64_t layers = 8, d = 256, ff = 1024, heads = 8, seq = 128, batch = 16, vocab = 1024;
  int threads = 2;
  std::string recipe = "2d";
  bool mesh = false;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

models::TransformerRun trainer_options(const BenchOptions& o, int64_t layers, bool scan) {
  models::TransformerRun t;
  t.config.layers = layers;
  t.config.model = o.d;
  t.config.hidden = o.ff;
  t.config.heads = o.heads;
  t.config.seq = o.seq;
  t.config.vocab = o.vocab;
  t.config.norm = models::Norm::layer;
  t.config.bias = true;
  t.config.scan = scan;
  t.config.remat = true;
  t.mesh = o.mesh ? Mesh{{"data", 2}, {"model", 4}} : Mesh();
  t.layout = models::layout_of_recipe(o.recipe, t.mesh);
  t.batch = o.batch;
  t.threads = o.threads;
  return t;
}

double compile_seconds(const BenchOptions& o, int64_t layers) {
  models::TransformerRun options = trainer_options(o, layers, true);
  options.prepare = false;
  const double start = seconds_now();
  models::make_trainer(options);
  return seconds_now() - start;
}

void compare_compilation(const BenchOptions& o, Report& report) {
  std::vector<double> shallow, deep, ratios;
  for (int64_t round = 0; round < o.rounds; ++round) {
    shallow.push_back(compile_seconds(o, 2));
    deep.push_back(compile_seconds(o, o.deep));
    ratios.push_back(deep.back() / shallow.back());
  }
  report.add(fmt::format("compiling {} layers and 2", o.deep),
             {{"deep_s", median(deep)}, {"shallow_s", median(shallow)}, {"ratio", median(ratios)}});
}

// Of the program of loss and gradients, beside arguments and results.
int64_t arena(const BenchOptions& o, int64_t layers, bool scan, bool remat) {
  models::TransformerRun trainer = trainer_options(o, layers, scan);
  trainer.config.remat = remat;
  const models::Transformer model(trainer.config, trainer.mesh, trainer.layout);
  const auto step = [model](models::TransformerParams<Tensor> params, Tensor tokens,
                            Tensor labels) {
    return value_and_grad([&model](const auto&... args) { return model.loss(args...); })(
        params, tokens, labels);
  };
  CompileOptions options;
  options.mesh = trainer.mesh;
  options.prepare = false;
  const Shape tokens(DType::s32, {o.batch, o.seq});
  return compile(step, options, models::parameter_shapes(trainer.config), tokens, tokens)
      .stats()
      .arena_bytes;
}

void compare_arenas(const BenchOptions& o, Report& report) {
  const auto per_block = [&](bool scan, bool remat) {
    return (arena(o, 2 * o.layers, scan, remat) - arena(o, o.layers, scan, remat)) / o.layers;
  };
  const int64_t devices = o.mesh ? 8 : 1;
  for (const bool remat : {false, true})
    report.add(remat ? "arena of a block, made again" : "arena of a block",
               {{"scan_bytes", double(per_block(true, remat))},
                {"unrolled_bytes", double(per_block(false, remat))},
                {"input_bytes", double(o.batch * o.seq * o.d * 4 / devices), Better::same}});
}

void compare_steps(const BenchOptions& o, Report& report) {
  const auto by_scan = models::make_trainer(trainer_options(o, o.layers, true));
  const auto unrolled = models::make_trainer(trainer_options(o, o.layers, false));
  std::vector<double> scan_seconds, unrolled_seconds, ratios;
  double worst = 0;
  for (int64_t step = -2; step < o.steps; ++step) {
    const models::Leaves<Array> batch = models::random_batch(
        trainer_options(o, o.layers, true).config, o.batch, static_cast<uint32_t>(step + 2));
    const double start = seconds_now();
    const double a = by_scan->step(batch, 1e-3).loss;
    const double middle = seconds_now();
    const double b = unrolled->step(batch, 1e-3).loss;
    const double end = seconds_now();
    worst = std::max(worst, std::abs(a - b) / std::abs(b));
    if (step < 0) continue;
    scan_seconds.push_back(middle - start);
    unrolled_seconds.push_back(end - middle);
    ratios.push_back((middle - start) / (end - middle));
  }
  report.add("step", {{"scan_ms", median(scan_seconds) * 1e3},
                      {"unrolled_ms", median(unrolled_seconds) * 1e3},
                      {"ratio", median(ratios)},
                      {"worst_loss_difference", worst}});
}

}  // namespace

int main(int argc, char** argv) {
  BenchOptions options;
  CommandLine line("Blocks of a Transformer as one loop, against blocks one after the other.");
  line.number("--deep", options.deep);
  line.number("--rounds", options.rounds);
  line.number("--steps", options.steps);
  line.number("--layers", options.layers);
  line.option("--d", options.d);
  line.option("--ff", options.ff);
  line.option("--heads", options.heads);
  line.option("--seq", options.seq);
  line.option("--batch", options.batch);
  line.option("--vocab", options.vocab);
  line.option("--threads", options.threads);
  line.option("--recipe", options.recipe);
  line.flag("--mesh", options.mesh, "on a (2,4) mesh of 8 devices; else on one device");
  Report report(line, "scan_layers");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    compare_compilation(options, report);
    compare_arenas(options, report);
    compare_steps(options, report);
    report.write();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
