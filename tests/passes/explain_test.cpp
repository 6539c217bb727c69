#include "gspmd/passes/explain/explain.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gspmd/ir/text.h"

namespace gspmd {
namespace {

std::vector<Explanation> explained(const std::string& entry, int64_t devices = 4,
                                   int64_t candidates = 50) {
  const auto module =
      parse_module(fmt::format("HloModule m, num_partitions={}\n"
                               "%sum {{\n  %x = f32[] parameter(0)\n"
                               "  %y = f32[] parameter(1)\n"
                               "  ROOT %s = f32[] add(%x, %y)\n}}\n"
                               "ENTRY %main {{\n{}\n}}\n",
                               devices, entry));
  PipelineOptions options;
  options.num_devices = devices;
  ExplainOptions limits;
  limits.max_candidates = candidates;
  return explain(*module, options, limits);
}

int64_t rank_of(const Module& module, const std::string& name) {
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      if (node->name() == name) return node->rank();
  return 0;
}

std::vector<std::string> names(const std::vector<NamedSharding>& all) {
  std::vector<std::string> result;
  for (const NamedSharding& n : all) result.push_back(n.node + " " + n.sharding);
  return result;
}

}  // namespace

TEST_CASE("an all-reduce is explained by the annotations that split what is summed") {
  const auto all = explained(
      R"(  %x = f32[32,16] parameter(0), sharding={devices=[1,4]<=[4]}, metadata={op_name="x" source_file="model.cpp" source_line=7}
  %w = f32[16,32] parameter(1), sharding={devices=[4,1]<=[4]}
  %d = f32[32,32] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="product" source_file="model.cpp" source_line=9}
  ROOT %r = f32[32,32] negate(%d))");
  REQUIRE(all.size() == 1);
  CHECK(all[0].collective.kind == "all-reduce");
  CHECK(all[0].collective.bytes == 32 * 32 * 4 * 2 * 3 / 4);
  CHECK(all[0].collective.instruction == "d");
  CHECK(names(all[0].annotations) ==
        std::vector<std::string>{"x {devices=[1,4]<=[4]}", "w {devices=[4,1]<=[4]}"});
  REQUIRE(all[0].annotations.size() == 2);
  CHECK(all[0].annotations[0].source == "model.cpp:7");
  REQUIRE(all[0].suggestion);
  CHECK(all[0].suggestion->bytes_before == all[0].collective.bytes);
  CHECK(all[0].suggestion->bytes_after < all[0].suggestion->bytes_before);
}

TEST_CASE(
    "an all-gather names the op that needed it, the value it moves, and an annotation without it") {
  const auto all = explained(R"(  %x = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}
  %e = f32[8,16] exponential(%x)
  ROOT %n = f32[8,16] negate(%e), sharding={replicated})");
  REQUIRE(all.size() == 1);
  CHECK(all[0].collective.kind == "all-gather");
  CHECK(all[0].collective.instruction == "n");
  REQUIRE(all[0].suggestion);
  CHECK(all[0].suggestion->bytes_after == 0);
}

TEST_CASE("without candidates the collectives are explained all the same") {
  const auto all = explained(R"(  %x = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}
  ROOT %n = f32[8,16] negate(%x), sharding={replicated})",
                             4, 0);
  REQUIRE(all.size() == 1);
  CHECK_FALSE(all[0].suggestion);
  CHECK(names(all[0].annotations).size() == 2);
}

TEST_CASE("the annotation that is named for a collective changes it, over the corpus") {
  int programs = 0, collectives = 0, suggestions = 0, claims = 0;
  for (const auto& file : std::filesystem::directory_iterator(GSPMD_SOURCE_DIR "/tests/data/hlo")) {
    if (file.path().extension() != ".hlo") continue;
    std::ifstream in(file.path());
    std::stringstream text;
    text << in.rdbuf();
    const auto module = parse_module(text.str(), file.path().filename().string());
    if (module->num_partitions < 2 || module->num_replicas > 1) continue;
    PipelineOptions options;
    options.num_devices = module->num_partitions;
    options.combine = options.fuse = false;
    ExplainOptions limits;
    limits.max_candidates = 40;
    std::vector<Explanation> all;
    try {
      all = explain(*module, options, limits);
    } catch (const UserError&) {
      continue;  // an op that cannot be partitioned yet
    }
    if (all.empty()) continue;
    ++programs;
    for (const Explanation& e : all) {
      INFO(file.path().filename() << " " << e.collective.kind << " " << e.collective.instruction);
      ++collectives;
      suggestions += e.suggestion.has_value();
      REQUIRE_FALSE(e.annotations.empty());
      const auto there = [&](const Module& changed, bool unchanged) {
        for (const CollectiveStats& c :
             collective_stats(*run_pipeline(changed, options).uncombined))
          if (c.kind == e.collective.kind && c.instruction == e.collective.instruction &&
              c.tensor == e.collective.tensor && c.groups == e.collective.groups &&
              (!unchanged || (c.bytes == e.collective.bytes && c.count == e.collective.count)))
            return true;
        return false;
      };
      const auto set = [](Module& changed, const std::string& name, std::optional<Sharding> to) {
        for (const auto& computation : changed.computations())
          for (const auto& node : computation->nodes())
            if (node->name() == name && (!to || !node->shape.is_tuple)) node->sharding = to;
      };
      // Without each annotation that is named it is another one, or without all of them.
      claims += e.evidence != Evidence::none;
      const auto all_out = module->clone();
      for (const NamedSharding& annotation : e.annotations) {
        INFO("annotation of " << annotation.node);
        set(*all_out, annotation.node, std::nullopt);
        if (e.evidence != Evidence::each) continue;
        const auto without = module->clone();
        set(*without, annotation.node, std::nullopt);
        CHECK_FALSE(there(*without, true));
      }
      if (e.evidence == Evidence::together) CHECK_FALSE(there(*all_out, true));
      if (!e.suggestion) continue;
      const auto better = module->clone();
      const NamedSharding& annotation = e.suggestion->annotation;
      const auto with_it = fmt::format(
          "HloModule s\nENTRY e {{ ROOT p = f32[{}] parameter(0), sharding={} }}",
          fmt::join(Dims(static_cast<size_t>(rank_of(*module, annotation.node)), 1024), ","),
          annotation.sharding);
      set(*better, annotation.node, parse_module(with_it)->entry()->root()->sharding);
      CHECK_FALSE(there(*better, false));
    }
  }
  CHECK(programs >= 20);
  CHECK(suggestions * 2 > collectives);
  CHECK(claims * 10 > collectives * 9);
}

TEST_CASE("annotations that only together bring a collective about are named together") {
  // Either operand's annotation alone completes the other's: the sum stays.
  const auto all = explained(R"(  %x = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]}
  %w = f32[16,8] parameter(1), sharding={devices=[4,1]<=[4]}
  %y = f32[8,16] negate(%x), sharding={devices=[1,4]<=[4]}
  %v = f32[16,8] negate(%w), sharding={devices=[4,1]<=[4]}
  ROOT %d = f32[8,8] dot(%y, %v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated})");
  REQUIRE(all.size() == 1);
  CHECK(all[0].evidence != Evidence::none);
  const auto untried = explained(R"(  %x = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}
  ROOT %n = f32[8,16] negate(%x), sharding={replicated})",
                                 4, 0);
  CHECK(untried.at(0).evidence == Evidence::none);
}

}  // namespace gspmd
