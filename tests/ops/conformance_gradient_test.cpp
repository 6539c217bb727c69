// Every gradient against central finite differences in f64, on the samples.

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/builders.h"
#include "ops/samples.h"

namespace gspmd::testing {
namespace {

// The sample with every f32 an f64.
std::string in_f64(std::string text) {
  for (size_t at = text.find("f32"); at != std::string::npos; at = text.find("f32", at + 3))
    text.replace(at, 3, "f64");
  return text;
}

bool all_in_f64(const Module& module) {
  for (const std::unique_ptr<Node>& node : module.entry()->nodes())
    for (const Shape& leaf : leaf_shapes(node->shape))
      if (is_floating(leaf.dtype) && leaf.dtype != DType::f64) return false;
  return true;
}

Node* constant_value(Computation& c, const Value& value) {
  if (!value.is_tuple) return hlo::constant(c, value.array);
  std::vector<Node*> elements;
  for (const Value& element : value.elements) elements.push_back(constant_value(c, element));
  return hlo::tuple(c, elements);
}

// sum of weight * value over all float leaves.
double weighted(const Value& value, const Value& weight) {
  const std::vector<Array> x = leaves(value);
  const std::vector<Array> w = leaves(weight);
  double sum = 0;
  for (size_t l = 0; l < x.size(); ++l)
    if (is_floating(x[l].dtype()))
      for (int64_t i = 0; i < x[l].size(); ++i) sum += x[l].at(i) * w[l].at(i);
  return sum;
}

// d weighted / d arguments[p] leaf l element i.
double difference(const Module& module, std::vector<Value> arguments, const Value& weight, size_t p,
                  size_t l, int64_t i) {
  constexpr double kStep = 1e-5;
  double values[2];
  for (const int side : {0, 1}) {
    std::vector<Array> parts;
    for (const Array& leaf : leaves(arguments[p])) parts.push_back(leaf.clone());
    const double x = parts[l].at(i);
    parts[l].set(i, x + (side == 0 ? -kStep : kStep));
    std::vector<Value> moved = arguments;
    moved[p] = pack(module.entry()->parameters()[p]->shape, parts);
    values[side] = weighted(evaluate(module, moved), weight);
  }
  return (values[1] - values[0]) / (2 * kStep);
}

bool has_complex_numbers(const Sample& sample) {
  return sample.body.find("c64[") != std::string::npos ||
         sample.body.find("c128[") != std::string::npos;
}

void check_gradients(const Module& module, const std::vector<Value>& arguments) {
  const std::unique_ptr<Module> with_gradient = module.clone();
  Computation& c = *with_gradient->entry();
  Node* const node = c.root();
  std::mt19937_64 random(7);
  const Value weight = random_value(node->shape, -1, 1, Values::uniform, random);
  const std::vector<Node*> gradients = node->op().gradient(*node, constant_value(c, weight));
  REQUIRE(gradients.size() == node->operands().size());
  for (size_t o = 0; o < gradients.size(); ++o) {
    const Node* const operand = node->operands()[o];
    if (gradients[o] != nullptr) CHECK(gradients[o]->shape == operand->shape);
    if (!operand->is(Opcode::parameter)) continue;
    const auto p = static_cast<size_t>(operand->attrs.index);
    if (gradients[o] != nullptr) c.set_root(gradients[o]);
    const std::vector<Array> found =
        gradients[o] ? leaves(evaluate(*with_gradient, arguments)) : std::vector<Array>{};
    const std::vector<Array> argument = leaves(arguments[p]);
    for (size_t l = 0; l < argument.size(); ++l) {
      if (!is_floating(argument[l].dtype())) continue;
      for (int64_t i = 0; i < argument[l].size(); ++i) {
        const double expected = difference(module, arguments, weight, p, l, i);
        const double actual = found.empty() ? 0 : found[l].at(i);
        INFO("operand " << o << " leaf " << l << " element " << i);
        CHECK(actual == Approx(expected).epsilon(1e-6).margin(1e-8));
      }
    }
  }
}

}  // namespace

TEST_CASE("gradients agree with finite differences in f64", "[conformance]") {
  std::set<Opcode> checked;
  for (const Sample& sample : samples()) {
    if (sample.devices > 1 || op_info(sample.opcode).gradient == nullptr) continue;
    if (sample.opcode == Opcode::bitcast_convert) continue;  // its sizes change with the type
    if (has_complex_numbers(sample)) continue;               // these have no gradient
    INFO(sample.name);
    const std::unique_ptr<Module> module =
        parse_module(in_f64(with_entry(sample.body)), sample.name);
    if (!all_in_f64(*module)) continue;
    const std::vector<Value> arguments = sample_arguments(sample, *module, Values::uniform, 3);
    try {
      check_gradients(*module, arguments);
      checked.insert(sample.opcode);
    } catch (const UserError& error) {
      INFO(error.what());
      CHECK((module->entry()->root()->shape.is_tuple ||
             sample.name == "scatter-max by two indices" ||
             sample.name == "scatter that overwrites"));
    }
  }
  // A gradient that no sample could check is one that nobody has seen right.
  for (int64_t i = 0; i < opcode_count(); ++i) {
    const auto opcode = static_cast<Opcode>(i);
    const OpInfo& info = op_info(opcode);
    if (info.gradient == nullptr || info.operands.most == 0)
      continue;  // nothing to differentiate by
    if (opcode == Opcode::bitcast_convert) continue;
    INFO(opcode_name(opcode));
    CHECK(checked.count(opcode) == 1);
  }
}

TEST_CASE("ties share a cotangent, and a bound takes what it cut off") {
  const auto gradient = [](const std::string& body, size_t operand) {
    const std::unique_ptr<Module> module = parse_module(with_entry(body));
    Computation& c = *module->entry();
    Node* const node = c.root();
    Node* const ones = hlo::splat(c, node->shape, 1);
    c.set_root(node->op().gradient(*node, ones)[operand]);
    return evaluate(*module, {}).array;
  };
  const auto same = [](const Array& array, const std::vector<float>& values) {
    return bitwise_equal(array, Array::of<float>(array.dims(), values));
  };
  const std::string most =
      "a = f32[5] constant({3,1,3,3,2})\nz = f32[] constant(-inf)\nROOT r = f32[] reduce(a, z), "
      "dimensions={0}, to_apply=most";
  CHECK(same(gradient(most, 0), {1.0f / 3, 0, 1.0f / 3, 1.0f / 3, 0}));
  const std::string maximum =
      "a = f32[3] constant({1,2,3})\nb = f32[3] constant({2,2,2})\nROOT r = f32[3] maximum(a, b)";
  CHECK(same(gradient(maximum, 0), {0, 0.5, 1}));
  CHECK(same(gradient(maximum, 1), {1, 0.5, 0}));
  const std::string clamp =
      "l = f32[] constant(1)\nx = f32[4] constant({0,1,2,5})\nh = f32[] constant(2)\nROOT r = "
      "f32[4] clamp(l, x, h)";
  CHECK(same(gradient(clamp, 0), {1}));
  CHECK(same(gradient(clamp, 1), {0, 1, 1, 0}));
  CHECK(same(gradient(clamp, 2), {1}));
  const std::string power =
      "a = f32[3] constant({0,0,2})\nb = f32[3] constant({0,3,3})\nROOT r = f32[3] power(a, b)";
  CHECK(same(gradient(power, 0), {0, 0, 12}));
}

TEST_CASE("gradients that do not exist are errors that say why") {
  const auto gradient = [](const std::string& body) {
    const std::unique_ptr<Module> module = parse_module(with_entry(body));
    Node* const node = module->entry()->root();
    if (node->op().leaf_gradient != nullptr)
      node->op().leaf_gradient(*node, {node});
    else
      node->op().gradient(*node, node);
  };
  CHECK_THROWS_WITH(gradient("a = f32[3] parameter(0)\nz = f32[] constant(1)\n"
                             "ROOT r = f32[] reduce(a, z), dimensions={0}, to_apply=product"),
                    Catch::Contains("reduce: \"r\" has no gradient: its combiner product"));
  CHECK_THROWS_WITH(gradient("a = f32[3] parameter(0)\n"
                             "ROOT r = f32[3] custom-call(a), custom_call_target=\"Mystery\""),
                    Catch::Contains("custom-call: \"r\" has no gradient: target \"Mystery\""));
  CHECK_THROWS_WITH(
      gradient("a = c64[3] parameter(0)\nb = c64[3] parameter(1)\nROOT r = c64[3] maximum(a, b)"),
      Catch::Contains("maximum: \"r\" is c64[3]; complex numbers have no gradient"));
  CHECK_THROWS_WITH(gradient("a = c64[3] parameter(0)\nROOT r = f32[3] convert(a)"),
                    Catch::Contains("convert: \"a\" is c64[3]; complex numbers have no gradient"));
}

}  // namespace gspmd::testing
