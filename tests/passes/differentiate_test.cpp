#include "gspmd/passes/differentiate/differentiate.h"

#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/builders.h"
#include "gspmd/ops/evaluate.h"

using namespace gspmd;

namespace {

// The module with its root, the loss, replaced by a tuple of the derivatives by all parameters.
std::unique_ptr<Module> derivatives(const char* text) {
  std::unique_ptr<Module> module = parse_module(text);
  Computation& entry = *module->entry();
  const std::vector<Node*> gradients = differentiate(entry.root(), entry.parameters());
  entry.set_root(hlo::tuple(entry, gradients));
  entry.remove_dead();
  module->sort_computations();
  verify_module(*module);
  return module;
}

std::vector<double> gradient_values(const char* text, const std::vector<Array>& arguments) {
  std::vector<Value> values;
  for (const Array& array : arguments) values.push_back({array, {}, false});
  std::vector<double> result;
  for (const Array& leaf : leaves(evaluate(*derivatives(text), values)))
    for (int64_t i = 0; i < leaf.size(); ++i) result.push_back(leaf.at(i));
  return result;
}

std::string message_of(const char* text) {
  try {
    derivatives(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("differentiate: product rule, chain rule and fan-out", "[differentiate]") {
  const char* text = R"(HloModule m
ENTRY main {
  x = f64[] parameter(0)
  y = f64[] parameter(1)
  product = f64[] multiply(x, y)
  square = f64[] multiply(product, product)
  ROOT loss = f64[] add(square, x)
}
)";
  CHECK(gradient_values(text, {Array::scalar<double>(3), Array::scalar<double>(2)}) ==
        std::vector<double>{2 * 3 * 4 + 1, 2 * 9 * 2});
}

TEST_CASE("differentiate: partial dots add one after the other, last reader first",
          "[differentiate]") {
  const char* text = R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[2,4] parameter(0)
  q = f32[4,3] parameter(1)
  k = f32[4,3] parameter(2)
  v = f32[4,3] parameter(3)
  xq = f32[2,3] dot(x, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  xk = f32[2,3] dot(x, k), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  xv = f32[2,3] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  qk = f32[2,3] multiply(xq, xk)
  qkv = f32[2,3] multiply(qk, xv)
  zero = f32[] constant(0)
  ROOT loss = f32[] reduce(qkv, zero), dimensions={0,1}, to_apply=add
}
)";
  const std::unique_ptr<Module> module = derivatives(text);
  // d loss / dx = (dot_v + dot_k) + dot_q: adds whose operands are dots, in one chain.
  const Node* sum = module->entry()->root()->operand(0);
  REQUIRE(sum->is(Opcode::add));
  CHECK(sum->backward);
  CHECK_FALSE(sum->operand(1)->is(Opcode::add));
  const Node* first = sum->operand(0);
  REQUIRE(first->is(Opcode::add));
  CHECK_FALSE(first->operand(0)->is(Opcode::add));
  CHECK_FALSE(first->operand(1)->is(Opcode::add));
}

TEST_CASE("differentiate: the cotangent of an annotated value is annotated", "[differentiate]") {
  const char* text = R"(HloModule m, num_partitions=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[4] parameter(0)
  split = f32[4] custom-call(x), custom_call_target="Sharding", sharding={devices=[2]<=[2]}
  e = f32[4] exponential(split)
  zero = f32[] constant(0)
  ROOT loss = f32[] reduce(e, zero), dimensions={0}, to_apply=add
}
)";
  const std::unique_ptr<Module> module = derivatives(text);
  const Node* gradient = module->entry()->root()->operand(0);
  REQUIRE(gradient->is(Opcode::custom_call));
  CHECK(gradient->backward);
  CHECK(to_string(*gradient->sharding) == "{devices=[2]<=[2]}");
}

TEST_CASE("differentiate: stopped copies and unrelated inputs give zeros", "[differentiate]") {
  const char* text = R"(HloModule m
ENTRY main {
  x = f64[] parameter(0)
  y = f64[] parameter(1)
  fixed = f64[] copy(x), frontend_attributes={gspmd.stop_gradient="true"}
  ROOT loss = f64[] multiply(fixed, fixed)
}
)";
  CHECK(gradient_values(text, {Array::scalar<double>(3), Array::scalar<double>(2)}) ==
        std::vector<double>{0, 0});
}

TEST_CASE("differentiate: only what the loss depends on is emitted", "[differentiate]") {
  std::unique_ptr<Module> module = parse_module(R"(HloModule m
ENTRY main {
  x = f64[] parameter(0)
  unused = f64[] tanh(x)
  ROOT loss = f64[] negate(x)
}
)");
  const size_t before = module->entry()->nodes().size();
  const std::vector<Node*> inputs{module->entry()->parameters()[0]};
  const std::vector<Node*> gradients = differentiate(module->entry()->root(), inputs);
  CHECK(gradients[0]->is(Opcode::negate));
  CHECK(module->entry()->nodes().size() == before + 2);  // the seed and its negation
}

TEST_CASE("differentiate: errors name the node, the reason and the user's line",
          "[differentiate]") {
  CHECK(message_of("HloModule m\nENTRY main {\n ROOT x = f32[2] parameter(0)\n}\n") ==
        "differentiate: the loss x f32[2] is not a floating scalar; reduce it with a sum or mean "
        "(<hlo>:3)");
  CHECK(message_of("HloModule m\nENTRY main {\n x = s32[] parameter(0)\n"
                   " ROOT y = f32[] convert(x)\n}\n") ==
        "differentiate: input x s32[] is not a floating or complex array (<hlo>:3)");
  const char* sum_by_device = R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[] parameter(0)
  s = f32[] all-reduce-start(x), replica_groups={}, to_apply=add
  ROOT y = f32[] all-reduce-done(s), metadata={op_name="total" source_file="model.cpp" source_line=7}
}
)";
  CHECK(message_of(sum_by_device) ==
        "all-reduce-done: has no gradient, but the result depends on y f32[], total (model.cpp:7) "
        "through it; use stop_gradient() or another operation (<hlo>:6)");
}
