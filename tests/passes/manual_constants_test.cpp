// Ops of several results in manual regions. Of a region that begins with no value from outside,
// what is inside is known from the end alone.

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/verify/manual_reference.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

const std::string kCalled = R"(HloModule m, num_partitions=4
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
two_sums { a = f32[] parameter(0) c = f32[] parameter(1) b = f32[] parameter(2) d = f32[] parameter(3)
  s = f32[] add(a, b) t = f32[] add(c, d)
  ROOT st = (f32[], f32[]) tuple(s, t) }
less { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT }
before { p = (s32[], f32[2,4]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT }
step { p = (s32[], f32[2,4]) parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[2,4] get-tuple-element(p), index=1
  o = s32[] constant(1) j = s32[] add(i, o) y = f32[2,4] add(x, x)
  ROOT r = (s32[], f32[2,4]) tuple(j, y) }
pair { x = f32[2,4] parameter(0) y = f32[2,4] add(x, x)
  ROOT r = (f32[2,4], f32[2,4]) tuple(y, x) }
other { x = f32[2,4] parameter(0) y = f32[2,4] negate(x)
  ROOT r = (f32[2,4], f32[2,4]) tuple(x, y) }
)";

const std::string kFromNothing = "  f = f32[2,4] iota(), iota_dimension=1\n";
const std::string kFromOutside = R"(
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  f = f32[2,4] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
)";
const std::string kEnd = R"(
  k = f32[2,4] custom-call(v), custom_call_target="Sharding", sharding={manual}
  o = f32[8,4] custom-call(k), custom_call_target="SPMDShardToFullShape", sharding={devices=[4,1]<=[4]}
)";
const std::string kRead = "  ROOT r = f32[8,4] negate(o)\n";
const std::string kBesideOutside = R"(
  beside = f32[8,4] concatenate(f, f, f, f), dimensions={0}
  ROOT r = f32[8,4] add(o, beside)
)";

// The same on the first axis of eight devices as 4x2; automatic on the second.
std::string on_one_axis(std::string text) {
  const std::pair<std::string, std::string> changes[] = {
      {"num_partitions=4", "num_partitions=8"},
      {"{manual}", "{devices=[1,1,4,2]<=[8] last_tile_dims={manual, replicated}}"},
      {"{devices=[4,1]<=[4]}", "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"},
      {"{{0,1,2,3}}", "{{0,2,4,6},{1,3,5,7}}"},
      {"{{1,0},{2,3}}", "{{2,0},{3,1},{4,6},{5,7}}"},
      {"{{0,1},{1,2},{2,3}}", "{{0,2},{2,4},{4,6},{1,3},{3,5},{5,7}}"},
      {"{{0,1},{1,0},{2,3}}", "{{0,2},{2,0},{4,6},{1,3},{3,1},{5,7}}"}};
  for (const auto& [from, to] : changes)
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  return text;
}

