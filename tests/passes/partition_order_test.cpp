// Prefixes, sorts and reversals along split dims: equal bits, and only what has to cross.

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "passes/combiners.h"
#include "passes/conformance_programs.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace partition_order_test {
namespace {

using Strings = std::vector<std::string>;

std::unique_ptr<Module> module_of(const std::string& body, const std::string& sharding) {
  return parse_module(fmt::format("HloModule m\n{}{}ENTRY e {{\n{}\n}}\n", kSum,
                                  order_computations(), with_sharding(body, sharding)));
}

// "all-gather f32[4,2]" per collective; the program equals the whole one.
Strings moved(const std::string& body, const std::string& sharding, int64_t num_devices,
              int64_t seeds = 3) {
  const auto module = module_of(body, sharding);
  for (int64_t seed = 1; seed <= seeds; ++seed) {
    const std::string difference =
        difference_when_partitioned(*module, num_devices, static_cast<uint64_t>(seed));
    INFO(difference);
    CHECK(difference.empty());
  }
  PipelineOptions options;
  options.num_devices = num_devices;
  return results_of_collectives(run_pipeline(*module, options));
}

const char* const kCumulative =
    "a = f32[32,3] parameter(0), @\n z = f32[] constant(0)\n ROOT r = f32[32,3] reduce-window(a, "
    "z), window={size=32x1 pad=31_0x0_0}, to_apply=sum, @";

}  // namespace

TEST_CASE("a cumulative sum along a split dim gathers one total per part", "[order]") {
  CHECK(moved(kCumulative, "devices=[4,1]<=[4]", 4) == Strings{"all-gather f32[4,3]"});
  CHECK(moved(kCumulative, "devices=[4,1]3,1,0,2", 4) == Strings{"all-gather f32[4,3]"});
  CHECK(moved(kCumulative, "devices=[5,1]<=[5]", 5) == Strings{"all-gather f32[5,3]"});
  CHECK(moved(kCumulative, "devices=[1,3]<=[3]", 3).empty());
  CHECK(moved(kCumulative, "devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate", 8) ==
        Strings{"all-gather f32[4,3]"});
}

TEST_CASE("a cumulative sum read whole, or split elsewhere, is one of whole rows", "[order]") {
  const std::string body =
      "a = f32[4,32] parameter(0), sharding={devices=[1,4]<=[4]}\n z = f32[] constant(0)\n ROOT r "
      "= f32[4,32] reduce-window(a, z), window={size=1x32 pad=0_0x31_0}, to_apply=sum, @";
  CHECK(moved(body, "devices=[4,1]<=[4]", 4) == Strings{"all-to-all f32[4,1,8]"});
  CHECK(moved(body, "replicated", 4).size() <= 2);
}

TEST_CASE("cumulative argmax joins values and places of the parts", "[order]") {
  CHECK(moved("a = f32[3,40] parameter(0), @\n p = s32[3,40] iota(), iota_dimension=1, @\n i = "
              "f32[] constant(-inf)\n j = s32[] constant(2147483647)\n r = (f32[3,40], s32[3,40]) "
              "reduce-window(a, p, i, j), window={size=1x40 pad=0_0x39_0}, to_apply=largest, "
              "sharding={{devices=[1,4]<=[4]}, {devices=[1,4]<=[4]}}\n v = f32[3,40] "
              "get-tuple-element(r), index=0, @\n k = s32[3,40] get-tuple-element(r), index=1, @\n "
              "ROOT t = (f32[3,40], s32[3,40]) tuple(v, k), sharding={{devices=[1,4]<=[4]}, "
              "{devices=[1,4]<=[4]}}",
              "devices=[1,4]<=[4]", 4) == Strings{"all-gather f32[3,4]", "all-gather s32[3,4]"});
}

TEST_CASE("an associative scan along a split dim gathers one carry per part", "[order]") {
  const std::string sums =
      "a = f32[12,4] parameter(0), @\n c = f32[4] parameter(1)\n ROOT r = (f32[12,4], f32[4]) "
      "scan(a, c), dimensions={0}, num_carries=1, to_apply=running, "
      "sharding={{devices=[4,1]<=[4]}, {replicated}}";
  CHECK(moved(sums, "devices=[4,1]<=[4]", 4) == Strings{"all-gather f32[4,4]"});
  const std::string matrices =
      "a = s32[9,3,2,2] parameter(0), @\n c = s32[3,2,2] parameter(1)\n ROOT r = (s32[9,3,2,2], "
      "s32[3,2,2]) scan(a, c), dimensions={0}, num_carries=1, is_reverse=true, "
      "is_associative=true, to_apply=matrices, sharding={{devices=[4,1,1,1]<=[4]}, {replicated}}";
  CHECK(moved(matrices, "devices=[4,1,1,1]<=[4]", 4) == Strings{"all-gather s32[4,3,2,2]"});
}

