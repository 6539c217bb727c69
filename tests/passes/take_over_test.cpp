#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/pipeline.h"

// Results that take over the storage of parameters: who of a pair gives way
// (docs/spec/partitioning.md 1.2).

namespace gspmd {
namespace {

struct TakenOver {
  CompiledModule compiled;
  std::vector<std::string> notes;

  const Node& parameter() const { return *compiled.completed->entry()->parameters()[0]; }
  Sharding result(size_t i) const {
    const Sharding& root = *compiled.completed->entry()->root()->sharding;
    return root.is_tuple() ? root.elements().at(i) : root;
  }
  bool is_shared() const { return compiled.local->aliases.size() == 1; }
};

TakenOver taken_over(const std::string& text, bool propagates = true) {
  const auto module = parse_module(text, "m.hlo");
  TakenOver result;
  PipelineOptions options;
  options.num_devices = module->num_partitions;
  options.verify_between = true;
  options.run_propagation = propagates;
  options.on_note = [&](const std::string& note) { result.notes.push_back(note); };
  result.compiled = run_pipeline(*module, options);
  return result;
}

// Result {0} = q + q takes over p; p is split by rows, q and the results as said.
std::string rows_to_columns(const std::string& kind, const std::string& header = "",
                            const std::string& parameter = ", sharding={devices=[2,1]<=[2]}",
                            const std::string& result = "devices=[1,2]<=[2]") {
  return "HloModule m, input_output_alias={ {0}: (0, {}, " + kind + ") }" + header +
         ", num_partitions=2\nENTRY e {\n  p = f32[8,8] parameter(0)" + parameter +
         "\n  q = f32[8,8] parameter(1), sharding={devices=[1,2]<=[2]}\n"
         "  a = f32[8,8] add(q, q)\n  b = f32[8] reduce(p, 0.), dimensions={1}, to_apply=sum\n"
         "  ROOT t = (f32[8,8], f32[8]) tuple(a, b), sharding={{" +
         result + "}, {replicated}}\n}\n";
}

std::string with_sum(std::string text) {
  const size_t at = text.find("ENTRY");
  text.insert(at,
              "sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }\n");
  const size_t zero = text.find("0.)");
  if (zero != std::string::npos) {
    text.replace(zero, 3, "zero)");
    text.insert(text.find("  a = "), "  zero = f32[] constant(0)\n");
  }
  return text;
}

std::string refusal_of(const std::string& text) {
  try {
    taken_over(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

const std::string kOpenResults = ", allow_spmd_sharding_propagation_to_output={true,false}";
const std::string kOpenParameters = ", allow_spmd_sharding_propagation_to_parameters={true,false}";

}  // namespace

TEST_CASE("take over: a must-alias between two layouts is an error with its line") {
  const std::string error = refusal_of(with_sum(rows_to_columns("must-alias")));
  CHECK_THAT(error, Catch::Contains("result {0} must take the storage of parameter 0 \"p\"") &&
                        Catch::Contains("shards f32[4,8]") && Catch::Contains("shards f32[8,4]") &&
                        Catch::Contains("leave one of them open") && Catch::Contains("m.hlo:4"));
}

TEST_CASE("take over: a may-alias between two layouts is dropped with a note") {
  const TakenOver done = taken_over(with_sum(rows_to_columns("may-alias")));
  CHECK_FALSE(done.is_shared());
  REQUIRE(done.notes.size() == 1);
  CHECK_THAT(done.notes[0],
             Catch::Contains("result {0} may take the storage of parameter 0 \"p\"") &&
                 Catch::Contains("it gets storage of its own") && Catch::Contains("m.hlo:4"));
  CHECK(done.result(0) == parse_sharding("{devices=[1,2]<=[2]}"));
}

TEST_CASE("take over: a result that is open comes back as the parameter lies") {
  for (const char* kind : {"may-alias", "must-alias"}) {
    const TakenOver done = taken_over(with_sum(rows_to_columns(kind, kOpenResults)));
    CHECK(done.is_shared());
    CHECK(done.notes.empty());
    CHECK(equivalent(done.result(0), parse_sharding("{devices=[2,1]<=[2]}")));
    CHECK(equivalent(*done.parameter().sharding, parse_sharding("{devices=[2,1]<=[2]}")));
  }
}

TEST_CASE("take over: a parameter that is open lies as the result comes back") {
  for (const char* parameter : {"", ", sharding={devices=[2,1]<=[2]}"}) {
    const TakenOver done =
        taken_over(with_sum(rows_to_columns("must-alias", kOpenParameters, parameter)));
    CHECK(done.is_shared());
    CHECK(done.notes.empty());
    CHECK(equivalent(*done.parameter().sharding, parse_sharding("{devices=[1,2]<=[2]}")));
    CHECK(equivalent(done.result(0), parse_sharding("{devices=[1,2]<=[2]}")));
  }
}

TEST_CASE("take over: where both are open they agree") {
  const TakenOver done = taken_over(
      with_sum(rows_to_columns("must-alias", kOpenResults + kOpenParameters, "", "replicated")));
  CHECK(done.is_shared());
  CHECK(equivalent(*done.parameter().sharding, done.result(0)));
}

TEST_CASE("take over: shardings as they stand are not changed") {
  const TakenOver done =
      taken_over(with_sum(rows_to_columns("may-alias", kOpenResults)), /*propagates=*/false);
  CHECK_FALSE(done.is_shared());
  CHECK(done.notes.size() == 1);
}

TEST_CASE("take over: shards of one shape share storage in any order of devices") {
  const TakenOver done =
      taken_over(with_sum(rows_to_columns("must-alias", "", ", sharding={devices=[1,2]1,0}")));
  CHECK(done.is_shared());
  CHECK(done.notes.empty());
}

TEST_CASE("take over: leaves of tuples, by their paths") {
  const std::string text =
      "HloModule m, input_output_alias={ {1}: (0, {1}, must-alias) }, "
      "allow_spmd_sharding_propagation_to_output={OPEN}, num_partitions=2\nENTRY e {\n"
      "  p = (f32[4], f32[8,8]) parameter(0), sharding={{replicated}, {devices=[2,1]<=[2]}}\n"
      "  x = f32[8,8] get-tuple-element(p), index=1\n  y = f32[4] get-tuple-element(p), index=0\n"
      "  n = f32[8,8] negate(x), sharding={devices=[1,2]<=[2]}\n"
      "  ROOT t = (f32[4], f32[8,8]) tuple(y, n), sharding={{replicated}, "
      "{devices=[1,2]<=[2]}}\n}\n";
  const auto with = [&](const std::string& open) {
    std::string result = text;
    return result.replace(result.find("OPEN"), 4, open);
  };
  const TakenOver done = taken_over(with("false,true"));
  CHECK(done.is_shared());
  CHECK(equivalent(done.result(1), parse_sharding("{devices=[2,1]<=[2]}")));
  CHECK_THAT(refusal_of(with("true,false")),
             Catch::Contains("result {1} must take the storage of parameter 0") &&
                 Catch::Contains("m.hlo:3"));
}

namespace {

// What Shardy's rules complete: q + q takes over p, and p and the result say DIMS or nothing.
std::string shardy(const std::string& kind, const std::string& parameter,
                   const std::string& result) {
  const auto said = [](const std::string& dims, bool of_value) {
    if (dims.empty()) return std::string();
    std::string quoted;
    for (const char c : dims) quoted += c == '"' ? std::string("\\\"") : std::string(1, c);
    return ", frontend_attributes={xla.sdy.sharding=\"#sdy.sharding" +
           std::string(of_value ? "_per_value<[<@mesh, " : "<@mesh, ") + quoted +
           (of_value ? ">]>" : ">") + "\"}";
  };
  return "HloModule m, input_output_alias={ {}: (0, {}, " + kind +
         ") }, num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"x\"=2, "
         "\"y\"=2]>}}\nENTRY e {\n  p = f32[8,4] parameter(0)" +
         said(parameter, false) + "\n  q = f32[8,4] parameter(1)" + said("[{}, {\"x\"}]", false) +
         "\n  a = f32[8,4] add(q, q)\n  ROOT r = f32[8,4] custom-call(a), "
         "custom_call_target=\"xla.sdy.FuncResultSharding\", custom_call_has_side_effect=true" +
         said(result, true) + "\n}\n";
}

}  // namespace

TEST_CASE("take over: by Shardy's rules, what is open gives way") {
  struct Case {
    const char *parameter, *result, *both;
  };
  const Case cases[] = {
      {"[{\"x\"}, {}]", "", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"},
      {"[{\"x\"}, {}]", "[{?}, {?}]", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"},
      {"", "[{\"y\"}, {}]", "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}"},
      {"", "", "{devices=[1,2,2]<=[4] last_tile_dim_replicate}"},  // what q says
      // Open along rows: the result's rows may be split as well.
      {"[{\"y\"}, {\"x\"}]", "[{?}, {\"x\"}]", "{devices=[2,2]<=[2,2]T(1,0)}"},
      {"[{?}, {\"x\"}]", "[{\"y\"}, {\"x\"}]", "{devices=[2,2]<=[2,2]T(1,0)}"},
  };
  for (const Case& one : cases) {
    INFO(one.parameter << " and " << one.result);
    const TakenOver done = taken_over(shardy("must-alias", one.parameter, one.result));
    CHECK(done.is_shared());
    CHECK(equivalent(done.result(0), parse_sharding(one.both)));
    CHECK(equivalent(*done.parameter().sharding, parse_sharding(one.both)));
  }
}

TEST_CASE("take over: by Shardy's rules, closed shardings that differ are an error or a note") {
  CHECK_THAT(refusal_of(shardy("must-alias", "[{\"x\"}, {}]", "[{}, {\"x\"}]")),
             Catch::Contains("must take the storage") && Catch::Contains("m.hlo:3"));
  const TakenOver done = taken_over(shardy("may-alias", "[{\"x\"}, {}]", "[{}, {\"x\"}]"));
  CHECK_FALSE(done.is_shared());
  CHECK(done.notes.size() == 1);
}

}  // namespace gspmd
