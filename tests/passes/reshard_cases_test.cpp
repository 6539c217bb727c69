#include "gspmd/ir/text.h"
#include "gspmd/passes/collective_stats.h"
#include "gspmd/passes/reshard.h"
#include "passes/spmd_check.h"

// Moves that users of partitioners have seen become full rematerialisations: the steps of each, the
// collectives of its program, and its data.

using namespace gspmd;
using namespace gspmd::testing;

namespace {

struct Moved {
  std::string steps;
  std::vector<std::string> collectives;
  int64_t bytes = 0;    // planned
  int64_t counted = 0;  // in the program
  size_t rematerialized = 0;
  std::string difference;
};

Moved move(const std::string& shape, const std::string& from, const std::string& to,
           int64_t devices) {
  const auto module = parse_module(fmt::format(
      "HloModule m\nENTRY e {{ a = {0} parameter(0), sharding={1}\n ROOT b = {0} copy(a), "
      "sharding={2} }}",
      shape, from, to));
  const Node& b = *module->entry()->root();
  const ReshardPlan plan = plan_reshard(b.shape, *b.operand(0)->sharding, *b.sharding);
  PipelineOptions options;
  options.num_devices = devices;
  const CompiledModule compiled = run_pipeline(*module, options);
  Moved moved{to_string(plan),
              collectives(compiled),
              plan.cost.bytes,
              0,
              compiled.full_rematerializations.size(),
              ""};
  for (const CollectiveStats& stats : collective_stats(*compiled.uncombined))
    moved.counted += stats.bytes;
  moved.difference = difference_when_partitioned(*module, devices, 5);
  return moved;
}

void check(const Moved& moved, const std::string& steps,
           const std::vector<std::string>& programs_collectives, int64_t bytes) {
  CHECK(moved.steps == steps);
  CHECK(moved.collectives == programs_collectives);
  CHECK(moved.bytes == bytes);
  CHECK(moved.counted == bytes);
  CHECK(moved.rematerialized == 0);
  CHECK(moved.difference.empty());
}

}  // namespace

TEST_CASE("reshard case: four rows to two rows and two columns is one all-to-all in pairs") {
  check(move("f32[8,4,2,8]", "{devices=[4,1,1,1]<=[4]}", "{devices=[2,1,1,2]<=[4]}", 4),
        "all-to-all dim 0 to dim 3 (2,1)", {"all-to-all [2,2]<=[4]"}, 256);
}

TEST_CASE("reshard case: two rows and two columns back to four rows is one all-to-all in pairs") {
  check(move("f32[8,4,2,8]", "{devices=[2,1,1,2]<=[4]}", "{devices=[4,1,1,1]<=[4]}", 4),
        "all-to-all dim 3 to dim 0 (2,1)", {"all-to-all [2,2]<=[4]"}, 256);
}

TEST_CASE("reshard case: two dims to a third in their order are two all-to-alls") {
  check(move("f32[8,8,8]", "{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}", 8),
        "all-to-all dim 2 to dim 1 (4,2); all-to-all dim 0 to dim 1 (2,1)",
        {"all-to-all [2,4]<=[4,2]T(1,0)", "all-to-all [4,2]<=[8]"}, 192 + 128);
}

TEST_CASE("reshard case: a dim on two axes keeps the major one by a gather along the minor one") {
  check(move("f32[16,4]", "{devices=[8,1]<=[8]}", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
             8),
        "all-gather dim 0 (4,1)", {"all-gather [2,4]<=[8]"}, 96);
}

TEST_CASE("reshard case: of two split dims only the one that is wanted whole is gathered") {
  check(
      move("f32[8,8]", "{devices=[2,4]<=[8]}", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", 8),
      "all-gather dim 1 (4,1)", {"all-gather [2,4]<=[8]"}, 96);
}

TEST_CASE("reshard case: a split dim to another dim is one all-to-all") {
  check(move("f32[16,8]", "{devices=[8,1]<=[8]}", "{devices=[1,8]<=[8]}", 8),
        "all-to-all dim 0 to dim 1 (8,1)", {"all-to-all [1,8]<=[8]"}, 56);
}

TEST_CASE("reshard case: the same tiles on other devices are one collective-permute") {
  check(move("f32[8,8]", "{devices=[4,2]<=[8]}", "{devices=[4,2]<=[2,4]T(1,0)}", 8),
        "collective-permute", {"collective-permute "}, 32);
}

TEST_CASE("reshard case: partly replicated tiles on another axis are one collective-permute") {
  check(move("f32[8,8]", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
             "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}", 8),
        "collective-permute", {"collective-permute "}, 128);
}

TEST_CASE("reshard case: a finer split of a replicated axis costs nothing") {
  check(
      move("f32[8,8]", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", "{devices=[2,4]<=[8]}", 8),
      "dynamic-slice dim 1 (4,1)", {}, 0);
}
