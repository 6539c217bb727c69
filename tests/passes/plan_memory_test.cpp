#include "gspmd/passes/memory/plan_memory.h"

#include <random>

#include "gspmd/ir/op.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/fuse/fuse.h"
#include "load.h"
#include "passes/graph/alias.h"
#include "passes/memory/plan_memory_buffers.h"
#include "passes/prepare/normalize.h"

namespace gspmd::plan_memory_test {
namespace {

// Walks a program along its plan and keeps, for every 64 bytes, which value was written there last.
// A value that somebody reads must still be whole. Knows nothing of lifetimes.
class Simulation {
 public:
  Simulation(const Module& module, const MemoryPlan& plan) : module_(module), plan_(plan) {
    int64_t leaf = 0;
    for (const Node* parameter : module.entry()->parameters()) {
      first_leaf_.push_back(leaf);
      leaf += leaf_count(parameter->shape);
      define(*parameter);
    }
    for (const Alias& alias : module.aliases) {
      donor_[alias.output.empty() ? 0 : alias.output[0]] = first_leaf_[size_t(alias.parameter)];
    }
  }

  void run() {
    walk(*module_.entry());
    for (int64_t i = 0; i < leaf_count(module_.entry()->root()->shape); ++i)
      read(*module_.entry()->root(), i);
  }

 private:
  using Tag = std::pair<int64_t, int64_t>;

  // A stretch of storage: space and lines of 64 bytes.
  struct Lines {
    int64_t space, first, count;
  };
  Lines lines(const Node& node, int64_t leaf) const {
    const BufferPlace& place = plan_.places.at({node.id(), leaf});
    int64_t space = 0;
    if (place.kind == BufferPlace::parameter) space = 1 + place.index;
    if (place.kind == BufferPlace::constant) space = 100000 + place.index;
    if (place.kind == BufferPlace::output) {
      const auto found = donor_.find(place.index);
      space = found != donor_.end() ? 1 + found->second : 1000 + place.index;
    }
    if (place.kind == BufferPlace::arena) REQUIRE(place.offset + place.bytes <= plan_.arena_bytes);
    return {space, place.offset / 64, ceil_div(place.bytes, 64)};
  }
  void write(const Node& node, int64_t leaf, Tag tag) {
    const Lines at = lines(node, leaf);
    for (int64_t i = 0; i < at.count; ++i) memory_[{at.space, at.first + i}] = tag;
  }
  void define(const Node& node) {
    for (int64_t leaf = 0; leaf < leaf_count(node.shape); ++leaf) {
      tags_[{node.id(), leaf}] = {node.id(), leaf};
      write(node, leaf, {node.id(), leaf});
    }
  }
  void read(const Node& node, int64_t leaf) {
    const Lines at = lines(node, leaf);
    const Tag wanted = tags_.at({node.id(), leaf});
    for (int64_t i = 0; i < at.count; ++i) {
      INFO(node.name() << " leaf " << leaf << " was overwritten before it was read");
      REQUIRE(memory_[{at.space, at.first + i}] == wanted);
    }
  }
  // The value of an alias is that of its operand's leaf.
  void alias(const Node& node) {
    int64_t leaf = 0;
    if (node.is(Opcode::get_tuple_element)) {
      int64_t first = 0;
      for (int64_t i = 0; i < node.attrs.index; ++i) {
        first += leaf_count(node.operand(0)->shape.elements[size_t(i)]);
      }
      for (; leaf < leaf_count(node.shape); ++leaf) {
        tags_[{node.id(), leaf}] = tags_.at({node.operand(0)->id(), first + leaf});
      }
      return;
    }
    for (const Node* operand : node.operands()) {
      for (int64_t i = 0; i < leaf_count(operand->shape); ++i) {
        tags_[{node.id(), leaf++}] = tags_.at({operand->id(), i});
      }
    }
  }
  void walk(const Computation& computation) {
    for (const Node* node : live_nodes(computation)) {
      if (node->is(Opcode::parameter)) continue;
      if (is_alias(*node)) {
        alias(*node);
        continue;
      }
      for (const Node* operand : node->operands()) {
        for (int64_t i = 0; i < leaf_count(operand->shape); ++i) read(*operand, i);
      }
      if (node->is(Opcode::conditional)) walk_branches(*node);
      define(*node);
      if (node->is(Opcode::while_)) walk_loop(*node);
    }
  }
  // One after the other, and each writes the results.
  void walk_branches(const Node& node) {
    for (size_t i = 0; i < node.called.size(); ++i) {
      const Node& operand = *node.operand(int64_t(i) + 1);
      const Node& parameter = *node.called[i]->parameters()[0];
      for (int64_t leaf = 0; leaf < leaf_count(operand.shape); ++leaf)
        tags_[{parameter.id(), leaf}] = tags_.at({operand.id(), leaf});
      walk(*node.called[i]);
      for (int64_t leaf = 0; leaf < leaf_count(node.shape); ++leaf)
        read(*node.called[i]->root(), leaf);
      define(node);
    }
  }
  // Whether the body hands a leaf on as it is.
  static bool stays(const Node& loop, int64_t leaf) {
    const Node& value = *loop.called[1]->root()->operand(leaf);
    return value.is(Opcode::get_tuple_element) && value.attrs.index == leaf &&
           value.operand(0) == loop.called[1]->parameters()[0];
  }
  void walk_loop(const Node& node) {
    for (int64_t i = 0; i < leaf_count(node.shape); ++i)
      if (stays(node, i)) {  // it may lie where it did
        tags_[{node.id(), i}] = tags_.at({node.operand(0)->id(), i});
        write(node, i, tags_[{node.id(), i}]);
      }
    for (int iteration = 0; iteration < 3; ++iteration) {
      for (const Computation* called : node.called) {
        const Node& state = *called->parameters()[0];
        for (int64_t i = 0; i < leaf_count(node.shape); ++i)
          tags_[{state.id(), i}] = tags_.at({node.id(), i});
        walk(*called);
        if (called == node.called[0]) read(*called->root(), 0);
      }
      const Node& next = *node.called[1]->root();
      for (int64_t i = 0; i < leaf_count(node.shape); ++i) read(next, i);
      for (int64_t i = 0; i < leaf_count(node.shape); ++i) write(node, i, tags_.at({node.id(), i}));
    }
  }