TEST_CASE("a scan whose steps are in order keeps what is beside its dim", "[order]") {
  const std::string body =
      "a = f32[12,4] parameter(0), @\n c = f32[4] parameter(1)\n ROOT r = (f32[12,4], f32[4]) "
      "scan(a, c), dimensions={0}, num_carries=1, to_apply=decayed, "
      "sharding={{devices=[1,4]<=[4]}, {devices=[4]<=[4]}}";
  CHECK(moved(body, "devices=[1,4]<=[4]", 4).empty());
  // From the scanned dim the tiles go to the other one.
  CHECK(moved(body, "devices=[4,1]<=[4]", 4) == Strings{"all-to-all f32[3,4,1]"});
}

TEST_CASE("what splits a sorted dim goes to other dims, in parts and unevenly", "[order]") {
  const auto sorted = [](const std::string& shape, const std::string& sharding, int64_t devices) {
    const Strings got =
        moved(fmt::format("a = f32[{0}] parameter(0), @\n ROOT r = f32[{0}] sort(a), "
                          "dimensions={{2}}, to_apply=below, @",
                          shape),
              sharding, devices);
    INFO(fmt::format("{}", fmt::join(got, ", ")));
    bool gathers = false;
    for (const std::string& collective : got) gathers = gathers || collective[4] == 'g';
    return !gathers;
  };
  CHECK(sorted("8,3,16", "devices=[1,1,8]<=[8]", 8));
  CHECK(sorted("2,4,16", "devices=[1,1,8]<=[8]", 8));   // 2 to the first, 4 to the second
  CHECK(sorted("13,1,16", "devices=[1,1,8]<=[8]", 8));  // of 13, parts of 2
}

TEST_CASE("the first elements of a sort along a split dim are chosen in two levels", "[order]") {
  const std::string pairs =
      "a = f32[3,{0}] parameter(0), @\n p = s32[3,{0}] iota(), iota_dimension=1\n s = (f32[3,{0}], "
      "s32[3,{0}]) sort(a, p), dimensions={{1}}, to_apply=more\n v = f32[3,{0}] "
      "get-tuple-element(s), index=0\n k = s32[3,{0}] get-tuple-element(s), index=1\n v2 = "
      "f32[3,2] "
      "slice(v), slice={{[0:3], [0:2]}}\n k2 = s32[3,2] slice(k), slice={{[0:3], [0:2]}}\n ROOT t "
      "= "
      "(f32[3,2], s32[3,2]) tuple(v2, k2)";
  CHECK(moved(fmt::format(fmt::runtime(pairs), 32), "devices=[1,4]<=[4]", 4) ==
        Strings{"all-gather f32[3,8]", "all-gather s32[3,8]"});
  // 5 parts of 3, the last with 1 element, and 8 of 3 of which 2 are empty.
  CHECK(moved(fmt::format(fmt::runtime(pairs), 13), "devices=[1,5]<=[5]", 5, 6).size() == 2);
  CHECK(moved(fmt::format(fmt::runtime(pairs), 17), "devices=[1,8]<=[8]", 8, 6).size() == 2);
  CHECK(moved("a = f32[32] parameter(0), @\n s = f32[32] sort(a), dimensions={0}, to_apply=below\n "
              "ROOT v = f32[1] slice(s), slice={[0:1]}",
              "devices=[4]<=[4]", 4) == Strings{"all-gather f32[4]"});
}

TEST_CASE("a reduction by any computation joins one result per part", "[order]") {
  CHECK(moved("a = u32[6,9] parameter(0), @\n i = u32[] constant(0)\n ROOT r = u32[6] reduce(a, "
              "i), dimensions={1}, to_apply=xor_u32",
              "devices=[1,4]<=[4]", 4) == Strings{"all-gather u32[4,6]"});
  CHECK(moved("a = f32[6,9] parameter(0), @\n i = f32[] constant(0)\n ROOT r = f32[6] reduce(a, "
              "i), dimensions={1}, to_apply=second_of",
              "devices=[1,4]<=[4]", 4) == Strings{"all-gather f32[4,6]"});
}

TEST_CASE("a reversal onto reversed devices stays where it is", "[order]") {
  const std::string body =
      "a = f32[8,3] parameter(0), @\n ROOT r = f32[8,3] reverse(a), "
      "dimensions={0}, sharding={devices=[4,1]%}";
  const auto to = [&](const char* devices) {
    std::string text = body;
    return moved(text.replace(text.find('%'), 1, devices), "devices=[4,1]<=[4]", 4);
  };
  CHECK(to("3,2,1,0").empty());
  CHECK(to("<=[4]") == Strings{"collective-permute f32[2,3]"});
}

TEST_CASE("a reversal over many devices is one permute", "[order]") {
  for (const char* size : {"16384", "32768"}) {
    const auto module = module_of(fmt::format("a = f32[{0}] parameter(0), @\n ROOT r = f32[{0}] "
                                              "reverse(a), dimensions={{0}}, @",
                                              size),
                                  "devices=[16384]<=[16384]");
    PipelineOptions options;
    options.num_devices = 16384;
    CHECK(collectives(run_pipeline(*module, options)) == Strings{"collective-permute "});
  }
}

TEST_CASE("the size of a dim is known everywhere", "[order]") {
  CHECK(moved("a = f32[8,3] parameter(0), @\n ROOT r = s32[] get-dimension-size(a), dimensions={0}",
              "devices=[4,1]<=[4]", 4)
            .empty());
}

}  // namespace partition_order_test
