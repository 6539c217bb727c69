#include "stablehlo/round_trip.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "stablehlo/op_cases.h"

namespace gspmd::stablehlo {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> files(const std::string& folder, const std::string& extension) {
  std::vector<fs::path> found;
  for (const auto& entry :
       fs::directory_iterator(fs::path(GSPMD_SOURCE_DIR) / "tests/data" / folder))
    if (entry.path().extension() == extension) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  REQUIRE(!found.empty());
  return found;
}

}  // namespace

TEST_CASE("HLO as StableHLO and back has equal values and shardings", "[round_trip]") {
  for (const fs::path& path : files("hlo", ".hlo")) {
    INFO(path);
    const std::unique_ptr<Module> module = parse_module(read_file(path), path.filename().string());
    check_round_trip(*module, can_run(*module));
  }
}

TEST_CASE("examples print as a fixed point and read as the same module", "[round_trip]") {
  for (const fs::path& path : files("stablehlo", ".mlir")) {
    INFO(path);
    const std::unique_ptr<Module> module =
        parse_stablehlo(read_file(path), path.filename().string());
    const std::string text = to_stablehlo(*module);
    INFO(text);
    const std::unique_ptr<Module> read = parse_stablehlo(text, "printed.mlir");
    CHECK(to_stablehlo(*read) == text);
    // Groups by axes of a mesh are written as lists: what is read again is equal.
    CHECK(structurally_equal(*parse_stablehlo(to_stablehlo(*read)), *read));
    CHECK(read->frontend_attributes == module->frontend_attributes);
  }
}

TEST_CASE("every op prints as itself", "[round_trip]") {
  for (const auto family :
       {elementwise_cases, shape_cases, contraction_cases, region_cases, other_cases})
    for (const OpCase& c : family()) {
      const std::string text = "func.func @main(" + c.arguments + ") -> " + c.result + " {\n" +
                               c.generic + "\nreturn %r : " + c.result + "\n}\n";
      INFO(c.name << "\n" << text);
      const std::unique_ptr<Module> module = parse_stablehlo(text, "case.mlir");
      const std::string printed = to_stablehlo(*module);
      INFO(printed);
      const std::unique_ptr<Module> read = parse_stablehlo(printed, "printed.mlir");
      CHECK(to_stablehlo(*read) == printed);
    }
}

}  // namespace gspmd::stablehlo
