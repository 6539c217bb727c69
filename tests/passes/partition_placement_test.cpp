// Values on some of the devices: what is computed of them there, and what is sent.

#include "gspmd/ir/text.h"
#include "gspmd/passes/explain/collective_stats.h"
#include "gspmd/passes/partition/partition.h"
#include "passes/spmd_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

using Strings = std::vector<std::string>;

const char* const kReductions = R"(HloModule m
sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] add(a, b) }
body { p = (s32[], f32[8,12]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 x = f32[8,12] get-tuple-element(p), index=1
 one = s32[] constant(1)
 n = s32[] add(i, one)
 y = f32[8,12] add(x, x)
 ROOT t = (s32[], f32[8,12]) tuple(n, y) }
test { p = (s32[], f32[8,12]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 x = f32[8,12] get-tuple-element(p), index=1
 z = f32[] constant(0)
 s = f32[] reduce(x, z), dimensions={0,1}, to_apply=sum
 limit = f32[] constant(300)
 small = pred[] compare(s, limit), direction=LT
 three = s32[] constant(3)
 few = pred[] compare(i, three), direction=LT
 ROOT go = pred[] and(small, few) }
ENTRY e {
)";

// Every @ is `placement`.
std::string module_text(std::string body, const std::string& placement) {
  for (size_t at; (at = body.find('@')) != std::string::npos;)
    body.replace(at, 1, "sharding=" + placement);
  return kReductions + body + "\n}\n";
}

Strings sent(const std::string& body, const std::string& placement) {
  const auto module = parse_module(module_text(body, placement));
  CHECK(difference_when_partitioned(*module, 8, 3) == "");
  PipelineOptions options;
  options.num_devices = 8;
  return collectives(run_pipeline(*module, options));
}

const Strings& placements() {
  static const Strings list{"{devices=[4,1]0,1,4,5}",
                            "{devices=[2,2]6,1,5,2}",
                            "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
                            "{devices=[1,2]3,7}",
                            "{devices=[1,3]2,4,7}",
                            "{devices=[3,2]0,1,2,3,4,6}",
                            "{devices=[5,1]<=[5]}",
                            "{devices=[1,7]7,6,5,4,3,2,1}",
                            "{maximal device=5}"};
  return list;
}

const char* const kChain = R"(a = f32[8,12] parameter(0), @
 b = f32[8,12] parameter(1), @
 s = f32[8,12] add(a, b), @
 m = f32[8,12] multiply(s, a), @
 ROOT c = f32[8,12] copy(m), @)";

}  // namespace

TEST_CASE("elementwise ops on some of the devices send nothing", "[placement]") {
  for (const std::string& placement : placements()) {
    INFO(placement);
    CHECK(sent(kChain, placement) == Strings{});
  }
}

TEST_CASE("products and sums on four of eight devices stay among them", "[placement]") {
  const std::string dot = R"(a = f32[8,12] parameter(0), sharding={devices=[4,1]0,1,4,5}
 w = f32[12,8] parameter(1)
 ROOT d = f32[8,8] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, @)";
  CHECK(sent(dot, "{devices=[4,1]0,1,4,5}") == Strings{});
  // The whole of an operand is wanted on all eight.
  CHECK(sent(dot, "{devices=[1,4]0,1,4,5}") ==
        Strings{"collective-permute ", "all-gather [2,4]<=[2,2,2]T(1,0,2)"});
  const std::string sum = R"(a = f32[8,12] parameter(0), sharding={devices=[4,1]0,1,4,5}
 z = f32[] constant(0)
 ROOT r = f32[12] reduce(a, z), dimensions={0}, to_apply=sum, @)";
  CHECK(sent(sum, "{devices=[4]0,1,4,5}") == Strings{"reduce-scatter [2,4]<=[2,2,2]T(1,0,2)"});
}

TEST_CASE("a sum over some of the devices is right on all of them", "[placement]") {
  for (const std::string& placement : placements()) {
    INFO(placement);
    sent(R"(a = f32[8,12] parameter(0), @
 z = f32[] constant(0)
 r = f32[] reduce(a, z), dimensions={0,1}, to_apply=sum, sharding={replicated}
 w = f32[8,12] broadcast(r), dimensions={}, sharding={devices=[2,4]<=[8]}
 ROOT q = f32[8,12] add(w, a), sharding={devices=[2,4]<=[8]})",
         placement);
  }
}

