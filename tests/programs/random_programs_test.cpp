// Random programs under random annotations on random meshes equal themselves, and send what was
// predicted. What fails is shrunk and printed as HLO text, with RapidCheck's seed.

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <random>
#include <sstream>

#include "gspmd/ir/text.h"
#include "gspmd/runtime/processes.h"
#include "load.h"
#include "programs/program.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

int64_t setting(const char* name, int64_t otherwise) {
  const char* value = std::getenv(name);
  return value ? std::atoll(value) : otherwise;
}

// 5 to 60 ops, short programs more often; shrinking leaves out ops.
rc::Gen<std::vector<uint32_t>> numbers() {
  return rc::gen::withSize([](int size) {
    return rc::gen::mapcat(
        rc::gen::noShrink(rc::gen::inRange(6, 7 + std::min(size, 54))), [](int count) {
          return rc::gen::container<std::vector<uint32_t>>(
              static_cast<size_t>(count), rc::gen::noShrink(rc::gen::arbitrary<uint32_t>()));
        });
  });
}

}  // namespace

TEST_CASE("random programs under random annotations equal themselves", "[random]") {
  rc::detail::TestParams parameters;
  parameters.seed = static_cast<uint64_t>(setting("GSPMD_SEED", 20260717));
  parameters.maxSuccess = static_cast<int>(
      setting("GSPMD_PROGRAMS", std::getenv("GSPMD_LONG") ? 20'000 : random_load(500)));
  parameters.disableShrinking = true;
  int64_t unchecked = setting("GSPMD_FIRST", 0);  // programs that are made, but not looked at
  std::string first;  // what failed as it came, should it not fail again
  const auto property = [&] {
    const std::vector<uint32_t> program = *numbers();
    if (unchecked-- > 0) return;
    auto module = random_program(program);
    const std::string failure = failure_of(*module);
    if (failure.empty()) return;
    if (first.empty()) first = to_text(*module) + failure;
    module = shrunk(std::move(module));
    RC_FAIL(to_text(*module) + failure_of(*module));
  };
  const auto result = rc::detail::checkTestable(property, rc::detail::TestMetadata{}, parameters);
  if (result.template is<rc::detail::SuccessResult>()) return;
  std::ostringstream message;
  rc::detail::printResultMessage(result, message);
  FAIL("seed " << parameters.seed << "\n" << message.str() << "\nat first\n" << first);
}

TEST_CASE("all failures of many random programs", "[.survey]") {
  const int64_t first = setting("GSPMD_FIRST", 0), count = setting("GSPMD_PROGRAMS", 1000);
  const int64_t most = setting("GSPMD_MOST", 50);
  int64_t failures = 0;
  for (int64_t n = first; n < first + count; ++n) {
    std::vector<uint32_t> program;
    uint64_t state = static_cast<uint64_t>(n) * 0x9e3779b97f4a7c15ull + 1;
    const auto next = [&] {
      return static_cast<uint32_t>(
          (state = state * 6364136223846793005ull + 1442695040888963407ull) >> 32);
    };
    const uint32_t length = 6 + next() % (n % 3 == 0 ? 55 : 14);
    while (program.size() < length) program.push_back(next());
    if (setting("GSPMD_VERBOSE", 0)) {
      std::cout << "case " << n << std::endl;
      std::cout << to_text(*random_program(program)) << std::endl;
    }
    auto module = random_program(program);
    const std::string failure = failure_of(*module);
    if (failure.empty()) continue;
    std::cout << "FAILURE " << n << ": " << failure << std::endl;
    if (++failures > most) break;
    if (!setting("GSPMD_SHRINK", 1)) continue;
    module = shrunk(std::move(module));
    std::cout << to_text(*module) << "SHRUNK " << failure_of(*module) << "\n" << std::endl;
  }
  std::cout << failures << " failures" << std::endl;
}

// mpirun -n 4 build/tests/test_programs "[processes]"; scripts/many_processes --programs 500
TEST_CASE("random programs in the processes of a job have one process's bits", "[.processes]") {
  print_from_first_process();
  const int64_t count = setting("GSPMD_PROGRAMS", 500), processes = process_count();
  std::mt19937 random(static_cast<uint32_t>(setting("GSPMD_SEED", 20261126)));
  for (int64_t n = 0; n < count;) {
    std::vector<uint32_t> program(6 + random() % (n % 3 == 0 ? 55 : 14));
    for (uint32_t& number : program) number = static_cast<uint32_t>(random());
    const auto module = random_program(program);
    if (module->num_partitions < processes) continue;  // each hosts at least one device
    ++n;
    const std::string failure = failure_in_job(*module);
    if (failure.empty()) continue;
    if (!is_first_process()) std::cerr << failure << std::endl;
    FAIL("program " << n << "\n" << to_text(*module) << failure);
  }
  std::cout << count << " random programs on " << processes << " processes" << std::endl;
}
