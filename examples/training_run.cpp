#include "examples/training_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "examples/check.h"
#include "examples/peak.h"
#include "examples/prefetch.h"
#include "examples/report.h"
#include "examples/run_checkpoints.h"

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

void check_memory(const std::string& program, const Task& task, const Mesh& mesh) {
  const double needed = task.estimated_bytes(mesh);
  const double available = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE));
  if (needed <= available) return;
  user_error(
      "{}: model and batch need about {:.0f} GB, this machine has {:.0f} GB; choose smaller sizes",
      program, needed * 1e-9, available * 1e-9);
}

models::Leaves<double> evaluate(const Task& task, const models::Trainer& trainer) {
  const int64_t batches = task.evaluation_batches();
  if (batches == 0) return {};
  models::Trainer::Evaluation evaluation = trainer.evaluation();
  for (int64_t i = 0; i < batches; ++i) {
    const EvaluationBatch part = task.evaluation_batch(i);
    evaluation.add(part.batch, part.rows);
  }
  return evaluation.averages();
}

// What the task says, and the evaluation where it says nothing of that itself.
std::vector<Result> results_of(const Task& task, const models::Trainer& trainer) {
  std::vector<Result> results = task.results(trainer);
  for (const Result& result : results)
    if (result.key.starts_with("heldout_")) return results;
  std::vector<Result> evaluated;
  for (const auto& [name, value] : evaluate(task, trainer))
    evaluated.push_back({"heldout_" + name, "held-out " + name, value});
  results.insert(results.begin(), evaluated.begin(), evaluated.end());
  return results;
}

// A run under way: what its steps share.
struct Run {
  const RunOptions& options;
  const Task& task;
  models::Trainer& trainer;
  Check* check;  // null: none
  RunCheckpoints& checkpoints;
  Reporter& reporter;
  models::Leaves<double> evaluation = {};  // the last one

  // All steps that are left; returns their seconds.
  std::vector<double> train();
  StepReport step(int64_t step, const models::Leaves<Array>& batch);
};

StepReport Run::step(int64_t step, const models::Leaves<Array>& batch) {
  const double lr = learning_rate(options, step);
  const bool last = step + 1 == options.steps;
  if (last && !options.trace.empty()) trainer.executable().trace(options.trace);
  StepReport report;
  report.step = step + 1;
  const double start = seconds_now();
  models::StepResult result = trainer.step(batch, lr);
  report.seconds = seconds_now() - start;
  report.loss = result.loss;
  report.metrics = std::move(result.metrics);
  if (check) report.reference_loss = check->compare(batch, lr, step + 1, report.loss, trainer);
  const bool due = options.evaluate_every > 0 && (step + 1) % options.evaluate_every == 0;
  if (due && !last) report.evaluation = evaluate(task, trainer);
  return report;
}

std::vector<double> Run::train() {
  const int64_t first = checkpoints.resume(trainer, check ? &check->trainer() : nullptr);
  if (first > 0) reporter.resumed(first);
  if (first == 0) checkpoints.save(trainer, 0);
  Prefetch<models::Leaves<Array>> batches([this](int64_t i) { return task.batch(i); }, first,
                                          options.steps);
  std::vector<double> seconds;
  for (int64_t i = first; i < options.steps; ++i) {
    const StepReport report = step(i, batches.next());
    seconds.push_back(report.seconds);
    reporter.step(report);
    checkpoints.save(trainer, i + 1);
  }
  return seconds;
}

}  // namespace

int run_training(const std::string& program, const RunOptions& options,
                 std::map<std::string, std::string> identity, const Task& task) {
  const Mesh mesh = parse_mesh(options.mesh);
  check_memory(program, task, mesh);
  const models::TrainerOptions settings = trainer_options(options, task, mesh);
  identity.insert(task.fingerprint());
  if (options.compute.empty()) identity["compute"] = dtype_name(task.dtype());
  RunCheckpoints checkpoints(program, options, std::move(identity));
  // A file that cannot be written is told before the training.
  if (!options.trace.empty() && is_first_process()) write_trace(options.trace, RunTrace{});
  Reporter reporter(options, task.unit(), options.batch * task.units_per_row());
  RunReport report;
  report.parameters = models::elements_count(settings.model->parameter_shapes());
  reporter.start(fmt::format("{} parameters on mesh {} with recipe {}; {}", report.parameters,
                             options.mesh, options.recipe, task.data()));
  models::Trainer trainer(settings);
  const std::unique_ptr<Check> check =
      options.check ? std::make_unique<Check>(options, task) : nullptr;
  const double peak_before = measure_peak_gflops(options.threads, task.dtype());
  std::vector<double> seconds =
      Run{options, task, trainer, check.get(), checkpoints, reporter}.train();

  report.stats = trainer.executable().stats();
  report.theory = models::step_memory(trainer);
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  report.seconds_per_step = median(seconds);
  // No step was left to a run that was resumed at its end.
  const double per_second = seconds.empty() ? 0 : 1 / report.seconds_per_step;
  report.units_per_second = double(options.batch * task.units_per_row()) * per_second;
  report.gflops = settings.model->training_flops(options.batch) * per_second * 1e-9;
  report.peak_gflops = std::max(peak_before, measure_peak_gflops(options.threads, task.dtype()));
  if (check) {
    report.max_check_difference = check->worst();
    report.check_passed = check->passed();
  }
  report.results = results_of(task, trainer);
  reporter.finish(report);
  return report.check_passed ? 0 : 1;
}

}  // namespace gspmd::examples
