// What each way to split a gather or a scatter sends: nothing where layouts agree, one sum of the
// slices where the looked-up dim is split, one sum of the operand where the updates are.

#include "gspmd/ir/text.h"
#include "passes/combiners.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

using Strings = std::vector<std::string>;

// "all-reduce f32[4,2]" per collective of the program; "; bits differ" where it computes something
// else.
Strings moved(const std::string& body, int64_t num_devices,
              const std::string& combiner = "add(a, b)") {
  const auto module = parse_module(
      "HloModule m\nc { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
      " ROOT r = f32[] " +
      combiner + " }\n" +
      "pair { a = f32[] parameter(0)\n x = s32[] parameter(1)\n b = f32[] "
      "parameter(2)\n y = s32[] parameter(3)\n s = f32[] add(a, b)\n t = s32[] "
      "maximum(x, y)\n ROOT r = (f32[], s32[]) tuple(s, t) }\nENTRY e {\n" +
      body + "\n}\n");
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const std::string difference = difference_when_partitioned(*module, num_devices, seed);
    INFO(difference);
    CHECK(difference.empty());
  }
  PipelineOptions options;
  options.num_devices = num_devices;
  return results_of_collectives(run_pipeline(*module, options));
}

std::string sharded(const char* devices) { return fmt::format(", sharding={{{}}}", devices); }
const std::string kRows =
    ", offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, "
    "slice_sizes={1,6}";
const std::string kAddRows =
    ", update_window_dims={2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=2, to_apply=c";

// Rows of t[10,6] at i[8,4].
std::string rows(const char* t, const char* i, const char* r) {
  return "t = f32[10,6] parameter(0)" + sharded(t) + "\n i = s32[8,4] parameter(1)" + sharded(i) +
         "\n ROOT r = f32[8,4,6] gather(t, i)" + kRows + sharded(r);
}
std::string add_rows(const char* t, const char* i, const char* u, const char* r) {
  return "t = f32[10,6] parameter(0)" + sharded(t) + "\n i = s32[8,4] parameter(1)" + sharded(i) +
         "\n u = f32[8,4,6] parameter(2)" + sharded(u) + "\n ROOT r = f32[10,6] scatter(t, i, u)" +
         kAddRows + sharded(r);
}

}  // namespace

TEST_CASE("gather: batches of indices and whole slices are split without communication",
          "[index]") {
  CHECK(moved(rows("replicated", "devices=[4,1]<=[4]", "devices=[4,1,1]<=[4]"), 4).empty());
  CHECK(moved(rows("devices=[1,4]<=[4]", "replicated", "devices=[1,1,4]<=[4]"), 4).empty());
  CHECK(moved(rows("devices=[1,3,2]<=[2,3]T(1,0) last_tile_dim_replicate",
                   "devices=[2,1,3]<=[6] last_tile_dim_replicate", "devices=[2,1,3]<=[6]"),
              6)
            .empty());
}

TEST_CASE("gather: a table split by rows is looked up where the row is, and the rows are summed",
          "[index]") {
  const std::string few =
      "t = f32[100,6] parameter(0), sharding={devices=[4,1]<=[4]}\n i = s32[3,1] "
      "parameter(1)\n ROOT r = f32[3,1,6] gather(t, i)" +
      kRows;
  CHECK(moved(few, 4) == Strings{"all-reduce f32[3,1,6]"});
  CHECK(moved(few + sharded("devices=[1,1,2,2]<=[4] last_tile_dim_replicate"), 4) ==
        Strings{"reduce-scatter f32[3,1,3]", "all-reduce f32[3,1,3]"});
}

TEST_CASE("gather: windows of some elements of a split dim are summed", "[index]") {
  CHECK(moved("t = f32[61,3] parameter(0), sharding={devices=[4,1]<=[4]}\n i = s32[2] "
              "parameter(1)\n ROOT r = "
              "f32[2,3,3] gather(t, i), offset_dims={1,2}, collapsed_slice_dims={}, "
              "start_index_map={0}, "
              "index_vector_dim=1, slice_sizes={3,3}",
              4) == Strings{"all-reduce f32[2,3,3]"});
}

