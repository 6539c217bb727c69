#include <catch2/catch.hpp>
#include <random>

#include "gspmd/base/error.h"
#include "gspmd/mesh/sharding.h"
#include "load.h"

using namespace gspmd;
using Catch::Matchers::Contains;

namespace {

struct Mistake {
  std::string text;
  std::string message;
  int column;
  int64_t rank = -1;
};

const std::vector<Mistake> kMistakes{
    {"", "no sharding stands here", 0},
    {"{", "no sharding stands here", 1},
    {"{replicated", "the text ends where '}' should stand", 11},
    {"{replicated}}", "'}' after the end", 12},
    {"{replicate}", "'replicate' is no part of a sharding; use replicated", 1},
    {"{!}", "'!' does not start any part", 1},
    {"{replicated manual}", "manual after replicated", 12},
    {"{maximal}", "maximal needs its device", 8},
    {"{maximal device=-3}", "the device id is -3; it cannot be negative", 16},
    {"{replicated device=3}", "device=N belongs to maximal", 12},
    {"{devices=[2,2]}", "a number is missing where the device id", 14},
    {"{devices=[2,2]0,1,2}", "3 devices for 4 tiles", 14},
    {"{devices=[2,2]0,1,2,3,4}", "5 devices for 4 tiles", 14},
    {"{devices=[2,2]0,1,1,3}", "device 1 is listed twice", 14},
    {"{devices=[2,2]0,1,-2,3}", "the device id is -2", 18},
    {"{devices=[2,0]0,1}", "the tile count is 0", 12},
    {"{devices=[2,-2]0,1}", "the tile count is -2", 12},
    {"{devices=[2 2]0,1}", "'2' stands where ']' should", 12},
    {"{devices=[]0,1}", "a number is missing where the tile count", 10},
    {"{devices=[65536,65536]<=[65536,65536]}", "more than 2^31 devices", 16},
    {"{devices=[99999999999999999999]0}", "larger than any number of devices", 10},
    {"{devices=[2,2]<=[5]}", "5 devices for 4 tiles", 16},
    {"{devices=[2,2]<=[2,2]T(0,0)}", "0 is not part of a permutation of 0..1", 25},
    {"{devices=[2,2]<=[2,2]T(0)}", "the transpose lists 1 of 2 dims", 24},
    {"{devices=[2,2]<=[2,2]T(2,0)}", "2 is not part of a permutation", 23},
    {"{devices=[1073741824,3]<=[1073741824,3]}", "more than 2^31 devices", 21},
    {"{devices=[4194304,3]<=[2,6291456]T(1,0)}", "an order that has to be listed", 22},
    {"{devices=[2]<=[2] last_tile_dims={tiled}}", "'tiled' is no subgroup", 34},
    {"{devices=[2]<=[2] last_tile_dims={manual,manual}}", "2 subgroups for 1 tile dims", 18},
    {"{last_tile_dim_replicate devices=[2]<=[2]}", "belongs once after devices", 1},
    {"{devices=[2,2]<=[4]}", "2 dims for a value of rank 3", 9, 3},
    {"{devices=[2,2]<=[4] last_tile_dim_replicate}", "1 dims for a value of rank 2", 9, 2},
    {"{mesh['x'=2], [{'x'}]}", "1 dims for a value of rank 2", 1, 2},
    {"{mesh['x'=2], [{'x'}], manual}", "manual beside dims", 23},
    {"{mesh['x'=2], [{'y'}]}", "axis 'y' is not in mesh['x'=2]", 16},
    {"{mesh['x'=2], [{'x'}, {'x'}]}", "is used twice", 23},
    {"{mesh['x'=8], [{'x':(1)4, 'x':(2)2}]}", "is used twice", 26},
    {"{mesh['x'=8], [{'x':(3)2}]}", "sub-axis 'x':(3)2 does not divide the 8", 16},
    {"{mesh['x'=8], [{'x':(0)2}]}", "does not divide", 16},
    {"{mesh['x'=2,'x'=2], [{'x'}]}", "axes 0 and 1 are both named \"x\"", 5},
    {"{mesh['x'=0], [{'x'}]}", "axis \"x\" has size 0", 5},
    {"{mesh['x'=2], [{'x}]}", "the quote opened here is not closed", 16},
    {"{mesh['x'=2], device_ids=[0,0], [{'x'}]}", "device 0 is listed twice", 26},
    {"{mesh['x'=2], device_ids=[0,1,2], [{'x'}]}", "3 device ids given for the 2", 5},
    {"{mesh['x'=2], device_ids=([4]T(0)), [{'x'}]}", "name 4 devices for the 2", 26},
    {"{mesh['x'=2], [{'x'}], device_ids=[1,0]}", "directly after mesh", 33},
    {"{mesh['x'=2], [{?, 'x'}]}", "'?' is the last entry", 17},
    {"{mesh['x'=2], [{}], unreduced={?}}", "'?' marks open dims only", 31},
    {"{mesh['x'=2], [{}], unreduced=mean{'x'}}", "'mean' is no combiner; use sum", 30},
    {"{mesh['x'=2], [{}], [{}]}", "a second list of dims", 20},
    {"{mesh['x'=2], mesh['x'=2]}", "mesh after mesh", 14},
    {"{mesh['x'=2], devices=[2]<=[2]}", "devices after mesh", 14},
    {"{unreduced=mean}", "'mean' is no combiner", 11},
    {"{replicated metadata={op_name=\"a}", "a string inside this brace is not closed", 21},
    {"{replicated metadata={}", "the text ends where '}' should stand", 23},
    {"{replicated shard_as 1 shard_like 2}", "a second shard group", 23},
    {"{replicated shard_as 9223372036854775807}", "is too large", 12},
    {"{{replicated}", "the text ends where '}' should stand after the elements", 13},
    {"{{replicated} {manual}}", "'{' stands where '}' should", 14},
};

}  // namespace

