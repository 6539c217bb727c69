#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/complete/propagate.h"
#include "gspmd/passes/shardy/propagate_shardy.h"
#include "gspmd/stablehlo/text.h"

// Functions in StableHLO text and the sharding of every value after completion, as data: what is
// not listed has none. tests/data/shardy/*.txt; expected values follow from
// docs/spec/completion.md 10.

namespace gspmd {
namespace {

struct Case {
  std::string name, text;
  ShardyOptions options;
  std::map<std::string, std::string> expected;
};

ShardyOptions options_of(const std::string& words) {
  ShardyOptions options;
  std::istringstream stream(words);
  std::string pass, option;
  stream >> pass;
  const std::map<std::string, ShardyPass> passes = {
      {"pipeline", ShardyPass::pipeline},           {"basic", ShardyPass::basic},
      {"aggressive", ShardyPass::aggressive},       {"op-priority", ShardyPass::op_priority},
      {"user-priority", ShardyPass::user_priority}, {"rules", ShardyPass::rules}};
  options.pass = passes.at(pass);
  while (stream >> option) {
    REQUIRE(option == "sdy_conservative=true");
    options.conservative = true;
  }
  return options;
}

std::vector<Case> read_cases(const std::string& file) {
  std::ifstream stream(file);
  REQUIRE(stream);
  std::vector<Case> cases;
  bool expects = false;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("# ")) continue;
    if (line.starts_with("== ")) {
      const size_t bar = line.find(" | ");
      cases.push_back({line.substr(3, bar - 3), "", options_of(line.substr(bar + 3)), {}});
      expects = false;
    } else if (line == "-- expect") {
      expects = true;
    } else if (expects) {
      const size_t blank = line.find(' ');
      cases.back().expected[line.substr(0, blank)] = line.substr(blank + 1);
    } else {
      cases.back().text += line + "\n";
    }
  }
  return cases;
}

size_t indent_of(const std::string& line) { return line.find_first_not_of(' '); }

// Every op says its value's name as its location, which the reader keeps as op_name.
std::string with_locations(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::vector<std::pair<size_t, std::string>> open;  // ops with regions: indent, name
  std::string result;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string line = lines[i];
    const size_t indent = indent_of(line);
    if (indent != std::string::npos && line[indent] == '%' &&
        line.find(" = ") != std::string::npos) {
      const std::string name = line.substr(indent, line.find_first_of(": ", indent) - indent);
      const std::string next = i + 1 < lines.size() ? lines[i + 1] : "";
      const bool opens = line.ends_with("{") || next.find(" cond {") != std::string::npos ||
                         next.find(" reducer(") != std::string::npos;
      if (opens)
        open.emplace_back(indent, name);
      else
        line += " loc(\"" + name + "\")";
    } else if (!open.empty() && indent == open.back().first && line[indent] == '}' &&
               !line.ends_with("{")) {
      line += " loc(\"" + open.back().second + "\")";
      open.pop_back();
    }
    result += line + "\n";
  }
  return result;
}

const std::string* attribute(const Node& node, const char* key) {
  const auto found = node.frontend_attributes.find(key);
  return found == node.frontend_attributes.end() ? nullptr : &found->second;
}

// "<@m, [..]>" of a list of one or of an attribute for one value.
std::string without_wrapping(std::string text) {
  const std::string one = "#sdy.sharding<", list = "#sdy.sharding_per_value<[";
  if (text.starts_with(one)) return text.substr(one.size() - 1);
  const bool single = text.find("<@") == text.rfind("<@") && text.ends_with("]>");
  if (text.starts_with(list) && single && text.size() > list.size() + 3)
    return text.substr(list.size(), text.size() - list.size() - 2);
  return text;
}

std::string list_of(const std::string& per_value) {
  const std::string prefix = "#sdy.sharding_per_value<";
  return per_value.substr(prefix.size(), per_value.size() - prefix.size() - 1);
}

// What a module says of its values, by the names that they have in the text.
class Shardings {
 public:
  Shardings(const Module& module, bool rules) : rules_(rules) { function(*module.entry(), ""); }
  const std::map<std::string, std::string>& found() const { return found_; }

