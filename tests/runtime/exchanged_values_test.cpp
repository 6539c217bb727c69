#include <cstring>

#include "base/guard_bytes.h"
#include "gspmd/ir/text.h"
#include "runtime/program.h"
#include "runtime/run_text.h"
#include "runtime/shared_values.h"

namespace gspmd {
namespace {

constexpr int64_t kGatherers = 4, kGathered = 1000;

// x is split over the devices, and gathered over `groups` as g of n elements, from which `rest`
// goes on to the root; `called` are computations that it calls.
struct Gathering {
  std::string groups, rest;
  int64_t members = 4;
  std::string called = "";
};

std::string gathering_text(const Gathering& gathering) {
  const std::string size = std::to_string(gathering.members * kGathered);
  std::string text =
      "HloModule gathering, num_partitions=4\n"
      "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n" +
      gathering.called +
      "ENTRY e {\n  x = f32[1000]{0} parameter(0)\n  g = f32[n] all-gather(x), replica_groups=" +
      gathering.groups + ", dimensions={0}, channel_id=1, use_global_device_ids=true\n" +
      gathering.rest + "}\n";
  for (size_t at = text.find("f32[n]"); at != std::string::npos; at = text.find("f32[n]"))
    text.replace(at, 6, "f32[" + size + "]{0}");
  return text;
}

ProgramOptions gathering_options(bool known) {
  ProgramOptions options;
  options.num_devices = kGatherers;
  if (known)
    options.parameters = {
        {Shape(DType::f32, {kGatherers * kGathered}), parse_sharding("{devices=[4]<=[4]}")}};
  return options;
}

std::vector<std::string> run_gathering(const Gathering& gathering, const ProgramOptions& options,
                                       int workers) {
  const auto module = parse_module(gathering_text(gathering));
  const auto x = std::make_shared<DeviceBuffer>(Shape(DType::f32, {kGathered}), kGatherers);
  for (int64_t d = 0; d < kGatherers; ++d)
    for (int64_t i = 0; i < kGathered; ++i)
      reinterpret_cast<float*>(x->shard(d))[i] = static_cast<float>((i * 7 + d * 13) % 19 - 9);
  Executor executor(build_program(*module, options), make_worker_pool(workers));
  const std::vector arguments = {x};
  executor.run(arguments);
  const auto results = executor.run(arguments);
  std::vector<std::string> out;
  for (const auto& result : results)
    for (int64_t d = 0; d < kGatherers; ++d)
      out.emplace_back(reinterpret_cast<const char*>(result->shard(d)),
                       static_cast<size_t>(result->shape().bytes()));
  return out;
}

// By argument that reads a value another device keeps: who keeps it.
std::vector<std::vector<int64_t>> keepers(const Gathering& gathering, bool known = true) {
  const auto program =
      build_program(*parse_module(gathering_text(gathering)), gathering_options(known));
  std::vector<std::vector<int64_t>> out;
  for (const Program::Borrowed& borrowed : program->borrowed) out.push_back(borrowed.keepers);
  return out;
}

// By result and device, whose storage has it; empty: each device's own.
std::vector<std::vector<int64_t>> holders(const Gathering& gathering, bool known = true) {
  return build_program(*parse_module(gathering_text(gathering)), gathering_options(known))
      ->shared_results;
}

void check_gathering(const Gathering& gathering, std::vector<std::vector<int64_t>> expected) {
  INFO(gathering_text(gathering));
  ProgramOptions reference = gathering_options(false);
  reference.reference_kernels = true;
  const std::vector<std::string> values = run_gathering(gathering, reference, 1);
  if (kGuardBytes > 0) expected.clear();
  CHECK(keepers(gathering) == expected);
  CHECK(keepers(gathering, false) == expected);  // of any x the groups give the same
  for (const int workers : {1, 2, 3, 4, 5}) {
    for (const bool poison : {false, true}) {
      INFO("workers: " << workers << ", poison: " << poison);
      ProgramOptions options = gathering_options(true);
      options.poison = poison;
      CHECK((run_gathering(gathering, options, workers) == values));  // too long to print
    }
  }
}

const std::string kSumOfAll =
    "replica_groups={}, to_apply=sum, channel_id=2, use_global_device_ids=true\n";

}  // namespace

TEST_CASE("gathered values: one of those that have the same keeps it", "[shared]") {
  const std::string rest = "  ROOT r = f32[n] reverse(g), dimensions={0}\n";
  check_gathering({"{{0,1,2,3}}", rest}, {{0, 0, 0, 0}});
  check_gathering({"{{0,1},{2,3}}", rest, 2}, {{0, 0, 3, 3}});
  check_gathering({"{{0,2},{3,1}}", rest, 2}, {{0, 3, 0, 3}});
  check_gathering({"{{2,3,0,1}}", rest}, {{0, 0, 0, 0}});
}

TEST_CASE("gathered values: readers behind exchanges read them too", "[shared]") {
  check_gathering(
      {"{{0,1,2,3}}", "  a = f32[n] reverse(g), dimensions={0}\n  s = f32[n] all-reduce(a), " +
                          kSumOfAll + "  h = f32[n] reverse(g), dimensions={0}\n" +
                          "  ROOT r = f32[n] add(h, s)\n"},
      {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}});
  check_gathering({"{{0,1,2,3}}", "  s = f32[n] all-reduce(g), " + kSumOfAll +
                                      "  a = f32[n] reverse(s), dimensions={0}\n"
                                      "  ROOT r = f32[n] add(a, g)\n"},
                  {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}});
}

