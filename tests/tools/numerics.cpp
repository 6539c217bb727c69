// The modules of tests/data/numerics, with inputs and results that NumPy and SciPy computed.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <complex>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "gspmd/io/npy.h"
#include "tools/elements.h"
#include "tools/run_command.h"

namespace gspmd::numerics_test {
namespace {

using tools::element_at;
using tools::part_count;
using tools::part_of;

const std::string kFolder = GSPMD_SOURCE_DIR "/tests/data/numerics/";

std::vector<std::string> module_names() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(kFolder))
    if (file.path().extension() == ".hlo") names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool has_results(const std::string& name) {
  return std::filesystem::exists(kFolder + name + ".out.npz");
}

// What a correct program may be off by: some units of rounding of the largest values that took
// part.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::c128:
      return 1e-13;
    case DType::f16:
      return 1e-3;
    case DType::bf16:
      return 8e-3;
    default:
      return 2e-6;
  }
}

bool close(double expected, double actual, double scale, double rtol, bool signed_zero) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  if (std::isinf(expected) || std::isinf(actual)) return expected == actual;
  if (expected == 0 && actual == 0)
    return !signed_zero || std::signbit(expected) == std::signbit(actual);
  return std::fabs(expected - actual) <= rtol * std::max(std::fabs(expected), std::min(scale, 4.0));
}

// The first element that is wrong, as text; "" when none is.
std::string difference(const Array& expected, const Array& actual) {
  if (!(expected.shape() == actual.shape()))
    return to_string(actual.shape()) + " instead of " + to_string(expected.shape());
  const DType dtype = expected.dtype();
  const bool rounded = is_floating(dtype) || is_complex(dtype);
  double scale = 0;
  for (int64_t i = 0; i < expected.size(); ++i)
    for (int64_t part = 0; part < part_count(dtype); ++part)
      if (const double x = std::fabs(part_of(element_at(expected, i), part)); std::isfinite(x))
        scale = std::max(scale, x);
  for (int64_t i = 0; i < expected.size(); ++i)
    for (int64_t part = 0; part < part_count(dtype); ++part) {
      const double x = part_of(element_at(expected, i), part);
      const double y = part_of(element_at(actual, i), part);
      if (rounded ? close(x, y, scale, tolerance(dtype), !is_complex(dtype))
                  : element_at(expected, i) == element_at(actual, i))
        continue;
      return fmt::format("element {}: {} instead of {}", i, y, x);
    }
  return "";
}

// "" when the command's results are those in the file.
std::string run_difference(const std::string& name, const std::string& options) {
  const std::string out = fmt::format(GSPMD_BINARY_DIR "/tests/numerics-{}.npz", name);
  const CommandResult result = run_command("run " + kFolder + name + ".hlo --inputs " + kFolder +
                                           name + ".in.npz --outputs " + out + options);
  if (result.code != 0) return result.err;
  const NpzFile expected(kFolder + name + ".out.npz");
  const NpzFile actual(out);
  std::string text;
  if (expected.names() != actual.names()) text = "another number of results";
  for (const std::string& leaf : expected.names()) {
    if (!text.empty()) break;
    text = difference(expected.read(leaf), actual.read(leaf));
    if (!text.empty()) text = "result " + leaf + ": " + text;
  }
  std::filesystem::remove(out);
  return text;
}

bool is_per_device(const std::string& name) {
  return name == "all_reduce" || name == "collectives" || name == "async_collectives" ||
         name == "loop_of_collectives" || name.starts_with("devices_");
}

}  // namespace

TEST_CASE("the corpus of modules with expected results is there") {
  CHECK(module_names().size() >= 60);
}

TEST_CASE("every module of the corpus computes what NumPy and SciPy computed", "[once]") {
  for (const std::string& name : module_names()) {
    if (!has_results(name)) continue;
    CAPTURE(name);
    CHECK(run_difference(name, "") == "");
    if (!is_per_device(name)) CHECK(run_difference(name, " --num-devices 1") == "");
  }
}

TEST_CASE("every module of the corpus prints as itself", "[once]") {
  for (const std::string& name : module_names()) {
    CAPTURE(name);
    const CommandResult first = run_command("print " + kFolder + name + ".hlo");
    REQUIRE(first.err == "");
    const CommandResult again = run_command("print -", first.out);
    CHECK(again.err == "");
    CHECK(again.out == first.out);
  }
}

TEST_CASE("every module of the corpus computes on eight devices what it computes on one") {
  for (const std::string& name : module_names()) {
    if (!has_results(name)) continue;
    CAPTURE(name);
    const std::string devices = is_per_device(name) ? "" : " --num-devices 8";
    // With the corpus' own inputs verify compares the reference with what NumPy computed.
    const std::string same = " --json --inputs " + kFolder + name + ".in.npz";
    for (const std::string& options :
         {std::string(" --json"), std::string(" --json --values uniform --no-propagate"), same}) {
      const CommandResult result =
          run_command("verify " + kFolder + name + ".hlo" + devices + options);
      CHECK(result.err == "");
      if (result.code == 0) CHECK(nlohmann::json::parse(result.out)["equal"] == true);
      CHECK(result.code == 0);
    }
  }
}

TEST_CASE("what talks to the world outside prints, and is refused by run") {
  const std::string file = kFolder + "outside_world.hlo";
  CHECK(run_command("print " + file).code == 0);
  const CommandResult result = run_command("run " + file);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Catch::Contains("cannot run here"));
}

}  // namespace gspmd::numerics_test