  const Module& module_;
  const MemoryPlan& plan_;
  std::vector<int64_t> first_leaf_;
  std::map<int64_t, int64_t> donor_;
  std::map<Tag, Tag> tags_;  // (node id, leaf) -> the write that made its value
  std::map<std::pair<int64_t, int64_t>, Tag> memory_;
};

BufferPlace place_of(const Module& module, const MemoryPlan& plan, const std::string& name,
                     int64_t leaf = 0) {
  for (const auto& computation : module.computations()) {
    for (const auto& node : computation->nodes()) {
      if (node->name() == name) return plan.places.at({node->id(), leaf});
    }
  }
  FAIL("no node " << name);
  return {};
}

std::unique_ptr<Module> entry(const std::string& body, const std::string& header = "HloModule m") {
  return parse_module(fmt::format("{}\nENTRY e {{\n{}\n}}\n", header, body));
}

}  // namespace

TEST_CASE("plan_memory: an elementwise chain runs in one buffer, the result's own", "[plan]") {
  const auto module = entry(R"(
    x = f32[1000]{0} parameter(0)
    a = f32[1000]{0} exponential(x)
    b = f32[1000]{0} negate(a)
    ROOT c = f32[1000]{0} add(b, b))");
  const MemoryPlan plan = plan_memory(*module);
  CHECK(plan.arena_bytes == 0);
  CHECK(plan.output_bytes == 4000);
  CHECK(plan.parameter_bytes == 4000);
  CHECK(plan.peak_bytes == 8000);
  CHECK(place_of(*module, plan, "a").kind == BufferPlace::output);
  Simulation(*module, plan).run();
}

TEST_CASE("plan_memory: memory of a dead value is used again, and the peak is named", "[plan]") {
  const auto module = entry(R"(
    x = f32[64,64]{1,0} parameter(0)
    a = f32[64,64]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    b = f32[64,64]{1,0} dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    c = f32[64,64]{1,0} dot(b, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT d = f32[64,64]{1,0} dot(c, c), lhs_contracting_dims={1}, rhs_contracting_dims={0})");
  const MemoryPlan plan = plan_memory(*module);
  const int64_t one = place_of(*module, plan, "a").offset + place_of(*module, plan, "b").offset;
  CHECK(plan.arena_bytes == 2 * one);  // two buffers, taking turns
  CHECK(place_of(*module, plan, "c").offset == place_of(*module, plan, "a").offset);
  CHECK(plan.peak_op == "b");
  std::vector<std::string> held;
  for (const HeldTensor& tensor : plan.peak_tensors) held.push_back(to_string(tensor));
  CHECK(held == std::vector<std::string>{"parameter x f32[64,64] 16384 bytes",
                                         "a f32[64,64] 16384 bytes", "b f32[64,64] 16384 bytes",
                                         "result d f32[64,64] 16384 bytes"});
  Simulation(*module, plan).run();
}

TEST_CASE("plan_memory: guard bytes lie behind every buffer", "[plan]") {
  const auto module = entry(R"(
    x = f32[16,16]{1,0} parameter(0)
    a = f32[16,16]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    b = f32[16,16]{1,0} dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT d = f32[16,16]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0})");
  PlanOptions options;
  options.guard_bytes = 64;
  CHECK(plan_memory(*module).arena_bytes == 2 * 1024);
  CHECK(plan_memory(*module, options).arena_bytes == 2 * (1024 + 64));
}

TEST_CASE("plan_memory: a limit below the peak names the largest values and their lines",
          "[plan]") {
  const auto module = entry(R"(
    x = f32[16,16]{1,0} parameter(0), metadata={op_name="x" source_file="model.py" source_line=3}
    a = f32[16,16]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="a" source_file="model.py" source_line=4}
    b = f32[8,16]{1,0} slice(a), slice={[0:8], [0:16]}
    c = f32[8,8]{1,0} slice(b), slice={[0:8], [0:8]}
    ROOT d = f32[8,8]{1,0} negate(c))");
  const MemoryPlan plan = plan_memory(*module);
  CHECK_NOTHROW(check_memory_limit(plan, plan.peak_bytes, "m"));
  CHECK_THROWS_WITH(
      check_memory_limit(plan, 1000, "m"),
      "m: 2816 bytes are needed on each device, the memory limit is 1000: parameters 1024, results "
      "256, "
      "constants 0, intermediate values 1536 at b. The largest: parameter x f32[16,16] 1024 bytes "
      "(model.py:3); a f32[16,16] 1024 bytes (model.py:4); b f32[8,16] 512 bytes (model.py:4); "
      "result d "
      "f32[8,8] 256 bytes (model.py:4). Split these over more devices, donate arguments that "
      "results "
      "replace, or raise the limit");
}

