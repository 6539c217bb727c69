#include "gspmd/testing.h"

#include <cmath>
#include <map>

#include "gspmd/ops/evaluate.h"
#include "gspmd/passes/verify/manual_reference.h"

namespace gspmd {
namespace {

using Counts = std::map<std::pair<std::string, std::string>, int64_t>;

Counts count(const std::vector<CollectiveStats>& collectives) {
  Counts counts;
  for (const CollectiveStats& c : collectives)
    counts[{c.kind, c.axes.empty() ? c.groups : c.axes}] += c.count;
  return counts;
}

// Takes what an expectation accepts out of `counts`; returns how many that were.
int64_t take(Counts& counts, const ExpectedCollective& expected) {
  int64_t found = 0;
  for (auto& [key, number] : counts) {
    if (key.first != expected.kind || (expected.axes != "*" && key.second != expected.axes))
      continue;
    found += std::exchange(number, 0);
  }
  return found;
}

Expectation compare_counts(const std::vector<CollectiveStats>& collectives,
                           const std::vector<ExpectedCollective>& expected) {
  Counts counts = count(collectives);
  std::string message;
  for (const ExpectedCollective& e : expected) {
    const int64_t found = take(counts, e);
    if (found != e.count)
      message +=
          fmt::format("  {} over {}: expected {}, found {}\n", e.kind, e.axes, e.count, found);
  }
  for (const auto& [key, number] : counts)
    if (number > 0)
      message += fmt::format("  {} over {}: expected 0, found {}\n", key.first, key.second, number);
  if (message.empty()) return {};
  message = "expect_collectives: the program differs\n" + message + "all of its collectives:\n";
  for (const CollectiveStats& c : collectives)
    message += fmt::format("  {} x{} over {} for {} {}{}\n", c.kind, c.count,
                           c.axes.empty() ? c.groups : c.axes, c.op, c.source,
                           c.backward ? " (backward)" : "");
  return {false, message};
}

bool close(double a, double b, const Tolerance& tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return true;
  return std::fabs(a - b) <= tolerance.absolute + tolerance.relative * std::fabs(b);
}

}  // namespace

Expectation expect_collectives(const ExecutableBase& executable,
                               const std::vector<ExpectedCollective>& expected) {
  return compare_counts(executable.stats().uncombined, expected);
}

Expectation expect_collectives(const CompiledModule& module, const Mesh& mesh,
                               const std::vector<ExpectedCollective>& expected) {
  return compare_counts(collective_stats(*module.uncombined, &mesh), expected);
}

Expectation expect_close(const std::vector<Array>& actual, const std::vector<Array>& expected,
                         const Tolerance& tolerance, const std::string& what) {
  if (actual.size() != expected.size())
    return {false, fmt::format("{}: {} leaves, expected {}", what, actual.size(), expected.size())};
  for (size_t leaf = 0; leaf < actual.size(); ++leaf) {
    const Array& a = actual[leaf];
    const Array& b = expected[leaf];
    if (!(a.shape() == b.shape()))
      return {false, fmt::format("{}: leaf {} is {}, expected {}", what, leaf, to_string(a.shape()),
                                 to_string(b.shape()))};
    int64_t wrong = 0;
    int64_t first = -1;
    for (int64_t i = 0; i < a.size(); ++i) {
      if (close(a.at(i), b.at(i), tolerance)) continue;
      if (first < 0) first = i;
      ++wrong;
    }
    if (wrong > 0)
      return {false,
              fmt::format("{}: leaf {} {}: {} of {} elements differ, first at {}: {} instead of {}",
                          what, leaf, to_string(a.shape()), wrong, a.size(), first, a.at(first),
                          b.at(first))};
  }
  return {};
}

namespace {
std::vector<Value> arguments_of(const Traced& traced, const std::vector<Array>& arguments) {
  std::vector<Value> values;
  for (const Array& array : arguments) values.push_back({array, {}, false});
  for (const Array& array : traced.captured()) values.push_back({array, {}, false});
  return values;
}
}  // namespace

std::vector<Array> run_reference(const Traced& traced, const std::vector<Array>& arguments) {
  const Module& module = traced.module();
  const std::vector<Value> all = arguments_of(traced, arguments);
  if (!has_manual_regions(module)) return leaves(evaluate(module, all));
  const std::vector<std::vector<Value>> each(static_cast<size_t>(module.num_partitions), all);
  return leaves(evaluate_devices(*copies_with_regions(module), module.num_partitions, each).at(0));
}

bool is_exact(const Traced& traced, const std::vector<Array>& arguments) {
  return is_exact(traced.module(), arguments_of(traced, arguments));
}

}  // namespace gspmd
