// Errors of every pass name the line of the text whose instruction is wrong.

#include "fault_text.h"
#include "gspmd/passes/differentiate/differentiate.h"
#include "gspmd/passes/memory/plan_memory.h"
#include "gspmd/passes/verify/manual_reference.h"
#include "passes/spmd_check.h"

using namespace gspmd;

namespace error_lines_test {
namespace {

struct Fault {
  const char* what;  // part of the message
  std::string text;
};

// The message ends with the marked line, and says it once.
void check_place(const Fault& fault, const std::string& message) {
  INFO(fault.text);
  CHECK_THAT(message, Catch::Contains(fault.what) && Catch::EndsWith(marked_place(fault.text)));
  CHECK(occurrences(message, "m.hlo:") == 1);
}

std::string pipeline_fault(const std::string& text, int64_t devices = 4) {
  return fault_of(text, [&](const Module& module) {
    PipelineOptions options;
    options.num_devices = devices;
    options.verify_between = true;
    run_pipeline(module, options);
  });
}

std::string entry(const std::string& body) { return "HloModule m\nENTRY e {\n" + body + "\n}\n"; }

const char* const kSplit = ", sharding={devices=[4,1]<=[4]}";

}  // namespace

TEST_CASE("error lines: completion", "[lines]") {
  const Fault faults[] = {
      {"shard group 3 holds a of f32[8,4] and b of f32[8]",
       entry("a = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4] shard_like 3}\n"
             "b = f32[8] parameter(1), sharding={devices=[4]<=[4] shard_like 3} //here\n"
             "ROOT r = (f32[8,4], f32[8]) tuple(a, b)")},
      {"gspmd.priority=high of b",
       entry("a = f32[8,4] parameter(0)\n"
             "b = f32[8,4] custom-call(a), custom_call_target=\"Sharding\", "
             "sharding={devices=[4,1]<=[4]}, frontend_attributes={gspmd.priority=\"high\"} //here\n"
             "ROOT r = f32[8,4] negate(b)")},
  };
  for (const Fault& fault : faults) check_place(fault, pipeline_fault(fault.text));
}

TEST_CASE("error lines: partitioning", "[lines]") {
  const std::string a = std::string("a = f32[8,4] parameter(0)") + kSplit;
  const Fault faults[] = {
      {"infeed: what a program sends and receives",
       entry("t = token[] after-all()\n i = (f32[8,4], token[]) infeed(t) //here\n"
             " ROOT r = f32[8,4] get-tuple-element(i), index=0")},
      {"ragged-all-to-all: not supported by the partitioner: r",
       entry(a + "\n o = f32[8,4] parameter(1)\n i = s64[4] parameter(2)\n ROOT r =  //here\n"
                 "f32[8,4] ragged-all-to-all(a, o, i, i, i, i), replica_groups={{0,1,2,3}}")},
      {"over device 7, the program has 4 devices",
       entry("a = f32[8,4] parameter(0), sharding={devices=[8,1]<=[8]} //here\n"
             " ROOT r = f32[8,4] negate(a)")},
      {"belongs to a per-device program",
       "HloModule m\nsum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] "
       "add(a, b)\n}\nENTRY e {\n" +
           a +
           "\n ROOT r = f32[8,4] all-reduce(a), replica_groups={{0,1},{2,3}}, to_apply=sum "
           "//here\n}"},
      {"result r is unreduced",
       entry(a + "\n ROOT r = f32[8,4] negate(a), sharding={devices=[1,1,4]<=[4] "
                 "last_tile_dims={unreduced}} //here")},
  };
  for (const Fault& fault : faults) check_place(fault, pipeline_fault(fault.text));
}

TEST_CASE("error lines: in computations that are called", "[lines]") {
  const Fault fault = {"outfeed: what a program sends and receives", R"(HloModule m
cond {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT go = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  t = token[] after-all()
  o = token[] outfeed(x, t), outfeed_shape=f32[8] //here
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[8]) tuple(j, x)
}
ENTRY e {
  x = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  i = s32[] constant(0)
  t = (s32[], f32[8]) tuple(i, x)
  ROOT w = (s32[], f32[8]) while(t), condition=cond, body=body
})"};
  check_place(fault, pipeline_fault(fault.text));
}

TEST_CASE("error lines: manual regions", "[lines]") {
  const Fault shards = {"SPMDFullToShardShape: l makes f32[4,4] of shards of f32[2,4]",
                        entry(std::string("a = f32[8,4] parameter(0)") + kSplit +
                              "\n l = f32[4,4] custom-call(a), "
                              "custom_call_target=\"SPMDFullToShardShape\", sharding={manual} "
                              "//here\n ROOT r = f32[8,4] custom-call(l), "
                              "custom_call_target=\"SPMDShardToFullShape\"" +
                              kSplit)};
  check_place(shards, pipeline_fault(shards.text));
  const Fault border = {"needs a tiled sharding on \"a\" to bound a manual region",
                        entry("a = f32[8,4] parameter(0)\n l = f32[2,4] custom-call(a), "
                              "custom_call_target=\"SPMDFullToShardShape\", sharding={manual} "
                              "//here\n ROOT r = f32[2,4] negate(l)")};
  check_place(border, fault_of(border.text, [](Module& module) {
                module.entry()->parameters()[0]->sharding.reset();
                copies_with_regions(module);
              }));
}

