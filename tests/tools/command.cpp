#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "gspmd/ir/text.h"
#include "tools/run_command.h"

namespace gspmd {
namespace {

using Json = nlohmann::json;

// The one JSON object that the command prints; code 0.
Json json_of(const std::string& arguments, const std::string& input = kNetwork) {
  const CommandResult result = run_command(arguments, input);
  CHECK(result.err == "");
  CHECK(result.code == 0);
  return Json::parse(result.out);
}

}  // namespace

TEST_CASE("print gives canonical text, which prints as itself") {
  const CommandResult result = run_command("print -", kNetwork);
  CHECK(result.code == 0);
  CHECK(result.err == "");
  CHECK(result.out == kNetwork);
  CHECK(json_of("print - --json") == Json{{"module", kNetwork}});
}

TEST_CASE("two processes complete a module to the same bytes") {
  for (const char* options : {"", " --json --origins", " --allow-parameter-propagation"}) {
    const CommandResult first = run_command(std::string("propagate -") + options, kNetwork);
    const CommandResult second = run_command(std::string("propagate -") + options, kNetwork);
    CHECK(first.code == 0);
    CHECK(!first.out.empty());
    CHECK(first.out == second.out);
  }
}

TEST_CASE(
    "propagate --cse-prevention-only lays out broadcasts of scalars only, until the next run") {
  const std::string text = R"(HloModule m
ENTRY e {
  z = f32[] parameter(0)
  b = f32[4] broadcast(z), dimensions={}
  s = f32[4] add(b, b)
  t = f32[4] custom-call(s), custom_call_target="Sharding", sharding={devices=[4]<=[4]}
  ROOT r = f32[4] copy(t)
})";
  const std::string marked =
      "{devices=[4]<=[4] metadata={op_name=\"_sharding_propagation_cse_prevention\"}}";
  const CommandResult kept = run_command("propagate - --cse-prevention-only", text);
  CHECK(kept.code == 0);
  CHECK(kept.out.find("%b = f32[4] broadcast(%z), dimensions={}, sharding=" + marked) !=
        std::string::npos);
  CHECK(kept.out.find("%s = f32[4] add(%b, %b)\n") != std::string::npos);
  CHECK(kept.out.find("custom-call") != std::string::npos);
  CHECK(run_command("print -", kept.out).out == kept.out);
  CHECK(run_command("propagate - --cse-prevention-only", kept.out).out == kept.out);
  CHECK(run_command("propagate -", kept.out).out == run_command("propagate -", text).out);
}

TEST_CASE(
    "flags of the module's header open its boundary, unless the command line says otherwise") {
  const std::string text =
      R"(HloModule m, allow_spmd_sharding_propagation_to_output={true}, allow_spmd_sharding_propagation_to_parameters={false,true}
ENTRY e {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  a = f32[4] add(p, q), sharding={devices=[4]<=[4]}
  ROOT r = f32[4] negate(a)
})";
  Json shardings = json_of("propagate - --json", text)["shardings"]["e"];
  CHECK(shardings["r"] == "{devices=[4]<=[4]}");
  CHECK(shardings["q"] == "{devices=[4]<=[4]}");
  CHECK_FALSE(shardings.contains("p"));
  const std::string closed =
      " --allow-output-propagation=false --allow-parameter-propagation=true,false";
  shardings = json_of("propagate - --json" + closed, text)["shardings"]["e"];
  CHECK_FALSE(shardings.contains("r"));
  CHECK_FALSE(shardings.contains("q"));
  CHECK(shardings["p"] == "{devices=[4]<=[4]}");
}

TEST_CASE("propagate prints the completed module, or its shardings as JSON") {
  const Json result = json_of("propagate - --json");
  CHECK(result["changed"] == true);
  CHECK(result["root"] == Json{{"sum", "c"}, {"main", "t"}});
  CHECK(result["shardings"]["main"]["h"] == "{devices=[2,4]<=[8]}");
  CHECK(result["shardings"]["main"]["y"] == "{devices=[2,1,4]<=[8] last_tile_dim_replicate}");
  CHECK(result["shardings"]["sum"] == Json::object());
  CHECK_FALSE(result["shardings"]["main"].contains("t"));
  CHECK_FALSE(result.contains("origins"));
  const Json open = json_of("propagate --allow-output-propagation - --json --origins");
  CHECK(open["shardings"]["main"]["t"] ==
        "{{devices=[2,1,4]<=[8] last_tile_dim_replicate}, {replicated}}");
  CHECK(open["origins"]["main"]["x"][0]["annotation"] == "x");
  const Json& result_origin = open["origins"]["main"]["t"][0];
  CHECK(open["annotation_sets"].at(result_origin["annotation_set"].get<size_t>()).size() ==
        1 + result_origin["also_count"].get<size_t>());
  const CommandResult text = run_command("propagate -", kNetwork);
  CHECK(parse_module(text.out)->entry()->nodes().size() == 10);
}

