// Collectives between the languages: one op of the text is one instruction, and the reverse.
#include <catch2/catch.hpp>
#include <string>

#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/ops/sdy_rules.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd::stablehlo {
namespace {

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
  return found;
}

// Device d has d * 100 + the number of the element.
std::vector<Value> numbered(const Shape& shape, int64_t devices) {
  std::vector<Value> values;
  for (int64_t d = 0; d < devices; ++d) {
    Array array(shape);
    for (int64_t i = 0; i < array.size(); ++i) array.set(i, static_cast<double>(100 * d + i));
    values.push_back({array, {}, false});
  }
  return values;
}

std::string exchange(const std::string& from, const std::string& to, int64_t split, int64_t join) {
  return fmt::format(
      "module @m attributes {{mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32}} {{\n"
      "  func.func public @main(%arg0: {0}) -> {1} {{\n"
      "    %0 = \"stablehlo.all_to_all\"(%arg0) <{{channel_handle = "
      "#stablehlo.channel_handle<handle "
      "= 1, type = 1>, concat_dimension = {3} : i64, replica_groups = dense<[[0, 1]]> : "
      "tensor<1x2xi64>, split_count = 2 : i64, split_dimension = {2} : i64}}> : ({0}) -> {1}\n"
      "    return %0 : {1}\n  }}\n}}\n",
      from, to, split, join);
}

}  // namespace

TEST_CASE("an all-to-all that splits one dim and joins another is one op", "[collectives]") {
  struct Row {
    std::string from, to;
    int64_t split, join;
  };
  const Row rows[] = {{"tensor<4x3xf32>", "tensor<2x6xf32>", 0, 1},
                      {"tensor<3x4xf32>", "tensor<6x2xf32>", 1, 0},
                      {"tensor<2x1x4xf32>", "tensor<4x1x2xf32>", 2, 0},
                      {"tensor<2x5x3xf32>", "tensor<1x5x6xf32>", 0, 2},
                      {"tensor<4x3xf32>", "tensor<4x3xf32>", 0, 0}};
  for (const Row& row : rows) {
    const std::string text = exchange(row.from, row.to, row.split, row.join);
    INFO(text);
    const std::unique_ptr<Module> module = parse_stablehlo(text, "exchange.mlir");
    CHECK(to_stablehlo(*module) == text);
    CHECK(to_stablehlo(*parse_module(to_text(*module), "exchange.hlo")) == text);
    CHECK(module->entry()->root()->is(Opcode::all_to_all));
    CHECK(count(to_text(*module), "all-to-all(") == 1);
    const auto said = sdy_all_to_all(*module->entry()->root());
    REQUIRE(said.has_value() == (row.split != row.join));
    if (said) CHECK(said->split_dim == row.split);
    // The specification: part p of device q's operand goes to device p, where it is part q.
    const Shape& x = module->entry()->parameters()[0]->shape;
    const Shape& y = module->entry()->root()->shape;
    const std::vector<Value> operands = numbered(x, 2);
    std::vector<std::vector<Value>> arguments;
    for (const Value& operand : operands) arguments.push_back({operand});
    const std::vector<Value> results = evaluate_devices(*module, 2, arguments);
    for (int64_t device = 0; device < 2; ++device) {
      Array wanted(y);
      const auto s = static_cast<size_t>(row.split), j = static_cast<size_t>(row.join);
      for (int64_t i = 0; i < wanted.size(); ++i) {
        Dims at(y.dims.size());
        for (size_t d = at.size(), rest = static_cast<size_t>(i); d-- > 0;) {
          at[d] = static_cast<int64_t>(rest) % y.dims[d];
          rest /= static_cast<size_t>(y.dims[d]);
        }
        const int64_t part = x.dims[j] / (s == j ? 2 : 1);
        const int64_t source = at[j] / part;
        at[j] %= part;
        at[s] += device * (x.dims[s] / 2);
        int64_t flat = 0;
        for (size_t d = 0; d < at.size(); ++d) flat = flat * x.dims[d] + at[d];
        wanted.set(i, static_cast<double>(100 * source + flat));
      }
      CHECK(bitwise_equal(results[static_cast<size_t>(device)].array, wanted));
    }
  }
}

