// Every way to write a sharding, on values of one small program: the partitioned program computes
// the same bits, or the module is refused with a message that says why.

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "load.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

std::string text_with(const std::string& a, const std::string& b, const std::string& r) {
  const auto attribute = [](const std::string& s) { return s.empty() ? s : ", sharding=" + s; };
  return "HloModule m\nENTRY e {\n  a = f32[8,5] parameter(0)" + attribute(a) +
         "\n  b = f32[5,8] parameter(1)" + attribute(b) +
         "\n  d = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
         "\n  t = f32[8,8] transpose(d), dimensions={1,0}"
         "\n  ROOT r = f32[8,8] subtract(d, t)" +
         attribute(r) + "\n}\n";
}

const std::vector<std::string>& forms() {
  static const std::vector<std::string> list{
      "",
      "{replicated}",
      "{maximal device=3}",
      "{unknown}",
      "{devices=[2,4]<=[8]}",
      "{devices=[4,2]<=[2,4]T(1,0)}",
      "{devices=[2,4]0,1,2,3,4,5,6,7}",
      "{devices=[2,4]7,6,5,4,3,2,1,0}",
      "{devices=[4,2]0,5,2,7,4,1,6,3}",
      "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
      "{devices=[1,2,4]3,1,0,2,7,6,5,4 last_tile_dim_replicate}",
      "{devices=[1,8]<=[8]}",
      "{devices=[2,2]0,1,4,5}",
      "{devices=[1,3]6,2,4}",
      "{devices=[2,1,2]7,0,5,2 last_tile_dim_replicate}",
      "{devices=[2,2,2]<=[8] last_tile_dims={replicated}}",
      "{mesh['x'=2,'y'=4], [{'x'}, {'y'}]}",
      "{mesh['x'=2,'y'=4], [{'y':(1)2}, {?}]}",
      "{mesh['x'=2,'y'=2,'z'=2], device_ids=[7,5,3,1,6,4,2,0], [{'z', 'x'}, {}]}",
  };
  return list;
}

std::string message_of(const std::string& text, int64_t devices) {
  try {
    return difference_when_partitioned(*parse_module(text), devices, 3);
  } catch (const UserError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("every sharding form on operands and result computes the same bits", "[forms]") {
  const size_t stride = random_load(8) == 8 ? 1 : 5;  // some of each with sanitizers
  size_t turn = 0;
  for (const std::string& a : forms())
    for (const std::string& r : forms()) {
      if (turn++ % stride != 0) continue;
      const std::string b = forms()[(a.size() * 7 + r.size()) % forms().size()];
      const std::string text = text_with(a, b, r);
      const std::string message = message_of(text, 8);
      INFO(text << message);
      CHECK(message.empty());
    }
}

TEST_CASE("an undecided sharding is a replicated one where nothing is completed", "[forms]") {
  const std::string split = "{devices=[2,4]<=[8]}";
  const std::string pair = R"(HloModule m
ENTRY e {
  a = f32[8,5] parameter(0), sharding={unknown}
  t = (f32[8,5], f32[8,5]) tuple(a, a), sharding={{unknown}, {devices=[2,4]<=[8]}}
  x = f32[8,5] get-tuple-element(t), index=0
  y = f32[8,5] get-tuple-element(t), index=1
  ROOT r = f32[8,5] multiply(x, y), sharding={unknown}
}
)";
  for (const std::string& text :
       {text_with("{unknown}", split, "{unknown}"), text_with(split, "{unknown}", split), pair}) {
    const auto module = parse_module(text);
    PipelineOptions options;
    options.num_devices = 8;
    options.disabled = {"propagate"};
    const std::vector<Value> arguments = integer_arguments(*module, 5);
    const Value got = run_partitioned(run_pipeline(*module, options), 8, arguments);
    INFO(text);
    CHECK(bitwise_equal(evaluate(*module, arguments).array, got.array));
  }
}

TEST_CASE("shardings that cannot be partitioned are refused with the reason", "[forms]") {
  CHECK_THAT(message_of(text_with("{devices=[2,1,4]<=[8] last_tile_dims={unreduced}}", "", ""), 8),
             Catch::Contains("unreduced"));
  CHECK_THAT(message_of(text_with("{devices=[2,4]<=[8]}", "", ""), 4), Catch::Contains("device 7"));
  CHECK_THAT(message_of(text_with("{devices=[2,2,2]<=[8]}", "", ""), 8), Catch::Contains("rank"));
  CHECK_THAT(message_of(text_with("{{replicated}, {replicated}}", "", ""), 8),
             Catch::Contains("tuple"));
}
