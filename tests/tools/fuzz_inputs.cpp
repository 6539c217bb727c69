// What fuzz_run found: each file once broke the command.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "tools/run_command.h"

namespace gspmd {

TEST_CASE("inputs that a fuzzer found end with an exit code and at most one message") {
  std::vector<std::string> files;
  for (const auto& file :
       std::filesystem::directory_iterator(GSPMD_SOURCE_DIR "/tests/data/fuzz/run"))
    files.push_back(file.path().string());
  std::sort(files.begin(), files.end());
  REQUIRE(!files.empty());
  for (const std::string& file : files)
    for (const char* verb : {"run ", "verify --num-devices 2 "}) {
      CAPTURE(file, verb);
      const CommandResult result = run_command(verb + file + " --time-limit 1");
      CHECK(result.code >= 0);
      CHECK(result.code <= 2);
      CHECK(result.err.find("internal") == std::string::npos);
      if (result.code == 2) CHECK_THAT(result.err, Catch::StartsWith("gspmd: "));
    }
}

}  // namespace gspmd