TEST_CASE("gather: batching dims are split without communication", "[index]") {
  for (const int64_t devices : {3, 4})
    CHECK(moved(fmt::format(
                    "t = f32[6,9,4] parameter(0), sharding={{devices=[{0},1,1]<=[{0}]}}\n i = "
                    "s32[6,5,1] "
                    "parameter(1), sharding={{devices=[{0},1,1]<=[{0}]}}\n ROOT r = f32[6,5,4] "
                    "gather(t, "
                    "i), offset_dims={{2}}, collapsed_slice_dims={{1}}, start_index_map={{1}}, "
                    "operand_batching_dims={{0}}, start_indices_batching_dims={{0}}, "
                    "index_vector_dim=2, "
                    "slice_sizes={{1,1,4}}, sharding={{devices=[{0},1,1]<=[{0}]}}",
                    devices),
                devices)
              .empty());
}

// Element [b, i[b]] of t, the batch found by counting.
std::string counted(const char* t, const char* r) {
  return "t = f32[8,5] parameter(0)" + sharded(t) +
         "\n p = s32[8,1] parameter(1), sharding={replicated}\n n = s32[8,1] iota(), "
         "iota_dimension=0\n i = s32[8,2] "
         "concatenate(n, p), dimensions={1}\n ROOT r = f32[8] gather(t, i), offset_dims={}, "
         "collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, "
         "slice_sizes={1,1}" +
         sharded(r);
}

TEST_CASE("gather: positions looked up at themselves are split as batching dims are", "[index]") {
  CHECK(moved(counted("devices=[4,1]<=[4]", "devices=[4]<=[4]"), 4).empty());
  CHECK(moved(counted("devices=[3,1]<=[3]", "devices=[3]<=[3]"), 3).empty());
  CHECK(moved(counted("devices=[4,1]2,0,3,1", "devices=[4]2,0,3,1"), 4).empty());
}

TEST_CASE("gather: three ways at once on a mesh of three axes", "[index]") {
  // Batching dim over x, batch of indices over y, rows looked up over z: one sum over z.
  CHECK(moved("t = f32[4,64,6] parameter(0), sharding={devices=[2,2,1,2]<=[2,2,2]T(0,2,1) "
              "last_tile_dim_replicate}\n i = s32[4,6,1] parameter(1), "
              "sharding={devices=[2,2,1,2]<=[8] "
              "last_tile_dim_replicate}\n ROOT r = f32[4,6,6] gather(t, i), offset_dims={2}, "
              "collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
              "start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1,6}, "
              "sharding={devices=[2,2,1,2]<=[8] last_tile_dim_replicate}",
              8) == Strings{"all-reduce f32[2,3,6]"});
  // Counted dim over x, whole slices over y, batch of indices over z: nothing.
  CHECK(
      moved("t = f32[8,5,4] parameter(0), sharding={devices=[2,1,2,2]<=[8] "
            "last_tile_dim_replicate}\n p = "
            "s32[8,6,1] parameter(1), sharding={devices=[2,2,1,2]<=[2,2,2]T(0,2,1) "
            "last_tile_dim_replicate}\n n = "
            "s32[8,6,1] iota(), iota_dimension=0\n i = s32[8,6,2] concatenate(n, p), "
            "dimensions={2}\n ROOT r = "
            "f32[8,6,4] gather(t, i), offset_dims={2}, collapsed_slice_dims={0,1}, "
            "start_index_map={0,1}, "
            "index_vector_dim=2, slice_sizes={1,1,4}, sharding={devices=[2,2,2]<=[2,2,2]T(0,2,1)}",
            8)
          .empty());
}

TEST_CASE("scatter: rows of a split table are written by their owners", "[index]") {
  CHECK(moved(add_rows("devices=[4,1]<=[4]", "replicated", "replicated", "devices=[4,1]<=[4]"), 4)
            .empty());
  CHECK(moved(add_rows("devices=[3,1]<=[3]", "replicated", "replicated", "devices=[3,1]<=[3]"), 3,
              "copy(b)")
            .empty());
  CHECK(moved(add_rows("devices=[1,4]<=[4]", "replicated", "devices=[1,1,4]<=[4]",
                       "devices=[1,4]<=[4]"),
              4)
            .empty());
}