 private:
  void function(const Computation& computation, const std::string& prefix) {
    if (!seen_.insert(&computation).second) return;
    for (const Node* parameter : computation.parameters())
      note(prefix + "%arg" + std::to_string(parameter->attrs.index),
           attribute(*parameter, "xla.sdy.sharding"));
    const Node& root = *computation.root();
    const std::vector<Node*> results =
        root.is(Opcode::tuple) ? root.operands() : std::vector<Node*>{computation.root()};
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i]->attrs.custom_call_target == "xla.sdy.FuncResultSharding")
        note(prefix + "result" + std::to_string(i), attribute(*results[i], "xla.sdy.sharding"));
    values(computation, prefix);
  }

  void values(const Computation& computation, const std::string& prefix) {
    for (const auto& node : computation.nodes()) {
      if (attribute(*node, "mlir.removed") != nullptr) continue;
      const bool is_region = node->is(Opcode::while_) || node->is(Opcode::conditional) ||
                             attribute(*node, "inlineable") != nullptr ||
                             attribute(*node, "sdy.named_computation") != nullptr;
      for (const Computation* called : node->called) {
        if (is_region)
          values(*called, prefix);
        else if (node->is(Opcode::call))
          function(*called, called->name() + ":");
      }
      const std::string& name = node->metadata.op_name;
      if (!node->is(Opcode::parameter) && name.starts_with("%")) value(*node, prefix + name);
    }
  }

  void value(const Node& node, const std::string& name) {
    if (const std::string* in = attribute(node, "xla.sdy.in_shardings"))
      found_[name + ".in"] = list_of(*in);
    if (const std::string* out = attribute(node, "xla.sdy.out_shardings"))
      found_[name + ".out"] = list_of(*out);
    const std::string* text = attribute(node, rules_ ? "xla.sdy.sharding_rule" : "sdy.sharding");
    if (text == nullptr && !rules_ && node.attrs.custom_call_target == "Sharding")
      text = attribute(node, "xla.sdy.sharding");
    note(name, text);
  }

  void note(const std::string& name, const std::string* text) {
    if (text == nullptr || (rules_ && name.find("arg") != std::string::npos)) return;
    std::string one = name;  // copies of a value have its name too
    while (found_.contains(one)) one += "'";
    found_[one] = without_wrapping(*text);
  }

  const bool rules_;
  std::set<const Computation*> seen_;
  std::map<std::string, std::string> found_;
};

std::string listed(const std::map<std::string, std::string>& values) {
  std::string text;
  for (const auto& [name, value] : values) text += name + " " + value + "\n";
  return text;
}

// All "<@mesh, [...]>" of a text, sorted.
std::vector<std::string> sharding_texts(const std::string& text) {
  std::vector<std::string> found;
  for (size_t at = text.find("<@"); at != std::string::npos; at = text.find("<@", at + 1)) {
    const size_t end = text.find('>', at);
    found.push_back(text.substr(at, end - at + 1));
  }
  std::sort(found.begin(), found.end());
  return found;
}

// What is printed says what the module says, no more and no less.
void check_text(Module& module, const std::map<std::string, std::string>& found) {
  std::string expected;
  for (const auto& [name, text] : found) expected += text + "\n";
  keep_sdy_only(module);
  const std::string printed = to_stablehlo(module);
  CAPTURE(printed);
  CHECK(sharding_texts(printed) == sharding_texts(expected));
  CHECK(to_stablehlo(*parse_stablehlo(printed)) == printed);
}

std::map<std::string, std::string> completed(const Case& test, bool twice) {
  const auto module = parse_stablehlo(with_locations(test.text), test.name);
  propagate_shardy(*module, test.options);
  verify_module(*module);
  if (twice) {
    const std::string once = to_text(*module);
    propagate_shardy(*module, test.options);
    CHECK(to_text(*module) == once);
  }
  const bool rules = test.options.pass == ShardyPass::rules;
  const std::map<std::string, std::string> found = Shardings(*module, rules).found();
  if (!rules) check_text(*module, found);
  return found;
}

void check_file(const std::string& name, size_t least) {
  const std::vector<Case> cases =
      read_cases(std::string(GSPMD_SOURCE_DIR) + "/tests/data/shardy/" + name + ".txt");
  CHECK(cases.size() >= least);
  for (const Case& test : cases) {
    CAPTURE(test.name, test.text);
    std::map<std::string, std::string> expected;
    for (const auto& [value, text] : test.expected) expected[value] = without_wrapping(text);
    std::string found;
    // A pipeline changes what it reads (groups, chains), and priorities are gone after it.
    const bool twice = test.options.pass == ShardyPass::basic ||
                       test.options.pass == ShardyPass::aggressive ||
                       test.options.pass == ShardyPass::op_priority;
    CHECK_NOTHROW(found = listed(completed(test, twice)));
    CHECK(found == listed(expected));
  }
}

