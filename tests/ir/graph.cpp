#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <string>

#include "gspmd/ir/effects.h"
#include "gspmd/ir/module.h"
#include "gspmd/ir/text.h"

namespace gspmd {
namespace {

const Shape kScalar(DType::f32, {});

Node* parameter(Computation& c, int64_t number, std::string name = {}) {
  Attributes attrs;
  attrs.index = number;
  return c.append(Opcode::parameter, kScalar, {}, attrs, std::move(name));
}

Node* add(Computation& c, Node* a, Node* b) { return c.append(Opcode::add, kScalar, {a, b}); }

std::vector<std::string> names(const std::vector<Node*>& nodes) {
  std::vector<std::string> result;
  for (const Node* node : nodes) result.push_back(node->name());
  return result;
}

std::vector<std::string> names(const Computation& c) {
  std::vector<std::string> result;
  for (const auto& node : c.nodes()) result.push_back(node->name());
  return result;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("names are unique in the module and count from their base") {
  Module module;
  CHECK(Names{module.unique_name("dot"), module.unique_name("dot"), module.unique_name("dot.1"),
              module.unique_name("x.7"), module.unique_name("x.7"),
              module.unique_name("a.b")} == Names{"dot", "dot.1", "dot.2", "x.7", "x.1", "a.b"});
  Computation* const one = module.add_computation("f");
  Computation* const two = module.add_computation("f");
  CHECK(two->name() == "f.1");
  CHECK(parameter(*one, 0, "p")->name() == "p");
  CHECK(parameter(*two, 0, "p")->name() == "p.1");
  CHECK(module.find("f.1") == two);
  CHECK(module.find("g") == nullptr);
}

TEST_CASE("users list each reader once, in the order of first use") {
  Module module;
  Computation& c = *module.add_computation("f");
  Node* const x = parameter(c, 0, "x");
  Node* const y = parameter(c, 1, "y");
  Node* const twice = add(c, x, x);
  Node* const both = add(c, x, y);
  CHECK(names(x->users()) == Names{"add", "add.1"});
  twice->set_operand(0, y);
  CHECK(names(x->users()) == Names{"add", "add.1"});
  twice->set_operand(1, y);
  CHECK(names(x->users()) == Names{"add.1"});
  CHECK(names(y->users()) == Names{"add.1", "add"});
  both->set_operand(0, both->operand(0));
  CHECK(names(x->users()) == Names{"add.1"});
}

TEST_CASE("replace_uses moves readers and the root, but not the replacement's own reading") {
  Module module;
  Computation& c = *module.add_computation("f");
  Node* const x = parameter(c, 0, "x");
  Node* const old = add(c, x, x);
  Node* const reader = add(c, old, old);
  c.set_root(old);
  Node* const wrapped = c.append(Opcode::negate, kScalar, {old});
  c.replace_uses(old, wrapped);
  CHECK(c.root() == wrapped);
  CHECK(names(reader->operands()) == Names{"negate", "negate"});
  CHECK(names(old->users()) == Names{"negate"});
  CHECK(names(wrapped->users()) == Names{"add.1"});
}

TEST_CASE("replace_uses of many at once is that of one after the other") {
  std::mt19937 random(20261127);
  const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
  for (int round = 0; round < 200; ++round) {
    // Two equal graphs; some nodes get a replacement, which may read what it replaces.
    Module module;
    std::vector<Computation*> twins{module.add_computation("f"), module.add_computation("g")};
    std::vector<std::vector<Node*>> nodes(2);
    std::vector<std::vector<std::pair<Node*, Node*>>> pairs(2);
    const size_t count = 3 + below(8);
    std::vector<std::pair<size_t, size_t>> reads;
    for (size_t i = 1; i < count; ++i) reads.emplace_back(below(i), below(i));
    std::vector<size_t> wide;
    for (size_t i = 0; i < 6; ++i) wide.push_back(below(count));
    const size_t first = below(count), root = below(count);
    const bool wraps = below(2) == 0;
    for (size_t t = 0; t < 2; ++t) {
      Computation& c = *twins[t];
      auto& all = nodes[t];
      all.push_back(parameter(c, 0, "x" + std::to_string(t)));
      for (const auto& [a, b] : reads) all.push_back(add(c, all[a], all[b]));
      std::vector<Node*> elements;
      for (const size_t i : wide) elements.push_back(all[i]);
      all.push_back(
          c.append(Opcode::tuple, Shape::tuple(std::vector<Shape>(6, kScalar)), elements));
      c.set_root(all[root]);
      Node* const shared = parameter(c, 1, "y" + std::to_string(t));
      for (size_t i = first; i < count; i += 2)
        pairs[t].emplace_back(all[i], wraps ? c.append(Opcode::negate, kScalar, {all[i]}) : shared);
    }
    for (const auto& [from, to] : pairs[0]) twins[0]->replace_uses(from, to);
    twins[1]->replace_uses(pairs[1]);
    const auto place = [&](size_t t, const Node* node) {
      const auto& list = twins[t]->nodes();
      return std::find_if(list.begin(), list.end(),
                          [&](const auto& n) { return n.get() == node; }) -
             list.begin();
    };
    CHECK(place(0, twins[0]->root()) == place(1, twins[1]->root()));
    for (size_t i = 0; i < twins[0]->nodes().size(); ++i) {
      std::vector<std::set<std::ptrdiff_t>> users(2);
      std::vector<std::vector<std::ptrdiff_t>> operands(2);
      for (size_t t = 0; t < 2; ++t) {
        const Node& node = *twins[t]->nodes()[i];
        for (const Node* user : node.users()) CHECK(users[t].insert(place(t, user)).second);
        for (const Node* operand : node.operands()) operands[t].push_back(place(t, operand));
      }
      CHECK(users[0] == users[1]);
      CHECK(operands[0] == operands[1]);
    }
  }
}

TEST_CASE("remove_dead keeps parameters and what the root reaches") {
  Module module;
  Computation& c = *module.add_computation("f");
  Node* const x = parameter(c, 0, "x");
  parameter(c, 1, "unused");
  Node* const live = add(c, x, x);
  add(c, add(c, x, live), x);
  c.set_root(live);
  CHECK(c.remove_dead() == 2);
  CHECK(names(c) == Names{"x", "unused", "add"});
  CHECK(names(x->users()) == Names{"add"});
  CHECK(live->users().empty());
  CHECK(c.remove_dead() == 0);
}

TEST_CASE("remove_dead keeps what nodes read that stand before it, and all that this reads") {
  Module module;
  Computation& c = *module.add_computation("f");
  Node* const x = parameter(c, 0, "x");
  Node* const first = add(c, x, x);
  Node* const root = add(c, first, first);
  c.set_root(root);
  Node* const late = c.append(Opcode::negate, kScalar, {x}, {}, "late");
  Node* const later = c.append(Opcode::negate, kScalar, {late}, {}, "later");
  c.append(Opcode::negate, kScalar, {later}, {}, "dead");
  root->set_operand(0, later);
  CHECK(c.remove_dead() == 1);
  CHECK(names(c) == Names{"x", "add", "add.1", "late", "later"});
  c.sort();
  CHECK(names(c) == Names{"x", "add", "late", "later", "add.1"});
}

TEST_CASE("sort moves a node before its first reader and keeps the rest in place") {
  Module module;
  Computation& c = *module.add_computation("f");
  Node* const x = parameter(c, 0, "x");
  Node* const a = add(c, x, x);
  Node* const b = add(c, a, x);
  c.set_root(b);
  Node* const late = c.append(Opcode::negate, kScalar, {x});
  a->set_operand(1, late);
  c.sort();
  CHECK(names(c) == Names{"x", "negate", "add", "add.1"});
  late->set_operand(0, b);
  CHECK_THROWS_WITH(c.sort(), Catch::Contains("reads itself"));
}

TEST_CASE("clone copies a module with names, annotations and calls") {
  const char* const text = R"(HloModule m, num_partitions=4

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(%a, %b), frontend_attributes={gspmd.phase="backward"}
}

ENTRY %main (x: f32[4]) -> f32[] {
  %x = f32[4] parameter(0), sharding={devices=[4]<=[4]}
  %zero = f32[] constant(0)
  ROOT %y = f32[] reduce(%x, %zero), dimensions={0}, to_apply=%sum, metadata={op_name="total"}
}
)";
  const auto module = parse_module(text);
  const auto copy = module->clone();
  CHECK(to_text(*copy) == text);
  CHECK(structurally_equal(*module, *copy));
  copy->entry()->root()->attrs.other["a"] = "1";
  CHECK_FALSE(structurally_equal(*module, *copy));
  CHECK(copy->entry()
            ->append(Opcode::add, kScalar, {copy->entry()->root(), copy->entry()->root()})
            ->name() == "add");
}

TEST_CASE("inline_computation replaces parameters by arguments") {
  Module module;
  Computation& f = *module.add_computation("f");
  f.set_root(add(f, parameter(f, 0), parameter(f, 1)));
  f.root()->backward = true;
  Computation& c = *module.add_computation("main");
  Node* const x = parameter(c, 0, "x");
  const std::vector<Node*> arguments = {x, x};
  Node* const result = inline_computation(f, c, arguments);
  CHECK(names(result->operands()) == Names{"x", "x"});
  CHECK(result->backward);
  CHECK(names(x->users()) == Names{result->name()});
}

TEST_CASE("computations sort callees first, and recursion is refused") {
  Module module;
  Computation& main = *module.add_computation("main");
  module.set_entry(&main);
  Computation& f = *module.add_computation("f");
  f.set_root(parameter(f, 0));
  Node* const call = main.append(Opcode::call, kScalar, {parameter(main, 0)});
  call->called = {&f};
  main.set_root(call);
  module.sort_computations();
  CHECK(module.computations()[0].get() == &f);
  CHECK(module.computations()[1].get() == &main);
  Node* const loop = f.append(Opcode::call, kScalar, {f.root()});
  loop->called = {&main};
  CHECK_THROWS_WITH(module.sort_computations(), Catch::Contains("calls itself"));
}

TEST_CASE("aliases between different shapes are removed") {
  const auto module = parse_module(R"(HloModule m, input_output_alias={ {0}: (0, {}), {1}: (1, {}) }
ENTRY e {
  a = f32[4] parameter(0)
  b = f32[2] parameter(1)
  ROOT t = (f32[4], f32[2]) tuple(a, b)
})");
  CHECK(module->remove_unfit_aliases() == 0);
  module->entry()->parameters()[1]->shape = Shape(DType::f32, {3});
  module->aliases.push_back({{2}, 0, {}, false});
  CHECK(module->remove_unfit_aliases() == 2);
  CHECK(module->aliases == std::vector<Alias>{{{0}, 0, {}, false}});
}

TEST_CASE("unreachable computations are removed") {
  Module module;
  Computation& main = *module.add_computation("main");
  module.set_entry(&main);
  main.set_root(parameter(main, 0));
  module.add_computation("f");
  CHECK(module.remove_unreachable() == 1);
  CHECK(module.find("f") == nullptr);
}

TEST_CASE("a chain of 65,536 nodes with one much used constant builds, sorts and cleans fast") {
  Module module;
  Computation& c = *module.add_computation("f");
  Node* const x = parameter(c, 0, "x");
  Node* const constant = c.append(Opcode::constant, kScalar, {});
  Node* value = x;
  std::vector<Node*> constants;
  for (int i = 0; i < 65536; ++i) {
    constants.push_back(c.append(Opcode::constant, kScalar, {}));
    value = add(c, value, constants.back());
  }
  c.set_root(value);
  for (Node* other : constants) c.replace_uses(other, constant);
  c.sort();
  CHECK(c.remove_dead() == 65536);
  CHECK(constant->users().size() == 65536);
  CHECK(c.nodes().size() == 65538);
}

// Two calls that nobody reads, of two functions with the same debug call inside: both run, and what
// neither speaks nor is read does not.
TEST_CASE("a debug call inside keeps every call that leads to it", "[ir]") {
  const auto module = parse_module(R"(
HloModule m
f { x = f32[4] parameter(0)
  said = pred[] custom-call(x), custom_call_target="gspmd.debug_print", backend_config="once||{}"
  ROOT y = f32[4] negate(x) }
silent { x = f32[4] parameter(0)
  ROOT y = f32[4] negate(x) }
g { x = f32[4] parameter(0)
  ROOT y = f32[4] call(x), to_apply=f }
h { x = f32[4] parameter(0)
  z = f32[4] call(x), to_apply=silent
  ROOT y = f32[4] call(z), to_apply=f }
ENTRY e { x = f32[4] parameter(0)
  two = f32[4] negate(x)
  a = f32[4] call(two), to_apply=g
  b = f32[4] call(x), to_apply=silent
  c = f32[4] call(x), to_apply=h
  ROOT r = f32[4] negate(x) }
)");
  Computation& entry = *module->entry();
  std::set<std::string> names;
  const FlatSet<const Node*> running = running_nodes(entry);
  for (const auto& node : entry.nodes())
    if (running.contains(node.get())) names.insert(node->name());
  CHECK(names == std::set<std::string>{"x", "two", "a", "c", "r"});
  CHECK(entry.remove_dead() == 1);
}

}  // namespace gspmd
