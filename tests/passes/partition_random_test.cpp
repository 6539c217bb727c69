// Random numbers of split arrays: those of one device, made by each device for its own part.

#include <regex>

#include "gspmd/ir/text.h"
#include "load.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

const char* const kLayouts[] = {"devices=[4,1]<=[4]",
                                "devices=[1,4]<=[4]",
                                "devices=[1,4]3,1,2,0",
                                "devices=[2,2]<=[2,2]T(1,0)",
                                "devices=[2,1,2]2,0,3,1 last_tile_dim_replicate",
                                "devices=[1,3]0,2,1"};

std::vector<uint64_t> seeds() {
  if (random_load(8) == 8) return {1, 2, 5};
  return {5};
}

// Equal to one device, without communication, and (where the layout splits) no whole array is made.
void check(const std::string& op, const std::string& generator, const char* layout) {
  const bool long_state = generator.find("3]") != std::string::npos;
  std::string text =
      "HloModule m\nENTRY e {\n s = u64[STATE] parameter(0), sharding={replicated}\n" + op + "}\n";
  text = std::regex_replace(text, std::regex("@"), layout);
  text = std::regex_replace(text, std::regex("STATE"), long_state ? "3" : "2");
  const auto module = parse_module(text);
  for (const uint64_t seed : seeds()) {
    const std::string difference = difference_when_partitioned(*module, 4, seed);
    INFO(difference);
    CHECK(difference.empty());
  }
  PipelineOptions options;
  options.num_devices = 4;
  const CompiledModule compiled = run_pipeline(*module, options);
  INFO(to_text(*compiled.local));
  CHECK(collectives(compiled).empty());
  for (const auto& node : compiled.local->entry()->nodes()) {
    CHECK_FALSE(node->is(Opcode::rng));
    CHECK_FALSE(node->is(Opcode::rng_bit_generator));
  }
}

}  // namespace

TEST_CASE("random bits of a split array are made by position", "[random]") {
  for (const char* const layout : kLayouts)
    for (const char* const dims : {"7,5", "8,12", "3,11", "1,16", "6,7", "9,4"})
      for (const char* const type : {"u8", "s16", "u32", "s64"})
        for (const char* const generator :
             {"rng_three_fry", "rng_philox u64[2]", "rng_default u64[3]"}) {
          const std::string algorithm =
              std::string(generator).substr(0, std::string(generator).find(' '));
          INFO(layout << " " << type << "[" << dims << "] " << generator);
          check(fmt::format(" r = (u64[STATE], {0}[{1}]) rng-bit-generator(s), algorithm={2}, "
                            "sharding={{{{replicated}}, {{@}}}}\n"
                            " n = u64[STATE] get-tuple-element(r), index=0\n"
                            " b = {0}[{1}] get-tuple-element(r), index=1, sharding={{@}}\n"
                            " ROOT t = (u64[STATE], {0}[{1}]) tuple(n, b), "
                            "sharding={{{{replicated}}, {{@}}}}\n",
                            type, dims, algorithm),
                generator, layout);
        }
}

TEST_CASE("random bits whose second dim is halved, and bits without their state", "[random]") {
  for (const char* const dims : {"3,6,5", "5,3,4", "5,7,3"})
    for (const char* const layout :
         {"devices=[2,2,1]<=[4]", "devices=[1,4,1]<=[4]", "devices=[1,2,2]<=[4]"})
      for (const char* const algorithm : {"rng_three_fry", "rng_philox"})
        check(fmt::format(" ROOT r = u32[{}] rng-bit-generator(s), algorithm={}, sharding={{@}}\n",
                          dims, algorithm),
              "", layout);
}

TEST_CASE("numbers of rng of a split array are made by position", "[random]") {
  for (const char* const layout : kLayouts)
    for (const char* const dims : {"7,5", "8,12"})
      for (const char* const type : {"f32", "f64", "bf16", "s32", "u8", "pred"})
        for (const char* const distribution : {"rng_uniform", "rng_normal"}) {
          if (type[0] != 'f' && type[0] != 'b' && distribution[4] == 'n') continue;
          const bool is_pred = type[0] == 'p';
          check(fmt::format(
                    " l = {0}[] constant({3})\n h = {0}[] constant({4})\n ROOT r = {0}[{1}] "
                    "rng(l, h), distribution={2}, sharding={{@}}\n",
                    type, dims, distribution, is_pred ? "false" : "1", is_pred ? "true" : "100"),
                "", layout);
        }
}
