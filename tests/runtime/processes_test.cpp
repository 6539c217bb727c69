// Programs in several processes, which threads stand for: bit by bit what one process gives.
#include "gspmd/runtime/processes.h"

#include <array>
#include <cmath>

#include "gspmd/passes/pipeline.h"
#include "load.h"
#include "runtime/run_text.h"
#include "runtime/thread_transport.h"

namespace gspmd {
namespace {

// Numbers whose sums depend on the order; whole ones for integers.
std::vector<std::vector<Value>> rounding_arguments(const Module& module, int64_t devices) {
  std::vector<std::vector<Value>> arguments = small_arguments(module, devices);
  std::mt19937 random(7);
  for (auto& values : arguments)
    for (Value& value : values)
      if (!value.is_tuple && is_floating(value.array.dtype()))
        for (int64_t i = 0; i < value.array.size(); ++i)
          value.array.set(i, std::ldexp(double(random()) / 4e9 - 0.5, int(random() % 8)));
  return arguments;
}

using Results = std::vector<std::vector<Array>>;  // [leaf][device]

Results run(const Module& module, const std::vector<std::vector<Value>>& arguments,
            bool reference = false, int workers = 1, RunCounters* counters = nullptr,
            bool overlap = false) {
  ProgramOptions options;
  options.num_devices = std::ssize(arguments);
  options.reference_kernels = reference;
  options.poison = true;
  ScheduleOptions schedule;
  if (overlap) schedule.process_of = process_of_devices(options.num_devices);
  Executor executor(build_program(prepare_local(module, schedule), options),
                    make_worker_pool(workers, PoolKind::threads));
  Results results;
  for (int again = 0; again < 2; ++again) {
    results.clear();
    for (const auto& buffer : executor.run(to_buffers(arguments)))
      results.push_back(gather_parts(*buffer));
  }
  if (counters != nullptr) *counters = executor.counters();
  return results;
}

// In every number of processes, each with collectives beside what devices compute and without.
void expect_same(const std::string& text, int64_t devices, bool by_reference = true) {
  const auto module = parse_module(text);
  const auto arguments = rounding_arguments(*module, devices);
  // Large ones take seconds each: in two and in all processes, each in one of the ways.
  const bool large = module->entry()->parameters()[0]->shape.elements_count() > 1 << 20;
  for (const bool reference : {false, true}) {
    if (reference && !by_reference) break;
    const Results alone = run(*module, arguments, reference);
    for (int64_t processes = 2; processes <= devices; ++processes) {
      // With sanitizers, which have many pages to map for each: few, uneven blocks, and one each.
      if (random_load(8) < 8 && processes > 2 && processes < devices - 1) continue;
      if (large && processes > 2 && processes < devices) continue;
      for (const bool overlap : {false, true}) {
        if (large && overlap == (processes == 2)) continue;
        const int workers = overlap == (processes % 2 == 0) ? 1 : 3;
        ThreadJob job(processes, processes % 4 < 2);  // some touch others' memory
        std::vector<Results> found(static_cast<size_t>(processes));
        const auto errors = run_as_processes(job, [&](int64_t p) {
          found[size_t(p)] = run(*module, arguments, reference, workers, nullptr, overlap);
        });
        for (size_t p = 0; p < found.size(); ++p) {
          CAPTURE(processes, workers, overlap, reference, p, errors[p]);
          REQUIRE(errors[p].empty());
          REQUIRE(found[p].size() == alone.size());
          for (size_t leaf = 0; leaf < alone.size(); ++leaf)
            for (size_t d = 0; d < alone[leaf].size(); ++d) {
              CAPTURE(leaf, d);
              REQUIRE(bitwise_equal(found[p][leaf][d], alone[leaf][d]));
            }
        }
        for (const auto& [way, queue] : job.sent) CHECK(queue.empty());
      }
    }
  }
}

const std::string kSums = R"(
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
half { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT r = bf16[] add(a, b) }
odd { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] multiply(a, b) ROOT r = f32[] add(a, c) }
)";

}  // namespace