// What completion says of a function over the mesh <["a"=2, "b"=2]>, which is no function of the
// dialect; empty: it takes it.
std::string refusal(const std::string& body, const std::string& argument = "") {
  const std::string text =
      "sdy.mesh @mesh = <[\"a\"=2, \"b\"=2]>\n"
      "func.func @main(%arg0: tensor<8x8xf32>" +
      argument + ") -> tensor<8x8xf32> {\n" + body + "\n  return %arg0 : tensor<8x8xf32>\n}\n";
  try {
    propagate_shardy(*parse_stablehlo(text, "f.mlir"), {});
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

struct Refused {
  std::string body, argument;  // `argument`: attributes of the function's
  std::vector<std::string> says;
};

const std::vector<Refused> kRefused{
    {"", R"( {sdy.sharding = #sdy.sharding<@mesh, [{"c"}, {}]>})", {"\"c\"", "f.mlir:2"}},
    {"", R"( {sdy.sharding = #sdy.sharding<@nowhere, [{"a"}, {}]>})", {"@nowhere", "f.mlir:2"}},
    {"", R"( {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"a"}]>})", {"twice", "f.mlir:2"}},
    {"", R"( {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}], replicated={"a"}>})", {"twice"}},
    {"", R"( {sdy.sharding = #sdy.sharding<@mesh, [{"a":(1)3}, {}]>})", {"does not divide"}},
    {"", R"( {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>})", {"1 dims", "rank 2", "f.mlir:2"}},
    {"", R"( {sdy.sharding = #sdy.sharding<@mesh, [{}p1, {}]>})", {"priority"}},
    {"",
     R"( {sdy.sharding = #sdy.sharding<@mesh, [{"a"}p99999999999999999999, {}]>})",
     {"priority"}},
    {R"(  %0 = stablehlo.slice %arg0 [0:0, 0:8] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a"}, {}]>]>} : (tensor<8x8xf32>) -> tensor<0x8xf32>)",
     "",
     {"dim 0", "no elements", "f.mlir:3"}},
    {R"(  %0 = stablehlo.optimization_barrier %arg0 : tensor<8x8xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{"a":(1)3}, {}]> : tensor<8x8xf32>)",
     "",
     {"does not divide", "f.mlir:4"}},
    {"  sdy.sharding_group %arg0 group_id=3 : tensor<8x8xf32>\n"
     "  %0 = stablehlo.slice %arg0 [0:4, 0:8] : (tensor<8x8xf32>) -> tensor<4x8xf32>\n"
     "  sdy.sharding_group %0 group_id=3 : tensor<4x8xf32>",
     "",
     {"group 3", "8,8", "f32[4,8]", "f.mlir:5"}},
    {R"(  %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"a"}, {}]>] out_shardings=[<@mesh, [{"a"}, {}]>] manual_axes={"a"} (%x: tensor<4x8xf32>) {
    sdy.sharding_group %x group_id=3 : tensor<4x8xf32>
    sdy.return %x : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.slice %arg0 [0:4, 0:8] : (tensor<8x8xf32>) -> tensor<4x8xf32>
  sdy.sharding_group %1 group_id=3 : tensor<4x8xf32>)",
     "",
     {"group 3", "inside and outside", "f.mlir:8"}},
    {R"(  %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"b", "a"}, {}]>] out_shardings=[<@mesh, [{"a"}, {}]>] manual_axes={"a"} (%x: tensor<4x8xf32>) {
    sdy.return %x : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>)",
     "",
     {"manual axes come first", "f.mlir:3"}},
    {R"(  %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"a"}, {}]>] out_shardings=[<@mesh, [{"a"}, {}]>] manual_axes={"z"} (%x: tensor<4x8xf32>) {
    sdy.return %x : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>)",
     "",
     {"\"z\"", "f.mlir:3"}},
    {"  %0 = sdy.propagation_barrier %arg0 direction=FORWARD : tensor<8x8xf32>",
     "",
     {"allowed_direction", "f.mlir:3"}},
    {R"(  stablehlo.custom_call @f(%arg0) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a"}]>]>} : (tensor<8x8xf32>) -> ())",
     "",
     {"no results", "f.mlir:3"}}};

}  // namespace

TEST_CASE("what cannot be said in Shardy's dialect is refused at its place", "[shardy]") {
  CHECK(refusal("") == "");
  for (const Refused& refused : kRefused) {
    const std::string message = refusal(refused.body, refused.argument);
    INFO(refused.body << refused.argument << "\n" << message);
    CHECK(!message.empty());
    for (const std::string& part : refused.says) CHECK(message.find(part) != std::string::npos);
  }
}

