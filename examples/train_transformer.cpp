// Trains a byte-level Transformer language model on a simulated mesh of devices.
//   train_transformer --mesh data=2,model=4 --recipe 2d --steps 100 --check
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <new>

#include "examples/corpus.h"
#include "examples/language_model.h"
#include "examples/ngram.h"
#include "examples/options.h"
#include "examples/peak.h"
#include "examples/report.h"
#include "examples/run_checkpoints.h"
#include "gspmd/testing.h"

namespace gspmd::examples {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Bytes that parameters, optimizer slots and the activations of one device would take, from the
// sizes alone and in floating point: no size overflows it.
double estimated_bytes(const models::TransformerRun& o) {
  const models::TransformerConfig& c = o.config;
  const double tokens = double(o.batch) * double(c.seq);
  const double m = double(c.model), h = double(c.hidden);
  const double weights = double(c.layers) * (4 * m * m + 2 * m * h) + m * double(c.vocab + c.seq);
  const double activations =
      tokens *
      (double(c.layers) * (8 * m + 2 * h + double(c.heads) * double(c.seq)) + double(c.vocab));
  const double devices = double(o.mesh.num_devices());
  // Weights that no recipe splits are whole on every device.
  const bool split = !o.layout.weight_model.empty() || !o.layout.weight_heads.empty();
  return double(dtype_size(c.dtype)) * ((split ? 1 : devices) * 4 * weights + activations) +
         devices * 1024;
}

void check_memory(const models::TransformerRun& options) {
  const double needed = estimated_bytes(options);
  const double available = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE));
  if (needed <= available) return;
  user_error(
      "train_transformer: model and batch need about {:.0f} GB, this machine has {:.0f} GB; "
      "choose smaller sizes",
      needed * 1e-9, available * 1e-9);
}

models::Leaves<Array> workload_of_step(const TrainOptions& options,
                                       const models::TransformerConfig& config,
                                       const Corpus& corpus, int64_t step) {
  if (options.exact) {
    const uint32_t seed = options.seed + static_cast<uint32_t>(step) * 7919u;
    return models::random_batch(config, options.batch, seed);
  }
  const TokenBatch batch =
      random_windows(corpus.train, options.batch, options.seq, options.seed, step);
  return {{"tokens", batch.tokens}, {"labels", batch.labels}};
}

// How far losses of 20 steps may be apart: some roundings of the type they are computed in.
double check_tolerance(const models::TransformerRun& options) {
  if (options.config.dtype == DType::f64) return 1e-10;
  return options.precision.compute == DType::f32 ? 2e-4 : 2e-2;
}

// The single-device program beside the mesh, and how far they are apart.
class Check {
 public:
  Check(const TrainOptions& options, const models::TransformerRun& trainer)
      : options_(options), tolerance_(check_tolerance(trainer)) {
    models::TransformerRun single = trainer;
    single.mesh = Mesh();
    single.layout = {};
    trainer_ = models::make_trainer(single);
  }

  models::Trainer& trainer() { return *trainer_; }
  // Returns the single-device loss of the same step.
  double compare(const models::Leaves<Array>& work, double lr, int64_t step, double loss,
                 const models::Trainer& mesh) {
    const double reference = trainer_->step(work, lr).loss;
    const bool same_bits = loss == reference || (std::isnan(loss) && std::isnan(reference));
    const double difference =
        same_bits ? 0 : std::abs(loss - reference) / std::max(std::abs(reference), 1e-30);
    worst_ = std::max(worst_, difference);
    // Two float trajectories drift apart in time; the bound is that of 20 steps.
    const double allowed = tolerance_ * std::max(1.0, double(step) / 20);
    if (!(difference <= allowed)) passed_ = false;
    // Other bits are a fault where all numbers are integers that their dtype holds exactly.
    if (options_.exact && !(same_bits && equal_gradients(mesh)) && is_exact_step(work)) {
      passed_ = false;
    }
    return reference;
  }
  double worst() const { return worst_; }
  bool passed() const { return passed_; }

 private:
  bool is_exact_step(const models::Leaves<Array>& work) const {
    std::vector<Array> arguments;
    for (const auto& [path, leaf] : trainer_->params()) arguments.push_back(leaf);
    for (const auto& [path, leaf] : work) arguments.push_back(leaf);
    return is_exact(trainer_->executable().traced(), arguments);
  }
  bool equal_gradients(const models::Trainer& mesh) const {
    const models::Leaves<Array>&ours = mesh.gradients(), &reference = trainer_->gradients();
    for (size_t i = 0; i < reference.size(); ++i) {
      if (!bitwise_equal(ours[i].second, reference[i].second)) return false;
    }
    return true;
  }

