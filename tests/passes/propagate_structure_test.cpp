// Tuples, loops, calls, boundaries, groups, manual regions (docs/spec/completion.md 2, 8).

#include "gspmd/base/error.h"
#include "passes/propagate_check.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace propagate_structure_test {
namespace {

const char* const kLoop = R"(
less { p = (s32[], f32[8,6]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 n = s32[] constant(3)
 ROOT c = pred[] compare(i, n), direction=LT }
step { q = (s32[], f32[8,6]) parameter(0)
 j = s32[] get-tuple-element(q), index=0
 v = f32[8,6] get-tuple-element(q), index=1
 o = s32[] constant(1)
 k = s32[] add(j, o)
 w = f32[8,6] tanh(v)
 ROOT t = (s32[], f32[8,6]) tuple(k, w) })";

}  // namespace

TEST_CASE("propagate: tuples are taken apart and put together leaf by leaf") {
  const char* const body = R"(a = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}
 b = f32[8,6] parameter(1)
 t = (f32[8,6], f32[8,6]) tuple(a, b)
 o = (f32[8,6], f32[8,6]) opt-barrier(t)
 x = f32[8,6] get-tuple-element(o), index=0
 y = f32[8,6] get-tuple-element(o), index=1
 c = f32[8,6] copy(y), sharding={devices=[1,4]<=[4]}
 ROOT out = (f32[8,6], f32[8,6]) tuple(x, c))";
  CHECK(completes(body, "t") == "{{devices=[4,1]<=[4]}, {devices=[1,4]<=[4]}}");
  CHECK(completes(body, "o") == "{{devices=[4,1]<=[4]}, {devices=[1,4]<=[4]}}");
  CHECK(completes(body, "x") == "{devices=[4,1]<=[4]}");
  CHECK(completes(body, "y") == "{devices=[1,4]<=[4]}");
}

TEST_CASE("propagate: a tuple keeps one-device values, and hands them to nobody") {
  const char* const body = R"(a = f32[8] parameter(0), sharding={maximal device=1}
 b = f32[8] parameter(1), sharding={devices=[4]<=[4]}
 t = (f32[8], f32[8]) tuple(a, b)
 x = f32[8] get-tuple-element(t), index=0
 c = f32[8] tanh(a)
 ROOT out = (f32[8], f32[8]) tuple(x, c))";
  CHECK(completes(body, "t") == "{{maximal device=1}, {devices=[4]<=[4]}}");
  CHECK(completes(body, "x") == "none");
  CHECK(completes(body, "c") == "none");
  CHECK(completes(R"(a = f32[8] parameter(0), sharding={maximal device=1}
 b = f32[8] parameter(1)
 t = (f32[8], f32[8]) tuple(a, b)
 x = f32[8] get-tuple-element(t), index=0
 ROOT out = f32[8] copy(x))",
                  "t") == "none");
}

TEST_CASE("propagate: a value that is two elements gets the more specific layout") {
  CHECK(completes(R"(a = f32[8] iota(), iota_dimension=0
 t = (f32[8], f32[8]) tuple(a, a), sharding={{replicated}, {devices=[4]<=[4]}}
 o = (f32[8], f32[8]) opt-barrier(t)
 ROOT out = f32[8] get-tuple-element(o), index=0)",
                  "a") == "{devices=[4]<=[4]}");
}

TEST_CASE("propagate: a loop, its body and its condition agree") {
  const char* const body = R"(a = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}
 z = s32[] constant(0)
 s = (s32[], f32[8,6]) tuple(z, a)
 l = (s32[], f32[8,6]) while(s), condition=less, body=step
 r = f32[8,6] get-tuple-element(l), index=1
 ROOT out = f32[8,6] copy(r))";
  const auto module = completed(body, {}, kLoop);
  for (const char* node : {"s", "l", "t", "q", "p"})
    CHECK(sharding_text(*module, node) == "{{replicated}, {devices=[4,1]<=[4]}}");
  for (const char* node : {"v", "w", "r"})
    CHECK(sharding_text(*module, node) == "{devices=[4,1]<=[4]}");
}

TEST_CASE("propagate: what a body is annotated with reaches the loop and its start") {
  std::string loop = kLoop;
  loop.replace(loop.find("tanh(v)"), 7, "tanh(v), sharding={devices=[2,2]<=[4]}");
  const auto module = completed(R"(a = f32[8,6] iota(), iota_dimension=0
 z = s32[] constant(0)
 s = (s32[], f32[8,6]) tuple(z, a)
 l = (s32[], f32[8,6]) while(s), condition=less, body=step
 r = f32[8,6] get-tuple-element(l), index=1
 ROOT out = f32[8,6] copy(r))",
                                {}, loop);
  for (const char* node : {"a", "v", "r"})
    CHECK(sharding_text(*module, node) == "{devices=[2,2]<=[4]}");
}

