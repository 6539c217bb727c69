#include <algorithm>
#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/complete/propagate.h"
#include "gspmd/passes/pipeline.h"

// HLO as today's JAX prints it, with Shardy's attributes and calls (docs/spec/completion.md 10.1).

namespace gspmd {
namespace {

const std::string kMesh =
    "HloModule m, num_partitions=4, "
    "frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"x\"=2, \"y\"=2]>}}\n";

// frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, DIMS>"}, of a parameter.
std::string said(const std::string& dims) {
  std::string quoted;
  for (const char c : dims) quoted += c == '"' ? std::string("\\\"") : std::string(1, c);
  return ", frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@mesh, " + quoted + ">\"}";
}

// The same of an op.
std::string said_of_op(const std::string& dims, const std::string& key = "xla.sdy.sharding") {
  std::string text = said(dims);
  text.replace(text.find("xla.sdy.sharding"), 16, key);
  text.replace(text.find("#sdy.sharding<"), 14, "#sdy.sharding_per_value<[<");
  text.insert(text.rfind('"'), "]>");
  return text;
}

std::unique_ptr<Module> completed(const std::string& text, const PropagateOptions& options = {}) {
  auto module = parse_module(text);
  propagate(*module, options);
  verify_module(*module);
  return module;
}

std::string layout(const Module& module, const std::string& name) {
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      if (node->name() == name) return node->sharding ? to_string_v2(*node->sharding) : "none";
  return "no such node";
}

int64_t count_of(const Module& module, Opcode opcode) {
  int64_t count = 0;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) count += node->is(opcode) ? 1 : 0;
  return count;
}

CompiledModule partitioned(const std::string& text) {
  const auto module = parse_module(text);
  PipelineOptions options;
  options.num_devices = module->num_partitions;
  options.verify_between = true;
  return run_pipeline(*module, options);
}

std::string error_of(const std::string& text, const PropagateOptions& options = {}) {
  try {
    completed(text, options);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string kSquare = kMesh + "ENTRY main {\n  a = f32[8,4] parameter(0)" +
                            said("[{\"x\"}, {?}]") +
                            "\n  b = f32[8,4] parameter(1)\n  ROOT c = f32[8,4] add(a, b)\n}\n";

const char* const kManual = R"(
sum { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q) }
xla.sdy.manual_computation_body.1 {
  p = f32[4,2] parameter(0)
  ROOT r = f32[4,2] all-reduce(p), channel_id=1, replica_groups={{0,2},{1,3}}, use_global_device_ids=true, to_apply=sum
}
ENTRY main {
  a = f32[8,4] parameter(0)
  g = f32[4,2] custom-call(a), custom_call_target="xla.sdy.GlobalToLocalShape", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\"}, {\"y\"}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{\"x\", \"y\"}>"}
  c = f32[4,2] call(g), to_apply=xla.sdy.manual_computation_body.1, frontend_attributes={inlineable="xla_late"}
  ROOT l = f32[4,4] custom-call(c), custom_call_target="xla.sdy.LocalToGlobalShape", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.manual_axes="#sdy<manual_axes{\"x\", \"y\"}>",xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{}, {\"y\"}]>]>"}
}
)";

}  // namespace