TEST_CASE("plan_memory: scratch counts while its node runs", "[plan]") {
  const auto module = entry(R"(
    x = f32[16,16]{1,0} parameter(0)
    a = f32[16,16]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT d = f32[16,16]{1,0} dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0})");
  PlanOptions options;
  for (const auto& node : module->entry()->nodes()) {
    if (node->name() == "a") options.scratch[node->id()] = 5000;
  }
  CHECK(plan_memory(*module, options).arena_bytes == plan_memory(*module).arena_bytes + 5056);
}

TEST_CASE("plan_memory: a donated parameter takes the result once nobody reads it", "[plan]") {
  const std::string header =
      "HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }";
  const auto module = entry(R"(
    p = f32[100]{0} parameter(0)
    q = f32[100]{0} parameter(1)
    a = f32[100]{0} add(p, q)
    b = f32[100]{0} multiply(a, p)
    ROOT r = (f32[100]{0}, f32[100]{0}) tuple(a, b))",
                            header);
  const MemoryPlan plan = plan_memory(*module);
  CHECK(plan.output_bytes == 0);
  CHECK(place_of(*module, plan, "a").kind == BufferPlace::arena);   // p is read after a is written
  CHECK(place_of(*module, plan, "b").kind == BufferPlace::output);  // q is not
  Simulation(*module, plan).run();
}

TEST_CASE("plan_memory: donation comes before reuse of another dying operand", "[plan]") {
  const auto module = entry(R"(
    p = f32[100]{0} parameter(0)
    g = f32[100]{0} exponential(p)
    ROOT n = f32[100]{0} subtract(p, g))",
                            "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }");
  CHECK(place_of(*module, plan_memory(*module), "n").kind == BufferPlace::output);
}