TEST_CASE("propagate: a loop that is the root keeps a layout of its own") {
  const auto module = completed(R"(a = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}
 z = s32[] constant(0)
 s = (s32[], f32[8,6]) tuple(z, a)
 ROOT l = (s32[], f32[8,6]) while(s), condition=less, body=step)",
                                {}, kLoop);
  CHECK(sharding_text(*module, "l") == "{{replicated}, {devices=[4,1]<=[4]}}");
  CHECK(module->entry()->root()->is(Opcode::tuple));
  CHECK_FALSE(module->entry()->root()->sharding.has_value());
}

TEST_CASE("propagate: calls pass arguments in and results out") {
  const char* const twice = R"(
twice { u = f32[8] parameter(0)
 v = f32[8] parameter(1)
 ROOT w = f32[8] add(u, v) })";
  const auto module = completed(R"(a = f32[8] parameter(0), sharding={devices=[4]<=[4]}
 b = f32[8] iota(), iota_dimension=0
 c = f32[8] call(a, b), to_apply=twice
 d = f32[8] tanh(c)
 ROOT out = f32[8] copy(d))",
                                {}, twice);
  for (const char* node : {"u", "v", "w", "b", "c", "d"})
    CHECK(sharding_text(*module, node) == "{devices=[4]<=[4]}");
}

TEST_CASE("propagate: the result of a call that is the root stays as the boundary says") {
  const char* const same = "\nsame { u = f32[8] parameter(0)\n ROOT w = f32[8] tanh(u) }";
  const char* const body = R"(a = f32[8] parameter(0), sharding={devices=[4]<=[4]}
 ROOT out = f32[8] call(a), to_apply=same)";
  const auto closed = completed(body, {}, same);
  CHECK_FALSE(closed->entry()->root()->sharding.has_value());
  CHECK(sharding_text(*closed, "out") == "{devices=[4]<=[4]}");
  const char* const laid_out =
      "\nsame { u = f32[8] parameter(0)\n ROOT w = f32[8] tanh(u), sharding={devices=[4]<=[4]} }";
  const auto annotated = completed(body, {}, laid_out);
  CHECK(annotated->entry()->root()->name() == "out");
  CHECK(sharding_text(*annotated, "out") == "{devices=[4]<=[4]}");
  CHECK(sharding_text(*completed(body, open_boundary(), same), "out") == "{devices=[4]<=[4]}");
}

TEST_CASE("propagate: Sharding ops become copies, and give what they annotate their layout") {
  const auto module = completed(R"(a = f32[8,6] parameter(0)
 b = f32[8,6] tanh(a)
 s = f32[8,6] custom-call(b), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
 ROOT out = f32[8,6] copy(s))");
  CHECK(find_node(*module, "s")->is(Opcode::copy));
  CHECK(sharding_text(*module, "b") == "{devices=[4,1]<=[4]}");
  // Annotated twice: both copies keep theirs, the later one speaks for the value.
  const auto twice = completed(R"(a = f32[8,6] iota(), iota_dimension=0
 s = f32[8,6] custom-call(a), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
 t = f32[8,6] custom-call(a), custom_call_target="Sharding", sharding={devices=[1,4]<=[4]}
 ROOT out = f32[8,6] add(s, t))");
  CHECK(sharding_text(*twice, "s") == "{devices=[4,1]<=[4]}");
  CHECK(sharding_text(*twice, "t") == "{devices=[1,4]<=[4]}");
  CHECK(sharding_text(*twice, "a") == "{devices=[1,4]<=[4]}");
}

TEST_CASE("propagate: unspecified dims are refined, specified ones are not") {
  const auto body = [](const char* dims) {
    return fmt::format(R"(a = f32[8,6] parameter(0), sharding={{devices=[2,2]<=[4]}}
 b = f32[8,6] tanh(a)
 s = f32[8,6] custom-call(b), custom_call_target="Sharding", sharding={{devices=[2,1,2]<=[4] last_tile_dim_replicate}}, backend_config="unspecified_dims=[{}]"
 ROOT out = f32[8,6] copy(s))",
                       dims);
  };
  CHECK(completes(body("1"), "s") == "{devices=[2,2]<=[4]}");
  CHECK(completes(body("0"), "s") == "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  CHECK(completes(body("1"), "s", without_spmd()) ==
        "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  CHECK_THROWS_WITH(completes(body("2"), "s"), Catch::Matchers::Contains("names dim 2"));
}