TEST_CASE(
    "scatter: split batches of updates are combined once, with the operand on the first device",
    "[index]") {
  for (const char* op : {"add(a, b)", "multiply(a, b)", "maximum(a, b)", "minimum(b, a)"})
    CHECK(moved("t = f32[4,2] parameter(0)\n i = s32[8,4] parameter(1), "
                "sharding={devices=[4,1]<=[4]}\n u = "
                "f32[8,4,2] parameter(2), sharding={devices=[4,1,1]<=[4]}\n ROOT r = f32[4,2] "
                "scatter(t, i, u)" +
                    kAddRows + sharded("replicated"),
                4, op) == Strings{"all-reduce f32[4,2]"});
  // Split over the rows in the end: the sum is scattered.
  CHECK(moved("t = f32[4,2] parameter(0)\n i = s32[8,4] parameter(1), "
              "sharding={devices=[4,1]<=[4]}\n u = f32[8,4,2] "
              "parameter(2), sharding={devices=[4,1,1]<=[4]}\n ROOT r = f32[4,2] scatter(t, i, u)" +
                  kAddRows + sharded("devices=[4,1]<=[4]"),
              4) == Strings{"reduce-scatter f32[1,2]"});
}

TEST_CASE("scatter: without a known combiner the updates come together and keep their order",
          "[index]") {
  for (const char* op : {"copy(b)", "subtract(a, b)"})
    CHECK(moved(add_rows("replicated", "devices=[4,1]<=[4]", "devices=[4,1,1]<=[4]", "replicated"),
                4, op) == Strings{"all-gather s32[8,4]", "all-gather f32[8,4,6]"});
}

TEST_CASE("scatter: windows that reach over several shards need no communication", "[index]") {
  for (const int64_t devices : {3, 4, 8})
    CHECK(
        moved(
            fmt::format(
                "t = f32[13,3] parameter(0), sharding={{devices=[{0},1]<=[{0}]}}\n i = s32[5] "
                "parameter(1)\n u = f32[5,4,3] parameter(2)\n ROOT r = f32[13,3] scatter(t, i, u), "
                "update_window_dims={{1,2}}, inserted_window_dims={{}}, "
                "scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=c, "
                "sharding={{devices=[{0},1]<=[{0}]}}",
                devices),
            devices, "copy(b)")
            .empty());
}

TEST_CASE("scatter: batching dims and counted positions need no communication", "[index]") {
  CHECK(moved("t = f32[6,9,4] parameter(0), sharding={devices=[3,1,1]<=[3]}\n i = s32[6,5,1] "
              "parameter(1), "
              "sharding={devices=[3,1,1]<=[3]}\n u = f32[6,5,4] parameter(2), "
              "sharding={devices=[3,1,1]<=[3]}\n ROOT "
              "r = f32[6,9,4] scatter(t, i, u), update_window_dims={2}, inserted_window_dims={1}, "
              "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
              "scatter_indices_batching_dims={0}, "
              "index_vector_dim=2, to_apply=c, sharding={devices=[3,1,1]<=[3]}",
              3, "copy(b)")
            .empty());
  for (const int64_t devices : {3, 4})
    CHECK(
        moved(
            fmt::format(
                "t = f32[8,5] parameter(0), sharding={{devices=[{0},1]<=[{0}]}}\n p = s32[8,1] "
                "parameter(1), sharding={{devices=[{0},1]<=[{0}]}}\n n = s32[8,1] iota(), "
                "iota_dimension=0\n i = s32[8,2] concatenate(n, p), dimensions={{1}}\n u = f32[8] "
                "parameter(2), sharding={{devices=[{0}]<=[{0}]}}\n ROOT r = f32[8,5] scatter(t, i, "
                "u), "
                "update_window_dims={{}}, inserted_window_dims={{0,1}}, "
                "scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=1, to_apply=c, "
                "sharding={{devices=[{0},1]<=[{0}]}}",
                devices),
            devices, "copy(b)")
            .empty());
}

