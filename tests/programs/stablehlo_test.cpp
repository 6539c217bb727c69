// Random programs as StableHLO and back.

#include <cstdlib>

#include "load.h"
#include "programs/program.h"
#include "stablehlo/round_trip.h"

namespace gspmd::stablehlo {

TEST_CASE("random programs as StableHLO and back have equal values and shardings", "[random]") {
  const auto setting = [](const char* name, int64_t standard) {
    const char* const text = std::getenv(name);
    return text == nullptr ? standard : std::atoll(text);
  };
  const int64_t count = setting("GSPMD_PROGRAMS", random_load(300));
  const auto seed = static_cast<uint64_t>(setting("GSPMD_SEED", 3));
  for (int64_t n = 0; n < count; ++n) {
    std::vector<uint32_t> program;
    uint64_t state = static_cast<uint64_t>(n) * 0x9e3779b97f4a7c15ULL + seed;
    const auto next = [&] {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      return static_cast<uint32_t>(state >> 32);
    };
    const uint32_t length = 6 + next() % 30;
    while (program.size() < length) program.push_back(next());
    INFO("program " << n);
    const std::unique_ptr<Module> module = testing::random_program(program);
    check_round_trip(*module, can_run(*module));
  }
}

}  // namespace gspmd::stablehlo