TEST_CASE("propagate: open dims of named shardings are refined, by users too") {
  CHECK(completes(R"(a = f32[8,6] parameter(0), sharding={mesh['x'=2,'y'=2], [{'x'},{'y'}]}
 b = f32[8,6] tanh(a), sharding={mesh['x'=2,'y'=2], [{'x'},{?}]}
 ROOT out = f32[8,6] copy(b))",
                  "b") == "{devices=[2,2]<=[4]}");
  CHECK(completes(R"(a = f32[8,6] parameter(0)
 b = f32[8,6] tanh(a), sharding={mesh['x'=2,'y'=2], [{'x', ?},{}]}
 c = f32[8,6] copy(b), sharding={mesh['x'=2,'y'=2], [{'x','y'},{}]}
 ROOT out = f32[8,6] copy(c))",
                  "b") == "{devices=[4,1]<=[4]}");
  CHECK(completes(R"(a = f32[8,6] parameter(0), sharding={mesh['x'=2,'y'=2], [{'x'},{'y'}]}
 b = f32[8,6] tanh(a), sharding={mesh['x'=2,'y'=2], [{?},{}]}
 ROOT out = f32[8,6] copy(b))",
                  "b") == "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
}

TEST_CASE("propagate: given shardings stay") {
  const auto module = completed(R"(a = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}
 b = f32[8,6] tanh(a), sharding={replicated}
 c = f32[8,6] negate(b), sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}
 d = f32[8,6] add(a, c), sharding={maximal device=2}
 ROOT out = f32[8,6] copy(d), sharding={devices=[1,4]<=[4]})");
  CHECK(sharding_text(*module, "b") == "{replicated}");
  CHECK(sharding_text(*module, "c") == "{devices=[1,2,2]<=[4] last_tile_dim_replicate}");
  CHECK(sharding_text(*module, "d") == "{maximal device=2}");
  CHECK(sharding_text(*module, "out") == "{devices=[1,4]<=[4]}");
}

TEST_CASE("propagate: unknown stands for replicated until something better comes") {
  CHECK(completes(R"(a = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}
 b = f32[8,6] tanh(a), sharding={unknown}
 ROOT out = f32[8,6] copy(b))",
                  "b") == "{devices=[4,1]<=[4]}");
  CHECK(completes(R"(a = f32[8,6] parameter(0), sharding={unknown}
 b = f32[8,6] tanh(a)
 ROOT out = f32[8,6] copy(b))",
                  "a") == "{replicated}");
}

TEST_CASE("propagate: the entry's parameters and results change where that is allowed") {
  const char* const body = R"(a = f32[8,6] parameter(0)
 b = f32[8,6] parameter(1), sharding={replicated}
 c = f32[8,6] parameter(2)
 s = f32[8,6] add(a, b)
 t = f32[8,6] add(s, c), sharding={devices=[4,1]<=[4]}
 u = f32[8,6] tanh(t)
 ROOT out = (f32[8,6], f32[8,6]) tuple(t, u))";
  const auto boundary = [&](std::vector<bool> parameters, std::vector<bool> outputs) {
    PropagateOptions options;
    options.allow_parameters = std::move(parameters);
    options.allow_output = std::move(outputs);
    const auto module = completed(body, options);
    std::string text;
    for (const char* name : {"a", "b", "c", "out"}) text += sharding_text(*module, name) + " ";
    return text;
  };
  const std::string rows = "{devices=[4,1]<=[4]}";
  CHECK(boundary({}, {}) == "none {replicated} none none ");
  CHECK(boundary({false}, {false}) == "none {replicated} none none ");
  CHECK(boundary({true}, {false}) == rows + " " + rows + " " + rows + " none ");
  CHECK(boundary({false, true, false}, {}) == "none " + rows + " none none ");
  CHECK(boundary({true, false, false}, {}) == rows + " {replicated} none none ");
  CHECK(boundary({}, {true}) == "none {replicated} none {" + rows + ", " + rows + "} ");
  CHECK(boundary({}, {false, true}) == "none {replicated} none {{replicated}, " + rows + "} ");
  CHECK_THROWS_WITH(boundary({true, false}, {}),
                    Catch::Matchers::Contains("2 flags for 3 parameters"));
  CHECK_THROWS_WITH(boundary({}, {true, false, true}),
                    Catch::Matchers::Contains("3 flags for 2 results"));
}