TEST_CASE("processes: every collective has one process's bits, whatever its groups",
          "[processes]") {
  const std::string groups = GENERATE("{{0,1,2,3,4,5}}", "{{5,0,3},{4,2,1}}", "{{0,1},{2,3},{4,5}}",
                                      "{{0,3},{4,1},{2,5}}", "{{2},{0},{1},{3},{4},{5}}");
  CAPTURE(groups);
  const auto members =
      std::count(groups.begin(), groups.begin() + ptrdiff_t(groups.find('}')), ',') + 1;
  const std::string n = std::to_string(6 / members), m = std::to_string(6 * members);
  const std::string end = ", channel_id=1, use_global_device_ids=true, replica_groups=" + groups;
  expect_same("HloModule m, num_partitions=6" + kSums + R"(
ENTRY e {
  x = f32[6,6] parameter(0)
  h = bf16[6,5] parameter(1)
  s = f32[6,6] all-reduce(x), to_apply=sum)" +
                  end + R"(
  b = f32[6,6] all-reduce(x), to_apply=most)" +
                  end + R"(
  o = f32[6,6] all-reduce(x), to_apply=odd)" +
                  end + R"(
  f = bf16[6,5] all-reduce(h), to_apply=half)" +
                  end + R"(
  g = f32[6,)" + m +
                  R"(] all-gather(x), dimensions={1})" + end + R"(
  r = f32[6,)" + n +
                  R"(] reduce-scatter(x), dimensions={1}, to_apply=sum)" + end + R"(
  v = f32[)" + n + R"(,6] reduce-scatter(x), dimensions={0}, to_apply=sum)" +
                  end + R"(
  a = f32[6,6] all-to-all(x), dimensions={1}, channel_id=1, replica_groups=)" +
                  groups + R"(
  c = f32[6,6] collective-broadcast(x), channel_id=1, replica_groups=)" +
                  groups + R"(
  p = f32[6,6] collective-permute(x), channel_id=1, source_target_pairs={{0,3},{3,1},{1,0},{5,5},{2,4}}
  ROOT all = (f32[6,6], f32[6,6], f32[6,6], bf16[6,5], f32[6,)" +
                  m + "], f32[6," + n + "], f32[" + n +
                  R"(,6], f32[6,6], f32[6,6], f32[6,6]) tuple(s, b, o, f, g, r, v, a, c, p)
}
)",
              6);
}

TEST_CASE("processes: collectives of values without elements", "[processes]") {
  const std::string end = ", channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2,3}}";
  expect_same("HloModule m, num_partitions=4" + kSums + R"(
ENTRY e {
  x = f32[4,0] parameter(0)
  s = f32[4,0] all-reduce(x), to_apply=sum)" +
                  end + R"(
  g = f32[16,0] all-gather(x), dimensions={0})" +
                  end + R"(
  r = f32[1,0] reduce-scatter(x), dimensions={0}, to_apply=sum)" +
                  end + R"(
  a = f32[4,0] all-to-all(x), dimensions={0}, channel_id=1, replica_groups={{0,1,2,3}}
  p = f32[4,0] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,2},{3,0}}
  ROOT t = (f32[4,0], f32[16,0], f32[1,0], f32[4,0], f32[4,0]) tuple(s, g, r, a, p)
}
)",
              4);
}

TEST_CASE("processes: large operands are sent as they lie", "[processes]") {
  expect_same("HloModule m, num_partitions=4" + kSums + R"(
ENTRY e {
  x = f32[96,128] parameter(0)
  s = f32[96,128] all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2,3}}, to_apply=sum
  r = f32[48,128] reduce-scatter(x), channel_id=1, use_global_device_ids=true, replica_groups={{0,2},{1,3}}, dimensions={0}, to_apply=sum
  q = f32[96,64] reduce-scatter(x), channel_id=1, use_global_device_ids=true, replica_groups={{0,2},{1,3}}, dimensions={1}, to_apply=sum
  ROOT t = (f32[96,128], f32[48,128], f32[96,64]) tuple(s, r, q)
}
)",
              4);
}

