#include "gspmd/ir/text.h"
#include "passes/spmd_check.h"

// What is said of a value that is gathered whole for want of a better way.

using namespace gspmd;
using namespace gspmd::testing;

namespace {

const char* const kThirds = R"(HloModule m
ENTRY e {
  a = f32[2,3,5] parameter(0), sharding={devices=[1,3,1,2]<=[6] last_tile_dim_replicate}, metadata={op_name="weights"}
  b = f32[2,3,5] copy(a), sharding={devices=[1,2,1,3]<=[3,2]T(1,0) last_tile_dim_replicate}, metadata={op_name="use" source_file="model.py" source_line=7}
  ROOT c = f32[2,3,5] negate(b), sharding={devices=[1,2,1,3]<=[3,2]T(1,0) last_tile_dim_replicate}
}
)";

std::vector<FullRematerialization> reported(const Module& module) {
  PipelineOptions options;
  options.num_devices = 6;
  return run_pipeline(module, options).full_rematerializations;
}

std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const size_t begin = text.find(before);
  REQUIRE(begin != std::string::npos);
  const size_t end = text.find(after, begin);
  REQUIRE(end != std::string::npos);
  return text.substr(begin + before.size(), end - begin - before.size());
}

}  // namespace

TEST_CASE("a full rematerialisation names tensor, shardings, op, line and what avoids it",
          "[rematerialization]") {
  const auto module = parse_module(kThirds);
  const std::vector<FullRematerialization> all = reported(*module);
  REQUIRE(all.size() == 1);
  CHECK(all[0].tensor == "weights");
  CHECK(all[0].shape == "f32[2,3,5]");
  CHECK(all[0].from == "{devices=[1,3,1,2]<=[6] last_tile_dim_replicate}");
  CHECK(all[0].to == "{devices=[1,2,1,3]<=[3,2]T(1,0) last_tile_dim_replicate}");
  CHECK(all[0].op == "b");
  CHECK(all[0].source == "model.py:7");
  CHECK_THAT(all[0].avoid, Catch::Contains("annotate weights with {devices=") &&
                               Catch::Contains(" bytes instead of 80, or b with {devices="));
}

TEST_CASE("the annotations that are said to avoid a full rematerialisation do",
          "[rematerialization]") {
  const std::string avoid = reported(*parse_module(kThirds)).at(0).avoid;
  const auto value = parse_module(kThirds);
  value->entry()->parameters()[0]->sharding =
      parse_sharding(between(avoid, "annotate weights with ", ": "), 3);
  CHECK(reported(*value).empty());
  CHECK(difference_when_partitioned(*value, 6, 1) == "");
  const auto reader = parse_module(kThirds);
  const Sharding instead = parse_sharding(between(avoid, "or b with ", ": "), 3);
  for (const auto& node : reader->entry()->nodes())
    if (!node->is(Opcode::parameter)) node->sharding = instead;
  CHECK(reported(*reader).empty());
  CHECK(difference_when_partitioned(*reader, 6, 1) == "");
}
