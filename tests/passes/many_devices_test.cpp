// Values on more devices than are listed one by one: rounds of stairs, parts of the devices that
// count by steps, devices backwards, and permutes between counts that do not nest.

#include <algorithm>
#include <catch2/catch.hpp>

#include "gspmd/ir/text.h"
#include "gspmd/passes/pipeline.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

std::string every_other(int64_t devices, int64_t first) {
  std::string text;
  for (int64_t i = first; i < devices; i += 2) text += fmt::format("{}{}", i > 1 ? "," : "", i);
  return text;
}

std::string backwards(int64_t devices) {
  std::string text;
  for (int64_t i = devices; i-- > 0;) text += fmt::format("{}{}", i + 1 < devices ? "," : "", i);
  return text;
}

// Whether any permute of the program goes by a rule over tiles.
bool has_rule(const Module& program) {
  for (const auto& computation : program.computations())
    for (const auto& node : computation->nodes())
      if (node->attrs.permutation->rule) return true;
  return false;
}

void check_equal(const std::string& body, int64_t devices, bool by_rule) {
  INFO(body);
  const auto module = parse_module("HloModule m\nENTRY e {\n" + body + "}\n");
  CHECK(difference_when_partitioned(*module, devices, 7).empty());
  PipelineOptions options;
  options.num_devices = devices;
  CHECK(has_rule(*run_pipeline(*module, options).local) == by_rule);
}

}  // namespace

TEST_CASE("many devices: dims that do not divide go by rounds without lists", "[halo]") {
  const std::string whole = ", sharding={devices=[96]<=[96]}";
  check_equal("p = s32[200] parameter(0)" + whole +
                  "\nROOT r = s32[101] slice(p), slice={[99:200]}" + whole + "\n",
              96, true);
  check_equal("p = s32[200] parameter(0)" + whole +
                  "\nROOT r = s32[200] reverse(p), dimensions={0}" + whole + "\n",
              96, true);
  check_equal(
      "p = s32[40] parameter(0), sharding={devices=[8]<=[8]}\n"
      "ROOT r = s32[21] slice(p), slice={[19:40]}, sharding={devices=[8]<=[8]}\n",
      8, false);
}

TEST_CASE("many devices: parts that count by steps, and back", "[placement]") {
  for (const int64_t first : {0, 1}) {
    const std::string some = every_other(96, first);
    for (const std::string& all : std::vector<std::string>{
             "{devices=[96,1]<=[96]}", "{devices=[1,96]<=[96]}", "{devices=[12,8]<=[96]}",
             "{devices=[12,1,8]<=[96] last_tile_dim_replicate}", "{replicated}"})
      for (const std::string& part :
           std::vector<std::string>{"{devices=[48,1]" + some + "}", "{devices=[6,8]" + some + "}",
                                    "{devices=[6,1,8]" + some + " last_tile_dim_replicate}"}) {
        check_equal("p = s32[97,100] parameter(0), sharding=" + part +
                        "\na = s32[97,100] copy(p), sharding=" + all +
                        "\nROOT r = s32[97,100] copy(a), sharding=" + part + "\n",
                    96, false);
      }
  }
}

TEST_CASE("many devices: backwards, and in counts that do not nest", "[reshard]") {
  const std::string back = backwards(72);
  for (const std::string& x :
       std::vector<std::string>{"{devices=[8,9]" + back + "}", "{devices=[9,8]" + back + "}"})
    for (const std::string y :
         {"{devices=[8,9]<=[72]}", "{devices=[9,8]<=[72]}", "{devices=[9,8]<=[8,9]T(1,0)}"})
      check_equal("p = s32[72,72] parameter(0), sharding=" + x +
                      "\na = s32[72,72] copy(p), sharding=" + y +
                      "\nROOT r = s32[72,72] copy(a), sharding=" + x + "\n",
                  72, false);
  check_equal(
      "p = s32[6] parameter(0), sharding={devices=[6]<=[2,3]T(1,0)}\n"
      "ROOT r = s32[6] copy(p), sharding={devices=[6]<=[6]}\n",
      6, false);
}

TEST_CASE("four of five devices in every order hold their parts", "[placement]") {
  std::vector<int64_t> devices{0, 1, 2, 3, 4};
  do {
    const auto module = parse_module(
        fmt::format("HloModule m\nENTRY e {{ a = s32[21] parameter(0)\n b = s32[21] parameter(1)\n"
                    "ROOT r = s32[21] maximum(a, b), sharding={{devices=[4]{},{},{},{}}}\n}}\n",
                    devices[0], devices[1], devices[2], devices[3]));
    INFO(fmt::format("{},{},{},{}", devices[0], devices[1], devices[2], devices[3]));
    CHECK(difference_when_partitioned(*module, 5, 7).empty());
  } while (std::next_permutation(devices.begin(), devices.end()));
}
