#include <catch2/catch.hpp>
#include <chrono>

#include "tools/run_command.h"

namespace gspmd {
namespace {

using Catch::Contains;

// A loop that carries an s32 and an f32[4]; `body` computes (s32[], f32[4]) r from i and x.
std::string loop(const std::string& condition, const std::string& body) {
  return "HloModule m, num_partitions=4\n"
         "c { s = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n" +
         condition +
         "}\nb { s = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
         " x = f32[4] get-tuple-element(s), index=1\n" +
         body +
         "}\nENTRY e { i = s32[] parameter(0)\n"
         " x = f32[4] parameter(1), sharding={devices=[4]<=[4]}\n"
         " t = (s32[], f32[4]) tuple(i, x)\n"
         " ROOT forever = (s32[], f32[4]) while(t), condition=c, body=b }\n";
}

const std::string kAlways = " ROOT r = pred[] constant(true)\n";

}  // namespace

TEST_CASE("a loop that comes back to the values it had is named at once") {
  const std::string two =
      loop(kAlways, " n = f32[4] negate(x)\n ROOT r = (s32[], f32[4]) tuple(i, n)\n");
  const std::string counter = loop(kAlways,
                                   " m = s32[] constant(4095)\n one = s32[] constant(1)\n"
                                   " j = s32[] add(i, one)\n k = s32[] and(j, m)\n"
                                   " ROOT r = (s32[], f32[4]) tuple(k, x)\n");
  for (const std::string& text : {two, counter})
    for (const char* arguments :
         {"run -", "run - --num-devices 1", "run - --num-devices 1 --threads 1", "verify -",
          "verify - --reference oracle"}) {
      CAPTURE(text, arguments);
      const CommandResult result = run_command(arguments, text);
      CHECK(result.code == 1);
      CHECK(result.out == "");
      CHECK_THAT(result.err, Contains("while: \"forever\" never ends: after"));
    }
}

TEST_CASE("a loop that goes on with new values gives up after the time limit") {
  const std::string text = loop(kAlways,
                                " one = s32[] constant(1)\n j = s32[] add(i, one)\n"
                                " ROOT r = (s32[], f32[4]) tuple(j, x)\n");
  for (const char* arguments : {"run - --time-limit 0.2", "verify - --time-limit 0.2"}) {
    const CommandResult result = run_command(arguments, text);
    CHECK(result.code == 1);
    CHECK_THAT(result.err, Contains("while: \"forever\" did not end in the time given, after"));
  }
}

TEST_CASE("loops of many iterations end as they should") {
  const std::string text =
      loop(" n = s32[] constant(5000)\n ROOT r = pred[] compare(i, n), direction=LT\n",
           " one = s32[] constant(1)\n j = s32[] add(i, one)\n n = f32[4] negate(x)\n"
           " ROOT r = (s32[], f32[4]) tuple(j, n)\n");
  const CommandResult result = run_command("verify - --json", text);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("\"equal\":true"));
}

}  // namespace gspmd
