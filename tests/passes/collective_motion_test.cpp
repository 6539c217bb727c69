#include "gspmd/passes/collectives/collective_motion.h"

#include <catch2/catch.hpp>

#include "passes/rewrite_check.h"

namespace gspmd {
namespace {

const char* const kSumModule = R"(HloModule m, num_partitions=4
%sum {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}
)";

std::string entry(const std::string& body) {
  return std::string(kSumModule) + "ENTRY %main {\n" + body + "\n}\n";
}

// A loop of three iterations over (counter, accumulator, weight); `work` makes %next of %acc and
// %w.
std::string loop(const std::string& work) {
  return std::string(kSumModule) + R"(%body {
  %p = (s32[], f32[4], f32[2]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %acc = f32[4] get-tuple-element(%p), index=1
  %w = f32[2] get-tuple-element(%p), index=2
  %one = s32[] constant(1)
  %j = s32[] add(%i, %one)
  %f = f32[] convert(%i)
  %fb = f32[4] broadcast(%f), dimensions={}
)" + work +
         R"(
  ROOT %t = (s32[], f32[4], f32[2]) tuple(%j, %next, %w)
}
%cond {
  %p = (s32[], f32[4], f32[2]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %n = s32[] constant(3)
  ROOT %c = pred[] compare(%i, %n), direction=LT
}
ENTRY %main {
  %zero = s32[] constant(0)
  %a = f32[4] parameter(0)
  %b = f32[2] parameter(1)
  %state = (s32[], f32[4], f32[2]) tuple(%zero, %a, %b)
  %loop = (s32[], f32[4], f32[2]) while(%state), condition=%cond, body=%body
  %got = f32[4] get-tuple-element(%loop), index=1
  ROOT %out = f32[4] negate(%got)
}
)";
}

const char* const kReduced =
    "all-reduce(%g), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, "
    "to_apply=%sum";

}  // namespace

TEST_CASE("a sum of all-reduces over the same groups is one all-reduce of the sum") {
  const auto module = changed(entry(R"(  %a = f32[4] parameter(0)
  %b = f32[4] parameter(1)
  %c = f32[4] parameter(2)
  %ra = f32[4] all-reduce(%a), channel_id=1, replica_groups={{0,1},{2,3}}, to_apply=%sum
  %rb = f32[4] all-reduce(%b), channel_id=2, replica_groups={{0,1},{2,3}}, to_apply=%sum
  %rc = f32[4] all-reduce(%c), channel_id=3, replica_groups={{0,2},{1,3}}, to_apply=%sum
  %ac = f32[4] add(%ra, %rc)
  %acb = f32[4] add(%ac, %rb)
  ROOT %all = f32[4] add(%acb, %a))"),
                              reassociate_collectives);
  CHECK(count(*module, Opcode::all_reduce) == 2);
}

TEST_CASE("reduce-scatters are joined, all-reduces with other readers or of maxima are not") {
  const auto module = changed(entry(R"(  %a = f32[4] parameter(0)
  %b = f32[4] parameter(1)
  %ra = f32[2] reduce-scatter(%a), channel_id=1, replica_groups={{0,1},{2,3}}, dimensions={0}, to_apply=%sum
  %rb = f32[2] reduce-scatter(%b), channel_id=2, replica_groups={{0,1},{2,3}}, dimensions={0}, to_apply=%sum
  ROOT %all = f32[2] add(%ra, %rb))"),
                              reassociate_collectives);
  CHECK(count(*module, Opcode::reduce_scatter) == 1);
  const auto two_readers = parse_module(entry(R"(  %a = f32[4] parameter(0)
  %b = f32[4] parameter(1)
  %ra = f32[4] all-reduce(%a), channel_id=1, replica_groups={{0,1},{2,3}}, to_apply=%sum
  %rb = f32[4] all-reduce(%b), channel_id=2, replica_groups={{0,1},{2,3}}, to_apply=%sum
  %s = f32[4] add(%ra, %rb)
  %t = f32[4] add(%ra, %ra)
  ROOT %both = (f32[4], f32[4]) tuple(%s, %t))"));
  CHECK_FALSE(reassociate_collectives(*two_readers));
}

TEST_CASE("a loop that only adds all-reduced values up all-reduces once, after it") {
  const auto module = changed(loop(std::string("  %g = f32[4] add(%fb, %fb)\n  %r = f32[4] ") +
                                   kReduced + "\n  %next = f32[4] add(%r, %acc)"),
                              sink_all_reduces);
  CHECK(count(*module, Opcode::all_reduce) == 1);
  CHECK(count(*module, Opcode::all_reduce, true) == 1);
}

TEST_CASE("a loop that adds linear functions of all-reduced values all-reduces once, after it") {
  const std::string narrow = R"(  %g = f32[4] add(%fb, %fb)
  %h = bf16[4] convert(%g)
  %r = bf16[4] all-reduce(%h), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=%sum
  %wide = f32[4] convert(%r)
  %eight = f32[] constant(8)
  %eights = f32[4] broadcast(%eight), dimensions={}
  %mean = f32[4] divide(%wide, %eights)
  %minus = f32[4] negate(%mean)
  %next = f32[4] add(%minus, %acc)
)";
  std::string text = loop(narrow);
  const size_t at = text.find("%body {");
  text.insert(at,
              "%sum16 {\n  %x = bf16[] parameter(0)\n  %y = bf16[] parameter(1)\n"
              "  ROOT %s = bf16[] add(%x, %y)\n}\n");
  text.replace(text.find("to_apply=%sum\n"), 14, "to_apply=%sum16\n");
  const auto module = changed(text, sink_all_reduces);
  CHECK(count(*module, Opcode::all_reduce) == 1);
  CHECK(count(*module, Opcode::all_reduce, true) == 1);
}