TEST_CASE("processes: large sums go along the processes, in the order of the group",
          "[processes]") {
  // With sanitizers the first two.
  const std::string groups =
      GENERATE(take(static_cast<size_t>(random_load(16)),
                    values<std::string>({"{{0,1,4,5},{2,3}}", "{{5,4,3,2,1,0}}", "{{0,1,2,3,4,5}}",
                                         "{{0,1,2},{3,4,5}}", "{{0,3,1,4,2,5}}"})));
  CAPTURE(groups);
  expect_same("HloModule m, num_partitions=6" + kSums + R"(
ENTRY e {
  x = f32[70001] parameter(0)
  h = bf16[66000] parameter(1)
  y = f32[70001] multiply(x, x)
  s = f32[70001] all-reduce(y), channel_id=1, use_global_device_ids=true, replica_groups=)" +
                  groups + R"(, to_apply=sum
  b = bf16[66000] all-reduce(h), channel_id=2, use_global_device_ids=true, replica_groups=)" +
                  groups + R"(, to_apply=half
  t = (f32[70001], f32[70001]) all-reduce(s, x), channel_id=3, use_global_device_ids=true, replica_groups={{0,1,2,3,4,5}}, to_apply=sum
  t0 = f32[70001] get-tuple-element(t), index=0
  t1 = f32[70001] get-tuple-element(t), index=1
  m = f32[70001] all-reduce(y), channel_id=4, use_global_device_ids=true, replica_groups={{0,1,2,3,4,5}}, to_apply=most
  ROOT r = (f32[70001], f32[70001], bf16[66000], f32[70001]) tuple(t0, t1, b, m)
}
)",
              6, false);
}

TEST_CASE("processes: sums of more chunks than are under way at once, written past the caches",
          "[processes]") {
  expect_same("HloModule m, num_partitions=4" + kSums + R"(
ENTRY e {
  x = f32[2150003] parameter(0)
  ROOT s = f32[2150003] all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2,3}}, to_apply=sum
}
)",
              4, false);
}

