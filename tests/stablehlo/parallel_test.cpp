// Programs of several processes inside one text, as StableHLO's interpreter runs them.
#include <catch2/catch.hpp>
#include <string>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd::stablehlo {
namespace {

using Lists = std::vector<std::vector<int64_t>>;

// A program @f of one argument %a of `type` and a result of `result_type`.
struct Program {
  std::string type;
  std::string result_type;
  std::string body;  // ends in %r
};

std::string tensor(const std::vector<int64_t>& values) {
  return fmt::format("dense<[{}]> : tensor<{}xi64>", fmt::join(values, ", "), values.size());
}

// What the processes of `programs` return for inputs of integers.
Lists run(const Program& program, const std::string& programs, const Lists& inputs) {
  std::string text = "func.func @main() -> (", operands, types, results, names, body;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const char* const comma = i ? ", " : "";
    body += fmt::format(
        "%c{} = stablehlo.constant {}\n%i{} = stablehlo.reshape %c{} : "
        "(tensor<{}xi64>) -> {}\n",
        i, tensor(inputs[i]), i, i, inputs[i].size(), program.type);
    operands += fmt::format("{}%i{}", comma, i);
    types += comma + program.type;
    results += comma + program.result_type;
    names += fmt::format("{}%r#{}", comma, i);
  }
  text += results + ") {\n" + body +
          fmt::format(
              "%r:{} = \"interpreter.run_parallel\"({}) {{programs = {}}} : ({}) -> ({})\n"
              "return {} : {}\n}}\n",
              inputs.size(), operands, programs, types, results, names, results) +
          "func.func @f(%a: " + program.type + ") -> " + program.result_type + " {\n" +
          program.body + "return %r : " + program.result_type + "\n}\n";
  const auto module = parse_stablehlo(text, "parallel.mlir");
  verify_module(*module);
  Lists values;
  for (const Array& array : leaves(evaluate(*module, {}))) {
    std::vector<int64_t>& list = values.emplace_back();
    for (int64_t i = 0; i < array.size(); ++i) list.push_back(static_cast<int64_t>(array.at(i)));
  }
  return values;
}

std::string all_reduce(const std::string& attributes) {
  return "%r = \"stablehlo.all_reduce\"(%a) ({\n^bb0(%x: tensor<i64>, %y: tensor<i64>):\n%s = "
         "stablehlo.add %x, %y : tensor<i64>\nstablehlo.return %s : tensor<i64>\n}) {" +
         attributes + "} : (tensor<1xi64>) -> tensor<1xi64>\n";
}

const std::string kOne = "tensor<1xi64>";
const std::string kChannel = ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>";
const std::string kFour = "[[@f, @f], [@f, @f]]";  // process 2 r + p
const std::string kGroup = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>";
const Lists kInputs = {{1}, {10}, {100}, {1000}};

}  // namespace

TEST_CASE("run_parallel: the groups of a reduction are of replicas, of both, or of processes",
          "[parallel]") {
  CHECK(run({kOne, kOne, all_reduce(kGroup)}, "[[@f], [@f]]", {{1}, {10}}) == Lists{{11}, {11}});
  CHECK(run({kOne, kOne, all_reduce(kGroup)}, kFour, kInputs) ==
        Lists{{101}, {1010}, {101}, {1010}});
  CHECK(run({kOne, kOne, all_reduce(kGroup + kChannel)}, kFour, kInputs) ==
        Lists{{1111}, {1111}, {1111}, {1111}});
  CHECK(run({kOne, kOne,
             all_reduce("replica_groups = dense<[[0], [1]]> : tensor<2x1xi64>" + kChannel)},
            kFour, kInputs) == Lists{{11}, {11}, {1100}, {1100}});
  CHECK(run({kOne, kOne,
             all_reduce("replica_groups = dense<[[0, 3], [1, 2]]> : tensor<2x2xi64>, "
                        "use_global_device_ids" +
                        kChannel)},
            kFour, kInputs) == Lists{{1001}, {110}, {110}, {1001}});
  CHECK(run({kOne, kOne, all_reduce("replica_groups = dense<> : tensor<0x0xi64>")}, kFour,
            kInputs) == Lists{{101}, {1010}, {101}, {1010}});
}