TEST_CASE("propagate: a single tuple parameter is allowed element by element") {
  PropagateOptions options;
  options.allow_parameters = {true, false};
  CHECK(completes(R"(p = (f32[8], f32[8]) parameter(0)
 a = f32[8] get-tuple-element(p), index=0
 b = f32[8] get-tuple-element(p), index=1
 c = f32[8] add(a, b), sharding={devices=[4]<=[4]}
 ROOT out = f32[8] copy(c))",
                  "p", options) == "{{devices=[4]<=[4]}, {replicated}}");
}

TEST_CASE("propagate: a boundary that does not divide is replicated in imported modules only") {
  const char* const body = R"(a = f32[5] parameter(0)
 b = f32[5] tanh(a), sharding={devices=[4]<=[4]}
 ROOT out = f32[5] negate(b))";
  PropagateOptions options = open_boundary();
  CHECK(completes(body, "a", options) == "{replicated}");
  CHECK(completes(body, "out", options) == "{replicated}");
  options.replicate_indivisible_boundary = false;
  CHECK(completes(body, "a", options) == "{devices=[4]<=[4]}");
  CHECK(completes(body, "out", options) == "{devices=[4]<=[4]}");
}

TEST_CASE("propagate: attributes of the module open its boundary") {
  auto module = parse_module(R"(HloModule m, frontend_attributes={gspmd.open_parameters="true"}
ENTRY main {
 a = f32[8] parameter(0)
 b = f32[8] tanh(a), sharding={devices=[4]<=[4]}
 ROOT out = f32[8] negate(b) })");
  propagate(*module);
  CHECK(sharding_text(*module, "a") == "{devices=[4]<=[4]}");
  CHECK(sharding_text(*module, "out") == "none");
}

TEST_CASE("propagate: members of a shard_as group end equal, of a shard_like group need not") {
  const auto body = [](const char* kind) {
    return fmt::format(
        R"(a = f32[8,6] parameter(0), sharding={{devices=[2,1,2]<=[4] last_tile_dim_replicate}}
 b = f32[8,6] parameter(1), sharding={{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}}
 s = f32[8,6] custom-call(a), custom_call_target="Sharding", sharding={{unknown {0} 1}}
 t = f32[8,6] custom-call(b), custom_call_target="Sharding", sharding={{unknown {0} 1}}
 u = f32[8,6] custom-call(b), custom_call_target="Sharding", sharding={{unknown {0} 2}}
 ROOT out = (f32[8,6], f32[8,6], f32[8,6]) tuple(s, t, u))",
        kind);
  };
  for (const char* node : {"s", "t"})
    CHECK(completes(body("shard_as"), node) == "{devices=[2,2]<=[4]}");
  CHECK(completes(body("shard_as"), "u") ==
        "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
  const char* const clash = R"(a = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}
 b = f32[8,6] parameter(1), sharding={devices=[1,4]<=[4]}
 s = f32[8,6] custom-call(a), custom_call_target="Sharding", sharding={unknown GROUP 1}
 t = f32[8,6] custom-call(b), custom_call_target="Sharding", sharding={unknown GROUP 1}
 ROOT out = (f32[8,6], f32[8,6]) tuple(s, t))";
  const auto clashing = [&](const std::string& kind, const char* node) {
    std::string text = clash;
    for (size_t at; (at = text.find("GROUP")) != std::string::npos;) text.replace(at, 5, kind);
    return completes(text, node);
  };
  CHECK(clashing("shard_as", "s") == clashing("shard_as", "t"));
  CHECK(clashing("shard_like", "t") != "none");
  const char* const ranks = R"(a = f32[8,6] parameter(0), sharding={devices=[4,1]<=[4] shard_as 1}
 b = f32[8] parameter(1), sharding={devices=[4]<=[4] shard_as 1}
 ROOT out = (f32[8,6], f32[8]) tuple(a, b))";
  CHECK_THROWS_WITH(
      completes(ranks, "a"),
      Catch::Contains(
          "shard group 1 holds a of f32[8,6] and b of f32[8]; its members are laid out alike"));
}

