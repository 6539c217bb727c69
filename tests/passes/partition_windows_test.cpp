// Ops that read across shard boundaries: equal bits, and the collectives with the shapes that they
// move.

#include "gspmd/ir/text.h"
#include "passes/combiners.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace partition_windows_test {
namespace {

using Strings = std::vector<std::string>;

// "collective-permute f32[1,4]" per collective.
Strings moved(const std::string& body, int64_t num_devices) {
  const auto module =
      parse_module(fmt::format("HloModule m\n{}{}ENTRY e {{\n{}\n}}\n", kSum, kMost, body));
  const std::string difference = difference_when_partitioned(*module, num_devices, 1);
  INFO(difference);
  CHECK(difference.empty());
  PipelineOptions options;
  options.num_devices = num_devices;
  return results_of_collectives(run_pipeline(*module, options));
}

}  // namespace

TEST_CASE("pad by one on a split dim sends one row to a neighbour", "[windows]") {
  CHECK(moved(with_sharding("a = f32[16,4] parameter(0), @\n z = f32[] constant(7)\n ROOT r = "
                            "f32[16,4] pad(a, z), padding=1_-1x0_0, @",
                            "devices=[4,1]<=[4]"),
              4) == Strings{"collective-permute f32[1,4]"});
}

TEST_CASE("a strided slice that follows the shards needs no communication", "[windows]") {
  CHECK(moved(with_sharding("a = f32[16,4] parameter(0), @\n ROOT r = f32[8,4] slice(a), "
                            "slice={[0:16:2], [0:4]}, @",
                            "devices=[4,1]<=[4]"),
              4)
            .empty());
}

TEST_CASE("a slice of the first half takes two permutes and no gather", "[windows]") {
  const Strings got =
      moved(with_sharding("a = f32[32] parameter(0), @\n ROOT r = f32[16] slice(a), "
                          "slice={[0:16]}, @",
                          "devices=[8]<=[8]"),
            8);
  CHECK(got == Strings{"collective-permute f32[2]", "collective-permute f32[2]"});
}

TEST_CASE("reverse of a split dim is one permute of whole shards", "[windows]") {
  CHECK(moved(with_sharding("a = f32[16,4] parameter(0), @\n ROOT r = f32[16,4] reverse(a), "
                            "dimensions={0}, @",
                            "devices=[4,1]<=[4]"),
              4) == Strings{"collective-permute f32[4,4]"});
}

TEST_CASE("a rotation sends one shard in at most two permutes", "[windows]") {
  const auto rotated = [](int by, int size) {
    const std::string body = fmt::format(
        "a = f32[{0}] parameter(0), @\n b = f32[{1}] slice(a), slice={{[{2}:{0}]}}\n c = f32[{2}] "
        "slice(a), slice={{[0:{2}]}}\n ROOT r = f32[{0}] concatenate(b, c), dimensions={{0}}, @",
        size, size - by, by);
    return moved(with_sharding(body, "devices=[4]<=[4]"), 4);
  };
  CHECK(rotated(4, 16) == Strings{"collective-permute f32[4]"});
  CHECK(rotated(12, 16) == Strings{"collective-permute f32[4]"});
  CHECK(rotated(1, 16) == Strings{"collective-permute f32[1]"});
  CHECK(rotated(15, 16) == Strings{"collective-permute f32[1]"});
  CHECK(rotated(6, 16) == Strings{"collective-permute f32[2]", "collective-permute f32[2]"});
  CHECK(rotated(3, 4) == Strings{"collective-permute f32[1]"});
  for (const std::string& collective : rotated(5, 18))  // uneven shards
    CHECK(collective.find("gather") == std::string::npos);
}

