#include "examples/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

namespace gspmd::examples {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no number for these.
Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

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

std::vector<Row> result_rows(const RunReport& r) {
  std::vector<Row> rows;
  for (const Result& result : r.results) {
    if (result.label.empty()) continue;
    const bool is_text = !result.text.empty();
    rows.push_back({result.label,
                    is_text ? result.text : fmt::format("{:.4f} {}", result.value, result.unit)});
  }
  if (r.max_check_difference) {
    rows.push_back({"against one device",
                    fmt::format("largest relative difference {:.2g}: {}", *r.max_check_difference,
                                r.check_passed ? "equal" : "DIFFERENT")});
  }
  return rows;
}

Json object_of(const models::Leaves<double>& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) json[name] = number(value);
  return json;
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

std::string step_json(const StepReport& report) {
  Json json = {{"step", report.step}, {"loss", number(report.loss)}, {"seconds", report.seconds}};
  if (!report.metrics.empty()) json["metrics"] = object_of(report.metrics);
  if (!report.evaluation.empty()) json["evaluation"] = object_of(report.evaluation);
  if (report.reference_loss) json["reference_loss"] = number(*report.reference_loss);
  return json.dump();
}

std::string theory_text(const models::StepMemory& theory) {
  const auto text = [](double bytes) { return bytes_text(int64_t(bytes)); };
  std::string result = fmt::format("{} parameters and slots, {} gradients", text(theory.state),
                                   text(theory.gradients));
  if (theory.activations > 0)
    result += fmt::format(", {} activations: {}", text(theory.activations), text(theory.total()));
  return result;
}

double percent_of_peak(const RunReport& r) {
  return r.peak_gflops > 0 ? 100 * r.gflops / r.peak_gflops : 0;
}

}  // namespace

std::string printable(const std::string& text) {
  std::string result = text;
  for (char& c : result) {
    const bool shown = (c >= 32 && c < 127) || c == '\n' || c == '\t';
    if (!shown) c = '?';
  }
  return result;
}

std::string Reporter::json(const RunReport& r) const {
  Json collectives = Json::array();
  for (const CollectiveStats& c : r.stats.collectives) collectives.push_back(collective_json(c));
  Json compile_seconds = Json::object();
  for (const PassTime& time : r.stats.compile_seconds) {
    compile_seconds[time.pass] = compile_seconds.value(time.pass, 0.0) + time.seconds;
  }
  Json json = {{"mesh", options_.mesh},
               {"recipe", options_.recipe},
               {"devices", r.stats.num_devices},
               {"parameters", r.parameters},
               {"steps", options_.steps},
               {"seconds_per_step", r.seconds_per_step},
               {unit_ + "_per_second", r.units_per_second},
               {"gflops", r.gflops},
               {"peak_gflops", r.peak_gflops},
               {"percent_of_peak", percent_of_peak(r)}};
  for (const Result& result : r.results)
    json[result.key] = result.text.empty() ? number(result.value) : Json(printable(result.text));
  json["collectives"] = collectives;
  json["bytes_per_device_per_step"] = r.stats.collective_bytes;
  json["predicted_peak_bytes"] = r.stats.predicted_peak_bytes;
  json["arena_bytes"] = r.stats.arena_bytes;
  json["theory_bytes"] = {{"state", int64_t(r.theory.state)},
                          {"gradients", int64_t(r.theory.gradients)},
                          {"activations", int64_t(r.theory.activations)}};
  json["compile_seconds"] = compile_seconds;
  if (r.max_check_difference) {
    json["check"] = {{"max_relative_difference", number(*r.max_check_difference)},
                     {"equal", r.check_passed}};
  }
  return json.dump();
}

std::string Reporter::table(const RunReport& r) const {
  std::vector<Row> rows = result_rows(r);
  auto add = [&](const char* name, std::string value) { rows.push_back({name, std::move(value)}); };
  add("mesh, recipe",
      fmt::format("{} ({} devices), {}", options_.mesh, r.stats.num_devices, options_.recipe));
  add("parameters", fmt::format("{}", r.parameters));
  add("time per step", fmt::format("{:.1f} ms (median), {:.0f} {}/s", r.seconds_per_step * 1e3,
                                   r.units_per_second, unit_));
  add("speed", fmt::format("{:.1f} GFLOP/s, {:.0f} % of the peak of {:.0f} measured in this run",
                           r.gflops, percent_of_peak(r), r.peak_gflops));
  add("memory per device",
      fmt::format("{} predicted at the peak, {} of them the arena",
                  bytes_text(r.stats.predicted_peak_bytes), bytes_text(r.stats.arena_bytes)));
  add("  in theory", theory_text(r.theory));
  add("compile time", fmt::format("{:.2f} s", r.stats.total_compile_seconds));
  add("communication", fmt::format("{} per device and step, {} collectives",
                                   bytes_text(r.stats.collective_bytes), r.stats.collective_count));
  std::string text = "\n";
  for (const Row& row : rows) text += fmt::format("{:<24}{}\n", row.name, row.value);
  text += collective_rows(r.stats.collectives);
  for (const Result& result : r.results)
    if (result.label.empty() && !result.text.empty())
      text += fmt::format("\n{}:\n{}\n", result.key, printable(result.text));
  return text;
}

Reporter::Reporter(const RunOptions& options, std::string unit, int64_t units_per_step)
    : options_(options),
      unit_(std::move(unit)),
      units_per_step_(units_per_step),
      terminal_(isatty(fileno(stdout)) != 0) {}

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
  if (steps_ != 1 && report.step % every != 0 && !last && report.evaluation.empty()) return;
  const double per_step = elapsed_ / double(steps_);
  const double rate = double(units_per_step_) / per_step;
  std::string said;
  for (const auto& [name, value] : report.evaluation)
    said += fmt::format("  held-out {} {:.4f}", name, value);
  fmt::print("{}step {}/{}  loss {:.4f}{}  {:.0f} {}/s  {} left{}", terminal_ ? "\r" : "",
             report.step, options_.steps, report.loss, said, rate, unit_,
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
  fmt::print("{}{}", options_.json ? json(report) : table(report), options_.json ? "\n" : "");
  std::fflush(stdout);
}

}  // namespace gspmd::examples
