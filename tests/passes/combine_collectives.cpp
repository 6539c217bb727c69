#include "gspmd/passes/collectives/combine_collectives.h"

#include <catch2/catch.hpp>

#include "passes/body_text.h"

namespace gspmd::combine_collectives_test {
namespace {

int64_t count_of(const Module& module, Opcode opcode) {
  int64_t n = 0;
  for (const auto& node : module.entry()->nodes()) n += node->is(opcode) ? 1 : 0;
  return n;
}

std::unique_ptr<Module> combined(const std::string& body, int64_t max_bytes = 1 << 20) {
  auto module = module_of(body);
  CombineOptions options;
  options.max_bytes = max_bytes;
  combine_collectives(*module, options);
  verify_module(*module);
  return module;
}

const char* const kReduce = ", replica_groups={{0,1,2,3}}, to_apply=%sum\n";
const char* const kGather = ", replica_groups={{0,1,2,3}}, dimensions={0}\n";

}  // namespace

TEST_CASE("independent all-reduces of one kind become one with a tuple result") {
  const auto module =
      combined(std::string("  %a = f32[4] parameter(0)\n  %b = f32[2] parameter(1)\n") +
               "  %x = f32[4] all-reduce(%a)" + kReduce + "  %y = f32[2] all-reduce(%b)" + kReduce +
               "  ROOT %t = (f32[4], f32[2]) tuple(%x, %y)");
  CHECK(body_text(*module) == R"(  %a = f32[4] parameter(0)
  %b = f32[2] parameter(1)
  %all-reduce = (f32[4], f32[2]) all-reduce(%a, %b), replica_groups={{0,1,2,3}}, to_apply=%sum
  %get-tuple-element = f32[4] get-tuple-element(%all-reduce), index=0
  %get-tuple-element.1 = f32[2] get-tuple-element(%all-reduce), index=1
  ROOT %t = (f32[4], f32[2]) tuple(%get-tuple-element, %get-tuple-element.1)
)");
}

TEST_CASE(
    "collectives that depend on each other, or on each other's kinds crosswise, stay acyclic") {
  const std::string head = "  %a = f32[4] parameter(0)\n  %b = f32[4] parameter(1)\n";
  CHECK(count_of(*combined(head + "  %x = f32[4] all-reduce(%a)" + kReduce +
                           "  %n = f32[4] negate(%x)\n  %y = f32[4] all-reduce(%n)" + kReduce +
                           "  ROOT %t = (f32[4], f32[4]) tuple(%x, %y)"),
                 Opcode::all_reduce) == 2);
  // x0 (sum) -> y0 (gather), y1 (gather) -> x1 (sum): joining both kinds would close a cycle.
  const auto crossed = combined(
      head + "  %x0 = f32[4] all-reduce(%a)" + kReduce + "  %y0 = f32[16] all-gather(%x0)" +
      kGather + "  %y1 = f32[16] all-gather(%b)" + kGather + "  %x1 = f32[16] all-reduce(%y1)" +
      kReduce + "  ROOT %t = (f32[16], f32[16]) tuple(%y0, %x1)");
  CHECK(count_of(*crossed, Opcode::all_reduce) == 2);
}

TEST_CASE("groups, combiner, type, phase and size keep collectives apart") {
  const std::string head =
      "  %a = f32[4] parameter(0)\n  %x = f32[4] all-reduce(%a)" + std::string(kReduce);
  const char* const other =
      GENERATE("  %y = f32[4] all-reduce(%a), replica_groups={{0,1},{2,3}}, to_apply=%sum\n",
               "  %y = f32[4] all-reduce(%a), replica_groups={{0,1,2,3}}, to_apply=%sum, "
               "frontend_attributes={gspmd.phase=\"backward\"}\n");
  const std::string tail = "  ROOT %t = (f32[4], f32[4]) tuple(%x, %y)";
  CHECK(count_of(*combined(head + other + tail), Opcode::all_reduce) == 2);
  const std::string same = "  %y = f32[4] all-reduce(%a)" + std::string(kReduce);
  CHECK(count_of(*combined(head + same + tail), Opcode::all_reduce) == 1);
  CHECK(count_of(*combined(head + same + tail, 31), Opcode::all_reduce) == 2);
}

TEST_CASE("all-gathers join only where no other collective stands between their readers") {
  const std::string head = std::string("  %a = f32[4] parameter(0)\n  %b = f32[4] parameter(1)\n") +
                           "  %x = f32[16] all-gather(%a)" + kGather +
                           "  %y = f32[16] all-gather(%b)" + kGather +
                           "  %nx = f32[16] negate(%x)\n";
  const std::string tail = "  ROOT %t = (f32[16], f32[16]) tuple(%nx, %ny)";
  CHECK(count_of(*combined(head + "  %ny = f32[16] negate(%y)\n" + tail), Opcode::all_gather) == 1);
  const std::string between = "  %r = f32[4] all-reduce(%b)" + std::string(kReduce);
  CHECK(count_of(*combined(head + between + "  %ny = f32[16] negate(%y)\n" + tail),
                 Opcode::all_gather) == 2);
}

}  // namespace gspmd::combine_collectives_test
