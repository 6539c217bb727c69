// The completed module of a pipeline is the one before anything is rewritten for partitioning, and
// bodies of fusions are equal only where they compute the same.

#include <catch2/catch.hpp>

#include "gspmd/ir/text.h"
#include "gspmd/passes/pipeline.h"
#include "passes/fuse/equal_bodies.h"

using namespace gspmd;

namespace {

std::vector<std::string> completed_ops(const std::string& text) {
  PipelineOptions options;
  options.num_devices = 2;
  const CompiledModule compiled = run_pipeline(*parse_module(text), options);
  std::vector<std::string> ops;
  for (const auto& node : compiled.completed->entry()->nodes())
    ops.emplace_back(opcode_name(node->opcode()));
  return ops;
}

using Ops = std::vector<std::string>;

bool equal_fused(const std::string& a, const std::string& b) {
  const auto module = [](const std::string& body) {
    return parse_module(
        "HloModule m\nadd {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] "
        "add(a, b)\n}\n"
        "most {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] maximum(a, "
        "b)\n}\n"
        "ENTRY e {\n p = f32[4,8] parameter(0)\n q = f32[4,8] parameter(1)\n k = f32[] "
        "constant(0)\n" +
        body + "}\n");
  };
  const auto x = module(a), y = module(b);
  return equal_bodies(*x->entry(), *y->entry());
}

}  // namespace

TEST_CASE("completed modules: as they were before slices became static", "[passes]") {
  CHECK(completed_ops("HloModule m, num_partitions=2\nENTRY e {\n"
                      " a = f32[8] parameter(0), sharding={devices=[2]<=[2]}\n"
                      " i = s32[] constant(2)\n"
                      " ROOT s = f32[4] dynamic-slice(a, i), dynamic_slice_sizes={4}, "
                      "sharding={devices=[2]<=[2]}\n}\n") ==
        Ops{"parameter", "constant", "dynamic-slice"});
  CHECK(completed_ops(
            "HloModule m, num_partitions=2\nENTRY e {\n"
            " a = f32[8] parameter(0), sharding={devices=[2]<=[2]}\n"
            " k = f32[] constant(7)\n"
            " p = f32[10] pad(a, k), padding=1_1, sharding={devices=[2]<=[2]}\n"
            " ROOT s = f32[8] slice(p), slice={[2:10]}, sharding={devices=[2]<=[2]}\n}\n") ==
        Ops{"parameter", "constant", "pad", "slice"});
  CHECK(completed_ops("HloModule m, num_partitions=2\nENTRY e {\n"
                      " a = f32[8] parameter(0), sharding={devices=[2]<=[2]}\n"
                      " ROOT b = f32[8] negate(a)\n}\n") == Ops{"parameter", "negate"});
}

TEST_CASE("completed modules: kept though nothing is partitioned", "[passes]") {
  PipelineOptions options;
  options.disabled = {"partition"};
  const auto module = parse_module(
      "HloModule m\nENTRY e {\n a = f32[8] parameter(0)\n ROOT b = f32[8] negate(a)\n}\n");
  const CompiledModule compiled = run_pipeline(*module, options);
  REQUIRE(compiled.completed != nullptr);
  CHECK(to_text(*compiled.completed) == to_text(*compiled.local));
}

TEST_CASE("fusions: bodies are equal by what they compute", "[passes]") {
  const std::string sum = " ROOT r = f32[4] reduce(s, k), dimensions={1}, to_apply=add\n";
  const std::string body = " s = f32[4,8] subtract(p, q)\n" + sum;
  CHECK(equal_fused(body, body));
  CHECK(equal_fused(body,
                    " other = f32[4,8] subtract(p, q)\n"
                    " ROOT name = f32[4] reduce(other, k), dimensions={1}, to_apply=add\n"));
  CHECK_FALSE(equal_fused(body, " s = f32[4,8] subtract(q, p)\n" + sum));
  CHECK_FALSE(equal_fused(body, " s = f32[4,8] add(p, q)\n" + sum));
  CHECK_FALSE(equal_fused(body,
                          " s = f32[4,8] subtract(p, q)\n"
                          " ROOT r = f32[8] reduce(s, k), dimensions={0}, to_apply=add\n"));
  CHECK_FALSE(equal_fused(body,
                          " s = f32[4,8] subtract(p, q)\n"
                          " ROOT r = f32[4] reduce(s, k), dimensions={1}, to_apply=most\n"));
  CHECK_FALSE(equal_fused(body, body + " t = f32[4,8] add(p, q)\n"));
}
