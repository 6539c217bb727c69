// Ops that have no meaning on a mesh are refused where they stand; random numbers are those of one
// device.

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace partition_refused_test {
namespace {

std::string refusal(const std::string& body) {
  PipelineOptions options;
  options.num_devices = 4;
  try {
    run_pipeline(*parse_module("HloModule m\nENTRY e {\n" + body + "\n}\n"), options);
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

const std::string kHere = R"(, metadata={op_name="here" source_file="user.py" source_line=7})";

}  // namespace

TEST_CASE("what goes in and out of a running program is refused with its place", "[refused]") {
  const std::string value =
      "a = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}\n t = token[] after-all()\n ";
  const auto check = [&](const std::string& op, const std::string& body) {
    INFO(body);
    CHECK_THAT(refusal(value + body), Catch::StartsWith(op + ": ") &&
                                          Catch::Contains("(user.py:7)") &&
                                          Catch::Contains("not partitioned"));
  };
  check("infeed",
        "i = (f32[8,4], token[]) infeed(t), sharding={{devices=[4,1]<=[4]}, {replicated}}" + kHere +
            "\n ROOT r = f32[8,4] get-tuple-element(i), index=0");
  check("outfeed", "ROOT o = token[] outfeed(a, t), outfeed_shape=f32[8,4]" + kHere);
  check("send", "s = (f32[8,4], u32[], token[]) send(a, t), channel_id=1" + kHere +
                    "\n ROOT o = token[] send-done(s), channel_id=1");
  check("recv", "s = (f32[8,4], u32[], token[]) recv(t), channel_id=1" + kHere +
                    "\n d = (f32[8,4], token[]) recv-done(s), channel_id=1\n ROOT o = f32[8,4] "
                    "get-tuple-element(d), index=0");
}

TEST_CASE("ops that the partitioner does not know are refused with their place", "[refused]") {
  CHECK_THAT(
      refusal("a = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}\n o = f32[8,4] "
              "parameter(1)\n i = "
              "s64[4] parameter(2)\n ROOT r = f32[8,4] ragged-all-to-all(a, o, i, i, i, i), "
              "replica_groups={{0,1,2,3}}" +
              kHere),
      Catch::StartsWith("ragged-all-to-all: not supported by the partitioner: r (user.py:7)"));
}

TEST_CASE("collectives over devices are refused, over one replica they are not", "[refused]") {
  const std::string sum =
      "HloModule m\nsum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] "
      "add(a, b)\n}\nENTRY e {\n x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}\n ROOT "
      "r = ";
  const auto partitioned = [&](const std::string& root) {
    PipelineOptions options;
    options.num_devices = 4;
    const CompiledModule compiled = run_pipeline(*parse_module(sum + root + "\n}\n"), options);
    for (const auto& node : compiled.local->entry()->nodes())
      CHECK(node->name().find("r") != 0);  // nothing is left of it
    return compiled.local->entry()->root()->opcode();
  };
  for (const char* root :
       {"f32[8,4] all-reduce(x), replica_groups={}, to_apply=sum",
        "f32[8,4] all-gather(x), replica_groups={{0}}, dimensions={1}",
        "f32[8,4] reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=sum",
        "f32[8,4] all-to-all(x), replica_groups={}, dimensions={0}",
        "f32[8,4] collective-permute(x), source_target_pairs={{0,0}}",
        "f32[8,4] collective-broadcast(x), replica_groups={{0}}"}) {
    CAPTURE(root);
    CHECK(partitioned(root) == Opcode::all_gather);  // the result is whole
  }
  for (const char* root :
       {"f32[8,4] all-reduce(x), channel_id=1, replica_groups={{0}}, to_apply=sum",
        "f32[8,4] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=sum",
        "f32[8,4] collective-permute(x), source_target_pairs={{0,1}}",
        "f32[8,4] collective-broadcast(x), channel_id=1, replica_groups={{0}}"}) {
    CAPTURE(root);
    CHECK_THROWS_WITH(partitioned(root), Catch::Contains("belongs to a per-device program"));
  }
}

TEST_CASE("random numbers are those of one device under any sharding", "[random]") {
  for (const char* s :
       {"devices=[4,1]<=[4]", "devices=[1,4]3,1,2,0", "devices=[2,2]<=[2,2]T(1,0)",
        "devices=[2,1,2]2,0,3,1 last_tile_dim_replicate", "devices=[1,3]0,2,1", "replicated"}) {
    std::string text = R"(HloModule m
ENTRY e {
 s = u64[2] parameter(0)
 r = (u64[2], u32[7,5]) rng-bit-generator(s), algorithm=rng_philox, sharding={{replicated}, {@}}
 b = u32[7,5] get-tuple-element(r), index=1, sharding={@}
 c = u64[2] get-tuple-element(r), index=0
 q = (u64[2], u8[3,11]) rng-bit-generator(c), algorithm=rng_three_fry, sharding={{replicated}, {@}}
 d = u8[3,11] get-tuple-element(q), index=1, sharding={@}
 l = f32[] constant(-1)
 h = f32[] constant(1)
 u = f32[7,5] rng(l, h), distribution=rng_uniform, sharding={@}
 n = f32[7,5] rng(l, h), distribution=rng_normal, sharding={@}
 ROOT t = (u32[7,5], u64[2], u8[3,11], f32[7,5], f32[7,5]) tuple(b, c, d, u, n)
})";
    for (size_t at; (at = text.find('@')) != std::string::npos;) text.replace(at, 1, s);
    const std::string difference = difference_when_partitioned(*parse_module(text), 4, 3);
    INFO(difference);
    CHECK(difference.empty());
  }
}

}  // namespace partition_refused_test