TEST_CASE("partition prints one program with the entry's signature in shard shapes") {
  const Json result = json_of("partition - --json");
  const auto module = parse_module(result["module"].get<std::string>());
  CHECK(to_string(module->entry()->root()->shape) == "(f32[8,16], f32[])");
  std::vector<std::string> parameters;
  for (const Node* parameter : module->entry()->parameters())
    parameters.push_back(to_string(parameter->shape));
  CHECK(parameters == std::vector<std::string>{"f32[4,16]", "f32[16,8]", "f32[8,16]"});
  CHECK(result["full_rematerializations"] == Json::array());
  CHECK(result["seconds"].is_number());
  int64_t count = 0;
  for (const auto& computation : module->computations())
    count += static_cast<int64_t>(computation->nodes().size());
  CHECK(result["instructions"] == count);
  std::set<std::string> kinds;
  for (const Json& c : result["collectives"]) {
    kinds.insert(c["kind"]);
    for (const char* key : {"count", "sites", "bytes", "groups", "op", "source"})
      CHECK(c.contains(key));
  }
  CHECK(kinds.count("all-reduce") == 1);
}

TEST_CASE("option --num-devices replaces the module's num_partitions") {
  const std::string plain =
      "HloModule m\nENTRY e {\n  a = f32[12] parameter(0), "
      "sharding={devices=[4]<=[4]}\n  ROOT r = f32[12] negate(a)\n}\n";
  CHECK_THAT(run_command("partition - --num-devices 4", plain).out,
             Catch::Contains("num_partitions=4") && Catch::Contains("f32[3] parameter(0)"));
  CHECK_THAT(run_command("partition -", plain).err,
             Catch::Contains("1 devices") && Catch::Contains("at least 4"));
}

TEST_CASE("run gives the same results on one device and on eight, for one seed") {
  const Json mesh = json_of("run - --json");
  const Json one = json_of("run - --json --num-devices 1");
  CHECK(mesh["outputs"] == one["outputs"]);
  CHECK(mesh["outputs"][0]["dtype"] == "f32");
  CHECK(mesh["outputs"][0]["shape"] == Json{8, 16});
  CHECK(mesh["outputs"][0]["data"].size() == 128);
  CHECK(mesh["outputs"][1]["shape"] == Json::array());
  CHECK(json_of("run - --json --seed 1")["outputs"] != mesh["outputs"]);
  CHECK(json_of("run - --json --threads 1")["outputs"] == mesh["outputs"]);
}

TEST_CASE("random inputs are small integers of the type, or uniform floats") {
  const std::string text =
      "HloModule m\nENTRY e { a = f32[500] parameter(0)\n b = u8[500] parameter(1)\n"
      " c = pred[500] parameter(2)\n p = (s32[500], bf16[2]) parameter(3)\n"
      " d = s32[500] get-tuple-element(p), index=0\n"
      " ROOT t = (f32[500], u8[500], pred[500], s32[500]) tuple(a, b, c, d) }";
  const Json integers = json_of("run - --json", text)["outputs"];
  const auto values = [](const Json& output) {
    return std::set<Json>(output["data"].begin(), output["data"].end());
  };
  const std::set<Json> small = {-4, -3, -2, -1, 0, 1, 2, 3, 4};
  CHECK(values(integers[0]) == small);
  CHECK(values(integers[1]) == std::set<Json>{0, 1, 2, 3, 4});
  CHECK(values(integers[2]) == std::set<Json>{false, true});
  CHECK(values(integers[3]) == small);
  const Json uniform = json_of("run - --json --values uniform", text)["outputs"];
  CHECK(values(uniform[0]).size() > 400);
  for (const Json& x : uniform[0]["data"]) CHECK(std::abs(x.get<double>()) <= 1);
  CHECK(uniform[3] == integers[3]);
}

TEST_CASE("NaN and infinities are strings in JSON, large results carry no data") {
  const Json result = json_of("run - --json",
                              "HloModule m\nENTRY e { c = f32[3] constant({nan, inf, -inf})\n"
                              " n = f32[3] negate(c)\n z = f32[] constant(0)\n"
                              " b = f32[65537] broadcast(z), dimensions={}\n"
                              " ROOT t = (f32[3], f32[65537]) tuple(n, b) }");
  CHECK(result["outputs"][0]["data"] == Json{"nan", "-inf", "inf"});
  CHECK(result["outputs"][1] == Json{{"dtype", "f32"}, {"shape", {65537}}});
}