TEST_CASE("plan_memory: a loop updates its state in place", "[plan]") {
  const auto module = parse_module(R"(HloModule m
body {
  s = (s32[], f32[1000]{0}, f32[1000]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[1000]{0} get-tuple-element(s), index=1
  y = f32[1000]{0} get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  z = f32[1000]{0} add(x, y)
  ROOT r = (s32[], f32[1000]{0}, f32[1000]{0}) tuple(j, z, y)
}
condition {
  s = (s32[], f32[1000]{0}, f32[1000]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ten = s32[] constant(10)
  ROOT p = pred[] compare(i, ten), direction=LT
}
ENTRY e {
  x = f32[1000]{0} parameter(0)
  zero = s32[] constant(0)
  a = f32[1000]{0} exponential(x)
  b = f32[1000]{0} negate(x)
  init = (s32[], f32[1000]{0}, f32[1000]{0}) tuple(zero, a, b)
  w = (s32[], f32[1000]{0}, f32[1000]{0}) while(init), condition=condition, body=body
  ROOT r = f32[1000]{0} get-tuple-element(w), index=1
}
)");
  const MemoryPlan plan = plan_memory(*module);
  const BufferPlace state = place_of(*module, plan, "w", 1);
  CHECK(place_of(*module, plan, "z").offset == state.offset);
  CHECK(place_of(*module, plan, "z").kind == state.kind);
  CHECK(place_of(*module, plan, "a").kind == state.kind);
  CHECK(state.kind == BufferPlace::output);
  // The other leaf, the counter and the predicate; nothing for z.
  CHECK(plan.arena_bytes == 4032 + 64 + 64);
  Simulation(*module, plan).run();
}

TEST_CASE("plan_memory: a loop whose new state needs all of the old one gets another buffer",
          "[plan]") {
  const auto module = parse_module(R"(HloModule m
body {
  s = (s32[], f32[32,32]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[32,32]{1,0} get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  z = f32[32,32]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (s32[], f32[32,32]{1,0}) tuple(j, z)
}
condition {
  s = (s32[], f32[32,32]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ten = s32[] constant(10)
  ROOT p = pred[] compare(i, ten), direction=LT
}
ENTRY e {
  x = f32[32,32]{1,0} parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[32,32]{1,0}) tuple(zero, x)
  ROOT w = (s32[], f32[32,32]{1,0}) while(init), condition=condition, body=body
}
)");
  const MemoryPlan plan = plan_memory(*module);
  CHECK(place_of(*module, plan, "z").kind == BufferPlace::arena);
  CHECK(place_of(*module, plan, "w", 1).kind == BufferPlace::output);
  Simulation(*module, plan).run();
}

TEST_CASE(
    "plan_memory: a loop's state is free for others between its last reader and its next value",
    "[plan]") {
  const auto module = parse_module(R"(HloModule m
body {
  s = (s32[], f32[1024]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[1024]{0} get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  a = f32[1000]{0} slice(x), slice={[24:1024]}
  b = f32[1000]{0} reverse(a), dimensions={0}
  c = f32[1000]{0} reverse(b), dimensions={0}
  zero = f32[] constant(0)
  y = f32[1024]{0} pad(c, zero), padding=24_0
  ROOT r = (s32[], f32[1024]{0}) tuple(j, y)
}
condition {
  s = (s32[], f32[1024]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ten = s32[] constant(10)
  ROOT p = pred[] compare(i, ten), direction=LT
}
ENTRY e {
  x = f32[1024]{0} parameter(0)
  zero = s32[] constant(0)
  n = f32[1024]{0} negate(x)
  init = (s32[], f32[1024]{0}) tuple(zero, n)
  w = (s32[], f32[1024]{0}) while(init), condition=condition, body=body
  o = f32[1024]{0} get-tuple-element(w), index=1
  ROOT r = f32[512]{0} slice(o), slice={[0:512]}
}
)");
  const MemoryPlan plan = plan_memory(*module);
  // The state, where b and y lie too, a and c, and the counter; the predicate lies where a does.
  CHECK(plan.arena_bytes == 4096 + 4032 + 64);
  CHECK(place_of(*module, plan, "b").offset == place_of(*module, plan, "w", 1).offset);
  Simulation(*module, plan).run();
}

TEST_CASE("plan_memory: results of branches take no memory while the first one runs", "[plan]") {
  const auto module = parse_module(R"(HloModule m
half {
  x = f32[1024]{0} parameter(0)
  a = f32[1000]{0} slice(x), slice={[24:1024]}
  b = f32[1000]{0} reverse(a), dimensions={0}
  ROOT c = f32[500]{0} slice(b), slice={[0:500]}
}
other {
  x = f32[1024]{0} parameter(0)
  ROOT c = f32[500]{0} slice(x), slice={[0:500]}
}
ENTRY e {
  x = f32[1024]{0} parameter(0)
  p = pred[] parameter(1)
  w = f32[500]{0} conditional(p, x, x), true_computation=half, false_computation=other
  ROOT r = f32[100]{0} slice(w), slice={[0:100]}
}
)");
  const MemoryPlan plan = plan_memory(*module);
  CHECK(plan.arena_bytes == 4032 + 4032);  // a and b; the branch's result and w lie where a did
  Simulation(*module, plan).run();
}

namespace {

std::string random_module(std::mt19937_64& random) {
  const auto below = [&](size_t n) { return size_t(random() % n); };
  std::string body =
      "p0 = f32[40]{0} parameter(0)\np1 = f32[40]{0} parameter(1)\np2 = f32[40]{0} parameter(2)\n"
      "m = f32[40,40]{1,0} broadcast(p0), dimensions={0}\n";
  std::vector<std::string> values{"p0", "p1", "p2"};
  for (int i = 0; i < 14; ++i) {
    const std::string name = fmt::format("v{}", i), a = values[below(values.size())],
                      b = values[below(values.size())];
    switch (below(4)) {
      case 0:
        body += name + " = f32[40]{0} add(" + a + ", " + b + ")\n";
        break;
      case 1:
        body += name + " = f32[40]{0} negate(" + a + ")\n";
        break;
      case 2:
        body += name + " = f32[40]{0} dot(" + a +
                ", m), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n";
        break;
      default:
        body += "t" + name + " = f32[8,5]{1,0} reshape(" + a + ")\n" + name +
                " = f32[40]{0} reshape(t" + name + ")\n";
    }
    values.push_back(name);
  }
  const std::string type = "f32[40]{0}";
  body += "ROOT r = (" + type + ", " + type + ", " + type + ") tuple(" +
          values[below(values.size())] + ", " + values[below(values.size())] + ", " +
          values.back() + ")";
  return body;
}

}  // namespace

TEST_CASE("plan_memory: no value is overwritten while somebody needs it", "[plan]") {
  for (int64_t seed = 1; seed <= random_load(300); ++seed) {
    std::mt19937_64 random(seed);
    const bool donate = random() % 2 == 0, fused = random() % 2 == 0;
    const auto module = entry(
        random_module(random),
        donate
            ? "HloModule m, input_output_alias={ {0}: (1, {}, may-alias), {2}: (2, {}, may-alias) }"
            : "HloModule m");
    if (fused) fuse(*module);
    INFO("seed " << seed << "\n" << to_text(*module));
    const MemoryPlan plan = plan_memory(*module);
    Simulation(*module, plan).run();
  }
}

TEST_CASE("plan_memory: nothing in a loop or branch is overwritten while somebody needs it",
          "[plan]") {
  const std::string one = "f32[40]{0}", state = "(" + one + ", " + one + ", " + one + ")";
  const auto computation = [&](const std::string& name, std::mt19937_64& random) {
    std::string text = name + " {\n s = " + state + " parameter(0)\n" + random_module(random);
    for (const char* i : {"0", "1", "2"}) {
      const std::string parameter = std::string("parameter(") + i + ")";
      text.replace(text.find(parameter, text.find("p0 =")), parameter.size(),
                   std::string("get-tuple-element(s), index=") + i);
    }
    return text + "\n}\n";
  };
  for (int64_t seed = 1; seed <= random_load(300); ++seed) {
    std::mt19937_64 random(seed);
    const bool nested = random() % 2 == 0, fused = random() % 2 == 0;
    std::string text = "HloModule m\n" + computation("left", random) +
                       computation("right", random) + computation("inner", random);
    const std::string condition = " {\n s = " + state + " parameter(0)\n x = " + one +
                                  " get-tuple-element(s), index=2\n z = f32[] constant(0)\n f = "
                                  "f32[1]{0} slice(x), slice={[3:4]}\n g = f32[] reshape(f)\n "
                                  "ROOT p = pred[] compare(g, z), direction=LT\n}\n";
    text += "test" + condition + "test2" + condition;
    const std::string loop =
        nested ? " w = " + state + " while(s), condition=test, body=inner\n" : "";
    text += "outer {\n s = " + state + " parameter(0)\n" + loop + " x = " + one +
            " get-tuple-element(s), index=0\n f = f32[1]{0} slice(x), slice={[3:4]}\n g = f32[] "
            "reshape(f)\n z = f32[] constant(0)\n p = pred[] compare(g, z), direction=LT\n ROOT c "
            "= " +
            state + " conditional(p, " + (nested ? "w, s" : "s, s") +
            "), true_computation=left, false_computation=right\n}\n";
    text += "ENTRY e {\n a = " + one + " parameter(0)\n b = " + one + " parameter(1)\n n = " + one +
            " negate(a)\n t = " + state + " tuple(n, b, n)\n w = " + state +
            " while(t), condition=test2, body=outer\n ROOT r = " + one +
            " get-tuple-element(w), index=1\n}\n";
    const auto module = parse_module(text);
    if (fused) fuse(*module);
    normalize(*module);
    INFO("seed " << seed << "\n" << to_text(*module));
    const MemoryPlan plan = plan_memory(*module);
    Simulation(*module, plan).run();
  }
}

TEST_CASE("plan_memory: two results of one loop never share a dying operand", "[plan]") {
  const auto module = parse_module(R"(HloModule m
f {
  x = f32[100]{0} parameter(0)
  a = f32[100]{0} negate(x)
  b = f32[100]{0} exponential(a)
  ROOT t = (f32[100]{0}, f32[100]{0}) tuple(a, b)
}
ENTRY e {
  x = f32[100]{0} parameter(0)
  y = f32[100]{0} negate(x)
  p = (f32[100]{0}, f32[100]{0}) fusion(y), kind=kLoop, calls=f
  ROOT q = f32[100]{0} get-tuple-element(p), index=1
}
)");
  const MemoryPlan plan = plan_memory(*module);
  const BufferPlace first = place_of(*module, plan, "p", 0),
                    second = place_of(*module, plan, "p", 1);
  CHECK(std::pair(first.kind, first.offset) != std::pair(second.kind, second.offset));
}

TEST_CASE("plan_memory: an alias that cannot be is refused", "[plan]") {
  const auto module = entry("ROOT x = f32[2]{0} parameter(0)");
  module->aliases.push_back({{}, 3, {}, false});
  CHECK_THROWS_WITH(plan_memory(*module), "plan_memory: an alias names parameter 3, there are 1");
  module->aliases = {{{1}, 0, {}, false}};
  CHECK_THROWS_WITH(plan_memory(*module), "plan_memory: alias path {1} does not exist in f32[2]");
  const auto pair =
      entry("x = f32[2]{0} parameter(0)\nROOT r = (f32[2]{0}, f32[2]{0}) tuple(x, x)");
  pair->aliases = {{{0}, 0, {}, false}, {{1}, 0, {}, false}};
  CHECK_THROWS_WITH(
      plan_memory(*pair),
      Catch::StartsWith(
          "plan_memory: parameter 0 is donated to two results; donate it to one (<hlo>:"));
}

TEST_CASE("plan_memory: a computation that nobody reaches calls nothing", "[plan]") {
  const std::string called = R"(
minus { x = f32[256] parameter(0) ROOT r = f32[256] negate(x) }
twice { x = f32[256] parameter(0) ROOT r = f32[256] add(x, x) })";
  const std::string unreached = R"(
unreached { i = s32[] parameter(0) x = f32[256] parameter(1)
  ROOT c = f32[256] conditional(i, x, x), branch_computations={minus, twice} })";
  const std::string entry = R"(
ENTRY e { i = s32[] parameter(0) x = f32[256] parameter(1)
  ROOT c = f32[256] conditional(i, x, x), branch_computations={minus, twice} })";
  const auto alone = parse_module("HloModule m" + called + entry);
  const auto beside = parse_module("HloModule m" + called + unreached + entry);
  const MemoryPlan plan = plan_memory(*beside);
  CHECK(plan.arena_bytes == plan_memory(*alone).arena_bytes);
  for (const Node* branch : {beside->find("minus")->root(), beside->find("twice")->root()})
    CHECK(plan.places.at({branch->operand(0)->id(), 0}).kind == BufferPlace::parameter);
}

}  // namespace gspmd::plan_memory_test