  TrainOptions options_;
  std::unique_ptr<models::Trainer> trainer_;
  double tolerance_;
  double worst_ = 0;
  bool passed_ = true;
};

// All steps that are left; returns their seconds.
std::vector<double> train(const TrainOptions& options, const models::TransformerRun& settings,
                          const Corpus& corpus, models::Trainer& trainer, Check* check,
                          RunCheckpoints& checkpoints, Reporter& reporter) {
  std::vector<double> seconds;
  const int64_t first = checkpoints.resume(trainer, check ? &check->trainer() : nullptr);
  if (first > 0) reporter.resumed(first);
  if (first == 0) checkpoints.save(trainer, 0);
  for (int64_t step = first; step < options.steps; ++step) {
    const models::Leaves<Array> work = workload_of_step(options, settings.config, corpus, step);
    const double lr = learning_rate(options, step);
    if (step + 1 == options.steps && !options.trace.empty())
      trainer.executable().trace(options.trace);
    const double start = seconds_now();
    StepReport report;
    report.step = step + 1;
    report.loss = trainer.step(work, lr).loss;
    report.seconds = seconds_now() - start;
    if (check) report.reference_loss = check->compare(work, lr, step + 1, report.loss, trainer);
    seconds.push_back(report.seconds);
    reporter.step(report);
    checkpoints.save(trainer, step + 1);
  }
  return seconds;
}

void add_language_results(const TrainOptions& options, const models::TransformerRun& settings,
                          const Corpus& corpus, const Params& params, RunReport& report) {
  if (!options.exact) {
    report.heldout_loss = heldout_loss(settings, params, corpus.heldout);
    report.order2_loss = NgramModel(corpus.train, 2).nats_per_byte(corpus.heldout);
    report.order4_loss = NgramModel(corpus.train, 4).nats_per_byte(corpus.heldout);
  }
  if (options.sample > 0) {
    // A place amid the held-out text: its beginning is a heading in capitals.
    const std::string prompt =
        corpus.heldout.substr(corpus.heldout.size() / 5, size_t(options.seq));
    report.sample = generate(settings, params, prompt, options.sample, options.seed);
  }
}

int run(const TrainOptions& options) {
  const models::TransformerRun settings = trainer_options(options);
  const Corpus corpus =
      options.text.empty() ? load_default_text(options.seq) : load_file(options.text, options.seq);
  check_memory(settings);
  RunCheckpoints checkpoints(options, corpus);
  // A file that cannot be written is told before the training.
  if (!options.trace.empty()) write_trace(options.trace, RunTrace{});
  Reporter reporter(options);
  reporter.start(
      fmt::format("{} parameters on mesh {} with recipe {}; {} bytes of text from {}, {} held out",
                  models::parameter_count(settings.config), options.mesh, options.recipe,
                  corpus.train.size(), corpus.name, corpus.heldout.size()));
  const std::unique_ptr<models::Trainer> trainer = models::make_trainer(settings);
  const std::unique_ptr<Check> check =
      options.check ? std::make_unique<Check>(options, settings) : nullptr;
  const double peak_before = measure_peak_gflops(options.threads, settings.config.dtype);
  std::vector<double> seconds =
      train(options, settings, corpus, *trainer, check.get(), checkpoints, reporter);

  RunReport report;
  report.text_name = corpus.name;
  report.stats = trainer->executable().stats();
  report.parameters = models::parameter_count(settings.config);
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  report.seconds_per_step = median(seconds);
  // No step was left to a run that was resumed at its end.
  const double per_second = seconds.empty() ? 0 : 1 / report.seconds_per_step;
  report.tokens_per_second = double(options.batch * options.seq) * per_second;
  report.gflops = models::training_flops(settings.config, options.batch) * per_second * 1e-9;
  report.peak_gflops =
      std::max(peak_before, measure_peak_gflops(options.threads, settings.config.dtype));
  if (check) {
    report.max_check_difference = check->worst();
    report.check_passed = check->passed();
  }
  add_language_results(options, settings, corpus,
                       models::transformer_params(settings.config, trainer->params()), report);
  reporter.finish(report);
  return report.check_passed ? 0 : 1;
}

}  // namespace
}  // namespace gspmd::examples

int main(int argc, char** argv) {
  using namespace gspmd;
  examples::TrainOptions options;
  int exit_code = 0;
  if (!examples::parse_options(argc, argv, options, exit_code)) return exit_code;
  try {
    return examples::run(options);
  } catch (const UserError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "train_transformer: out of memory; choose smaller sizes\n");
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
