// Where errors say that a node stands.

#include "gspmd/ir/place.h"

#include <catch2/catch.hpp>

#include "fault_text.h"

using namespace gspmd;

namespace {

std::string name_of(Site site) { return fmt::format("{}:{}", site.file, site.line); }

const Node& find(const Module& module, const std::string& name) {
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      if (node->name() == name) return *node;
  FAIL("no node " << name);
  return *module.entry()->root();
}

struct Odd : UserError {  // an error of a kind of its own
  using UserError::UserError;
};

const char* const kText = R"(HloModule m
/* a comment
   of two lines */ add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT
    s = f32[] add(p,
                  q)
}
ENTRY e {
  late = f32[4] negate(x)
  x = f32[4] parameter(0), metadata={source_file="model.py" source_line=12}
  zero = f32[] constant(0)
  r = f32[] reduce(x, zero), dimensions={0}, to_apply={
    a = f32[] parameter(0)
    b = f32[] parameter(1)
    ROOT inner = f32[] maximum(a, b)
  }
  ROOT both = (f32[4], f32[]) tuple(late, r)
})";

}  // namespace

TEST_CASE("a node that was read has the line of its name", "[place]") {
  std::string text = kText;
  const auto module = parse_module(text, "dir/m.hlo");
  text.assign(text.size(), ' ');  // nothing reads it any more
  const auto copy = module->clone();
  const std::pair<const char*, int> lines[] = {{"p", 4},  {"s", 7},  {"late", 11},  {"x", 12},
                                               {"r", 14}, {"a", 15}, {"inner", 17}, {"both", 19}};
  for (const auto& [name, line] : lines) {
    CAPTURE(name);
    CHECK(name_of(place_of(find(*module, name))) == fmt::format("dir/m.hlo:{}", line));
    CHECK(name_of(place_of(find(*copy, name))) == fmt::format("dir/m.hlo:{}", line));
  }
  CHECK(source_line(find(*module, "x").metadata) == "model.py:12");
  CHECK(source_line(find(*module, "r").metadata).empty());
  CHECK(to_text(*module).find("m.hlo") == std::string::npos);
  CHECK(name_of(place_of(*parse_module("a = f32[] parameter(0)")->entry()->root())) == "<hlo>:1");
}

TEST_CASE("nodes that the parser makes have the line of the instruction", "[place]") {
  const auto module = parse_module(R"(HloModule m
ENTRY e {
  a = bf16[4] parameter(0)
  b = f32[4] parameter(1)
  c = bf16[4] add(a, b)
  s = (bf16[4], bf16[2]) tuple(c, negate(bf16[2] constant({1, 2})))
  ROOT t = (bf16[4], (f32[], s32[])) tuple(c, (f32[], s32[]) constant((1, 2)))
})",
                                   "m.hlo");
  int made = 0;
  for (const auto& node : module->entry()->nodes()) {
    CAPTURE(node->name());
    CHECK(place_of(*node).known());
    made += node->is(Opcode::convert) && place_of(*node).line == 5 ? 1 : 0;
    if (node->is(Opcode::negate)) CHECK(place_of(*node).line == 6);
    if (node->is(Opcode::tuple) && !node->is_root() && node->name() != "s")
      CHECK(place_of(*node).line == 7);
  }
  CHECK(made == 2);
}

TEST_CASE("a node without a line has that of what it reads", "[place]") {
  const auto module =
      parse_module("HloModule m\nENTRY e {\n ROOT a = f32[2] parameter(0)\n}", "m.hlo");
  Node* const copy =
      module->entry()->append(Opcode::copy, Shape(DType::f32, {2}), {module->entry()->root()});
  CHECK(name_of(place_of(*copy)) == "m.hlo:3");
  copy->metadata.source_file = "model.py";
  copy->metadata.source_line = 7;
  CHECK(name_of(place_of(*copy)) == "model.py:7");
  copy->metadata.source_line = 0;
  CHECK(name_of(place_of(*copy)) == "m.hlo:3");
  Node* const alone = module->entry()->append(Opcode::parameter, Shape(DType::f32, {2}), {}, [] {
    Attributes attrs;
    attrs.index = 1;
    return attrs;
  }());
  CHECK(!place_of(*alone).known());
}

TEST_CASE("errors of a node get its line, once, and stay of their kind", "[place]") {
  const auto module = parse_module(kText, "m.hlo");
  const Node& x = find(*module, "x");
  const Node& r = find(*module, "r");
  CHECK(at_node(x, [] { return 3; }) == 3);
  CHECK(&at_node(x, [&]() -> const Node& { return r; }) == &r);
  CHECK_THROWS_WITH(at_node(r, [] { user_error("no {}", 1); }), "no 1 (m.hlo:14)");
  CHECK_THROWS_WITH(at_node(r, [&] { at_node(find(*module, "s"), [] { user_error("no"); }); }),
                    "no (m.hlo:7)");
  CHECK_THROWS_WITH(at_node(r, [] { user_error(Site("a.cpp", 5), "no"); }), "no (a.cpp:5)");
  CHECK_THROWS_AS(at_node(r, [] { throw Odd("no", Site{}); }), Odd);
  CHECK_THROWS_AS(at_node(r, [] { internal_error("no"); }), InternalError);
  CHECK_THROWS_AS(at_node(r, [] { execution_error("no"); }), ExecutionError);
  CHECK_THROWS_WITH(at_node(r, [] { throw std::runtime_error("no"); }), "no");
  try {
    at_node(r, [] { user_error("no"); });
  } catch (const UserError& error) {
    CHECK(name_of(error.site()) == "m.hlo:14");
  }
}

TEST_CASE("an error says the user's line too, unless its message does", "[place]") {
  const auto module = parse_module(kText, "m.hlo");
  Node& x = const_cast<Node&>(find(*module, "x"));
  CHECK_THROWS_WITH(at_node(x, [] { user_error("no"); }), "no, from model.py:12 (m.hlo:12)");
  CHECK_THROWS_WITH(at_node(x, [] { user_error("x (model.py:12): no"); }),
                    "x (model.py:12): no (m.hlo:12)");
  x.metadata.text = {};  // of a traced program
  CHECK_THROWS_WITH(at_node(x, [] { user_error("no"); }), "no (model.py:12)");
  CHECK_THROWS_WITH(at_node(x, [] { user_error("x (model.py:12): no"); }), "x (model.py:12): no");
  x.metadata = {};
  CHECK_THROWS_WITH(at_node(x, [] { user_error("no"); }), "no");
}

TEST_CASE("verify_module names the line of a wrong node", "[place]") {
  const std::string text = R"(HloModule m
body {
  p = f32[4] parameter(0)
  n = f32[4] negate(p) //here
  ROOT a = f32[4] abs(n)
}
ENTRY e {
  x = f32[4] parameter(0)
  ROOT c = f32[4] call(x), to_apply=body
})";
  const std::string shape = fault_of(text, [](Module& module) {
    const_cast<Node&>(find(module, "n")).shape = Shape(DType::f32, {5});
    verify_module(module);
  });
  CHECK_THAT(shape, Catch::StartsWith("negate: the result is declared as f32[5]") &&
                        Catch::EndsWith(marked_place(text)));
  const std::string edge = fault_of(text, [](Module& module) {
    Node& n = const_cast<Node&>(find(module, "n"));
    n.set_operand(0, const_cast<Node*>(&find(module, "a")));
    verify_module(module);
  });
  CHECK_THAT(edge, Catch::Contains("stands before its operand \"a\"") &&
                       Catch::EndsWith(marked_place(text)));
}
