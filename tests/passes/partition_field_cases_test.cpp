// The cases of tests/data/partition: modules in the style of a production compiler's tests of its
// partitioner, with the collectives that suffice for them. A case starts with "=== its name", then
// come
//   devices: 4
//   option: name=value                   (of the partitioner; any number)
//   sends: all-gather 1, all-reduce 2    (at most so many of each kind; nothing of others)
//   bytes: 1024                          (that these send: others will do that send fewer)
//   refused: text of the message         (instead of `sends`)
// and the module.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/explain/collective_stats.h"
#include "load.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace partition_field_cases_test {
namespace {

struct Case {
  std::string name, module, refused;
  int64_t devices = 1;
  int64_t bytes = 0;  // 0: no other collectives
  std::map<std::string, int64_t> sends;
  PipelineOptions options;
};

void read_option(const std::string& text, PipelineOptions& options) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
  if (name == "threshold_for_windowed_einsum_mib")
    options.windowed_einsum.threshold_mib = std::stoll(value);
  else if (name == "unroll_windowed_einsum")
    options.windowed_einsum.unroll = value == "true";
  else if (name == "bidirectional_windowed_einsum")
    options.windowed_einsum.bidirectional = value == "true";
  else
    FAIL("no option " + name);
}

void read_sends(const std::string& text, std::map<std::string, int64_t>& sends) {
  std::stringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    std::stringstream words(part);
    std::string kind;
    int64_t count = 0;
    words >> kind >> count;
    sends[kind] = count;
  }
}

std::vector<Case> cases() {
  std::vector<Case> found;
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(GSPMD_SOURCE_DIR "/tests/data/partition"))
    files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);) {
      if (line.starts_with("=== "))
        found.emplace_back().name = line.substr(4);
      else if (line.starts_with("devices: "))
        found.back().devices = std::stoll(line.substr(9));
      else if (line.starts_with("option: "))
        read_option(line.substr(8), found.back().options);
      else if (line.starts_with("sends:"))
        read_sends(line.substr(6), found.back().sends);
      else if (line.starts_with("bytes: "))
        found.back().bytes = std::stoll(line.substr(7));
      else if (line.starts_with("refused: "))
        found.back().refused = line.substr(9);
      else if (!found.empty())
        found.back().module += line + "\n";
    }
  }
  return found;
}

std::string message_of(const Module& module, const PipelineOptions& options) {
  try {
    run_pipeline(module, options);
  } catch (const UserError& error) {
    return error.what();
  }
  return "not refused";
}

void check_values(const Module& module, const CompiledModule& compiled, int64_t devices) {
  const std::vector<Value> arguments = integer_arguments(module, 5);
  const std::vector<Array> expected = leaves(evaluate(module, arguments));
  const std::vector<Array> found = leaves(run_partitioned(compiled, devices, arguments));
  for (size_t i = 0; i < expected.size(); ++i)
    for (int64_t at = 0; at < expected[i].size(); ++at) {
      const double e = expected[i].at(at), f = found[i].at(at);
      if (e == f || std::abs(e - f) <= 1e-5 * std::max(1.0, std::abs(e))) continue;
      FAIL_CHECK("result " << i << " differs at " << at << ": " << e << ", " << f);
      break;
    }
}

void check(Case& c) {
  INFO(c.name << "\n" << c.module);
  const auto module = parse_module(c.module);
  c.options.num_devices = c.devices;
  c.options.verify_between = true;
  if (!c.refused.empty()) {
    CHECK_THAT(message_of(*module, c.options), Catch::Contains(c.refused));
    return;
  }
  const CompiledModule compiled = run_pipeline(*module, c.options);
  if (c.module.find("SPMDFullToShardShape") == std::string::npos)  // a region has no whole value
    check_values(*module, compiled, c.devices);
  std::map<std::string, int64_t> sites;
  int64_t bytes = 0;
  for (const CollectiveStats& s : collective_stats(*compiled.local)) {
    sites[s.kind] += s.sites;
    bytes += s.bytes;
  }
  if (c.bytes > 0) {
    CHECK(bytes < c.bytes);
    c.sends = sites;
  }
  for (const auto& [kind, count] : sites) {
    INFO(kind << ": " << count);
    CHECK(count <= c.sends[kind]);
  }
  CHECK(compiled.full_rematerializations.empty());
}

}  // namespace

TEST_CASE("partitioning of the field's cases", "[field]") {
  std::vector<Case> all = cases();
  CHECK(all.size() > 200);
  const int64_t step = random_load(8) == 8 ? 1 : 4;  // sanitizer builds take each fourth
  for (size_t i = 0; i < all.size(); i += static_cast<size_t>(step)) check(all[i]);
}

}  // namespace partition_field_cases_test