TEST_CASE("Shardy's rule of such an all-to-all keeps the dims that it exchanges whole",
          "[collectives]") {
  const auto module =
      parse_stablehlo(exchange("tensor<4x5x3xf32>", "tensor<2x5x6xf32>", 0, 2), "exchange.mlir");
  const auto rule = sdy_rule(*module->entry()->root(), false);
  REQUIRE(rule);
  CHECK(to_string(*rule) ==
        "#sdy.op_sharding_rule<([i, k, l])->([j, k, m]) {i=4, j=2, k=5, l=3, m=6} "
        "need_replication={i, j, l, m}>");
}

TEST_CASE("a split_count that is not the size of the groups is an error", "[collectives]") {
  std::string text = exchange("tensor<6x3xf32>", "tensor<2x9xf32>", 0, 1);
  text.replace(text.find("split_count = 2"), 15, "split_count = 3");
  CHECK_THROWS_WITH(parse_stablehlo(text, "exchange.mlir"),
                    Catch::Contains("exchange.mlir:3:10:") &&
                        Catch::Contains("split_count 3 for groups of 2 devices"));
}

TEST_CASE("collectives that begin and end apart print as the ones that do both", "[collectives]") {
  const char* const text = R"(HloModule m, num_partitions=4

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

ENTRY e {
  x = f32[8,4] parameter(0)
  y = f32[2] parameter(1)
  rs = f32[8,4] all-reduce-start(x), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=sum
  gs = (f32[8,4], f32[32,4]) all-gather-start(x), channel_id=2, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true
  n = f32[8,4] negate(x)
  rd = f32[8,4] all-reduce-done(rs)
  gd = f32[32,4] all-gather-done(gs)
  ps = (f32[8,4], f32[8,4], u32[], u32[]) collective-permute-start(n), channel_id=3, source_target_pairs={{0,1},{1,2}}
  pd = f32[8,4] collective-permute-done(ps), frontend_attributes={k="v"}
  vs = (f32[8,4], f32[2]) all-reduce-start(x, y), channel_id=4, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=sum
  vd = (f32[8,4], f32[2]) all-reduce-done(vs)
  v = f32[2] get-tuple-element(vd), index=1
  ROOT r = (f32[8,4], f32[32,4], f32[8,4], f32[2]) tuple(rd, gd, pd, v)
}
)";
  const std::unique_ptr<Module> module = parse_module(text, "pairs.hlo");
  verify_module(*module);
  const std::string printed = to_stablehlo(*module);
  INFO(printed);
  CHECK(count(printed, "\"stablehlo.all_reduce\"") == 2);
  CHECK(count(printed, "\"stablehlo.all_gather\"") == 1);
  CHECK(count(printed, "\"stablehlo.collective_permute\"") == 1);
  CHECK(count(printed, "custom_call") == 0);
  CHECK(count(printed, "mhlo.frontend_attributes = {k = \"v\"}") == 1);
  const std::unique_ptr<Module> read = parse_stablehlo(printed, "pairs.mlir");
  verify_module(*read);
  CHECK(to_stablehlo(*read) == printed);
  std::vector<std::vector<Value>> arguments;
  for (int64_t d = 0; d < 4; ++d)
    arguments.push_back({numbered(Shape(DType::f32, {8, 4}), 4)[static_cast<size_t>(d)],
                         numbered(Shape(DType::f32, {2}), 4)[static_cast<size_t>(d)]});
  const std::vector<Value> wanted = evaluate_devices(*module, 4, arguments),
                           given = evaluate_devices(*read, 4, arguments);
  for (size_t d = 0; d < 4; ++d) {
    const std::vector<Array> a = leaves(wanted[d]), b = leaves(given[d]);
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) CHECK(bitwise_equal(a[i], b[i]));
  }
}

TEST_CASE("a start that something else reads stays an instruction of HLO", "[collectives]") {
  const auto module = parse_module(R"(HloModule m, num_partitions=2
ENTRY e {
  x = f32[4] parameter(0)
  s = (f32[4], f32[8]) all-gather-start(x), replica_groups={{0,1}}, dimensions={0}
  d = f32[8] all-gather-done(s)
  o = f32[4] get-tuple-element(s), index=0
  ROOT r = (f32[8], f32[4]) tuple(d, o)
}
)",
                                   "start.hlo");
  const std::string printed = to_stablehlo(*module);
  CHECK_THAT(printed,
             Catch::Contains("hlo.all-gather-start") && Catch::Contains("hlo.all-gather-done"));
  CHECK(to_stablehlo(*parse_stablehlo(printed)) == printed);
}

}  // namespace gspmd::stablehlo