TEST_CASE("programs with every kind of op on some of the devices compute the same bits",
          "[placement]") {
  const Strings bodies{
      R"(a = f32[8,12] parameter(0), @
 t = f32[12,8] transpose(a), dimensions={1,0}
 w = f32[8,8] dot(a, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 z = f32[] constant(0)
 p = f32[8,12] pad(w, z), padding=0_0x3_1, @
 s = f32[8,12] slice(a), slice={[0:8], [0:12]}, @
 ROOT r = f32[8,12] subtract(p, s), @)",
      R"(a = f32[8,12] parameter(0), @
 f = f32[96] reshape(a)
 g = f32[12,8] reshape(f)
 h = f32[4,24] reshape(a), @
 v = f32[12,8] reverse(g), dimensions={0}
 c = f32[16,8] concatenate(v, v4), dimensions={0}
 ROOT r = (f32[4,24], f32[16,8]) tuple(h, c))",
      R"(a = f32[8,12] parameter(0), @
 i = s32[2] parameter(1)
 x = s32[] constant(2)
 y = s32[] constant(5)
 d = f32[3,4] dynamic-slice(a, x, y), dynamic_slice_sizes={3,4}
 u = f32[8,12] dynamic-update-slice(a, d, y, x), @
 g = f32[2,12] gather(u, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,12}
 s = f32[8,12] sort(u), dimensions={1}, to_apply=less, @
 ROOT r = (f32[2,12], f32[8,12]) tuple(g, s))",
      R"(a = f32[8,12] parameter(0), @
 n = s32[] constant(0)
 s = (s32[], f32[8,12]) tuple(n, a), sharding={{replicated}, %}
 w = (s32[], f32[8,12]) while(s), condition=test, body=body, sharding={{replicated}, %}
 x = f32[8,12] get-tuple-element(w), index=1, @
 k = s32[8,12] iota(), iota_dimension=1, @
 f = f32[8,12] convert(k), @
 ROOT r = f32[8,12] add(x, f), @)"};
  for (std::string body : bodies)
    for (const std::string& placement : placements()) {
      std::string text = body;
      for (size_t at; (at = text.find('%')) != std::string::npos;) text.replace(at, 1, placement);
      if (const size_t at = text.find("v4"); at != std::string::npos) {
        text.replace(at, 2, "v4s");
        text.insert(text.find(" c = "), " v4s = f32[4,8] slice(v), slice={[2:6], [0:8]}\n");
      }
      std::string all = module_text(text, placement);
      all.insert(all.find("body {"),
                 "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT l = "
                 "pred[] compare(a, b), direction=LT }\n");
      const auto module = parse_module(all);
      INFO(all);
      CHECK(difference_when_partitioned(*module, 8, 3) == "");
    }
}

TEST_CASE("the first elements of a sort on some of the devices are right on others",
          "[placement]") {
  const Strings lines{"{devices=[4]1,3,4,6}", "{devices=[2]2,1}", "{devices=[3]5,0,6}",
                      "{devices=[8]<=[8]}"};
  const Strings wanted{"{devices=[4]2,7,3,5}", "{devices=[2]0,3}", "{devices=[3]7,1,2}",
                       "{maximal device=7}", "{replicated}"};
  const std::string one = R"(HloModule m
less { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT l = pred[] compare(a, b), direction=LT }
ENTRY e {
 x = f32[SIZE] parameter(0), sharding=HAVE
 s = f32[SIZE] sort(x), dimensions={0}, to_apply=less
 ROOT f = f32[4] slice(s), slice={[0:4]}, sharding=WANT
}
)";
  const std::string two = R"(HloModule m
less { a = f32[] parameter(0)
 b = f32[] parameter(1)
 c = s32[] parameter(2)
 d = s32[] parameter(3)
 ROOT l = pred[] compare(a, b), direction=LT }
