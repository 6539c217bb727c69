#include <unistd.h>

#include <catch2/catch.hpp>
#include <complex>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "gspmd/io/npy.h"
#include "tools/run_command.h"

namespace gspmd {
namespace {

using Catch::Contains;
using Json = nlohmann::json;
using Arrays = std::vector<std::pair<std::string, Array>>;

std::string scratch(const std::string& name) {
  return fmt::format(GSPMD_BINARY_DIR "/tests/arrays-{}-{}", getpid(), name);
}

// The result of a command whose --inputs are these arrays.
CommandResult with_inputs(const std::string& verb, const Arrays& arrays, const std::string& text) {
  const std::string path = scratch("in.npz");
  write_npz(path, arrays);
  CommandResult result = run_command(verb + " - --inputs " + path, text);
  std::remove(path.c_str());
  return result;
}

const std::string kPair =
    "HloModule m\nENTRY e { p = (f32[2], (pred[], bf16[2])) parameter(0)\n i = s32[3] "
    "parameter(1)\n"
    " a = f32[2] get-tuple-element(p), index=0\n q = (pred[], bf16[2]) get-tuple-element(p), "
    "index=1\n"
    " b = bf16[2] get-tuple-element(q), index=1\n n = f32[2] negate(a)\n m = bf16[2] negate(b)\n"
    " j = s32[3] negate(i)\n ROOT t = (f32[2], (bf16[2], s32[3])) tuple(n, u)\n}\n";

std::string pair_module() {
  std::string text = kPair;
  text.replace(text.find(" ROOT"), 0, " u = (bf16[2], s32[3]) tuple(m, j)\n");
  return text;
}

Arrays pair_inputs() {
  return {{"0.0", Array::of<float>({2}, {1, 2})},
          {"0.1.0", Array::scalar(true)},
          {"0.1.1", Array::of<bfloat16>({2}, {bfloat16(3.0f), bfloat16(4.0f)})},
          {"1", Array::of<int32_t>({3}, {5, 6, 7})}};
}

}  // namespace

TEST_CASE("arrays of an npz file are the arguments, by parameter number and place in tuples") {
  const CommandResult result = with_inputs("run --json", pair_inputs(), pair_module());
  CHECK(result.err == "");
  const Json outputs = Json::parse(result.out)["outputs"];
  CHECK(outputs[0]["data"] == Json{-1, -2});
  CHECK(outputs[1] == Json{{"dtype", "bf16"}, {"shape", {2}}, {"data", {-3, -4}}});
  CHECK(outputs[2]["data"] == Json{-5, -6, -7});
}

TEST_CASE("inputs that are missing, of another shape or of another type are named") {
  const auto with = [](size_t at, const std::string& name, const Array& array) {
    Arrays arrays = pair_inputs();
    arrays[at] = {name, array};
    const CommandResult result = with_inputs("run", arrays, pair_module());
    CHECK(result.code == 2);
    CHECK(result.out == "");
    return result.err;
  };
  CHECK_THAT(with(3, "2", Array::scalar(1.0f)),
             Contains("has no array 1; the module takes 0.0, 0.1.0, 0.1.1, 1, the file has 0.0,"));
  CHECK_THAT(with(3, "1", Array::of<int32_t>({2}, {5, 6})),
             Contains("array \"1\" is s32[2], parameter 1 \"i\" takes s32[3]"));
  CHECK_THAT(with(3, "1", Array::of<float>({3}, {5, 6, 7})),
             Contains("array \"1\" is f32[3], parameter 1 \"i\" takes s32[3]"));
  Arrays more = pair_inputs();
  more.emplace_back("9", Array::scalar(1.0f));
  const CommandResult result = with_inputs("run", more, pair_module());
  CHECK(result.code == 0);
  CHECK_THAT(result.err, Contains("array \"9\" belongs to no parameter"));
}

TEST_CASE("results go into an npz file by number, also those too large for JSON") {
  const std::string path = scratch("out.npz");
  const CommandResult result =
      run_command("run - --json --outputs " + path,
                  "HloModule m\nENTRY e { z = f16[] constant(1.5)\n b = f16[70000] broadcast(z), "
                  "dimensions={}\n"
                  " c = c64[] constant((1, -2))\n ROOT t = (f16[70000], c64[]) tuple(b, c) }");
  CHECK(result.err == "");
  const Json outputs = Json::parse(result.out)["outputs"];
  CHECK_FALSE(outputs[0].contains("data"));
  CHECK(outputs[1]["data"] == Json{{1, -2}});
  const NpzFile file(path);
  CHECK(file.names() == std::vector<std::string>{"0", "1"});
  CHECK(file.read("0").at(69999) == 1.5);
  CHECK(file.read("1").data<std::complex<float>>()[0] == std::complex<float>(1, -2));
  std::remove(path.c_str());
}

TEST_CASE("JSON has a form for elements of every type") {
  const CommandResult result = run_command(
      "run - --json",
      "HloModule m\nENTRY e { a = pred[2] constant({1, 0})\n b = c128[2] constant({(1, nan), "
      "(-inf, 0)})\n"
      " c = bf16[2] constant({nan, 0.5})\n d = s4[2] constant({-8, 7})\n e = f8e4m3fn[2] "
      "constant({1.5, 448})\n"
      " f = u64[1] constant({18446744073709551615})\n g = s64[1] constant({-9223372036854775808})\n"
      " ROOT t = (pred[2], c128[2], bf16[2], s4[2], f8e4m3fn[2], u64[1], s64[1]) tuple(a, b, c, d, "
      "e, f, g) }");
  CHECK(result.err == "");
  REQUIRE(result.code == 0);
  const Json outputs = Json::parse(result.out)["outputs"];
  CHECK(outputs[0]["data"] == Json{true, false});
  CHECK(outputs[1]["data"] == Json{{1, "nan"}, {"-inf", 0}});
  CHECK(outputs[2]["data"] == Json{"nan", 0.5});
  CHECK(outputs[3]["data"] == Json{-8, 7});
  CHECK(outputs[4]["data"] == Json{1.5, 448});
  CHECK(outputs[5]["data"] == Json{18446744073709551615u});
  CHECK(outputs[6]["data"] == Json{INT64_MIN});
}

TEST_CASE("random inputs have numbers in both parts of complex types") {
  const CommandResult result =
      run_command("run - --json", "HloModule m\nENTRY e { ROOT a = c64[50] parameter(0) }");
  std::set<Json> real, imaginary;
  const Json outputs = Json::parse(result.out)["outputs"];
  for (const Json& z : outputs[0]["data"]) {
    real.insert(z[0]);
    imaginary.insert(z[1]);
  }
  CHECK(real.size() == 9);
  CHECK(imaginary.size() == 9);
}

TEST_CASE("a program of collectives runs as copies, each with its own arguments") {
  const std::string text =
      "HloModule m, num_partitions=2\nadd { x = s32[] parameter(0)\n y = s32[] parameter(1)\n"
      " ROOT z = s32[] add(x, y) }\nENTRY e { a = s32[2] parameter(0)\n"
      " ROOT r = s32[2] all-reduce(a), channel_id=1, replica_groups={{0,1}}, "
      "use_global_device_ids=true, to_apply=add }";
  const CommandResult own =
      with_inputs("run --json", {{"0", Array::of<int32_t>({2, 2}, {1, 2, 10, 20})}}, text);
  CHECK(Json::parse(own.out)["device_outputs"][1][0]["data"] == Json{11, 22});
  const CommandResult same =
      with_inputs("run --json", {{"0", Array::of<int32_t>({2}, {1, 2})}}, text);
  CHECK(Json::parse(same.out)["outputs"][0]["data"] == Json{2, 4});
  const CommandResult verified = run_command("verify - --json", text);
  CHECK(Json::parse(verified.out)["equal"] == true);
  CHECK(Json::parse(verified.out)["reference"] == "oracle");
}

TEST_CASE("what partition prints runs as copies") {
  const CommandResult program = run_command("partition -", kNetwork);
  REQUIRE(program.code == 0);
  const CommandResult result = run_command("verify - --json", program.out);
  CHECK(result.err == "");
  CHECK(Json::parse(result.out)["equal"] == true);
}

TEST_CASE("A folder is its program, with its inputs and the outputs to compare with") {
  namespace fs = std::filesystem;
  const fs::path folder = scratch("folder");
  fs::create_directories(folder);
  const auto write = [&](const char* name, const Array& array) {
    write_npz((folder / name).string(), Arrays{{"0", array}});
  };
  std::ofstream(folder / "program.mlir")
      << "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n  %0 = stablehlo.negate %x : "
         "tensor<3xf32>\n  return %0 : tensor<3xf32>\n}\n";
  write("inputs.npz", Array::of<float>({3}, {1, 2, 3}));
  const std::string run = "run " + folder.string() + " --json";
  CHECK(Json::parse(run_command(run).out)["outputs"][0]["data"] == Json({-1.0, -2.0, -3.0}));
  write("outputs.npz", Array::of<float>({3}, {-1, -2, -3}));
  CHECK(Json::parse(run_command(run).out)["expected"]["equal"] == true);
  write("outputs.npz", Array::of<float>({3}, {-1, -2.5, -3}));
  const CommandResult differs = run_command("run " + folder.string());
  CHECK(differs.code == 1);
  CHECK_THAT(differs.out, Contains("NOT as expected: largest error 0.5 absolute, 0.2 relative") &&
                              Contains("output 0 at [1]: expected -2.5, found -2"));
  CHECK(run_command("run " + folder.string() + " --rtol 0.3").code == 0);
  CHECK(run_command("verify " + folder.string() + " --num-devices 2").code == 0);
  CHECK(run_command("print " + folder.string()).code == 0);
  write("outputs.npz", Array::of<float>({2}, {-1, -2}));
  CHECK_THAT(run_command("run " + folder.string()).err,
             Contains("outputs.npz: array \"0\" is f32[2], result 0 is f32[3]"));
  write("wrong.npz", Array::of<float>({3}, {0, 0, 0}));
  CHECK(run_command("run " + folder.string() + " --expected " + (folder / "wrong.npz").string())
            .code == 1);
  std::ofstream(folder / "second.hlo") << "HloModule m\n";
  CHECK_THAT(run_command("print " + folder.string()).err,
             Contains("a folder with 2 files *.mlir or *.hlo"));
  fs::remove_all(folder);
}

}  // namespace gspmd