TEST_CASE("scatter: several operands at once are split as one is", "[index]") {
  CHECK(
      moved(
          "t = f32[10,6] parameter(0), sharding={devices=[2,2]<=[4]}\n o = s32[10,6] parameter(1), "
          "sharding={devices=[2,2]<=[4]}\n i = s32[7,1] parameter(2)\n u = f32[7,6] parameter(3), "
          "sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}\n v = s32[7,6] "
          "parameter(4), "
          "sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}\n ROOT r = (f32[10,6], "
          "s32[10,6]) "
          "scatter(t, o, i, u, v), update_window_dims={1}, inserted_window_dims={0}, "
          "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=pair, "
          "sharding={{devices=[2,2]<=[4]}, {devices=[2,2]<=[4]}}",
          4)
          .empty());
}

// A vocabulary of 64 words over `model`, batches of 8 x 4 tokens over `data`, both of 2.
TEST_CASE("an embedding split over its vocabulary sums its rows over the model's devices only",
          "[index]") {
  const std::string table = "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}";
  const std::string batch = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}";
  const std::string batch3 = "{devices=[2,1,1,2]<=[4] last_tile_dim_replicate}";
  const std::string tokens = "i = s32[8,4] parameter(1), sharding=" + batch;
  CHECK(moved("t = f32[64,6] parameter(0), sharding=" + table + "\n " + tokens +
                  "\n ROOT r = f32[8,4,6] gather(t, i)" + kRows + ", sharding=" + batch3,
              4) == Strings{"all-reduce f32[4,4,6]"});
  // The gradient: each device adds the rows of its words and batch, then one sum over `data`.
  CHECK(moved("z = f32[] constant(0)\n t = f32[64,6] broadcast(z), dimensions={}\n i = s32[8,4] "
              "parameter(0), sharding=" +
                  batch + "\n u = f32[8,4,6] parameter(1), sharding=" + batch3 +
                  "\n ROOT r = f32[64,6] scatter(t, i, u)" + kAddRows + ", sharding=" + table,
              4) == Strings{"all-reduce f32[32,6]"});
}

TEST_CASE("a dynamic slice at a constant start exchanges what crosses", "[index]") {
  for (const char* start : {"-3", "0", "8", "13", "99"})
    for (const std::string& collective :
         moved(fmt::format("a = f32[64,3] parameter(0), sharding={{devices=[4,1]<=[4]}}\n i = "
                           "s32[] constant({})\n z "
                           "= s32[] constant(0)\n ROOT r = f32[48,3] dynamic-slice(a, i, z), "
                           "dynamic_slice_sizes={{48,3}}, sharding={{devices=[4,1]<=[4]}}",
                           start),
               4))
      CHECK(collective.rfind("collective-permute", 0) == 0);
}

TEST_CASE("an update at a constant start, split as what it updates, exchanges what crosses",
          "[index]") {
  for (const char* start : {"-3", "0", "8", "17", "99"})
    for (const std::string& collective : moved(
             fmt::format(
                 "a = f32[64,3] parameter(0), sharding={{devices=[4,1]<=[4]}}\n u = f32[47,3] "
                 "parameter(1), "
                 "sharding={{devices=[4,1]<=[4]}}\n i = s32[] constant({})\n z = s32[] "
                 "constant(0)\n ROOT "
                 "r = f32[64,3] dynamic-update-slice(a, u, i, z), sharding={{devices=[4,1]<=[4]}}",
                 start),
             4))
      CHECK(collective.rfind("collective-permute", 0) == 0);
}

TEST_CASE("a slice of half of a split dim is summed to the shards that want it, not gathered",
          "[index]") {
  CHECK(moved("a = f32[64] parameter(0), sharding={devices=[4]<=[4]}\n i = s32[] parameter(1)\n "
              "ROOT r = f32[32] "
              "dynamic-slice(a, i), dynamic_slice_sizes={32}, sharding={devices=[4]<=[4]}",
              4) == Strings{"reduce-scatter f32[8]"});
  CHECK(
      moved("a = f32[64,8] parameter(0), sharding={devices=[4,1]<=[4]}\n i = s32[] parameter(1)\n "
            "z = s32[] "
            "constant(0)\n ROOT r = f32[60,8] dynamic-slice(a, i, z), dynamic_slice_sizes={60,8}, "
            "sharding={devices=[1,4]<=[4]}",
            4) == Strings{"all-to-all f32[16,4,2]"});
}