TEST_CASE("error lines: nodes that a pass makes for another", "[lines]") {
  const Fault fault = {
      "over device 7, the program has 4 devices",
      entry("x = f32[8,4] parameter(0)\n s = f32[4] parameter(1)\n o = f32[4] parameter(2)\n"
            " ROOT b = (f32[8,4], f32[4], f32[4]) batch-norm-training(x, s, o), epsilon=0.001, "
            "feature_index=1, sharding={{devices=[8,1]<=[8]}, {replicated}, {replicated}} //here")};
  check_place(fault, pipeline_fault(fault.text));
}

TEST_CASE("error lines: text that says the user's line as well", "[lines]") {
  const std::string text = entry(
      "a = f32[8,4] parameter(0), sharding={devices=[8,1]<=[8]}, "
      "metadata={source_file=\"model.py\" source_line=12} //here\n ROOT r = f32[8,4] negate(a)");
  const std::string message = pipeline_fault(text);
  CHECK_THAT(message, Catch::StartsWith("partition: a (model.py:12) is sharded") &&
                          Catch::EndsWith(marked_place(text)));
  CHECK(occurrences(message, "model.py:12") == 1);
}

TEST_CASE("error lines: evaluation", "[lines]") {
  const Fault faults[] = {
      {"custom-call: ",
       entry("a = f32[4] parameter(0)\n b = f32[4] custom-call(a), custom_call_target=\"odd\" "
             "//here\n ROOT r = f32[4] negate(b)")},
      {"custom-call: ",
       "HloModule m\nf {\n p = f32[] parameter(0)\n q = f32[] parameter(1)\n s = f32[] "
       "add(p, q)\n ROOT c = f32[] custom-call(s), custom_call_target=\"odd\" //here\n}\n" +
           entry("a = f32[4] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[] "
                 "reduce(a, z), dimensions={0}, to_apply=f")
               .substr(12)},
      {"\"r\" has no meaning on one device",
       entry("a = f32[4] parameter(0)\n ROOT r = f32[8] all-gather(a), replica_groups={{0,1}}, "
             "dimensions={0} //here")},
      {"evaluate: argument 1 is f32[4], parameter \"b\" of e is f32[5]",
       entry("a = f32[4] parameter(0)\n b = f32[5] parameter(1) //here\n ROOT r = (f32[4], f32[5]) "
             "tuple(a, b)")},
      {"never ends", R"(HloModule m
cond {
  s = f32[4] parameter(0)
  ROOT go = pred[] constant(true)
}
body {
  ROOT s = f32[4] parameter(0)
}
ENTRY e {
  a = f32[4] parameter(0)
  ROOT w = f32[4] while(a), condition=cond, body=body //here
})"},
  };
  for (const Fault& fault : faults) {
    check_place(fault, fault_of(fault.text, [](const Module& module) {
                  const size_t count = module.entry()->parameters().size();
                  const std::vector<Value> arguments(
                      count, Value{Array::full(Shape(DType::f32, {4}), 1), {}, false});
                  evaluate(module, arguments);
                }));
  }
}

TEST_CASE("error lines: gradients", "[lines]") {
  const Fault faults[] = {
      {"has no gradient",
       entry("x = f32[] parameter(0)\n y = f32[] all-reduce(x), to_apply={ a = "
             "f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] multiply(a, b) "
             "} //here\n ROOT z = f32[] negate(y)")},
      {"custom-call: \"y\" has no gradient",
       entry("x = f32[] parameter(0)\n y = f32[] custom-call(x), custom_call_target=\"odd\" "
             "//here\n ROOT z = f32[] negate(y)")},
      {"the loss z f32[2] is not a floating scalar",
       entry("x = f32[2] parameter(0)\n ROOT z = f32[2] negate(x) //here")},
      {"input x s32[] is not a floating or complex array",
       entry("x = s32[] parameter(0) //here\n ROOT z = f32[] convert(x)")},
  };
  for (const Fault& fault : faults)
    check_place(fault, fault_of(fault.text, [](Module& module) {
                  const std::vector<Node*> inputs{module.entry()->parameters()[0]};
                  differentiate(module.entry()->root(), inputs);
                }));
}

TEST_CASE("error lines: the memory plan", "[lines]") {
  const Fault fault = {
      "plan_memory: parameter 0 is donated to two results",
      "HloModule m, input_output_alias={ {0}: (0, {}), {1}: (0, {}) }\nENTRY e {\n"
      " x = f32[4] parameter(0) //here\n a = f32[4] negate(x)\n b = f32[4] abs(x)\n"
      " ROOT t = (f32[4], f32[4]) tuple(a, b)\n}\n"};
  check_place(fault, fault_of(fault.text, [](const Module& module) { plan_memory(module); }));
}

}  // namespace error_lines_test