TEST_CASE("verify compares exact results with the oracle, others with one device") {
  const Json exact = json_of("verify - --json");
  CHECK(exact["equal"] == true);
  CHECK(exact["exact"] == true);
  CHECK(exact["reference"] == "oracle");
  CHECK(exact["max_abs_error"] == 0);
  CHECK(exact["first_difference"] == nullptr);
  CHECK(exact["peak_bytes_per_device"] > 0);
  CHECK(exact["seconds"]["run"].is_number());
  const Json rounded = json_of("verify - --json --values uniform");
  CHECK(rounded["equal"] == true);
  CHECK(rounded["exact"] == false);
  CHECK(rounded["reference"] == "fast");
  CHECK(json_of("verify - --json --values uniform --reference oracle")["reference"] == "oracle");
}

TEST_CASE("verify --poison-absent shows what is read on devices that do not have it") {
  const std::string text = R"(HloModule m, num_partitions=2
ENTRY e {
  x = f32[] parameter(0), sharding={maximal device=1}
  y = f32[] negate(x), sharding={maximal device=0}
  ROOT z = f32[4] broadcast(y), dimensions={}, sharding={devices=[2]<=[2]}
})";
  CHECK(json_of("verify - --json --poison-absent", text)["equal"] == true);
  const CommandResult plain = run_command("partition -", text);
  const CommandResult poisoned =
      run_command("verify - --poison-absent --dump-after partition", text);
  CHECK(plain.out.find("select(") == std::string::npos);
  CHECK(poisoned.err.find("select(") != std::string::npos);
}

TEST_CASE("verify with no tolerance finds rounding, says where, and exits with 1") {
  const std::string text = R"(HloModule m, num_partitions=8
ENTRY e {
  x = f32[4096] parameter(0), sharding={devices=[8]<=[8]}
  ROOT y = f32[4096] exponential(x)
}
)";
  CHECK(json_of("verify - --json --values uniform", text)["equal"] == true);
  const CommandResult strict =
      run_command("verify - --json --values uniform --rtol 0 --atol 0 --reference oracle", text);
  CHECK(strict.code == 1);
  const Json result = Json::parse(strict.out);
  CHECK(result["equal"] == false);
  CHECK(result["first_difference"]["output"] == 0);
  CHECK(result["first_difference"]["index"].size() == 1);
  CHECK(result["max_abs_error"] > 0);
}

TEST_CASE("a limit below the peak has values made again, and says which") {
  // e is kept over a large product.
  const std::string kept = R"(HloModule m, num_partitions=2
ENTRY main {
  x = f32[64,64] parameter(0), sharding={devices=[2,1]<=[2]}
  w = f32[64,512] parameter(1), sharding={replicated}
  e = f32[64,64] exponential(x), metadata={source_file="model.py" source_line=7}
  a = f32[64,512] dot(e, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[64,64] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  c = f32[64,64] dot(b, e), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT t = f32[64,64] dot(c, e), lhs_contracting_dims={1}, rhs_contracting_dims={1}
}
)";
  const Json whole = json_of("cost - --json", kept);
  const int64_t limit = whole["peak_bytes_per_device"].get<int64_t>() - 1;
  const Json less = json_of(fmt::format("cost - --json --memory-limit {}", limit), kept);
  CHECK(less["peak_bytes_per_device"] <= limit);
  REQUIRE(less["recomputations"].size() == 1);
  CHECK(less["recomputations"][0]["name"] == "exponential");
  CHECK(less["recomputations"][0]["source"] == "model.py:7");
  const CommandResult verified =
      run_command(fmt::format("verify - --memory-limit {}", limit), kept);
  CHECK(verified.code == 0);
  CHECK_THAT(verified.err, Catch::Contains("made again: exponential f32[32,64] again before "));
  CHECK_THAT(run_command(fmt::format("cost - --memory-limit {}", limit), kept).out,
             Catch::Contains("made again         exponential f32[32,64]"));
}

