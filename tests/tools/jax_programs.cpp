#include <algorithm>
#include <catch2/catch.hpp>
#include <compare>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/run_command.h"

// Programs with shardings of the dialect `sdy`, as today's JAX writes them: StableHLO text and HLO
// text of the same program.

namespace gspmd {
namespace {

using Json = nlohmann::json;

struct Sent {
  std::string kind, axes;
  int64_t count, bytes;
  auto operator<=>(const Sent&) const = default;
};

std::ostream& operator<<(std::ostream& stream, const Sent& sent) {
  return stream << sent.kind << " over " << sent.axes << ", " << sent.count << " times, "
                << sent.bytes << " bytes";
}

struct Program {
  std::string name;
  std::vector<Sent> sent;  // in order of kind, axes and bytes; by hand from shapes and shardings
};

// What each device sends: an all-reduce of R bytes among g devices 2R(g-1)/g, an all-to-all
// R(g-1)/g, rounded up.
const std::vector<Program> kPrograms{
    // f32[2,8,16] of partial sums behind the heads, and behind the hidden units.
    {"transformer_block.mlir",
     {{"all-reduce", "model", 1, 1536}, {"all-reduce", "model", 1, 1536}}},
    {"transformer_block.hlo", {{"all-reduce", "model", 1, 1536}, {"all-reduce", "model", 1, 1536}}},
    // f32[4,2,8] to the experts and back; a scalar that all sum.
    {"moe_shard_map.mlir",
     {{"all-reduce", "data,expert", 1, 7},
      {"all-to-all", "expert", 1, 192},
      {"all-to-all", "expert", 1, 192}}},
    {"moe_shard_map.hlo",
     {{"all-reduce", "data,expert", 1, 7},
      {"all-to-all", "expert", 1, 192},
      {"all-to-all", "expert", 1, 192}}},
    // f32[4,16] of partial sums in each of six layers.
    {"layers_scan.mlir", {{"all-reduce", "model", 6, 6 * 384}}},
    {"layers_scan.hlo", {{"all-reduce", "model", 6, 6 * 384}}},
    // f32[4,16] along the axis that is left to the compiler, a scalar along the manual one.
    {"partly_manual.mlir", {{"all-reduce", "data", 1, 4}, {"all-reduce", "model", 1, 384}}},
    // f32[4,2] to f32[4,4].
    {"tuple_arguments.hlo", {{"all-gather", "y", 1, 32}}}};

std::string path_of(const std::string& name) {
  return GSPMD_SOURCE_DIR "/tests/data/shardy/jax/" + name;
}

std::vector<Sent> sent_in(const Json& collectives) {
  std::vector<Sent> sent;
  for (const Json& c : collectives) sent.push_back({c["kind"], c["axes"], c["count"], c["bytes"]});
  std::sort(sent.begin(), sent.end());
  return sent;
}

}  // namespace

TEST_CASE("programs of JAX with sdy shardings send what their shardings say, and no more") {
  for (const Program& program : kPrograms) {
    INFO(program.name);
    const CommandResult verified = run_command("verify --json " + path_of(program.name));
    CHECK(verified.err == "");
    REQUIRE(verified.code == 0);
    const Json result = Json::parse(verified.out);
    CHECK(result["equal"] == true);
    CHECK(result["full_rematerializations"].empty());
    CHECK(sent_in(result["collectives"]) == program.sent);
    for (const char* verb : {"partition", "cost"}) {
      const CommandResult other = run_command(verb + (" --json " + path_of(program.name)));
      REQUIRE(other.code == 0);
      CHECK(sent_in(Json::parse(other.out)["collectives"]) == program.sent);
    }
    const CommandResult explained = run_command("explain --json " + path_of(program.name));
    REQUIRE(explained.code == 0);
    CHECK(Json::parse(explained.out)["collectives"].size() == program.sent.size());
  }
}

TEST_CASE("a collective of a program of JAX is explained by the annotations of its text") {
  struct Case {
    std::string name, op;
    std::set<std::string> annotations;
    std::string evidence = "together";  // it is gone without all of them; "each": without any
  };
  // The sums behind a contraction are there because of the weights that are split along it.
  const std::vector<Case> cases{
      {"transformer_block.mlir", "dot.5", {"arg2", "arg3", "arg4", "arg5"}},
      {"transformer_block.mlir", "dot.7", {"arg6", "arg7"}},
      {"transformer_block.hlo", "dot.7", {"arg6", "arg7"}},
      {"layers_scan.mlir", "dot.3", {"arg1.1", "arg2.1"}},
      {"layers_scan.hlo", "dot_general.2", {"Arg_1.1", "Arg_2.1"}},
      // The result that is to be whole; that the other one is split splits it without the argument.
      {"tuple_arguments.hlo", "custom-call.1", {"custom-call.1"}, "each"}};
  for (const Case& test : cases) {
    INFO(test.name << " " << test.op);
    const CommandResult result = run_command("explain --json " + path_of(test.name));
    REQUIRE(result.code == 0);
    int64_t found = 0;
    const Json all = Json::parse(result.out);
    for (const Json& collective : all["collectives"]) {
      if (collective["op"] != test.op) continue;
      ++found;
      std::set<std::string> annotations;
      for (const Json& annotation : collective["annotations"])
        annotations.insert(annotation["instruction"].get<std::string>());
      CHECK(annotations == test.annotations);
      CHECK(collective["evidence"] == test.evidence);
    }
    CHECK(found == 1);
  }
}

TEST_CASE(
    "programs of JAX, completed and printed in either language, are complete and compute alike") {
  for (const Program& program : kPrograms)
    for (const std::string language : {"stablehlo", "hlo"}) {
      INFO(program.name << " as " << language);
      const CommandResult completed =
          run_command("propagate --emit " + language + " " + path_of(program.name));
      REQUIRE(completed.code == 0);
      CHECK(completed.out.find("mhlo.sharding") == std::string::npos);
      const CommandResult again = run_command("propagate -", completed.out);
      CHECK(again.err == "");
      CHECK(again.out == completed.out);
      const CommandResult verified = run_command("verify --json -", completed.out);
      REQUIRE(verified.code == 0);
      CHECK(sent_in(Json::parse(verified.out)["collectives"]) == program.sent);
    }
}

}  // namespace gspmd