TEST_CASE("a mesh that is none is refused where it stands", "[shardy]") {
  for (const char* mesh : {R"(<["a"=0]>)", R"(<["a"=2, "a"=2]>)", R"(<["a"=2], device_ids=[0, 0]>)",
                           R"(<[], device_ids=[1, 2]>)", R"(<["a"=4294967296]>)"}) {
    const std::string text = "sdy.mesh @fine = <[\"a\"=2]>\nsdy.mesh @mesh = " + std::string(mesh) +
                             "\nfunc.func @main() { return }\n";
    INFO(text);
    CHECK_THROWS_WITH(parse_stablehlo(text, "f.mlir"), Catch::Contains("f.mlir:2:1"));
  }
}

// The layouts of all values of this name in the entry computation, without their mesh.
std::string layouts(const Module& module, const std::string& name) {
  std::string text;
  for (const auto& node : module.entry()->nodes()) {
    const std::string here = node->is(Opcode::parameter) ? fmt::format("%arg{}", node->attrs.index)
                                                         : *node->metadata.op_name;
    if (here != name || node->attrs.custom_call_target == "xla.sdy.FuncResultSharding") continue;
    std::string layout = node->sharding ? to_string(*node->sharding) : "{none}";
    layout = layout.substr(1, layout.size() - 2);
    if (layout.starts_with("mesh")) layout = layout.substr(layout.find("], ") + 3);
    text += (text.empty() ? "" : " ") + layout;
  }
  return text;
}

TEST_CASE("a loop that reads a value around it as it is, completed again, stays as it is",
          "[shardy]") {
  const auto once = [](const std::string& text) {
    const auto module = parse_stablehlo(text);
    propagate_shardy(*module, {});
    keep_sdy_only(*module);
    return to_stablehlo(*module);
  };
  const std::string completed = once(R"(sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}, %arg1: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.sine %arg1 : tensor<8x8xf32>
  %1 = stablehlo.while(%iterArg = %arg0) : tensor<8x8xf32>
   cond {
    %2 = stablehlo.constant dense<false> : tensor<i1>
    stablehlo.return %2 : tensor<i1>
  } do {
    %3 = stablehlo.add %iterArg, %0 : tensor<8x8xf32>
    stablehlo.return %3 : tensor<8x8xf32>
  }
  return %1 : tensor<8x8xf32>
}
)");
  CHECK(completed.find("sine %arg1 {sdy.sharding") != std::string::npos);
  CHECK(completed.find("sdy.reshard") == std::string::npos);
  CHECK(once(completed) == completed);
}

TEST_CASE("the two strategies differ where the documentation says it", "[shardy]") {
  std::ifstream stream(std::string(GSPMD_SOURCE_DIR) + "/tests/data/shardy/differences.txt");
  std::stringstream all;
  all << stream.rdbuf();
  const std::string text = all.str();
  int64_t count = 0;
  for (size_t at = text.find("\n== "); at != std::string::npos; at = text.find("\n== ", at + 1)) {
    const std::string one = text.substr(at + 4, text.find("\n== ", at + 1) - at - 4);
    const size_t line = one.find('\n'), bar = one.find(" | "), expect = one.find("-- expect\n");
    const std::string value = one.substr(bar + 3, line - bar - 3);
    const std::string function = with_locations(one.substr(line + 1, expect - line - 1));
    CAPTURE(one);
    std::string found;
    for (const Strategy strategy : {Strategy::gspmd, Strategy::shardy}) {
      const auto module = parse_stablehlo(function);
      PropagateOptions options;
      options.strategy = strategy;
      propagate(*module, options);
      found += strategy == Strategy::gspmd ? "gspmd " : "shardy ";
      found += layouts(*module, value) + "\n";
    }
    std::string expected = one.substr(expect + 10);
    if (!expected.ends_with("\n")) expected += "\n";
    CHECK(found == expected);
    ++count;
  }
  CHECK(count == 18);
}

TEST_CASE("Shardy's rules: elementwise ops", "[shardy]") { check_file("elementwise", 80); }
TEST_CASE("Shardy's rules: other ops", "[shardy]") { check_file("ops", 120); }
TEST_CASE("Shardy's rules: the rule of every op", "[shardy]") { check_file("rules", 60); }
TEST_CASE("Shardy's rules: priorities", "[shardy]") { check_file("priorities", 25); }
TEST_CASE("Shardy's rules: edges, barriers, groups, regions", "[shardy]") {
  check_file("flow", 25);
}
TEST_CASE("Shardy's rules: the pipeline", "[shardy]") { check_file("pipeline", 25); }

}  // namespace gspmd