TEST_CASE("slices of a padded value are windows of the value itself", "[windows]") {
  CHECK(
      moved(with_sharding("a = f32[16] parameter(0), @\n z = f32[] constant(3)\n p = f32[18] "
                          "pad(a, z), padding=1_1, @\n l = f32[16] slice(p), slice={[0:16]}, @\n "
                          "h = f32[16] slice(p), slice={[2:18]}, @\n ROOT r = f32[16] add(l, h), @",
                          "devices=[4]<=[4]"),
            4) == Strings{"collective-permute f32[1]", "collective-permute f32[1]"});
}

TEST_CASE("part of a value beside the value itself is no rotation", "[windows]") {
  for (const char* const parts : {"l, a", "a, l"})
    moved(with_sharding(fmt::format("a = f32[4,7] parameter(0), @\n l = f32[4,3] slice(a), "
                                    "slice={{[0:4], [0:3]}}\n ROOT r = f32[4,10] concatenate({}), "
                                    "dimensions={{1}}, @",
                                    parts),
                        "devices=[1,7]<=[7]"),
          7);
}

TEST_CASE("a window of three over a split dim exchanges one element on each side", "[windows]") {
  CHECK(moved(with_sharding("a = f32[16,4] parameter(0), @\n z = f32[] constant(0)\n ROOT r = "
                            "f32[16,4] reduce-window(a, z), window={size=3x1 pad=1_1x0_0}, "
                            "to_apply=sum, @",
                            "devices=[4,1]<=[4]"),
              4) == Strings{"collective-permute f32[1,4]", "collective-permute f32[1,4]"});
}

TEST_CASE("a convolution over a split spatial dim exchanges its halos", "[windows]") {
  CHECK(moved(with_sharding("a = f32[2,16,3] parameter(0), @\n k = f32[3,3,5] parameter(1)\n ROOT "
                            "r = f32[2,16,5] convolution(a, k), window={size=3 pad=1_1}, "
                            "dim_labels=b0f_0io->b0f, @",
                            "devices=[1,4,1]<=[4]"),
              4) == Strings{"collective-permute f32[2,1,3]", "collective-permute f32[2,1,3]"});
}

TEST_CASE("what nobody sends beside full shards is not set to zero again", "[windows]") {
  const auto selects = [](const std::string& op, int64_t size, const std::string& fill) {
    const std::string body =
        fmt::format(
            "a = f32[{},1,4] parameter(0), @\n k = f32[4,4,3] parameter(1)\n z = f32[] "
            "constant({})\n ROOT r = f32[",
            size, fill) +
        op + ", @";
    const auto module =
        parse_module(fmt::format("HloModule m\n{}{}ENTRY e {{\n{}\n}}\n", kSum, kMost,
                                 with_sharding(body, "devices=[4,1,1]<=[4]")));
    const std::string difference = difference_when_partitioned(*module, 4, 1);
    INFO(difference);
    CHECK(difference.empty());
    PipelineOptions options;
    options.num_devices = 4;
    const std::string text = to_text(*run_pipeline(*module, options).local);
    return text.find(" select(") != std::string::npos;
  };
  const std::string convolution = "convolution(a, k), window={size=4 pad=2_",
                    labels = "}, dim_labels=0bf_0io->0bf",
                    pad = "16,1,4] pad(a, z), padding=1_-1x0_0x0_0";
  CHECK(!selects("16,1,3] " + convolution + "1" + labels, 16, "0"));
  CHECK(!selects("8,1,3] " + convolution + "1 stride=2" + labels, 16, "0"));
  CHECK(!selects("32,1,3] " + convolution + "2 lhs_dilate=2" + labels, 16, "0"));
  CHECK(!selects(pad, 16, "0"));
  // Tails behind shards that are not full, other values, and parts that do not read at the same
  // place of their neighbours.
  CHECK(selects("15,1,3] " + convolution + "1" + labels, 15, "0"));
  CHECK(selects(pad, 16, "-0"));
  CHECK(selects(pad, 16, "1"));
  CHECK(selects("12,1,4] pad(a, z), padding=3_1x0_0x0_0", 8, "0"));
}