TEST_CASE("explain, cost and ops answer in text and JSON") {
  CHECK(json_of("explain - --json")["collectives"].size() >= 1);
  CHECK_THAT(run_command("explain -", kNetwork).out, Catch::Contains("all-reduce"));
  const Json cost = json_of("cost - --json");
  CHECK(cost["flops_per_device"] > 2 * 4 * 16 * 8);
  CHECK(cost["peak_bytes_per_device"] > 0);
  CHECK(run_command("cost -", kNetwork).code == 0);
  const int64_t peak = cost["peak_bytes_per_device"];
  for (const char* verb : {"partition", "run", "verify", "explain", "cost"}) {
    INFO(verb);
    CHECK(run_command(fmt::format("{} - --memory-limit {}", verb, peak), kNetwork).code == 0);
    const CommandResult refused =
        run_command(fmt::format("{} - --memory-limit 100", verb), kNetwork);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.err,
               Catch::Contains("bytes are needed on each device, the memory limit is 100"));
  }
  CHECK(cost["recomputations"].empty());
  for (const char* large : {"1GiB", "0.5 GB", "99999999"}) {
    INFO(large);
    CHECK(run_command(fmt::format("cost - --memory-limit '{}'", large), kNetwork).code == 0);
  }
  for (const char* wrong : {"-5", "abc", "1.2.3", "5QB", ".", "99999999999999999999"}) {
    INFO(wrong);
    const CommandResult refused =
        run_command(fmt::format("cost - --memory-limit={}", wrong), kNetwork);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.err, Catch::Contains("give bytes below 2^62"));
  }
  const Json ops = json_of("ops --json")["ops"];
  CHECK(ops.size() == static_cast<size_t>(opcode_count()));
  for (const Json& op : ops)
    if (op["name"] == "dot") CHECK(op["rule"] == "([i,k],[k,j])->([i,j]) reduction={k}");
}

TEST_CASE("a donated parameter split otherwise than the result is not shared") {
  const CommandResult run = run_command(
      "verify - --json",
      "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }, num_partitions=4\nENTRY e {"
      " a = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      " ROOT n = f32[8,8] negate(a), sharding={devices=[1,4]<=[4]} }");
  REQUIRE(run.code == 0);
  const Json result = Json::parse(run.out);
  CHECK(result["equal"] == true);
  CHECK(result["exact"] == true);
}

TEST_CASE("a donation that two layouts do not allow is said once, or an error") {
  const auto module = [](const std::string& kind) {
    return "HloModule m, input_output_alias={ {}: (0, {}, " + kind +
           ") }, num_partitions=4\nENTRY e {\n"
           " a = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
           " ROOT n = f32[8,8] negate(a), sharding={devices=[1,4]<=[4]} }";
  };
  for (const char* verb : {"partition -", "run -", "explain -"}) {
    const CommandResult run = run_command(verb, module("may-alias"));
    CHECK(run.code == 0);
    const size_t note =
        run.err.find("gspmd: note: <stdin>: input_output_alias: result {} may take");
    REQUIRE(note != std::string::npos);
    CHECK(run.err.find("gspmd: note", note + 1) == std::string::npos);
    const CommandResult refused = run_command(verb, module("must-alias"));
    CHECK(refused.code == 2);
    CHECK_THAT(refused.err, Catch::Contains("result {} must take the storage of parameter 0") &&
                                Catch::Contains("(<stdin>:3)"));
  }
}

TEST_CASE("explain names the mesh axes of named shardings, and digits of others") {
  const auto text = [](const std::string& x, const std::string& w) {
    return "HloModule m, num_partitions=8\nENTRY e {\n  x = f32[8,16] parameter(0), sharding=" + x +
           "\n  w = f32[16,4] parameter(1), sharding=" + w +
           "\n  y = f32[8,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
           "  ROOT r = f32[8,4] tanh(y)\n}\n";
  };
  const auto axes = [](const std::string& module) {
    std::set<std::string> result;
    const Json explained = json_of("explain - --json", module);
    for (const Json& c : explained["collectives"]) result.insert(c["axes"]);
    return result;
  };
  CHECK(axes(text("{mesh['data'=2,'model'=4], [{},{'model'}]}",
                  "{mesh['data'=2,'model'=4], [{'model'},{}]}")) == std::set<std::string>{"model"});
  CHECK(axes(text("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
                  "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}")) ==
        std::set<std::string>{"(4,1)"});
}

TEST_CASE("partitioning for 65,536 devices takes as many instructions as for 8") {
  const auto text = [](int devices) {
    return fmt::format(
        "HloModule m, num_partitions={0}\nENTRY e {{\n"
        "  x = f32[131072,64] parameter(0), sharding={{devices=[{0},1]<=[{0}]}}\n"
        "  w = f32[64,64] parameter(1)\n"
        "  y = f32[131072,64] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        "  ROOT g = f32[64,64] dot(y, x), lhs_contracting_dims={{0}}, "
        "rhs_contracting_dims={{0}}\n}}\n",
        devices);
  };
  const Json small = json_of("partition - --json", text(8));
  const Json large = json_of("partition - --json", text(65536));
  CHECK(small["instructions"] == large["instructions"]);
  CHECK(large["seconds"] < 1.0);
}

}  // namespace gspmd
