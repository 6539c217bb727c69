#include "gspmd/ir/text.h"
#include "gspmd/moves/reshard.h"
#include "gspmd/passes/explain/collective_stats.h"
#include "passes/spmd_check.h"

// Moves that users of partitioners have seen become full rematerialisations: the steps of each, the
// collectives of its program, and its data.

using namespace gspmd;
using namespace gspmd::testing;

namespace reshard_cases_test {
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
  const ReshardPlan plan = plan_reshard(b.shape, *b.operand(0)->sharding, *b.sharding, devices);
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

TEST_CASE("reshard case: two dims to a third in their order are one all-to-all") {
  check(move("f32[8,8,8]", "{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}", 8),
        "all-to-all dim 2 to dim 1 (4,2) and dim 0 to dim 1 (2,1)", {"all-to-all [1,8]<=[8]"}, 224);
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

TEST_CASE("reshard case: four of eight devices keep what they have for nothing") {
  check(move("f32[8,8]", "{devices=[4,1]0,1,4,5}", "{devices=[4,1]0,1,4,5}", 8), "", {}, 0);
}

TEST_CASE("reshard case: on four of eight devices a split dim to another is one all-to-all") {
  check(move("f32[8,8]", "{devices=[4,1]0,1,4,5}", "{devices=[1,4]0,1,4,5}", 8),
        "all-to-all dim 0 to dim 1 (4,1)", {"all-to-all [2,4]<=[2,2,2]T(1,0,2)"}, 48);
}

TEST_CASE("reshard case: from four devices to the four others is one collective-permute") {
  check(move("f32[8,8]", "{devices=[2,2]0,1,4,5}", "{devices=[2,2]2,3,6,7}", 8),
        "collective-permute", {"collective-permute "}, 64);
}

TEST_CASE("reshard case: from four to all eight devices half shards are sent once") {
  check(move("f32[8,8]", "{devices=[4,1]0,1,4,5}", "{devices=[4,2]0,2,1,3,4,6,5,7}", 8),
        "collective-permutes of pieces, 1", {"collective-permute "}, 32);
}

TEST_CASE("reshard case: one device to all is one collective-broadcast") {
  check(move("f32[8,8]", "{maximal device=3}", "{replicated}", 8), "collective-broadcast",
        {"collective-broadcast {{3,0,1,2,4,5,6,7}}"}, 256);
}

TEST_CASE("reshard case: what is whole everywhere is on one device for nothing") {
  check(move("f32[8,8]", "{replicated}", "{maximal device=3}", 8), "", {}, 0);
}

TEST_CASE("reshard case: an uneven dim split further is one halo exchange") {
  check(move("f32[10,4]", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "{devices=[4,1]<=[4]}",
             4),
        "dynamic-slice dim 0 (2,1) realigned", {"collective-permute "}, 16);
}

TEST_CASE("reshard case: an uneven dim split less is gathered in part and realigned") {
  check(move("f32[10,4]", "{devices=[4,1]<=[4]}", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
             4),
        "all-gather dim 0 (2,1) realigned", {"all-gather [2,2]<=[4]", "collective-permute "},
        48 + 16);
}

namespace {

// The collectives of a program of one body; its results are compared with the whole module's.
std::vector<std::string> collectives_of(const std::string& body, int64_t devices) {
  const auto module = parse_module("HloModule m\nENTRY e {\n" + body + "\n}\n");
  CHECK(difference_when_partitioned(*module, devices, 3) == "");
  PipelineOptions options;
  options.num_devices = devices;
  const CompiledModule compiled = run_pipeline(*module, options);
  CHECK(compiled.full_rematerializations.empty());
  return collectives(compiled);
}

}  // namespace

TEST_CASE("reshard case: a transpose of a dot result gathers neither operand") {
  CHECK(collectives_of(
            R"(a = f32[8,16] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
 b = f32[16,8] parameter(1), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
 d = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 ROOT t = f32[8,8] transpose(d), dimensions={1,0}, sharding={devices=[4,2]<=[2,4]T(1,0)})",
            8)
            .empty());
}

TEST_CASE("reshard case: a transpose of partial sums is one reduce-scatter") {
  CHECK(collectives_of(R"(a = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]}
 b = f32[16,8] parameter(1), sharding={devices=[4,1]<=[4]}
 d = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 ROOT t = f32[8,8] transpose(d), dimensions={1,0}, sharding={devices=[4,1]<=[4]})",
                       4) == std::vector<std::string>{"reduce-scatter [1,4]<=[4]"});
}

TEST_CASE("reshard case: a batched fft split on its batch is local") {
  CHECK(collectives_of(R"(a = f32[8,4,16] parameter(0), sharding={devices=[4,2,1]<=[8]}
 c = f32[8,4,9] parameter(1), sharding={devices=[4,2,1]<=[8]}
 f = c64[8,4,9] fft(a), fft_type=RFFT, fft_length={16}, sharding={devices=[4,2,1]<=[8]}
 r = f32[8,4,9] real(f), sharding={devices=[4,2,1]<=[8]}
 z = f32[8,4,9] subtract(r, r), sharding={devices=[4,2,1]<=[8]}
 ROOT s = f32[8,4,9] add(z, c), sharding={devices=[4,2,1]<=[8]})",
                       8)
            .empty());
}

TEST_CASE("reshard case: a grouped convolution split on its batch is local") {
  CHECK(collectives_of(R"(a = f32[8,6,4] parameter(0), sharding={devices=[4,1,1]<=[4]}
 k = f32[3,2,4] parameter(1)
 ROOT c = f32[8,4,4] convolution(a, k), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=2, sharding={devices=[4,1,1]<=[4]})",
                       4)
            .empty());
}

TEST_CASE("reshard case: the pads of a stencil send one column to a neighbour each") {
  CHECK(collectives_of(R"(a = f32[16,4] parameter(0), sharding={devices=[4,1]<=[4]}
 z = f32[] constant(0)
 l = f32[16,4] pad(a, z), padding=1_-1x0_0, sharding={devices=[4,1]<=[4]}
 r = f32[16,4] pad(a, z), padding=-1_1x0_0, sharding={devices=[4,1]<=[4]}
 s = f32[16,4] add(l, r), sharding={devices=[4,1]<=[4]}
 ROOT d = f32[16,4] subtract(s, a), sharding={devices=[4,1]<=[4]})",
                       4) ==
        std::vector<std::string>{"collective-permute ", "collective-permute "});
}

}  // namespace reshard_cases_test
