#include "bench/report.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>
#include <utility>

#include "gspmd/runtime/processes.h"

namespace gspmd {
namespace {

using Json = nlohmann::ordered_json;

const char* word_of(Better better) {
  if (better == Better::same) return "same";
  return better == Better::lower ? "lower" : "higher";
}

// As /proc/cpuinfo names it; empty where there is none.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return {};
}

// Six digits are more than any measurement has; infinities and NaN have no JSON.
Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::abs(value) < 1e15 && value == std::floor(value)
             ? Json(static_cast<int64_t>(value))
             : Json(std::stod(fmt::format("{:.6g}", value)));
}

}  // namespace

Report::Report(CommandLine& line, std::string bench) : bench_(std::move(bench)) {
  line.option("--json", path_, "write the figures to this file, for scripts/bench_compare");
}

void Report::add(const std::string& of, const std::vector<Figure>& figures) {
  Json line = {{"of", of}};
  for (const Figure& figure : figures) {
    line[figure.name] = number(figure.value);
    rows_.push_back({of, figure});
  }
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

void Report::write() const {
  if (path_.empty() || process_index() != 0) return;
  Json document = {{"bench", bench_},
                   {"processor", processor_name()},
                   {"threads_of_hardware", std::thread::hardware_concurrency()},
                   {"processes", process_count()},
                   {"figures", Json::array()}};
  for (const Row& row : rows_)
    document["figures"].push_back({{"of", row.of},
                                   {"name", row.figure.name},
                                   {"value", number(row.figure.value)},
                                   {"better", word_of(row.figure.better)}});
  std::ofstream file(path_);
  file << document.dump(1) << "\n";
  file.close();
  if (!file) throw std::runtime_error(bench_ + ": cannot write " + path_);
}

}  // namespace gspmd