TEST_CASE("a sum that starts at zero is the all-reduce behind the loop itself") {
  std::string text = loop(std::string("  %g = f32[4] add(%fb, %fb)\n  %r = f32[4] ") + kReduced +
                          "\n  %next = f32[4] add(%r, %acc)");
  const auto put = [&](const std::string& old, const std::string& now) {
    text.replace(text.find(old), old.size(), now);
  };
  put("%a = f32[4] parameter(0)",
      "%z = f32[] constant(0)\n  %a = f32[4] broadcast(%z), dimensions={}");
  put("%b = f32[2] parameter(1)", "%b = f32[2] parameter(0)");
  CHECK(count(*changed(text, sink_all_reduces), Opcode::add, true) == 0);
  put("%z = f32[] constant(0)", "%z = f32[] constant(-0)");
  CHECK(count(*changed(text, sink_all_reduces), Opcode::add, true) == 1);
}

TEST_CASE("all-reduces stay in a loop that adds other functions of them") {
  const std::string reduce = std::string("  %g = f32[4] add(%fb, %fb)\n  %r = f32[4] ") + kReduced;
  for (const char* const work : {"%m = f32[4] divide(%fb, %r)", "%m = f32[4] multiply(%r, %fb)",
                                 "%m = f32[4] exponential(%r)", "%m = f32[4] multiply(%r, %r)",
                                 "%h = bf16[4] convert(%r)\n  %m = f32[4] convert(%h)"}) {
    INFO(work);
    const auto module =
        parse_module(loop(reduce + "\n  " + work + "\n  %next = f32[4] add(%m, %acc)"));
    CHECK_FALSE(sink_all_reduces(*module));
  }
}

TEST_CASE("all-reduces stay in a loop that reads the sum in another way") {
  const std::string reduce = std::string("  %g = f32[4] add(%fb, %fb)\n  %r = f32[4] ") + kReduced;
  const auto twice = parse_module(
      loop(reduce + "\n  %m = f32[4] multiply(%acc, %acc)\n  %next = f32[4] add(%r, %m)"));
  CHECK_FALSE(sink_all_reduces(*twice));
  const auto also =
      parse_module(loop(reduce + "\n  %m = f32[4] add(%r, %acc)\n  %next = f32[4] add(%m, %r)"));
  CHECK_FALSE(sink_all_reduces(*also));
  const auto not_added = parse_module(loop(reduce + "\n  %next = f32[4] subtract(%r, %acc)"));
  CHECK_FALSE(sink_all_reduces(*not_added));
}

// As `loop`, but `reads` of the body and `goes` of the condition see the sum as well.
std::string reading_loop(const std::string& reads, const std::string& goes) {
  std::string text = loop(std::string("  %g = f32[4] add(%fb, %fb)\n  %r = f32[4] ") + kReduced +
                          "\n  %next = f32[4] add(%r, %acc)\n" + reads);
  const auto put = [&](const std::string& old, const std::string& now) {
    text.replace(text.find(old), old.size(), now);
  };
  if (!reads.empty()) put("tuple(%j, %next, %w)", "tuple(%j, %next, %seen)");
  if (!goes.empty()) put("  ROOT %c = pred[] compare(%i, %n), direction=LT\n", goes);
  return text;
}

TEST_CASE("all-reduces stay in a loop whose body or condition reads the sum before its end") {
  CHECK(sink_all_reduces(*parse_module(reading_loop("", ""))));
  const std::string half = "  %seen = f32[2] slice(%acc), slice={[0:2]}\n";
  CHECK_FALSE(sink_all_reduces(*parse_module(reading_loop(half, ""))));
  const std::string small = R"(  %less = pred[] compare(%i, %n), direction=LT
  %acc = f32[4] get-tuple-element(%p), index=1
  %one = f32[1] slice(%acc), slice={[0:1]}
  %first = f32[] reshape(%one)
  %most = f32[] constant(5)
  %low = pred[] compare(%first, %most), direction=LT
  ROOT %c = pred[] and(%less, %low)
)";
  CHECK_FALSE(sink_all_reduces(*parse_module(reading_loop("", small))));
}

TEST_CASE("a collective on what no iteration changes runs once, before the loop") {
  const std::string text = loop(R"(  %twice = f32[2] add(%w, %w)
  %g = f32[4] all-gather(%twice), channel_id=1, replica_groups={{0,1},{2,3}}, dimensions={0}, use_global_device_ids=true
  %m = f32[4] multiply(%g, %fb)
  %next = f32[4] add(%acc, %m))");
  const auto module = changed(text, [](Module& m) { return hoist_collectives(m); });
  CHECK(count(*module, Opcode::all_gather, true) == 1);
  CHECK(count(*module, Opcode::all_gather) == 1);
  CHECK_FALSE(hoist_collectives(*parse_module(text), 15));
  CHECK_FALSE(hoist_collectives(*parse_module(loop(R"(  %half = f32[2] slice(%acc), slice={[0:2]}
  %g = f32[4] all-gather(%half), channel_id=1, replica_groups={{0,1},{2,3}}, dimensions={0}, use_global_device_ids=true
  %next = f32[4] add(%acc, %g))"))));
}

}  // namespace gspmd