TEST_CASE("propagate: barriers stop one direction and disappear") {
  const auto module = parse_module(R"(HloModule m
ENTRY main {
 a = f32[8] parameter(0), sharding={devices=[4]<=[4]}
 b = f32[8] custom-call(a), custom_call_target="ShardBarrierFrom"
 c = f32[8] tanh(b)
 d = f32[8] iota(), iota_dimension=0
 e = f32[8] custom-call(d), custom_call_target="ShardBarrierTo"
 f = f32[8] copy(e), sharding={devices=[4]<=[4]}
 ROOT out = (f32[8], f32[8]) tuple(c, f) })");
  propagate(*module);
  CHECK(sharding_text(*module, "c") == "none");
  CHECK(sharding_text(*module, "d") == "{replicated}");
  for (const auto& node : module->entry()->nodes()) CHECK_FALSE(node->is(Opcode::custom_call));
}

TEST_CASE("propagate: manual values make their neighbours manual, up to the ends of the region") {
  const auto module = completed(R"(a = f32[8] parameter(0), sharding={devices=[4]<=[4]}
 c = f32[8] copy(a), sharding={devices=[4]<=[4]}
 m = f32[2] custom-call(c), custom_call_target="SPMDFullToShardShape", sharding={manual}
 n = f32[2] tanh(m)
 k = f32[2] constant({1,2})
 o = f32[2] add(n, k)
 f = f32[8] custom-call(o), custom_call_target="SPMDShardToFullShape", sharding={devices=[4]<=[4]}
 g = f32[8] tanh(f)
 ROOT out = f32[8] copy(g))");
  CHECK(sharding_text(*module, "n") == "{manual}");
  CHECK(sharding_text(*module, "k") == "{manual}");
  CHECK(sharding_text(*module, "o") == "{manual}");
  CHECK(sharding_text(*module, "c") == "{devices=[4]<=[4]}");
  CHECK(sharding_text(*module, "g") == "{devices=[4]<=[4]}");
}

TEST_CASE("propagate: manual subgroups stay with a value through every op") {
  CHECK(completes(
            R"(a = f32[8,6] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dims={manual}}
 b = f32[6,8] transpose(a), dimensions={1,0}
 c = f32[48] reshape(b)
 ROOT out = f32[48] copy(c))",
            "b") == "{devices=[1,2,2]<=[4] last_tile_dims={manual}}");
}

TEST_CASE("propagate: opaque calls are replicated beside replicated operands, else left alone") {
  CHECK(completes(R"(a = f32[8] parameter(0), sharding={replicated}
 b = f32[8] custom-call(a), custom_call_target="mystery"
 ROOT out = f32[8] copy(b))",
                  "b") == "{replicated}");
  CHECK(completes(R"(a = f32[8] parameter(0), sharding={devices=[4]<=[4]}
 b = f32[8] custom-call(a), custom_call_target="mystery"
 c = f32[8] copy(b), sharding={devices=[4]<=[4]}
 ROOT out = f32[8] copy(c))",
                  "b") == "none");
  CHECK(completes(R"(a = f32[8] parameter(0), sharding={devices=[4]<=[4]}
 b = f32[8] custom-call(a), custom_call_target="MoveToHost"
 ROOT out = f32[8] copy(b))",
                  "b") == "{devices=[4]<=[4]}");
}

TEST_CASE("propagate: without SPMD nothing is split over part of the devices") {
  const auto options = without_spmd();
  CHECK(completes(
            R"(a = f32[8,6] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
 b = f32[8,6] parameter(1), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
 c = f32[8,6] add(a, b)
 ROOT out = f32[8,6] copy(c))",
            "c", options) == "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  CHECK(completes(R"(a = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}
 z = f32[] constant(0)
 r = f32[6] reduce(a, z), dimensions={0}, to_apply=sum
 ROOT out = f32[6] copy(r))",
                  "r", options) == "{replicated}");
  CHECK(completes(R"(k = f32[6] constant({1,2,3,4,5,6})
 b = f32[8,6] broadcast(k), dimensions={1}
 c = f32[8,6] copy(b), sharding={devices=[2,2]<=[4]}
 ROOT out = f32[8,6] copy(c))",
                  "k", options) == "none");
  CHECK(completes(R"(a = f32[8] parameter(0), sharding={devices=[4]<=[4]}
 r = f32[8] reverse(a), dimensions={0}
 ROOT out = f32[8] copy(r))",
                  "r", options) == "none");
  const char* const joined = R"(a = s32[6] iota(), iota_dimension=0
 b = s32[2] iota(), iota_dimension=0
 t = s32[8] concatenate(a, b), dimensions={0}
 c = s32[8] copy(t), sharding={devices=[4]3,2,1,0}
 ROOT out = s32[8] copy(c))";
  CHECK(completes(joined, "a", options) == "{devices=[3]3,2,1}");
  CHECK(completes(joined, "b", options) == "none");  // one device: nobody takes that over
}

}  // namespace propagate_structure_test