TEST_CASE("processes: loops and branches that go different ways on each device", "[processes]") {
  expect_same("HloModule m, num_partitions=4" + kSums + R"(
pairs { x = f32[3] parameter(0)
  ROOT y = f32[3] all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups={{0,1},{2,3}}, to_apply=sum }
halves { x = f32[3] parameter(0)
  y = f32[3] collective-permute(x), channel_id=2, source_target_pairs={{0,1},{1,0},{2,3},{3,2}}
  ROOT z = f32[3] subtract(x, y) }
body { s = (s32[], s32[], f32[3], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  x = f32[3] get-tuple-element(s), index=2
  o = f32[3] get-tuple-element(s), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  b = s32[] and(j, one)
  y = f32[3] conditional(b, x, o), branch_computations={pairs, halves}
  ROOT r = (s32[], s32[], f32[3], f32[3]) tuple(j, n, y, x) }
condition { s = (s32[], s32[], f32[3], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY e {
  x = f32[3] parameter(0)
  id = u32[] partition-id()
  k = s32[] convert(id)
  one = s32[] constant(1)
  half = s32[] shift-right-logical(k, one)
  three = s32[] constant(3)
  n = s32[] multiply(half, three)
  zero = s32[] constant(0)
  init = (s32[], s32[], f32[3], f32[3]) tuple(zero, n, x, x)
  w = (s32[], s32[], f32[3], f32[3]) while(init), condition=condition, body=body
  v = f32[3] get-tuple-element(w), index=2
  ROOT z = f32[3] conditional(half, v, v), branch_computations={pairs, halves}
}
)",
              4);
}

TEST_CASE("processes: in loops and branches collectives go on beside what each of them computes",
          "[processes]") {
  const std::string end = ", channel_id=1, use_global_device_ids=true, replica_groups=";
  const std::string text = "HloModule m, num_partitions=4" + kSums + R"(
pieces { x = f32[8] parameter(0)
  r = f32[4] reduce-scatter(x), dimensions={0}, to_apply=sum)" +
                           end + R"({{0,2},{1,3}}
  y = f32[8] sine(x)
  z = f32[8] multiply(y, x)
  b = f32[8] concatenate(r, r), dimensions={0}
  ROOT o = f32[8] add(b, z) }
turns { x = f32[8] parameter(0)
  t = f32[8] all-to-all(x), dimensions={0}, channel_id=2, replica_groups={{0,1,2,3}}
  u = (f32[8], f32[8]) all-to-all(x, t), channel_id=3, replica_groups={{0,3},{1,2}}
  y = f32[8] cosine(x)
  u0 = f32[8] get-tuple-element(u), index=0
  u1 = f32[8] get-tuple-element(u), index=1
  a = f32[8] subtract(u0, u1)
  ROOT o = f32[8] add(a, y) }
body { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  r = f32[2] reduce-scatter(x), dimensions={0}, to_apply=sum)" +
                           end + R"({{0,1,2,3}}
  one = s32[] constant(1)
  j = s32[] add(i, one)
  b = s32[] and(j, one)
  y = f32[8] conditional(b, x, x), branch_computations={pieces, turns}
  g = f32[8] all-gather(r), dimensions={0})" +
                           end + R"({{0,1,2,3}}
  h = f32[8] tanh(y)
  z = f32[8] add(h, g)
  ROOT o = (s32[], f32[8]) tuple(j, z) }
condition { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY e {
  x = f32[8] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[8]) tuple(zero, x)
  w = (s32[], f32[8]) while(init), condition=condition, body=body
  ROOT v = f32[8] get-tuple-element(w), index=1
}
)";
  expect_same(text, 4);
  ThreadJob job(2);
  RunCounters counters[2];
  const auto module = parse_module(text);
  for (const auto& error : run_as_processes(job, [&](int64_t p) {
         run(*module, small_arguments(*module, 4), false, 1, &counters[p], true);
       }))
    CHECK(error == "");
  // Two runs of five iterations: two of each, and one of the branch that it takes.
  CHECK(counters[0].overlapped == 2 * 5 * 3);
}

