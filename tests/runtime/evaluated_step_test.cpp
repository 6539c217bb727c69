#include "gspmd/runtime/evaluated_step.h"

#include "runtime/run_text.h"

namespace gspmd {
namespace {

std::vector<std::string> texts_of(const std::vector<EvaluatedStep>& steps) {
  std::vector<std::string> texts;
  for (const EvaluatedStep& step : steps) texts.push_back(to_string(step));
  return texts;
}

// Exponentials of complex numbers have no kernel; sums, debug calls and single elements are no
// matter.
const std::string kNested = R"(
body {
  s = (s32[], c64[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = c64[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  in_body = c64[4] exponential(x), metadata={source_file="model.py" source_line=12}
  ROOT t = (s32[], c64[4]) tuple(j, in_body)
}
condition {
  s = (s32[], c64[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT r = pred[] compare(i, three), direction=LT
}
left { x = c64[4] parameter(0) ROOT in_branch = c64[4] log(x) }
right { x = c64[4] parameter(0) ROOT sum = c64[4] add(x, x) }
ENTRY e {
  p = pred[] parameter(0)
  x = c64[4] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], c64[4]) tuple(zero, x)
  w = (s32[], c64[4]) while(t), condition=condition, body=body
  y = c64[4] get-tuple-element(w), index=1
  z = c64[4] conditional(p, y, y), true_computation=left, false_computation=right
  sent = c64[4] collective-broadcast(z), replica_groups={{0,1}}
  one = c64[1] slice(z), slice={[0:1]}
  few = c64[1] exponential(one)
  ROOT r = (c64[4], c64[1]) tuple(sent, few)
}
)";

}  // namespace

TEST_CASE("evaluated steps are those without a kernel, in loops and branches too", "[evaluated]") {
  const auto module = parse_module("HloModule m, num_partitions=2" + kNested);
  const auto program = build_program(*module, {.num_devices = 2});
  CHECK(texts_of(evaluated_steps(*program)) ==
        std::vector<std::string>{"exponential \"in_body\" c64[4] (model.py:12)",
                                 "log \"in_branch\" c64[4]",
                                 "collective-broadcast \"sent\" c64[4]"});
  CHECK(evaluated_steps(*build_program(*module, {.num_devices = 2, .reference_kernels = true}))
            .size() > 3);
}

TEST_CASE("what all has kernels has no evaluated steps, whatever its debug calls", "[evaluated]") {
  const auto module = parse_module(R"(HloModule m
ENTRY e {
  x = f32[64,64] parameter(0)
  y = f32[64,64] exponential(x)
  ROOT d = f32[64,64] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)");
  CHECK(evaluated_steps(*build_program(*module, {})).empty());
}

}  // namespace gspmd