// Empty when the region that makes `v`, f32[2,4], of `f` gives what its copies give.
std::string difference(const std::string& begin, const std::string& body, const std::string& end,
                       bool partly) {
  const std::string text = kCalled + "ENTRY e {\n" + begin + R"(
  p = f32[2,4] collective-permute(f), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3}}
)" + body + kEnd + end + "}\n";
  const auto module = parse_module(partly ? on_one_axis(text) : text);
  const int64_t devices = module->num_partitions;
  try {
    PipelineOptions options;
    options.num_devices = devices;
    options.verify_between = true;
    const std::vector<Value> arguments = integer_arguments(*module, 3);
    const CompiledModule compiled = run_pipeline(*module, options);
    const auto copies = copies_with_regions(*compiled.completed);
    const std::vector<std::vector<Value>> all(static_cast<size_t>(devices), arguments);
    const Value expected = evaluate_devices(*copies, devices, all).at(0);
    const Value found = run_partitioned(compiled, devices, arguments);
    return bitwise_equal(expected.array, found.array) ? "" : to_text(*compiled.local);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("what makes several values is manual where an operand or a result is", "[manual]") {
  const std::string zero = "  z = f32[] constant(0)\n";
  for (const std::string& body : {
           std::string("  t = (f32[2,4], s32[2,4]) topk(p), k=4, largest=true\n"
                       "  v = f32[2,4] get-tuple-element(t), index=0"),
           std::string("  n = s32[2,4] iota(), iota_dimension=1\n"
                       "  t = (f32[2,4], s32[2,4]) sort(p, n), dimensions={1}, to_apply=less\n"
                       "  v = f32[2,4] get-tuple-element(t), index=0"),
           std::string("  q = u64[2,4] convert(p)\n  s = u64[1,2] slice(q), slice={[0:1], [1:3]}\n"
                       "  d = u64[2] reshape(s)\n"
                       "  t = (u64[2], u32[2,4]) rng-bit-generator(d), algorithm=rng_three_fry\n"
                       "  u = u32[2,4] get-tuple-element(t), index=1\n  v = f32[2,4] convert(u)"),
           zero + "  t = (f32[2], f32[2]) reduce(p, p, z, z), dimensions={1}, to_apply=two_sums\n"
                  "  u = f32[2] get-tuple-element(t), index=0\n"
                  "  v = f32[2,4] broadcast(u), dimensions={0}",
           zero + "  t = (f32[2,4], f32[2,4]) reduce-window(p, p, z, z), window={size=1x3 "
                  "pad=0_0x1_1}, to_apply=two_sums\n"
                  "  v = f32[2,4] get-tuple-element(t), index=1",
           std::string("  c = f32[4] constant({1, 2, 1, 3})\n  w = f32[4] negate(c)\n"
                       "  t = (f32[2,4], f32[4], f32[4]) batch-norm-training(p, c, w), "
                       "epsilon=0.5, feature_index=1\n"
                       "  v = f32[2,4] get-tuple-element(t), index=0"),
           std::string("  n = s32[] constant(0)\n  a = (s32[], f32[2,4]) tuple(n, p)\n"
                       "  t = (s32[], f32[2,4]) while(a), condition=before, body=step\n"
                       "  v = f32[2,4] get-tuple-element(t), index=1"),
           std::string("  b = pred[] constant(true)\n"
                       "  t = (f32[2,4], f32[2,4]) conditional(b, p, p), true_computation=pair, "
                       "false_computation=other\n"
                       "  v = f32[2,4] get-tuple-element(t), index=0"),
           std::string("  t = (f32[2,4], f32[2,4]) call(p), to_apply=pair\n"
                       "  v = f32[2,4] get-tuple-element(t), index=0"),
           std::string("  a = (f32[2,4], f32[2,4]) tuple(p, f)\n"
                       "  t = (f32[2,4], f32[2,4]) opt-barrier(a)\n"
                       "  v = f32[2,4] get-tuple-element(t), index=0"),
           std::string("  t = (f32[2,4], f32[2,4]) all-reduce(p, f), channel_id=2, "
                       "replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=sum\n"
                       "  v = f32[2,4] get-tuple-element(t), index=0"),
           std::string("  t = (f32[8,4], f32[8,4]) all-gather(p, f), channel_id=2, dimensions={0}, "
                       "replica_groups={{0,1,2,3}}, use_global_device_ids=true\n"
                       "  g = f32[8,4] get-tuple-element(t), index=0\n"
                       "  v = f32[2,4] slice(g), slice={[1:3], [0:4]}"),
           std::string("  t = (f32[2,1], f32[2,1]) reduce-scatter(p, f), channel_id=2, "
                       "dimensions={1}, replica_groups={{0,1,2,3}}, use_global_device_ids=true, "
                       "to_apply=sum\n  g = f32[2,1] get-tuple-element(t), index=0\n"
                       "  h = f32[2] reshape(g)\n  v = f32[2,4] broadcast(h), dimensions={0}"),
           std::string("  t = (f32[2,4], f32[2,4]) collective-permute(p, f), channel_id=2, "
                       "source_target_pairs={{0,1},{1,0},{2,3}}\n"
                       "  v = f32[2,4] get-tuple-element(t), index=0"),
           std::string("  a = f32[2,4] negate(p)\n  t = (f32[2,4], f32[2,4], f32[2,4], f32[2,4]) "
                       "all-to-all(p, a, f, p), channel_id=2, replica_groups={{0,1,2,3}}\n"
                       "  v = f32[2,4] get-tuple-element(t), index=2"),
           std::string("  t = (f32[2,4], f32[2,4]) collective-broadcast(p, f), channel_id=2, "
                       "replica_groups={{1,0},{2,3}}\n"
                       "  v = f32[2,4] get-tuple-element(t), index=0"),
       }) {
    for (const bool partly : {false, true}) {
      INFO(body << "\npartly manual: " << partly);
      CHECK(difference(kFromNothing, body, kRead, partly) == "");
      CHECK(difference(kFromNothing, body, kBesideOutside, partly) == "");
      CHECK(difference(kFromOutside, body, kRead, partly) == "");
    }
  }
}