// A program of collectives of all kinds and sizes between elementwise ops, in an order of its own.
std::string random_program(unsigned seed, int64_t n) {
  std::mt19937 random(seed);
  const auto any = [&](size_t below) { return random() % below; };
  std::vector<std::string> values = {"x", "y"};
  std::string text = "HloModule m, num_partitions=6" + kSums + "\nENTRY e {\n";
  const std::string type = fmt::format("f32[{}]", n);
  for (int i = 0; i < 2; ++i)
    text += fmt::format("  {} = {} parameter({})\n", values[size_t(i)], type, i);
  const char* const groups[] = {"{{0,1,2,3,4,5}}", "{{0,3},{1,4},{2,5}}", "{{5,1},{4,2},{3,0}}",
                                "{{0,1,2},{3,4,5}}"};
  const int64_t members[] = {6, 2, 2, 3};
  for (int i = 0; i < 24; ++i) {
    const std::string name = fmt::format("v{}", i), &a = values[any(values.size())];
    const size_t g = any(4);
    const std::string end = fmt::format(
        "channel_id={}, use_global_device_ids=true, replica_groups={}", i + 1, groups[g]);
    switch (any(9)) {
      case 0:
        text += fmt::format("  {} = {} all-reduce({}), {}, to_apply=sum\n", name, type, a, end);
        break;
      case 1:
        text += fmt::format(
            "  {} = {} collective-permute({}), channel_id={}, "
            "source_target_pairs={{{{0,3}},{{3,1}},{{1,0}},{{2,4}}}}\n",
            name, type, a, i + 1);
        break;
      case 2:
        text += fmt::format(
            "  g{0} = f32[{1}] all-gather({2}), dimensions={{0}}, channel_id={3}, "
            "use_global_device_ids=true, replica_groups={{{{0,1,2,3,4,5}}}}\n"
            "  {4} = {5} slice(g{0}), slice={{[{6}:{7}]}}\n",
            i, 6 * n, a, i + 1, name, type, n + 1, 2 * n + 1);
        break;
      case 3:
        text += fmt::format(
            "  g{0} = f32[{1}] concatenate({2}), dimensions={{0}}\n"
            "  {3} = {4} reduce-scatter(g{0}), dimensions={{0}}, {5}, to_apply=sum\n",
            i, members[g] * n, fmt::join(std::vector(size_t(members[g]), a), ", "), name, type,
            end);
        break;
      case 4:
        text += fmt::format(
            "  g{0} = f32[{1}] concatenate({2}), dimensions={{0}}\n"
            "  h{0} = f32[{1}] all-to-all(g{0}), dimensions={{0}}, channel_id={3}, "
            "replica_groups={4}\n  {5} = {6} slice(h{0}), slice={{[{7}:{8}]}}\n",
            i, members[g] * n, fmt::join(std::vector(size_t(members[g]), a), ", "), i + 1,
            groups[g], name, type, n - 1, 2 * n - 1);
        break;
      default:
        text += fmt::format("  {} = {} {}({}, {})\n", name, type,
                            std::array{"add", "subtract", "multiply"}[any(3)], a,
                            values[any(values.size())]);
    }
    values.push_back(name);
  }
  text += fmt::format("  ROOT r = ({0}, {0}, {0}) tuple({1}, {2}, {3})\n}}\n", type,
                      values[values.size() - 1], values[values.size() - 2], values[any(20)]);
  return text;
}

TEST_CASE("processes: collectives that go on while devices compute have the same bits",
          "[processes]") {
  for (unsigned seed = 0; seed < unsigned(random_load(12)); ++seed) {
    CAPTURE(seed);
    expect_same(random_program(seed, seed % 3 == 0 ? 20011 : 7), 6, seed % 4 == 1);
  }
}

TEST_CASE("processes: what goes on while devices compute is counted, and all of it is off in one",
          "[processes]") {
  const auto module = parse_module("HloModule m, num_partitions=4" + kSums + R"(
ENTRY e {
  x = f32[70000] parameter(0)
  a = f32[70000] all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2,3}}, to_apply=sum
  b = f32[70000] negate(x)
  c = f32[70000] add(a, b)
  d = f32[70000] all-reduce(c), channel_id=2, use_global_device_ids=true, replica_groups={{0,1},{2,3}}, to_apply=sum
  e = f32[70000] multiply(c, c)
  p = f32[70000] collective-permute(e), channel_id=3, source_target_pairs={{0,2}}
  q = f32[70000] add(p, d)
  ROOT t = (f32[70000], f32[70000]) tuple(q, e)
}
)");
  ThreadJob job(2);
  RunCounters on[2], off[2], alone;
  for (const auto& error : run_as_processes(job, [&](int64_t p) {
         run(*module, small_arguments(*module, 4), false, 1, &on[p], true);
         run(*module, small_arguments(*module, 4), false, 1, &off[p], false);
       }))
    CHECK(error == "");
  // The first is; the second is inside the processes; nothing is left to do beside the third.
  for (int p = 0; p < 2; ++p) {
    CHECK(on[p].overlapped == 2 * 1);
    CHECK(on[p].collectives == 2 * 3);
    CHECK(on[p].bytes_across == off[p].bytes_across);
    CHECK(off[p].overlapped == 0);
  }
  run(*module, small_arguments(*module, 4), false, 1, &alone, true);
  CHECK(alone.overlapped == 0);
}