TEST_CASE("sharding text: every mistake is named with its column", "[sharding][error]") {
  for (const Mistake& mistake : kMistakes) {
    INFO(mistake.text);
    try {
      parse_sharding(mistake.text, mistake.rank);
      FAIL_CHECK("accepted");
    } catch (const UserError& error) {
      CHECK_THAT(
          std::string(error.what()),
          Contains(mistake.message) && Contains(fmt::format("at column {} of ", mistake.column)));
    }
  }
}

TEST_CASE("sharding text: deep nesting and long texts end with an error", "[sharding][error]") {
  CHECK_THROWS_WITH(parse_sharding(std::string(1000000, '{')), Contains("nested deeper than 64"));
  std::string wide = "{devices=[2";
  for (int i = 0; i < 100000; ++i) wide += ",1";
  CHECK(parse_sharding(wide + "]0,1}").tiles(0) == 2);
  std::string axes = "{mesh['a'=1";
  for (int i = 0; i < 50000; ++i) axes += fmt::format(",'b{}'=1", i);
  CHECK_THROWS_WITH(parse_sharding(fmt::format("{}], []}}", axes)), Contains("50001 axes"));
}

TEST_CASE("sharding text: no edit of a good text does more than be refused", "[sharding][error]") {
  const std::vector<std::string> seeds{
      "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}",
      "{devices=[2,4,2]<=[2,4,2]T(2,1,0) last_tile_dims={manual, replicated}}",
      "{mesh['x'=2,'y'=4], device_ids=[7,6,5,4,3,2,1,0], [{'x', ?}, {'y':(1)2}], "
      "unreduced=max{'y':(2)2}}",
      "{{replicated}, {maximal device=3}, {devices=[2]0,1 metadata={op_name=\"a\"}} shard_as 1}"};
  const std::string alphabet = "{}[]()=,:'\"?<T0123456789- \\abdehilmnoprstuvxy_";
  std::mt19937 random(20240607);
  int accepted = 0;
  for (int round = 0; round < random_load(40000); ++round) {
    std::string text = seeds[random() % seeds.size()];
    for (uint32_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % (text.size() + 1);
      const char c = alphabet[random() % alphabet.size()];
      if (random() % 3 == 0)
        text.insert(at, 1, c);
      else if (at == text.size())
        text.pop_back();
      else if (random() % 2)
        text.erase(at, 1 + random() % 4);
      else
        text[at] = c;
      if (text.empty()) text.push_back('{');
    }
    try {
      const Sharding sharding = parse_sharding(text);
      ++accepted;
      if (!(parse_sharding(to_string(sharding)) == sharding)) FAIL_CHECK(text);
    } catch (const UserError&) {
    }
  }
  CHECK(accepted > random_load(200));
}