TEST_CASE("exchanged values: sums and results of the program lie in one place", "[shared]") {
  const auto results = [](const Gathering& gathering, std::vector<std::vector<int64_t>> expected) {
    INFO(gathering_text(gathering));
    if (kGuardBytes > 0) expected.assign(expected.size(), {});
    CHECK(holders(gathering) == expected);
  };
  Gathering sum{"{{0,1,2,3}}", "  ROOT s = f32[1000]{0} all-reduce(x), " + kSumOfAll};
  check_gathering(sum, {});
  results(sum, {{0, 0, 0, 0}});
  // Pairs, of whose results each other one keeps its own.
  Gathering pairs{"{{0,1,2,3}}",
                  "  s = f32[1000]{0} all-reduce(x), replica_groups={{0,2},{3,1}}, to_apply=sum, "
                  "channel_id=2, use_global_device_ids=true\n"
                  "  r = f32[1000]{0} reverse(s), dimensions={0}\n"
                  "  ROOT t = (f32[1000]{0}, f32[1000]{0}, f32[1000]{0}) tuple(s, r, s)\n"};
  check_gathering(pairs, {});
  results(pairs, {{0, 3, 0, 3}, {}, {}});
  Gathering gathered{"{{0,1},{2,3}}", "  ROOT t = (f32[n], f32[1000]{0}) tuple(g, x)\n", 2};
  check_gathering(gathered, {});
  results(gathered, {{0, 0, 3, 3}, {}});
  // What each device sums up stands where the result goes to.
  Gathering in_place{"{{0,1,2,3}}",
                     "  y = f32[1000]{0} reverse(x), dimensions={0}\n"
                     "  ROOT s = f32[1000]{0} all-reduce(y), " +
                         kSumOfAll};
  check_gathering(in_place, {});
  const auto program =
      build_program(*parse_module(gathering_text(in_place)), gathering_options(true));
  const CollectiveStep& step = program->collectives.back();
  const auto slot = [&](int64_t i) {
    return program->arguments[static_cast<size_t>(step.first_argument + i)];
  };
  const bool over = slot(0) == slot(1);
  CHECK(over);
  results(in_place, {{}});
  // In an arena.
  check_gathering({"{{0,1,2,3}}", "  s = f32[1000]{0} all-reduce(x), " + kSumOfAll +
                                      "  ROOT r = f32[1000]{0} reverse(s), dimensions={0}\n"},
                  {{0, 0, 0, 0}});
}

