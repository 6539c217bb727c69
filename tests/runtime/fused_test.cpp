#include "gspmd/passes/fuse/fuse.h"
#include "load.h"
#include "passes/random_body.h"
#include "runtime/run_text.h"

namespace gspmd {

void expect_oracle_when_fused(const std::string& body) {
  const auto module = parse_module(fmt::format(R"(HloModule m
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
most {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }}
ENTRY e {{
{}
}}
)",
                                               body));
  fuse(*module);
  expect_oracle(to_text(*module), 1, {1, 3});
}

TEST_CASE("executor: random fused graphs have the oracle's bits", "[executor]") {
  for (int64_t seed = 1; seed <= random_load(60); ++seed) {
    std::mt19937_64 random(seed);
    INFO("seed " << seed);
    expect_oracle_when_fused(random_loop_body(random));
  }
}

TEST_CASE("executor: random graphs over rows that are read once have the oracle's bits",
          "[executor]") {
  for (int64_t seed = 1; seed <= random_load(60); ++seed) {
    std::mt19937_64 random(seed);
    INFO("seed " << seed);
    const int n = seed % 3 == 0 ? 64 : 8;
    expect_oracle_when_fused(seed % 4 == 0 ? random_loop_body(random, n)
                                           : random_rows_body(random, n));
  }
}

// The late result may lie where `q` does, which is read before it; what it is a view of is computed
// before that.
TEST_CASE("executor: a result that is a view of an earlier value waits for what lies in its place",
          "[executor]") {
  struct View {
    const char *given, *early, *late;
  };
  const View views[] = {
      {"f32[4,4]", "bf16[4,4] convert(p)", "f32[4,4] convert(early)"},
      {"f32[4,4]", "f16[4,4] convert(p)", "f32[4,4] convert(early)"},
      {"f32[4]", "f32[4] negate(p)", "f32[4,4] broadcast(early), dimensions={1}"},
      {"f32[4]", "f32[4] negate(p)", "f32[4,4] broadcast(early), dimensions={0}"},
      {"f32[4,4]", "f32[4,4] negate(p)", "f32[4,4] transpose(early), dimensions={1,0}"},
      {"f32[4,1,4]", "f32[4,1,4] negate(p)", "f32[4,4] reshape(early)"},
  };
  for (const View& view : views) {
    INFO(view.early << " as " << view.late);
    expect_oracle(fmt::format(R"(HloModule m
fused {{ p = {0} parameter(0)
  early = {1}
  q = f32[4,4] parameter(1)
  sum = f32[4,4] add(q, q)
  late = {2}
  most = f32[4,4] maximum(late, sum)
  ROOT t = (f32[4,4], f32[4,4]) tuple(late, most) }}
ENTRY e {{ x = {0} parameter(0)
  y = f32[4,4] parameter(1)
  r = f32[4,4] reverse(y), dimensions={{0}}
  f = (f32[4,4], f32[4,4]) fusion(x, r), kind=kLoop, calls=fused
  late = f32[4,4] get-tuple-element(f), index=0
  most = f32[4,4] get-tuple-element(f), index=1
  s = f32[4,4] reverse(late), dimensions={{1}}
  ROOT t = (f32[4,4], f32[4,4]) tuple(s, most) }}
)",
                              view.given, view.early, view.late),
                  1, {1});
  }
}

}  // namespace gspmd