TEST_CASE("processes: bytes that go from one to another are counted", "[processes]") {
  const auto module = parse_module("HloModule m, num_partitions=4" + kSums + R"(
ENTRY e {
  x = f32[8] parameter(0)
  in = f32[8] all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups={{0,1},{2,3}}, to_apply=sum
  g = f32[16] all-gather(in), channel_id=2, use_global_device_ids=true, replica_groups={{0,2},{1,3}}, dimensions={0}
  r = f32[4] reduce-scatter(g), channel_id=3, use_global_device_ids=true, replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=sum
  ROOT p = f32[4] collective-permute(r), channel_id=4, source_target_pairs={{0,1},{1,2}}
}
)");
  ThreadJob job(2);
  RunCounters counters[2];
  const auto errors = run_as_processes(
      job, [&](int64_t p) { run(*module, small_arguments(*module, 4), false, 1, &counters[p]); });
  CHECK(errors == std::vector<std::string>(2));
  // All-gather: each device to one of the other process; reduce-scatter: each a piece to two; one
  // pair of the permute crosses. Two runs.
  CHECK(counters[0].bytes_across == 2 * (4 * 32 + 4 * 2 * 16 + 16));
  CHECK(counters[1].bytes_across == counters[0].bytes_across);
  RunCounters alone;
  run(*module, small_arguments(*module, 4), false, 1, &alone);
  CHECK(alone.bytes_across == 0);
  CHECK(counters[0].bytes_received == alone.bytes_received);
}

TEST_CASE("processes: what a large sum sends is a partial sum and a result a process",
          "[processes]") {
  const auto module = parse_module("HloModule m, num_partitions=6" + kSums + R"(
ENTRY e {
  x = f32[70000] parameter(0)
  ROOT s = f32[70000] all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups={}, to_apply=sum
}
)");
  ThreadJob job(3);
  RunCounters counters[3];
  const auto errors = run_as_processes(
      job, [&](int64_t p) { run(*module, small_arguments(*module, 6), false, 1, &counters[p]); });
  CHECK(errors == std::vector<std::string>(3));
  CHECK(counters[1].bytes_across == 2 * 2 * 2 * 280000);  // runs, hops, there and back
}

TEST_CASE("processes: a device that fails ends the run of all, which say where", "[processes]") {
  const auto module = parse_module(R"(HloModule m, num_partitions=4
body { s = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT r = (s32[], s32[]) tuple(i, n) }
condition { s = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT p = pred[] compare(i, n), direction=EQ }
ENTRY e {
  id = u32[] partition-id()
  k = s32[] convert(id)
  three = s32[] constant(3)
  t = (s32[], s32[]) tuple(k, three)
  forever = (s32[], s32[]) while(t), condition=condition, body=body
  i = s32[] get-tuple-element(forever), index=0
  ROOT g = s32[] collective-permute(i), channel_id=1, source_target_pairs={{3,0},{0,3}}
}
)");
  ThreadJob job(2);
  const auto errors =
      run_as_processes(job, [&](int64_t) { run(*module, small_arguments(*module, 4)); });
  for (const std::string& error : errors)
    CHECK_THAT(error, Catch::Contains("while: \"forever\" never ends"));
  CHECK_THAT(errors[0], Catch::Contains("process 1"));
}