ENTRY e {
 x = f32[SIZE] parameter(0), sharding=HAVE
 y = s32[SIZE] parameter(1), sharding=HAVE
 s = (f32[SIZE], s32[SIZE]) sort(x, y), dimensions={0}, is_stable=true, to_apply=less
 i = s32[SIZE] get-tuple-element(s), index=1
 ROOT f = s32[4] slice(i), slice={[0:4]}, sharding=WANT
}
)";
  for (const std::string& line : lines)
    for (const std::string& want : wanted)
      for (const int64_t size : {48, 43})
        for (const std::string& body : {one, two}) {
          std::string text = body;
          const auto put = [&](const std::string& field, const std::string& value) {
            for (size_t at; (at = text.find(field)) != std::string::npos;)
              text.replace(at, field.size(), value);
          };
          put("SIZE", std::to_string(size));
          put("HAVE", line);
          put("WANT", want);
          INFO(text);
          CHECK(difference_when_partitioned(*parse_module(text), 8, 3) == "");
        }
}

TEST_CASE("a sum that meets a constant on one device stays a sum", "[placement]") {
  const auto module = parse_module(R"(HloModule m
ENTRY main {
  x = f32[2,2] parameter(0), sharding={devices=[1,3]<=[3]}
  d = f32[2,2] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  z = f32[] constant(2)
  k = f32[1,6] broadcast(z), dimensions={}, sharding={maximal device=2}
  ROOT c = f32[6,2] convolution(d, k), dim_labels=bf_io->fb, feature_group_count=2
}
)");
  CHECK(difference_when_partitioned(*module, 3, 1) == "");
}

namespace {

// Empty where the program equals the whole module, also where devices without a value have poison.
std::string difference_with_poison(const Module& module, int64_t devices) {
  const std::vector<Value> arguments = integer_arguments(module, 5);
  const std::vector<Array> expected = leaves(evaluate(module, arguments));
  for (const bool poisoned : {false, true}) {
    PipelineOptions options;
    options.num_devices = devices;
    options.poison_absent = poisoned;
    const CompiledModule compiled = run_pipeline(module, options);
    const std::vector<Array> found = leaves(run_partitioned(compiled, devices, arguments));
    for (size_t i = 0; i < expected.size(); ++i)
      if (!bitwise_equal(expected[i], found[i])) return to_text(*compiled.local);
  }
  return {};
}

}  // namespace

TEST_CASE("scalars on one device are moved to another and to all", "[placement]") {
  const Strings places{"{maximal device=0}", "{maximal device=1}", "{maximal device=3}",
                       "{replicated}"};
  for (const char* type : {"f32", "s32", "pred", "c64"})
    for (const std::string& from : places)
      for (const std::string& to : places) {
        const auto module = parse_module(fmt::format(
            "HloModule m\nENTRY e {{ x = {0}[] parameter(0), sharding={1}\n c = {0}[] copy(x), "
            "sharding={2}\n b = {0}[4] broadcast(c), dimensions={{}}, "
            "sharding={{devices=[4]<=[4]}}\n "
            "ROOT r = ({0}[], {0}[4]) tuple(c, b), sharding={{{2}, {{devices=[4]<=[4]}}}} }}",
            type, from, to));
        CAPTURE(type, from, to);
        CHECK(difference_with_poison(*module, 4) == "");
      }
}

TEST_CASE("poison is only where a value is not", "[placement]") {
  const auto poisoned = [](const std::string& placement) {
    const auto module =
        parse_module(fmt::format("HloModule m\nENTRY e {{ x = f32[8] parameter(0), sharding={0}\n "
                                 "ROOT y = f32[8] negate(x), "
                                 "sharding={0} }}",
                                 placement));
    const PartitionResult result = partition(*module, {4, true});
    int64_t selects = 0;
    for (const auto& node : result.module->entry()->nodes()) selects += node->is(Opcode::select);
    return selects;
  };
  CHECK(poisoned("{replicated}") == 0);
  CHECK(poisoned("{devices=[4]<=[4]}") == 0);
  CHECK(poisoned("{devices=[2,2]<=[4] last_tile_dim_replicate}") == 0);
  CHECK(poisoned("{maximal device=2}") == 2);
  CHECK(poisoned("{devices=[2]1,3}") == 2);
}