TEST_CASE("elements that a window grows to itself are no halo", "[windows]") {
  const auto grown = [](int size, int stride, const char* pads) {
    const std::string body = fmt::format(
        "a = f32[2,16,3] parameter(0), @\n k = f32[{0},3,5] parameter(1)\n ROOT r = f32[2,{1},5] "
        "convolution(a, k), window={{size={0} pad={2} lhs_dilate={3}}}, dim_labels=b0f_0io->b0f, @",
        size, 16 * stride, pads, stride);
    return moved(with_sharding(body, "devices=[1,4,1]<=[4]"), 4);
  };
  CHECK(grown(2, 2, "1_1").empty());
  CHECK(grown(3, 3, "2_2").empty());
  CHECK(grown(3, 2, "1_2") == Strings{"collective-permute f32[2,1,3]"});
  CHECK(grown(4, 2, "2_2") ==
        Strings{"collective-permute f32[2,1,3]", "collective-permute f32[2,1,3]"});
}

TEST_CASE("one window over all of a split dim sums the parts where they are", "[windows]") {
  for (const int64_t size : {16, 13}) {
    const std::string body = fmt::format(
        "a = f32[{0},4] parameter(0), @\n z = f32[] constant(0)\n ROOT r = f32[1,4] "
        "reduce-window(a, z), window={{size={0}x1}}, to_apply=sum, sharding={{replicated}}",
        size);
    CHECK(moved(with_sharding(body, "devices=[4,1]<=[4]"), 4) == Strings{"all-reduce f32[1,4]"});
  }
}

TEST_CASE("a cumulative sum that is wanted whole is made along another dim", "[windows]") {
  CHECK(moved(with_sharding("a = f32[16,4] parameter(0), @\n z = f32[] constant(0)\n ROOT r = "
                            "f32[8,4] reduce-window(a, z), window={size=8x1 pad=7_-8x0_0}, "
                            "to_apply=sum, sharding={replicated}",
                            "devices=[4,1]<=[4]"),
              4) == Strings{"all-to-all f32[4,4,1]", "all-gather f32[8,4]"});
}

TEST_CASE("windows of every kind on uneven dims compute the same bits", "[windows]") {
  const char* const windows[] = {"size=3 pad=1_1",
                                 "size=2 stride=2 pad=0_1",
                                 "size=3 stride=2 pad=1_0 lhs_dilate=2",
                                 "size=2 pad=3_2 lhs_dilate=3",
                                 "size=2 stride=3 pad=2_4 lhs_dilate=2 rhs_dilate=2",
                                 "size=4 pad=-1_3 rhs_dilate=2",
                                 "size=3 pad=2_2 rhs_reversal=1"};
  for (const char* window : windows)
    for (const int64_t devices : {2, 3, 5, 8}) {
      const std::string size = std::string(window).substr(5, 1);
      const std::string text = fmt::format(
          "a = f32[2,11,3] parameter(0), sharding={{devices=[1,{0},1]<=[{0}]}}\n k = f32[{1},3,4] "
          "parameter(1)\n ROOT r = f32[2,@,4] convolution(a, k), window={{{2}}}, "
          "dim_labels=b0f_0io->b0f, sharding={{devices=[1,{0},1]<=[{0}]}}",
          devices, size, window);
      // The result size that fits, found by trying.
      int64_t n = 1;
      for (bool fits = false; !fits && n < 64; ++n) {
        std::string sized = text;
        sized.replace(sized.find('@'), 1, std::to_string(n));
        try {
          const auto module = parse_module("HloModule m\nENTRY e {\n" + sized + "\n}\n");
          fits = true;
          const std::string difference = difference_when_partitioned(*module, devices, 1);
          INFO(window << difference);
          CHECK(difference.empty());
        } catch (const std::exception& error) {
          if (fits) FAIL(error.what());
        }
      }
      CHECK(n < 64);
    }
}

}  // namespace partition_windows_test
