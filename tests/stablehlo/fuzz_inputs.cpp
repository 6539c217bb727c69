// What fuzz_stablehlo found: each file once broke the reader or the printer.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd::stablehlo {

TEST_CASE("inputs that a fuzzer found are refused or print as a fixed point", "[fuzz]") {
  std::vector<std::filesystem::path> files;
  for (const auto& file :
       std::filesystem::directory_iterator(GSPMD_SOURCE_DIR "/tests/data/fuzz/stablehlo"))
    files.push_back(file.path());
  std::sort(files.begin(), files.end());
  REQUIRE(!files.empty());
  for (const std::filesystem::path& path : files) {
    CAPTURE(path);
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    std::string printed;
    try {
      const auto module = parse_stablehlo(text.str(), "fuzz.mlir", {.any_entry = true});
      verify_module(*module);
      printed = to_stablehlo(*module);
    } catch (const UserError& error) {
      CHECK_THAT(error.what(), Catch::StartsWith("fuzz.mlir:"));
      continue;
    }
    const auto again = parse_stablehlo(printed, "printed.mlir", {.any_entry = true});
    CHECK(to_stablehlo(*again) == printed);
  }
}

}  // namespace gspmd::stablehlo
