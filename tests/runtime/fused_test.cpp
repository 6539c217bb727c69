#include "gspmd/passes/fuse/fuse.h"
#include "load.h"
#include "passes/random_body.h"
#include "runtime/run_text.h"

namespace gspmd {

TEST_CASE("executor: random fused graphs have the oracle's bits", "[executor]") {
  for (int64_t seed = 1; seed <= random_load(60); ++seed) {
    std::mt19937_64 random(seed);
    const std::string text = fmt::format(R"(HloModule m
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
ENTRY e {{
{}
}}
)",
                                         random_loop_body(random));
    const auto module = parse_module(text);
    fuse(*module);
    INFO("seed " << seed);
    expect_oracle(to_text(*module), 1, {1, 3});
  }
}

}  // namespace gspmd
