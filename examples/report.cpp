#include "examples/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "examples/language_model.h"

namespace gspmd::examples {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no number for these.
Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json number(const std::optional<double>& value) { return value ? number(*value) : Json(); }

Json collective_json(const CollectiveStats& c) {
  return {{"kind", c.kind},     {"count", c.count}, {"sites", c.sites}, {"bytes", c.bytes},
          {"groups", c.groups}, {"axes", c.axes},   {"op", c.op},       {"source", c.source}};
}

std::string duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::max(seconds, 0.0)));
  if (whole < 60) return fmt::format("{} s", whole);
  return fmt::format("{}:{:02d} min", whole / 60, whole % 60);
}

std::string bytes_text(int64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} KB", double(bytes) * 1e-3);
  return fmt::format("{:.1f} MB", double(bytes) * 1e-6);
}

struct Row {
  std::string name, value;
};

std::vector<Row> loss_rows(const RunReport& r) {
  std::vector<Row> rows;
  auto nats = [&](const char* name, const std::optional<double>& value) {
    if (value) rows.push_back({name, fmt::format("{:.4f} nats/byte", *value)});
  };
  nats("held-out loss", r.heldout_loss);
  nats("  order-2 n-gram model", r.order2_loss);
  nats("  order-4 n-gram model", r.order4_loss);
  if (r.max_check_difference) {
    rows.push_back({"against one device",
                    fmt::format("largest relative difference {:.2g}: {}", *r.max_check_difference,
                                r.check_passed ? "equal" : "DIFFERENT")});
  }
  return rows;
}

std::string collective_rows(const std::vector<CollectiveStats>& collectives) {
  struct Sum {
    std::string kind, axes;
    int64_t count = 0, bytes = 0;
  };
  std::vector<Sum> sums;
  for (const CollectiveStats& c : collectives) {
    Sum* found = nullptr;
    for (Sum& sum : sums) {
      if (sum.kind == c.kind && sum.axes == c.axes) found = &sum;
    }
    if (!found) found = &sums.emplace_back(Sum{c.kind, c.axes});
    found->count += c.count;
    found->bytes += c.bytes;
  }
  std::string text;
  for (const Sum& sum : sums) {
    text += fmt::format("    {:<20} {:<14} {:>5} {:>12}\n", sum.kind, sum.axes, sum.count,
                        bytes_text(sum.bytes));
  }
  return text;
}

}  // namespace

std::string step_json(const StepReport& report) {
  Json json = {{"step", report.step}, {"loss", number(report.loss)}, {"seconds", report.seconds}};
  if (report.reference_loss) json["reference_loss"] = number(*report.reference_loss);
  return json.dump();
}

std::string run_json(const TrainOptions& options, const RunReport& r) {
  Json collectives = Json::array();
  for (const CollectiveStats& c : r.stats.collectives) collectives.push_back(collective_json(c));
  Json compile_seconds = Json::object();
  for (const PassTime& time : r.stats.compile_seconds) {
    compile_seconds[time.pass] = compile_seconds.value(time.pass, 0.0) + time.seconds;
  }
  Json json = {{"mesh", options.mesh},
               {"recipe", options.recipe},
               {"devices", r.stats.num_devices},
               {"parameters", r.parameters},
               {"steps", options.steps},
               {"seconds_per_step", r.seconds_per_step},
               {"tokens_per_second", r.tokens_per_second},
               {"gflops", r.gflops},
               {"peak_gflops", r.peak_gflops},
               {"percent_of_peak", r.peak_gflops > 0 ? 100 * r.gflops / r.peak_gflops : 0},
               {"heldout_loss", number(r.heldout_loss)},
               {"order2_loss", number(r.order2_loss)},
               {"order4_loss", number(r.order4_loss)},
               {"collectives", collectives},
               {"bytes_per_device_per_step", r.stats.collective_bytes},
               {"predicted_peak_bytes", r.stats.predicted_peak_bytes},
               {"arena_bytes", r.stats.arena_bytes},
               {"compile_seconds", compile_seconds}};
  if (r.max_check_difference) {
    json["check"] = {{"max_relative_difference", number(*r.max_check_difference)},
                     {"equal", r.check_passed}};
  }
  if (r.sample) json["sample"] = printable(*r.sample);
  return json.dump();
}

std::string run_table(const TrainOptions& options, const RunReport& r) {
  std::vector<Row> rows = loss_rows(r);
  auto add = [&](const char* name, std::string value) { rows.push_back({name, std::move(value)}); };
  add("mesh, recipe",
      fmt::format("{} ({} devices), {}", options.mesh, r.stats.num_devices, options.recipe));
  add("parameters", fmt::format("{}", r.parameters));
  add("time per step", fmt::format("{:.1f} ms (median), {:.0f} tokens/s", r.seconds_per_step * 1e3,
                                   r.tokens_per_second));
  add("speed",
      fmt::format("{:.1f} GFLOP/s, {:.0f} % of the peak of {:.0f} measured in this run", r.gflops,
                  r.peak_gflops > 0 ? 100 * r.gflops / r.peak_gflops : 0, r.peak_gflops));
  add("memory per device",
      fmt::format("{} predicted at the peak, {} of them the arena",
                  bytes_text(r.stats.predicted_peak_bytes), bytes_text(r.stats.arena_bytes)));
  add("compile time", fmt::format("{:.2f} s", r.stats.total_compile_seconds));
  add("communication", fmt::format("{} per device and step, {} collectives",
                                   bytes_text(r.stats.collective_bytes), r.stats.collective_count));
  std::string text = "\n";
  for (const Row& row : rows) text += fmt::format("{:<24}{}\n", row.name, row.value);
  text += collective_rows(r.stats.collectives);
  if (r.sample) text += fmt::format("\nsample:\n{}\n", printable(*r.sample));
  return text;
}

Reporter::Reporter(const TrainOptions& options)
    : options_(options), terminal_(isatty(fileno(stdout)) != 0) {}

void Reporter::start(const std::string& description) const {
  if (!options_.json) fmt::print("{}\n", description);
  std::fflush(stdout);
}

void Reporter::resumed(int64_t step) const {
  if (!options_.json) fmt::print("resumed after step {}\n", step);
  std::fflush(stdout);
}

void Reporter::print_progress(const StepReport& report) {
  const int64_t every = terminal_ ? 1 : std::max<int64_t>(options_.steps / 20, 1);
  const bool last = report.step == options_.steps;
  if (steps_ != 1 && report.step % every != 0 && !last) return;
  const double per_step = elapsed_ / double(steps_);
  const double tokens = double(options_.batch * options_.seq) / per_step;
  fmt::print("{}step {}/{}  loss {:.4f}  {:.0f} tokens/s  {} left{}", terminal_ ? "\r" : "",
             report.step, options_.steps, report.loss, tokens,
             duration(per_step * double(options_.steps - report.step)),
             terminal_ && !last ? "    " : "\n");
}

void Reporter::step(const StepReport& report) {
  elapsed_ += report.seconds;
  ++steps_;
  if (options_.json)
    fmt::print("{}\n", step_json(report));
  else
    print_progress(report);
  std::fflush(stdout);
}

void Reporter::finish(const RunReport& report) const {
  fmt::print("{}{}", options_.json ? run_json(options_, report) : run_table(options_, report),
             options_.json ? "\n" : "");
  std::fflush(stdout);
}

}  // namespace gspmd::examples
