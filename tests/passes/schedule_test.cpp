#include "gspmd/passes/collectives/schedule.h"

#include "gspmd/ir/text.h"
#include "passes/rewrite_check.h"

namespace gspmd::schedule_test {
namespace {

const std::string kSum =
    "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n";

// The instructions of the entry in order: "c=all-reduce-start(x)".
std::vector<std::string> scheduled(const std::string& entry, std::vector<int64_t> process_of,
                                   int64_t in_flight = 4) {
  const auto module = parse_module("HloModule m, num_partitions=4\n" + kSum + entry);
  schedule_collectives(*module, {std::move(process_of), in_flight});
  verify_module(*module);
  CHECK(to_text(*parse_module(to_text(*module))) == to_text(*module));
  std::vector<std::string> lines;
  for (const auto& node : module->entry()->nodes()) {
    if (node->is(Opcode::parameter)) continue;
    std::vector<std::string> operands;
    for (const Node* operand : node->operands()) operands.push_back(operand->name());
    lines.push_back(fmt::format("{}={}({})", node->name(), opcode_name(node->opcode()),
                                fmt::join(operands, ",")));
  }
  return lines;
}

using Lines = std::vector<std::string>;
const std::string kEnd = ", channel_id=1, use_global_device_ids=true, replica_groups=";

}  // namespace

TEST_CASE("schedule: starts behind their operands, dones before their readers") {
  const std::string text =
      "ENTRY e {\n  x = f32[8] parameter(0)\n  a = f32[8] negate(x)\n"
      "  b = f32[8] abs(a)\n  c = f32[8] all-reduce(a)" +
      kEnd + "{{0,1,2,3}}, to_apply=sum\n  d = f32[8] sine(b)\n" +
      "  g = f32[16] all-gather(b), dimensions={0}" + kEnd +
      "{{0,2},{1,3}}\n  f = f32[8] add(c, d)\n"
      "  p = f32[8] collective-permute(f), channel_id=2, "
      "source_target_pairs={{0,3}}\n  h = f32[8] cosine(d)\n"
      "  ROOT t = (f32[16], f32[8], f32[8]) tuple(g, h, p)\n}\n";
  CHECK(scheduled(text, {0, 0, 1, 1}) ==
        Lines{"a=negate(x)", "c-start=all-reduce-start(a)", "b=abs(a)",
              "g-start=all-gather-start(b)", "d=sine(b)", "c=all-reduce-done(c-start)",
              "f=add(c,d)", "p-start=collective-permute-start(f)", "h=cosine(d)",
              "g=all-gather-done(g-start)", "p=collective-permute-done(p-start)",
              "t=tuple(g,h,p)"});
  // One at a time.
  CHECK(scheduled(text, {0, 0, 1, 1}, 1) ==
        Lines{"a=negate(x)", "c-start=all-reduce-start(a)", "b=abs(a)",
              "c=all-reduce-done(c-start)", "g-start=all-gather-start(b)", "d=sine(b)",
              "f=add(c,d)", "g=all-gather-done(g-start)", "p-start=collective-permute-start(f)",
              "h=cosine(d)", "p=collective-permute-done(p-start)", "t=tuple(g,h,p)"});
  const Lines whole = {"a=negate(x)",     "b=abs(a)",   "c=all-reduce(a)",         "d=sine(b)",
                       "g=all-gather(b)", "f=add(c,d)", "p=collective-permute(f)", "h=cosine(d)",
                       "t=tuple(g,h,p)"};
  CHECK(scheduled(text, {}) == whole);
  CHECK(scheduled(text, {0, 0, 0, 0}) == whole);
}

TEST_CASE("schedule: kinds without a start of their own begin as asynchronous calls") {
  const std::string text =
      "ENTRY e {\n  x = f32[8] parameter(0)\n  y = f32[8] parameter(1)\n"
      "  r = f32[2] reduce-scatter(x), dimensions={0}, to_apply=sum" +
      kEnd +
      "{{0,1,2,3}}\n  a = f32[8] negate(y)\n  t = f32[8] all-to-all(a), dimensions={0}, "
      "channel_id=2, replica_groups={{0,1,2,3}}\n"
      "  u = (f32[8], f32[8]) all-to-all(a, x), channel_id=3, replica_groups={{0,2},{1,3}}\n"
      "  b = f32[8] abs(a)\n  u0 = f32[8] get-tuple-element(u), index=0\n"
      "  ROOT all = (f32[2], f32[8], f32[8], f32[8]) tuple(r, t, u0, b)\n}\n";
  CHECK(scheduled(text, {0, 0, 1, 1}) == Lines{"r-start=async-start(x)", "a=negate(y)",
                                               "t-start=async-start(a)", "u-start=async-start(a,x)",
                                               "b=abs(a)", "u=async-done(u-start)",
                                               "u0=get-tuple-element(u)", "r=async-done(r-start)",
                                               "t=async-done(t-start)", "all=tuple(r,t,u0,b)"});
  const auto module = parse_module("HloModule m, num_partitions=4\n" + kSum + text);
  CHECK(schedule_collectives(*module, {{0, 0, 1, 1}}));
  const Node& start = *module->entry()->root()->operand(0)->operand(0);
  CHECK(to_string(start.shape) == "((f32[8]), f32[2])");
  CHECK(start.called.at(0)->root()->is(Opcode::reduce_scatter));
  CHECK(start.called[0]->root()->called.at(0)->name() == "sum");
}

TEST_CASE("schedule: groups inside processes, and pairs with nothing between, stay") {
  const std::string text = "ENTRY e {\n  x = f32[8] parameter(0)\n  a = f32[8] all-reduce(x)" +
                           kEnd + "{{0,1},{2,3}}, to_apply=sum\n  b = f32[8] all-reduce(a)" + kEnd +
                           "{{0,2},{1,3}}, to_apply=sum\n  ROOT c = f32[8] negate(b)\n}\n";
  CHECK(scheduled(text, {0, 0, 1, 1}) ==
        Lines{"a=all-reduce(x)", "b=all-reduce(a)", "c=negate(b)"});
}

TEST_CASE("schedule: a body of a loop has an order of its own, and one of another reads none") {
  const auto module = parse_module("HloModule m, num_partitions=2\n" + kSum + R"(
body { s = (s32[], f32[8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  w = f32[8] get-tuple-element(s), index=2
  y = f32[8] sine(x)
  g = f32[8] all-reduce(w), channel_id=1, use_global_device_ids=true, replica_groups={{0,1}}, to_apply=sum
  z = f32[8] add(y, g)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[8], f32[8]) tuple(j, z, w) }
condition { s = (s32[], f32[8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY e {
  s = (s32[], f32[8], f32[8]) parameter(0)
  ROOT w = (s32[], f32[8], f32[8]) while(s), condition=condition, body=body
})");
  CHECK(schedule_collectives(*module, {{0, 1}}));
  verify_module(*module);
  const Computation& body = *module->entry()->root()->called.at(1);
  CHECK(body.name().starts_with("body"));
  CHECK(count(*module, Opcode::all_reduce_start) == 1);
  CHECK(module->computations().back().get() == module->entry());
  std::vector<std::string> names;
  for (const auto& node : body.nodes()) names.push_back(node->name());
  CHECK(names ==
        std::vector<std::string>{"s", "i", "x", "w", "g-start", "y", "g", "z", "one", "j", "r"});
}

}  // namespace gspmd::schedule_test
