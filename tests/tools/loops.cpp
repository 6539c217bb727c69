#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>

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

// Loops of two rounds inside one another, each body around the loop before it doubling x last.
std::string nested_loops(int depth) {
  std::string text =
      "HloModule m, num_partitions=2\n"
      "c { s = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      " one = s32[] constant(1)\n ROOT r = pred[] compare(i, one), direction=LT }\n";
  for (int i = 0; i < depth; ++i)
    text += fmt::format(
        "b{0} {{ s = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
        " x = f32[4] get-tuple-element(s), index=1\n zero = s32[] constant(0)\n"
        " t = (s32[], f32[4]) tuple(zero, x)\n{1} one = s32[] constant(1)\n"
        " y = f32[4] get-tuple-element(w), index=1\n z = f32[4] add(y, y)\n"
        " j = s32[] add(i, one)\n ROOT r = (s32[], f32[4]) tuple(j, z) }}\n",
        i,
        i == 0 ? std::string(" w = (s32[], f32[4]) tuple(zero, x)\n")
               : fmt::format(" w = (s32[], f32[4]) while(t), condition=c, body=b{}\n", i - 1));
  return text + fmt::format(
                    "ENTRY e {{ x = f32[4] parameter(0), sharding={{devices=[2]<=[2]}}\n"
                    " zero = s32[] constant(0)\n t = (s32[], f32[4]) tuple(zero, x)\n"
                    " w = (s32[], f32[4]) while(t), condition=c, body=b{}\n"
                    " ROOT y = f32[4] get-tuple-element(w), index=1 }}\n",
                    depth - 1);
}

const std::string kAlways = " ROOT r = pred[] constant(true)\n";

}  // namespace

TEST_CASE("loops nested 120 deep run; thousands of them are refused by their number") {
  const std::string deep = nested_loops(120);
  for (const char* arguments : {"propagate -", "partition -", "verify -", "explain -", "cost -"}) {
    CAPTURE(arguments);
    CHECK(run_command(arguments, deep).code == 0);
  }
  // Each body doubles: 2^120 times the input.
  const std::string text = run_command("run - --json --seed 3", deep).out;
  const std::string single = run_command("run - --json --seed 3 --num-devices 1", deep).out;
  CHECK(text.substr(0, text.find("peak")) == single.substr(0, single.find("peak")));
  CHECK_THAT(text, Contains("e+36"));
  for (const char* arguments : {"partition -", "run -", "verify - --num-devices 1", "cost -"}) {
    CAPTURE(arguments);
    const CommandResult result = run_command(arguments, nested_loops(4000));
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("loops and branches nest more than 500 deep"));
  }
}

TEST_CASE("calls nested 20,000 deep are written out, or refused by their number") {
  std::string text =
      "HloModule m, num_partitions=2\nf0 { x = f32[4] parameter(0)\n ROOT y = f32[4] negate(x) }\n";
  for (int i = 1; i < 20000; ++i)
    text += fmt::format(
        "f{} {{ x = f32[4] parameter(0)\n ROOT y = f32[4] call(x), to_apply=f{} }}\n", i, i - 1);
  CHECK(run_command("partition -", text).code == 0);
  const CommandResult result = run_command("verify -", text);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("calls nest more than 500 deep"));
}

TEST_CASE("a loop that comes back to the values it had is named at once") {
  const std::string two =
      loop(kAlways, " n = f32[4] negate(x)\n ROOT r = (s32[], f32[4]) tuple(i, n)\n");
  const std::string counter = loop(kAlways,
                                   " m = s32[] constant(4095)\n one = s32[] constant(1)\n"
                                   " j = s32[] add(i, one)\n k = s32[] and(j, m)\n"
                                   " ROOT r = (s32[], f32[4]) tuple(k, x)\n");
  std::string promised = two;  // a count of iterations that is wrong
  promised.insert(promised.rfind(" }"), R"(, backend_config={"known_trip_count":{"n":"1500"}})");
  for (const std::string& text : {two, counter, promised})
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

TEST_CASE("an evaluator gives up after the time limit, between ops of computations too") {
  const CommandResult result = run_command(
      "verify - --reference oracle --time-limit 0.3",
      "HloModule m\nf { a = f32[] parameter(0) b = f32[] parameter(1) s = f32[] add(a, b)\n"
      " r = f32[] sqrt(s) ROOT t = f32[] tanh(r) }\nENTRY e {\n a = f32[8000000] parameter(0)\n"
      " z = f32[] constant(0)\n ROOT c = f32[] reduce(a, z), dimensions={0}, to_apply=f\n}\n");
  CHECK(result.code == 1);
  CHECK_THAT(result.err, Contains("the time given is over; give more time, or use smaller shapes"));
  CHECK_THAT(result.err, Contains("<stdin>:"));
}

// Many seconds of one call into LAPACK.
TEST_CASE("an op that is one call ends with the process, by name") {
  const std::string path = GSPMD_BINARY_DIR "/unfinished.npz";
  std::filesystem::remove(path);  // of an earlier run
  const CommandResult result = run_command(
      "run - --time-limit 1.5 --outputs " + path,
      "HloModule m\nENTRY e {\n a = f64[4000,4000] iota(), iota_dimension=0\n"
      " ROOT r = (f64[4000,4000], f64[4000]) custom-call(a), custom_call_target=\"Eigh\"\n}\n");
  CHECK(result.code == 1);
  CHECK(result.out == "");
  CHECK_THAT(result.err,
             Contains("not done within 1.5 seconds, at custom-call: \"r\" (<stdin>:4)"));
  CHECK_FALSE(std::filesystem::exists(path));
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
