// What the cost model counts: bytes that a device reads and writes.

#include "gspmd/passes/explain/estimate_cost.h"

#include <catch2/catch.hpp>

#include "gspmd/ir/text.h"

namespace gspmd::testing {
namespace {

// The bytes that the ops of an entry read and write.
double bytes_of(const std::string& body) {
  const auto module = parse_module(R"(HloModule m

least { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] minimum(a, b) }

less { c = f32[] parameter(0)
  d = f32[] parameter(1)
  ROOT s = pred[] compare(c, d), direction=LT }

twice { v = f32[256] parameter(0)
  ROOT w = f32[256] add(v, v) }

ENTRY main {
  x = f32[256] parameter(0)
  z = f32[] constant(0)
)" + body + "\n}\n");
  return estimate_cost(*module).memory_bytes;
}

TEST_CASE("ops with a combiner move bytes, calls only what they call") {
  // The combiner itself is counted once, a few bytes.
  const auto is_about = [](double bytes, double expected) {
    return bytes >= expected && bytes < expected + 16;
  };
  CHECK(is_about(bytes_of("ROOT s = f32[256] sort(x), dimensions={0}, to_apply=less"), 2 * 1024));
  CHECK(is_about(bytes_of("ROOT m = f32[128] reduce-window(x, z), window={size=2 stride=2}, "
                          "to_apply=least"),
                 1024 + 512 + 4));
  CHECK(
      is_about(bytes_of("ROOT m = f32[256] map(x, x), dimensions={0}, to_apply=least"), 3 * 1024));
  CHECK(bytes_of("ROOT c = f32[256] call(x), to_apply=twice") == 3 * 1024);
  CHECK(bytes_of("y = f32[256] call(x), to_apply=twice\nROOT d = f32[256] call(y), "
                 "to_apply=twice") == 6 * 1024);
}

TEST_CASE("a fusion moves its operands and results, a reshape nothing") {
  CHECK(bytes_of("ROOT f = f32[256] fusion(x), kind=kLoop, calls=twice") == 2 * 1024);
  CHECK(bytes_of("ROOT r = f32[16,16] reshape(x)") == 0);
  CHECK(bytes_of("ROOT b = f32[256] opt-barrier(x)") == 0);
}

}  // namespace
}  // namespace gspmd::testing
