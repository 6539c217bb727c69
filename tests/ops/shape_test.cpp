#include "ops/shape/shape.h"

#include <catch2/catch.hpp>

#include "ops/evaluate_cases.h"

namespace gspmd::testing {

TEST_CASE("shape ops move elements where HLO says", "[shape]") {
  const std::string m = "a = s32[2,3] constant({{1,2,3},{4,5,6}})\nz = s32[] constant(9)\n";
  const std::vector<EvaluateCase> cases = {
      {"reshape", m + "ROOT r = s32[3,2] reshape(a)", "s32[3,2] {{1,2},{3,4},{5,6}}"},
      {"broadcast", m + "ROOT r = s32[2,2,3] broadcast(a), dimensions={0,2}",
       "s32[2,2,3] {{{1,2,3},{1,2,3}},{{4,5,6},{4,5,6}}}"},
      {"broadcast swaps", m + "ROOT r = s32[3,2] broadcast(a), dimensions={1,0}",
       "s32[3,2] {{1,4},{2,5},{3,6}}"},
      {"transpose", m + "ROOT r = s32[3,2] transpose(a), dimensions={1,0}",
       "s32[3,2] {{1,4},{2,5},{3,6}}"},
      {"reverse", m + "ROOT r = s32[2,3] reverse(a), dimensions={0,1}",
       "s32[2,3] {{6,5,4},{3,2,1}}"},
      {"concatenate", m + "ROOT r = s32[2,6] concatenate(a, a), dimensions={1}",
       "s32[2,6] {{1,2,3,1,2,3},{4,5,6,4,5,6}}"},
      {"pad around and between", m + "ROOT r = s32[3,6] pad(a, z), padding=1_0x0_1_1",
       "s32[3,6] {{9,9,9,9,9,9},{1,9,2,9,3,9},{4,9,5,9,6,9}}"},
      {"pad cuts", m + "ROOT r = s32[2,2] pad(a, z), padding=0_0x-2_1", "s32[2,2] {{3,9},{6,9}}"},
      {"pad cuts between the elements", m + "ROOT r = s32[2,3] pad(a, z), padding=0_0x-1_-1_1",
       "s32[2,3] {{9,2,9},{9,5,9}}"},
      {"pad cuts all", m + "ROOT r = s32[2,4] pad(a, z), padding=0_0x-5_6",
       "s32[2,4] {{9,9,9,9},{9,9,9,9}}"},
      {"pad of nothing",
       "e = s32[2,0] constant({{},{}})\nz = s32[] constant(9)\nROOT r = s32[2,2] pad(e, z), "
       "padding=0_0x1_1_7",
       "s32[2,2] {{9,9},{9,9}}"},
      {"pad a lone element widely",
       "e = s32[1] constant({4})\nz = s32[] constant(9)\nROOT r = s32[2] pad(e, z), "
       "padding=0_1_1000000000000",
       "s32[2] {4,9}"},
      {"slice", m + "ROOT r = s32[1,2] slice(a), slice={[1:2], [0:3:2]}", "s32[1,2] {{4,6}}"},
      {"slice of nothing", m + "ROOT r = s32[2,0] slice(a), slice={[0:2], [3:3]}",
       "s32[2,0] {{},{}}"},
      {"slice with a huge stride",
       m + "ROOT r = s32[2,1] slice(a), slice={[0:2], [1:3:9000000000000000000]}",
       "s32[2,1] {{2},{5}}"},
      {"iota", "ROOT r = s32[2,3] iota(), iota_dimension=1", "s32[2,3] {{0,1,2},{0,1,2}}"},
      {"iota wraps",
       "i = u8[258] iota(), iota_dimension=0\nROOT r = u8[2] slice(i), slice={[255:257]}",
       "u8[2] {255,0}"},
  };
  for (const EvaluateCase& test : cases) check_case(test);
}

TEST_CASE("dynamic slices start inside whatever the index says", "[shape]") {
  const std::string a = "a = s32[5] constant({1,2,3,4,5})\nu = s32[2] constant({8,9})\n";
  const std::vector<EvaluateCase> cases = {
      {"inside",
       a + "i = s32[] constant(1)\nROOT r = s32[2] dynamic-slice(a, i), dynamic_slice_sizes={2}",
       "s32[2] {2,3}"},
      {"below",
       a + "i = s32[] constant(-7)\nROOT r = s32[2] dynamic-slice(a, i), dynamic_slice_sizes={2}",
       "s32[2] {1,2}"},
      {"above",
       a + "i = s64[] constant(9223372036854775807)\nROOT r = s32[2] dynamic-slice(a, i), "
           "dynamic_slice_sizes={2}",
       "s32[2] {4,5}"},
      {"unsigned above",
       a + "i = u64[] constant(18446744073709551615)\nROOT r = s32[2] dynamic-slice(a, i), "
           "dynamic_slice_sizes={2}",
       "s32[2] {4,5}"},
      {"update", a + "i = s32[] constant(2)\nROOT r = s32[5] dynamic-update-slice(a, u, i)",
       "s32[5] {1,2,8,9,5}"},
      {"update above", a + "i = s32[] constant(9)\nROOT r = s32[5] dynamic-update-slice(a, u, i)",
       "s32[5] {1,2,3,8,9}"},
      {"update below", a + "i = s8[] constant(-128)\nROOT r = s32[5] dynamic-update-slice(a, u, i)",
       "s32[5] {8,9,3,4,5}"},
  };
  for (const EvaluateCase& test : cases) check_case(test);
}

TEST_CASE("a reshape keeps the dims that are neither merged nor split", "[shape]") {
  using Pairs = std::vector<std::pair<int64_t, int64_t>>;
  CHECK(reshape_kept_dims({4, 6, 5}, {24, 5}) == Pairs{{2, 1}});
  CHECK(reshape_kept_dims({3, 24, 5}, {3, 2, 12, 5}) == Pairs{{0, 0}, {2, 3}});
  CHECK(reshape_kept_dims({6, 4}, {8, 3}).empty());
  CHECK(reshape_kept_dims({2, 3, 2}, {4, 3}).empty());
  CHECK(reshape_kept_dims({7, 4}, {1, 7, 1, 4}) == Pairs{{0, 1}, {1, 3}});
  CHECK(reshape_kept_dims({2, 3, 4}, {3, 2, 4}) == Pairs{{2, 2}});
  CHECK(reshape_kept_dims({0, 4}, {2, 0}).empty());
}

}  // namespace gspmd::testing