TEST_CASE("run_parallel: other collectives are over replicas, or partitions with a channel",
          "[parallel]") {
  const std::string two = "tensor<2xi64>";
  const auto gather = [&](const std::string& more) {
    return "%r = \"stablehlo.all_gather\"(%a) {all_gather_dim = 0 : i64, " + kGroup + more +
           "} : (tensor<1xi64>) -> tensor<2xi64>\n";
  };
  CHECK(run({kOne, two, gather("")}, kFour, kInputs) ==
        Lists{{1, 100}, {10, 1000}, {1, 100}, {10, 1000}});
  const auto broadcast = [&](const std::string& more) {
    return "%r = \"stablehlo.collective_broadcast\"(%a) {replica_groups = dense<[[1, 0]]> : "
           "tensor<1x2xi64>" +
           more + "} : (tensor<1xi64>) -> tensor<1xi64>\n";
  };
  CHECK(run({kOne, kOne, broadcast("")}, kFour, kInputs) == Lists{{100}, {1000}, {100}, {1000}});
  CHECK(run({kOne, kOne, broadcast(kChannel)}, kFour, kInputs) ==
        Lists{{10}, {10}, {1000}, {1000}});
  const auto permute = [&](const std::string& more) {
    return "%r = \"stablehlo.collective_permute\"(%a) {source_target_pairs = dense<[[0, 1]]> : "
           "tensor<1x2xi64>" +
           more + "} : (tensor<1xi64>) -> tensor<1xi64>\n";
  };
  CHECK(run({kOne, kOne, permute("")}, kFour, kInputs) == Lists{{0}, {0}, {1}, {10}});
  CHECK(run({kOne, kOne, permute(kChannel)}, kFour, kInputs) == Lists{{0}, {1}, {0}, {100}});
  CHECK(run({"tensor<2x4xi64>", "tensor<4x2xi64>",
             "%r = \"stablehlo.all_to_all\"(%a) {split_dimension = 1 : i64, concat_dimension = 0 : "
             "i64, split_count = 2 : i64, " +
                 kGroup + "} : (tensor<2x4xi64>) -> tensor<4x2xi64>\n"},
            "[[@f], [@f]]", {{1, 2, 3, 4, 5, 6, 7, 8}, {9, 10, 11, 12, 13, 14, 15, 16}}) ==
        Lists{{1, 2, 5, 6, 9, 10, 13, 14}, {3, 4, 7, 8, 11, 12, 15, 16}});
  CHECK(run({"tensor<2x2xi64>", "tensor<2x1xi64>",
             "%r = \"stablehlo.reduce_scatter\"(%a) ({\n^bb0(%x: tensor<i64>, %y: "
             "tensor<i64>):\n%s = stablehlo.add %x, %y : tensor<i64>\nstablehlo.return %s : "
             "tensor<i64>\n}) {scatter_dimension = 1 : i64, " +
                 kGroup + "} : (tensor<2x2xi64>) -> tensor<2x1xi64>\n"},
            "[[@f], [@f]]", {{1, 2, 3, 4}, {10, 20, 30, 40}}) == Lists{{11, 33}, {22, 44}});
}

TEST_CASE("run_parallel: processes know their replica and partition", "[parallel]") {
  const auto id = [](const std::string& name) {
    return "%0 = stablehlo." + name +
           " : tensor<ui32>\n%1 = stablehlo.convert %0 : (tensor<ui32>) -> tensor<i64>\n%2 = "
           "stablehlo.reshape %1 : (tensor<i64>) -> tensor<1xi64>\n%r = stablehlo.add %a, %2 : "
           "tensor<1xi64>\n";
  };
  const Lists zeros(6, {0});
  const std::string six = "[[@f, @f, @f], [@f, @f, @f]]";
  CHECK(run({kOne, kOne, id("replica_id")}, six, zeros) == Lists{{0}, {0}, {0}, {1}, {1}, {1}});
  CHECK(run({kOne, kOne, id("partition_id")}, six, zeros) == Lists{{0}, {1}, {2}, {0}, {1}, {2}});
}

TEST_CASE("run_parallel: checks of results hold or say where not", "[parallel]") {
  const auto text = [](const std::string& expected) {
    return "module @cross_replica {\nfunc.func public @f(%a: tensor<i64>) -> tensor<i64> {\n"
           "return %a : tensor<i64>\n}\nfunc.func public @main() {\n"
           "%0 = stablehlo.constant dense<1> : tensor<i64>\n"
           "%r:2 = \"interpreter.run_parallel\"(%0, %0) {programs=[[@f], [@f]]} : (tensor<i64>, "
           "tensor<i64>) -> (tensor<i64>, tensor<i64>)\n"
           "check.expect_eq_const %r#1, dense<" +
           expected + "> : tensor<i64>\nfunc.return\n}\n}\n";
  };
  CHECK_NOTHROW(evaluate(*parse_stablehlo(text("1"), "parallel.mlir"), {}));
  CHECK_THROWS_WITH(evaluate(*parse_stablehlo(text("2"), "parallel.mlir"), {}),
                    Catch::Contains("line 8"));
}

TEST_CASE("run_parallel: what cannot run is refused with its place", "[parallel]") {
  const std::string same = "%r = stablehlo.negate %a : tensor<1xi64>\n";
  const auto refused = [&](const std::string& programs, const Lists& inputs,
                           const std::string& body, const std::string& message) {
    CHECK_THROWS_WITH(run({kOne, kOne, body}, programs, inputs),
                      Catch::Contains("parallel.mlir:") && Catch::Contains(message));
  };
  refused("[[@f, @g]]", {{1}, {2}}, same, "processes of several programs are not supported");
  refused("[[@f], [@f, @f]]", {{1}, {2}}, same, "the lists of programs are of 1 and 2");
  refused("[[@f]]", {{1}, {2}}, same, "2 operands given, 1 needed");
  refused("[[@h]]", {{1}}, same, "there is no function @h");
  refused("[[@main]]", {{1}}, same, "calls itself");
  refused("@f", {{1}}, same, "programs is no list of lists");
  refused("[[@f], [@f]]", {{1}, {2}},
          all_reduce("replica_groups = dense<[[0, 2]]> : "
                     "tensor<1x2xi64>"),
          "there is no process 2, there are 2");
  refused("[[@f], [@f]]", {{1}, {2}},
          "%r = stablehlo.while(%x = %a) : tensor<1xi64> cond {\n%t = stablehlo.constant "
          "dense<true> : tensor<i1>\nstablehlo.return %t : tensor<i1>\n} do {\nstablehlo.return "
          "%x : tensor<1xi64>\n}\n",
          "its program has a loop");
  CHECK_THROWS_WITH(
      parse_stablehlo("func.func @f(%a: tensor<i64>) -> tensor<i64> {\nreturn %a : tensor<i64>\n}\n"
                      "func.func @main(%a: tensor<i64>) {\n%r = \"interpreter.run_parallel\"(%a) "
                      "{programs = [[@f]]} : (tensor<i64>) -> tensor<i64>\nreturn\n}\n",
                      "parallel.mlir"),
      Catch::Contains("parallel.mlir:5:6") && Catch::Contains("operand 0 is not constant"));
}

}  // namespace gspmd::stablehlo