TEST_CASE("processes: a loop of all that never ends is found by all", "[processes]") {
  const auto module = parse_module(R"(HloModule m, num_partitions=2
body { s = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  j = s32[] collective-permute(i), channel_id=1, source_target_pairs={{0,1},{1,0}}
  ROOT r = (s32[], s32[]) tuple(j, n) }
condition { s = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY e {
  id = u32[] partition-id()
  k = s32[] convert(id)
  nine = s32[] constant(9)
  t = (s32[], s32[]) tuple(k, nine)
  ROOT forever = (s32[], s32[]) while(t), condition=condition, body=body
}
)");
  ThreadJob job(2);
  const auto errors =
      run_as_processes(job, [&](int64_t) { run(*module, small_arguments(*module, 2)); });
  for (const std::string& error : errors)
    CHECK_THAT(error, Catch::Contains("while: \"forever\" never ends"));
}

TEST_CASE("processes: different programs are an error that says which and where", "[processes]") {
  const auto text = [](const std::string& op) {
    return "HloModule m, num_partitions=3\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = "
           "f32[4] " +
           op + "(x, x)\n}\n";
  };
  ThreadJob job(3);
  const auto errors = run_as_processes(job, [&](int64_t p) {
    const auto module = parse_module(text(p == 2 ? "multiply" : "add"));
    run(*module, small_arguments(*module, 3));
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::Contains("processes 0 and 2 have different programs") &&
                          Catch::Contains("add(%x, %x)\" in process 0") &&
                          Catch::Contains("multiply(%x, %x)\" in process 2"));
  }
}

TEST_CASE("processes: one that reads while others run is told so", "[processes]") {
  const auto module = parse_module(
      "HloModule double, num_partitions=2\nENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] "
      "add(x, x) }");
  ThreadJob job(2);
  const auto errors = run_as_processes(job, [&](int64_t p) {
    ProgramOptions options;
    options.num_devices = 2;
    Executor executor(build_program(*module, options), make_worker_pool(1, PoolKind::threads));
    const auto arguments = to_buffers(small_arguments(*module, 2));
    const auto results = executor.run(arguments);
    if (p == 0) gather_parts(*results[0]);
    executor.run(arguments);
  });
  for (const std::string& error : errors)
    CHECK_THAT(error, Catch::Contains("process 0 reads an array of f32[4]") &&
                          Catch::Contains("process 1 runs the program \"double\", run 2"));
}

TEST_CASE("processes: each hosts a block of the devices, and no mesh has too few", "[processes]") {
  ThreadJob job(3);
  std::vector<std::pair<int64_t, int64_t>> blocks(3);
  const auto errors = run_as_processes(job, [&](int64_t p) {
    const DeviceRange range = local_devices(8);
    blocks[size_t(p)] = {range.first, range.last};
    if (local_devices(1).count() != 1) throw std::runtime_error("a device alone is everywhere");
    local_devices(2);
  });
  CHECK(blocks == std::vector<std::pair<int64_t, int64_t>>{{0, 2}, {2, 5}, {5, 8}});
  for (const std::string& error : errors)
    CHECK_THAT(error, Catch::Contains("a mesh of 2 devices on 3 processes"));
}

TEST_CASE("processes: arrays are cut for the own devices and gathered for all", "[processes]") {
  Array whole(Shape(DType::f32, {7, 5}));
  for (int64_t i = 0; i < whole.size(); ++i) whole.set(i, double(i));
  for (const char* const text :
       {"{devices=[2,3]<=[6]}", "{devices=[3,1,2]<=[2,3]T(1,0) last_tile_dim_replicate}",
        "{replicated}", "{maximal device=4}"}) {
    CAPTURE(text);
    const Sharding sharding = parse_sharding(text);
    for (int64_t processes = 2; processes <= 6; ++processes) {
      ThreadJob job(processes);
      const auto errors = run_as_processes(job, [&](int64_t) {
        const auto buffer = scatter_to_devices(whole, sharding, 6);
        if (!bitwise_equal(gather_to_host(*buffer, whole.shape(), sharding), whole))
          throw std::runtime_error("another array");
      });
      CHECK(errors == std::vector<std::string>(size_t(processes)));
      if (sharding.is_replicated()) CHECK(job.bytes.empty());
    }
  }
}

}  // namespace gspmd