TEST_CASE("a module with sdy meshes is completed by Shardy's rules, others as before", "[shardy]") {
  const auto module = completed(kSquare);
  CHECK(layout(*module, "b") == "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  CHECK(layout(*module, "c") == "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
  // GSPMD's rules leave a parameter as it stands.
  PropagateOptions options;
  options.strategy = Strategy::gspmd;
  CHECK(layout(*completed(kSquare, options), "b") == "none");
  // And the other way: no sdy in the module, Shardy's rules asked for.
  const std::string plain =
      "HloModule m, num_partitions=4\nENTRY main {\n  a = f32[8,4] parameter(0), "
      "sharding={devices=[2,2]<=[4]}\n  b = f32[8,4] parameter(1)\n  ROOT c = f32[8,4] add(a, b)\n"
      "}\n";
  options.strategy = Strategy::shardy;
  CHECK(layout(*completed(plain, options), "b") == "{devices=[2,2]<=[4]}");
}

TEST_CASE("completing a completed module changes nothing", "[shardy]") {
  for (const std::string& text : {kSquare, kMesh + kManual}) {
    const auto module = completed(text);
    const std::string once = to_text(*module);
    const auto again = parse_module(once);
    CHECK_FALSE(propagate(*again));
    CHECK(to_text(*again) == once);
  }
}

TEST_CASE("XLA's attribute counts where XLA hears it, ours everywhere", "[shardy]") {
  const auto text = [](const std::string& attribute) {
    return kMesh + "ENTRY main {\n  a = f32[8,4] parameter(0)\n  b = f32[8,4] negate(a)" +
           attribute + "\n  ROOT c = f32[8,4] abs(b)\n}\n";
  };
  CHECK(layout(*completed(text(said_of_op("[{\"x\"}, {}]"))), "b") == "{replicated}");
  CHECK(layout(*completed(text(said_of_op("[{\"x\"}, {}]", "sdy.sharding"))), "a") ==
        "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
}

TEST_CASE("a sharding in HLO's form counts where the dialect says nothing", "[shardy]") {
  const auto text = [](const std::string& attribute) {
    return kMesh +
           "ENTRY main {\n  a = f32[8,4] parameter(0), sharding={devices=[1,2,2]<=[4] "
           "last_tile_dim_replicate}" +
           attribute + "\n  ROOT c = f32[8,4] abs(a)\n}\n";
  };
  CHECK(layout(*completed(text("")), "c") == "{devices=[1,2,2]<=[4] last_tile_dim_replicate}");
  CHECK(layout(*completed(text(said("[{\"y\"}, {}]"))), "c") ==
        "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
}

TEST_CASE("results say their shardings by calls, dead reshapes aside", "[shardy]") {
  const auto module = completed(
      kMesh +
      "ENTRY main {\n  a = f32[8,4] parameter(0)\n  n = f32[8,4] negate(a)\n  r = f32[8,4] "
      "custom-call(n), custom_call_target=\"xla.sdy.FuncResultSharding\", "
      "custom_call_has_side_effect=true" +
      said_of_op("[{\"y\"}, {}]") +
      "\n  dead = f32[8,4] reshape(r), sharding={replicated}\n  m = f32[8,4] abs(a)\n  ROOT t = "
      "(f32[8,4], f32[8,4]) tuple(r, m), sharding={{devices=[2,1,2]<=[2,2]T(1,0) "
      "last_tile_dim_replicate}, {replicated}}\n}\n");
  const std::string rows = "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}";
  CHECK(layout(*module, "n") == rows);
  CHECK(layout(*module, "a") == rows);
  CHECK(layout(*module, "m") == rows);  // open
  CHECK(layout(*module, "t") == "{" + rows + ", " + rows + "}");
}

TEST_CASE("a manual computation becomes a region and is partitioned", "[shardy]") {
  const auto module = completed(kMesh + kManual);
  CHECK(layout(*module, "a") == "{devices=[2,2]<=[4]}");
  CHECK(layout(*module, "r") == "{manual}");
  CHECK(layout(*module, "l") == "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
  const CompiledModule compiled = partitioned(kMesh + kManual);
  CHECK(count_of(*compiled.local, Opcode::all_reduce) == 1);
  CHECK(count_of(*compiled.local, Opcode::custom_call) == 0);
  CHECK(compiled.local->entry()->parameters()[0]->dims() == Dims{4, 2});
}

TEST_CASE("barriers, groups and calls of the dialect are gone after partitioning", "[shardy]") {
  const CompiledModule compiled = partitioned(
      kMesh +
      "f { p = f32[8,4] parameter(0)\n  ROOT q = f32[8,4] negate(p) }\nENTRY main {\n  a = "
      "f32[8,4] parameter(0)" +
      said("[{\"x\"}, {\"y\"}]") +
      "\n  g = () custom-call(a), custom_call_target=\"xla.sdy.ShardingGroup\", "
      "custom_call_has_side_effect=true, "
      "frontend_attributes={xla.sdy.sharding_group_id=\"1 : i64\"}\n  c = f32[8,4] call(a), "
      "to_apply=f\n  b = f32[8,4] custom-call(c), "
      "custom_call_target=\"xla.sdy.PropagationBarrier\", "
      "frontend_attributes={xla.sdy.allowed_direction=\"1 : i32\"}\n  ROOT d = f32[8,4] "
      "abs(b)\n}\n");
  CHECK(count_of(*compiled.local, Opcode::custom_call) == 0);
  CHECK(compiled.local->entry()->root()->dims() == Dims{4, 2});
}

TEST_CASE("what does not fit is refused with the line", "[shardy]") {
  const auto of_parameter = [](const std::string& dims) {
    return error_of(kMesh + "ENTRY main {\n  ROOT a = f32[8,4] parameter(0)" + said(dims) +
                    "\n}\n");
  };
  CHECK(contains(of_parameter("[{\"z\"}, {}]"), "axis \"z\" is not in the mesh"));
  CHECK(contains(of_parameter("[{\"z\"}, {}]"), "<hlo>:3"));
  CHECK(contains(of_parameter("[{\"x\"}]"), "1 dims for f32[8,4]"));
  CHECK(contains(of_parameter("[{\"x\"}, {\"x\"}]"), "used twice"));
  std::string manual = kMesh + kManual;
  manual.replace(manual.find("{\\\"x\\\"}, {\\\"y\\\"}"), 16, "{}, {\\\"y\\\"}");
  CHECK(contains(error_of(manual), "where dim 0 is split 1 ways"));
  std::string inside = kMesh + kManual;
  inside.replace(
      inside.find("use_global_device_ids=true, to_apply=sum"), 40,
      "use_global_device_ids=true, to_apply=sum" + said_of_op("[{\"x\"}, {}]", "sdy.sharding"));
  CHECK(contains(error_of(inside), "manual"));
  PropagateOptions options;
  options.strategy = Strategy::shardy;
  CHECK(contains(error_of("HloModule m, num_partitions=2\nENTRY main {\n  ROOT a = f32[8] "
                          "parameter(0), sharding={manual}\n}\n",
                          options),
                 "--strategy gspmd"));
}

TEST_CASE("copies per call of functions that call each other twice end in an error", "[shardy]") {
  std::string text = kMesh + "f0 { p = f32[8,4] parameter(0)\n  ROOT q = f32[8,4] negate(p) }\n";
  for (int i = 1; i < 40; ++i)
    text += fmt::format(
        "f{0} {{ p = f32[8,4] parameter(0)\n  a = f32[8,4] call(p), to_apply=f{1}\n  ROOT b = "
        "f32[8,4] call(a), to_apply=f{1} }}\n",
        i, i - 1);
  text += "ENTRY main {\n  a = f32[8,4] parameter(0)" + said("[{\"x\"}, {}]") +
          "\n  ROOT b = f32[8,4] call(a), to_apply=f39\n}\n";
  CHECK(!error_of(text).empty());
}

// With named shardings alone the borders of a manual computation say nothing: the calls before it
// and its results' own shardings do, and what is inside names the manual axes.
TEST_CASE("sdy in HLO: borders of manual computations in text whose shardings are named",
          "[shardy]") {
  const auto text = [](const std::string& to_local, const std::string& to_global) {
    const std::string mesh = "mesh['x'=2,'y'=4], ";
    return "HloModule m, num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = "
           "#sdy.mesh<[\"x\"=2, \"y\"=4]>}}\n"
           "xla.sdy.manual_computation_body {\n"
           "  a = f32[4,16] parameter(0)\n"
           "  b = f32[16,32] parameter(1)\n"
           "  d = f32[4,32] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
           "  c = f32[4,32] custom-call(d), custom_call_target=\"Sharding\", sharding={" +
           mesh + "[{}, {'y'}]}\n" +
           "  ROOT s = f32[4,32] sine(c)\n}\n"
           "ENTRY e {\n"
           "  p = f32[8,16] parameter(0)\n"
           "  q = f32[16,32] parameter(1)\n" +
           to_local +
           "  in0 = f32[4,16] get-tuple-element(in), index=0\n"
           "  in1 = f32[16,32] get-tuple-element(in), index=1\n"
           "  r = f32[4,32] call(in0, in1), to_apply=xla.sdy.manual_computation_body, sharding={" +
           mesh + "[{?}, {?}], manual={'x'}}, frontend_attributes={inlineable=\"xla_late\"}\n" +
           "  ROOT out = f32[8,32] custom-call(r), "
           "custom_call_target=\"xla.sdy.LocalToGlobalShape\", " +
           to_global + "\n}\n";
  };
  const std::string call = "  in = (f32[4,16], f32[16,32]) custom-call(";
  const std::string target = "), custom_call_target=\"xla.sdy.GlobalToLocalShape\", ";
  const std::string axes = "xla.sdy.manual_axes=\"#sdy<manual_axes{\\\"x\\\"}>\"}";
  const std::string named = text(
      "  ps = f32[8,16] custom-call(p), custom_call_target=\"Sharding\", "
      "sharding={mesh['x'=2,'y'=4], [{'x', ?}, {?}]}\n"
      "  qs = f32[16,32] custom-call(q), custom_call_target=\"Sharding\", "
      "sharding={mesh['x'=2,'y'=4], [{?}, {?}]}\n" +
          call + "ps, qs" + target +
          "sharding={{mesh['x'=2,'y'=4], [{?}, {?}], manual={'x'}}, {mesh['x'=2,'y'=4], [{?}, "
          "{?}], manual={'x'}}}\n",
      "sharding={mesh['x'=2,'y'=4], [{'x', ?}, {?}]}");
  const std::string attributes = text(call + "p, q" + target +
                                          "frontend_attributes={xla.sdy.in_shardings=\"#sdy."
                                          "sharding_per_value<[<@mesh, [{\\\"x\\\", "
                                          "?}, {?}]>, <@mesh, [{?}, {?}]>]>\"," +
                                          axes + "\n",
                                      "frontend_attributes={xla.sdy.out_shardings=\"#sdy.sharding_"
                                      "per_value<[<@mesh, [{\\\"x\\\", ?}, "
                                      "{?}]>]>\"," +
                                          axes);
  for (const Strategy strategy : {Strategy::shardy, Strategy::gspmd}) {
    PropagateOptions options;
    options.strategy = strategy;
    const auto module = completed(named, options), same = completed(attributes, options);
    for (const char* name : {"p", "q", "d", "s", "out"}) {
      INFO(name);
      CHECK(layout(*module, name) == layout(*same, name));
    }
  }
  CHECK(layout(*completed(named), "q") == "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
  CHECK(count_of(*partitioned(named).local, Opcode::custom_call) == 0);
  CHECK(to_text(*partitioned(named).local) == to_text(*partitioned(attributes).local));
}

}  // namespace gspmd