TEST_CASE("an update of one position of a split dim is written where it is", "[index]") {
  for (const int64_t devices : {3, 4, 8}) {
    const auto module_text = fmt::format(
        "a = f32[13,5] parameter(0), sharding={{devices=[{0},1]<=[{0}]}}\n u = f32[1,2] "
        "parameter(1)\n i = s32[] "
        "parameter(2)\n j = s32[] parameter(3)\n ROOT r = f32[13,5] dynamic-update-slice(a, u, i, "
        "j), "
        "sharding={{devices=[{0},1]<=[{0}]}}",
        devices);
    CHECK(moved(module_text, devices).empty());
  }
}

TEST_CASE("positions that a loop hands on are looked up and written where they are", "[index]") {
  for (const int64_t devices : {3, 4}) {
    const auto module = parse_module(fmt::format(
        R"(HloModule m
add {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }}
more {{ p = (s32[], f32[8,5], s32[8,1], f32[8]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 n = s32[] constant(3)
 ROOT c = pred[] compare(i, n), direction=LT }}
step {{ p = (s32[], f32[8,5], s32[8,1], f32[8]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 t = f32[8,5] get-tuple-element(p), index=1
 k = s32[8,1] get-tuple-element(p), index=2
 x = f32[8] get-tuple-element(p), index=3
 o = s32[] constant(1)
 j = s32[] add(i, o)
 b = s32[8,1] broadcast(i), dimensions={{}}
 q = s32[8,2] concatenate(k, b), dimensions={{1}}
 g = f32[8] gather(t, q), offset_dims={{}}, collapsed_slice_dims={{0,1}}, start_index_map={{0,1}}, index_vector_dim=1, slice_sizes={{1,1}}
 y = f32[8] add(x, g)
 s = f32[8,5] scatter(t, q, y), update_window_dims={{}}, inserted_window_dims={{0,1}}, scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=1, to_apply=add
 ROOT r = (s32[], f32[8,5], s32[8,1], f32[8]) tuple(j, s, k, y) }}
ENTRY e {{
 t = f32[8,5] parameter(0), sharding={{devices=[{0},1]<=[{0}]}}
 x = f32[8] parameter(1), sharding={{devices=[{0}]<=[{0}]}}
 n = s32[8,1] iota(), iota_dimension=0
 z = s32[] constant(0)
 w = (s32[], f32[8,5], s32[8,1], f32[8]) tuple(z, t, n, x)
 l = (s32[], f32[8,5], s32[8,1], f32[8]) while(w), condition=more, body=step
 a = f32[8,5] get-tuple-element(l), index=1
 b = f32[8] get-tuple-element(l), index=3
 ROOT r = (f32[8,5], f32[8]) tuple(a, b), sharding={{{{devices=[{0},1]<=[{0}]}}, {{devices=[{0}]<=[{0}]}}}}
}})",
        devices));
    CHECK(difference_when_partitioned(*module, devices, 1) == "");
    PipelineOptions options;
    options.num_devices = devices;
    const CompiledModule compiled = run_pipeline(*module, options);
    for (const auto& computation : compiled.local->computations())
      for (const auto& node : computation->nodes()) CHECK(!node->op().has(kCollective));
  }
}

TEST_CASE("in a region that is manual along one axis, look-ups are split along the others",
          "[index]") {
  PipelineOptions options;
  options.num_devices = 8;
  const CompiledModule compiled = run_pipeline(*parse_module(
                                                   R"(HloModule m
ENTRY e {
 t = f32[16,6] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
 i = s32[8,1] parameter(1), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
 m = f32[8,6] custom-call(t), custom_call_target="SPMDFullToShardShape", sharding={devices=[1,1,4,2]<=[2,4]T(1,0) last_tile_dims={replicated, manual}}
 r = f32[8,6] copy(m), sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dims={manual}}
 k = s32[4,1] custom-call(i), custom_call_target="SPMDFullToShardShape", sharding={devices=[1,1,4,2]<=[2,4]T(1,0) last_tile_dims={replicated, manual}}
 g = f32[4,6] gather(r, k), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}, sharding={devices=[1,1,4,2]<=[2,4]T(1,0) last_tile_dims={replicated, manual}}
 ROOT f = f32[8,6] custom-call(g), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
})"),
                                               options);
  CHECK(collectives(compiled) == Strings{"all-reduce [2,4]<=[8]"});
}
