// Errors of building and running a program name the line of the text whose instruction is wrong.

#include <catch2/catch.hpp>

#include "fault_text.h"
#include "gspmd/ops/loop_guard.h"
#include "runtime/run_text.h"

using namespace gspmd;

namespace {

std::string run_fault(const std::string& text, bool reference = false) {
  return fault_of(text, [&](const Module& module) {
    ProgramOptions options;
    options.num_devices = 4;
    options.reference_kernels = reference;
    const auto program = build_program(module, options);
    Executor executor(program, make_worker_pool(2));
    executor.run(to_buffers(small_arguments(module, 4)));
  });
}

void check_place(const std::string& what, const std::string& text, const std::string& message) {
  INFO(text);
  CHECK_THAT(message, Catch::Contains(what) && Catch::EndsWith(marked_place(text)));
  CHECK(occurrences(message, "m.hlo:") == 1);
}

const std::string kSum =
    "HloModule m\nsum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, "
    "b)\n}\n";

// Two of four devices reach a collective of all.
std::string uneven_branch() {
  return kSum + R"(yes {
  p = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(p), replica_groups={{0,1,2,3}}, to_apply=sum //here
}
no {
  ROOT p = f32[4] parameter(0)
}
ENTRY e {
  x = f32[4] parameter(0)
  id = u32[] partition-id()
  two = u32[] constant(2)
  first = pred[] compare(id, two), direction=LT
  ROOT c = f32[4] conditional(first, x, x), true_computation=yes, false_computation=no
})";
}

}  // namespace

TEST_CASE("error lines: what cannot be built", "[lines]") {
  const std::pair<const char*, std::string> faults[] = {
      {"custom-call",
       "HloModule m\nENTRY e {\n a = f32[4] parameter(0)\n b = f32[4] custom-call(a), "
       "custom_call_target=\"odd\" //here\n ROOT r = f32[4] negate(b)\n}"},
      {"names device 9, there are 4",
       "HloModule m\nENTRY e {\n a = f32[4] parameter(0)\n b = f32[4] collective-permute(a), "
       "source_target_pairs={{0,9}} //here\n ROOT r = f32[4] negate(b)\n}"},
      {"names device 7, there are 4",
       "HloModule m\nsum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, "
       "b) }\nENTRY e {\n a = f32[4] parameter(0)\n b = f32[4] all-reduce(a), to_apply=sum, "
       "channel_id=1, use_global_device_ids=true, replica_groups={{0,1},{2,7}} //here\n ROOT r = "
       "f32[4] negate(b)\n}"},
      {"is donated to two results",
       "HloModule m, input_output_alias={ {0}: (0, {}), {1}: (0, {}) }\nENTRY e {\n"
       " x = f32[4] parameter(0) //here\n a = f32[4] negate(x)\n b = f32[4] abs(x)\n"
       " ROOT t = (f32[4], f32[4]) tuple(a, b)\n}\n"},
  };
  for (const auto& [what, text] : faults) check_place(what, text, run_fault(text));
}

TEST_CASE("error lines: what fails while it runs", "[lines]") {
  const std::string branch = uneven_branch();
  check_place("is reached by 2 of the 4 devices", branch, run_fault(branch));
  check_place("is reached by 2 of the 4 devices", branch, run_fault(branch, true));
  const std::string loop = R"(HloModule m
cond {
  s = f32[4] parameter(0)
  ROOT go = pred[] constant(true)
}
body {
  s = f32[4] parameter(0)
  n = f32[4] negate(s)
  ROOT r = f32[4] negate(n)
}
ENTRY e {
  a = f32[4] parameter(0)
  ROOT w = f32[4] while(a), condition=cond, body=body //here
})";
  check_place("never ends", loop, run_fault(loop));
}

TEST_CASE("error lines: evaluation on devices", "[lines]") {
  const std::string text = uneven_branch();
  check_place("is reached by 2 of the 4 devices", text, fault_of(text, [](const Module& module) {
                evaluate_devices(module, 4, small_arguments(module, 4));
              }));
}