// The first device would be through before the others have begun.
TEST_CASE("gathered values: stay apart where their place is written before all have read",
          "[shared]") {
  const auto sums = [](const std::string& of) {
    return " = f32[n] reduce-window(" + of + ", zero), window={size=3 pad=1_1}, to_apply=sum\n";
  };
  const std::string first = "  zero = f32[] constant(0)\n  a" + sums("g");
  const std::string last = "  c" + sums("b") + "  ROOT r = f32[n] reverse(c), dimensions={0}\n";
  check_gathering({"{{0,1,2,3}}", first + "  b" + sums("a") + last}, {});
  // All meet before.
  check_gathering({"{{0,1,2,3}}",
                   first + "  s = f32[n] all-reduce(a), " + kSumOfAll + "  b" + sums("s") + last},
                  {{0, 0, 0, 0}});
  // Nobody waits for others at a loop that each goes through alone. What lives until the end leaves
  // the loop a smaller gap than the place of g, which b gets.
  Gathering loop{"{{0,1,2,3}}",
                 "  early = f32[500]{0} slice(x), slice={[0:500]}\n"
                 "  long = f32[500]{0} reverse(early), dimensions={0}\n"
                 "  some = f32[1000]{0} slice(g), slice={[500:1500]}\n"
                 "  a = f32[1000]{0} reverse(some), dimensions={0}\n"
                 "  none = s32[] constant(0)\n"
                 "  start = (s32[], f32[1000]{0}) tuple(none, a)\n"
                 "  w = (s32[], f32[1000]{0}) while(start), condition=less, body=next\n"
                 "  v = f32[1000]{0} get-tuple-element(w), index=1\n"
                 "  b = f32[n] concatenate(v, v, v, v), dimensions={0}\n"
                 "  zero = f32[] constant(0)\n  c" +
                     sums("b") +
                     "  d = f32[500]{0} slice(c), slice={[7:507]}\n"
                     "  e = f32[500]{0} add(d, long)\n"
                     "  f = f32[500]{0} reverse(e), dimensions={0}\n"
                     "  h = f32[n] reverse(c), dimensions={0}\n"
                     "  ROOT r = (f32[n], f32[500]{0}) tuple(h, f)\n"};
  loop.called =
      "less { p = (s32[], f32[1000]{0}) parameter(0) i = s32[] get-tuple-element(p), index=0\n"
      "  n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }\n"
      "next { p = (s32[], f32[1000]{0}) parameter(0) i = s32[] get-tuple-element(p), index=0\n"
      "  one = s32[] constant(1) j = s32[] add(i, one)\n"
      "  v = f32[1000]{0} get-tuple-element(p), index=1\n  u = f32[1000]{0} negate(v)\n"
      "  ROOT r = (s32[], f32[1000]{0}) tuple(j, u) }\n";
  check_gathering(loop, {});
}

TEST_CASE("gathered values: stay apart where a branch reads them; a loop has a copy", "[shared]") {
  Gathering loop{"{{0,1,2,3}}",
                 "  zero = s32[] constant(0)\n  start = (s32[], f32[n]) tuple(zero, g)\n"
                 "  w = (s32[], f32[n]) while(start), condition=less, body=next\n"
                 "  v = f32[n] get-tuple-element(w), index=1\n  h = f32[n] add(v, g)\n"
                 "  ROOT r = f32[n] reverse(h), dimensions={0}\n"};
  loop.called =
      "less { p = (s32[], f32[n]) parameter(0) i = s32[] get-tuple-element(p), index=0\n"
      "  n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }\n"
      "next { p = (s32[], f32[n]) parameter(0) i = s32[] get-tuple-element(p), index=0\n"
      "  y = f32[n] get-tuple-element(p), index=1\n  one = s32[] constant(1)\n"
      "  j = s32[] add(i, one)\n  z = f32[n] reverse(y), dimensions={0}\n"
      "  u = f32[n] add(z, y)\n  ROOT r = (s32[], f32[n]) tuple(j, u) }\n";
  Gathering branch{"{{0,1,2,3}}",
                   "  zero = f32[] constant(0)\n  first = f32[1]{0} slice(x), slice={[0:1]}\n"
                   "  one = f32[] reshape(first)\n"
                   "  is = pred[] compare(one, zero), direction=GT\n"
                   "  v = f32[n] conditional(is, g, g), true_computation=yes, "
                   "false_computation=no\n  ROOT r = f32[n] reverse(v), dimensions={0}\n"};
  branch.called =
      "yes { p = f32[n] parameter(0) ROOT r = f32[n] reverse(p), dimensions={0} }\n"
      "no { p = f32[n] parameter(0) ROOT r = f32[n] negate(p) }\n";
  check_gathering(branch, {});
  for (Gathering* both : {&loop, &branch}) {
    both->rest.replace(both->rest.find("ROOT r"), 6, "t");
    both->rest += "  ROOT s = f32[n] all-reduce(t), " + kSumOfAll;
  }
  check_gathering(loop, {{0, 0, 0, 0}, {0, 0, 0, 0}});
  check_gathering(branch, {});
}

}  // namespace gspmd
