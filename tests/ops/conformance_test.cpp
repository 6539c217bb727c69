// What every op of the table promises, checked on its samples.

#include <catch2/catch.hpp>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/builders.h"
#include "ops/samples.h"

namespace gspmd::testing {
namespace {

std::vector<Value> run(const Sample& sample, const Module& module, uint64_t seed) {
  if (sample.devices == 1)
    return {evaluate(module, sample_arguments(sample, module, Values::integers, seed))};
  std::vector<std::vector<Value>> arguments;
  for (int64_t d = 0; d < sample.devices; ++d)
    arguments.push_back(
        sample_arguments(sample, module, Values::integers, seed * 100 + static_cast<uint64_t>(d)));
  return evaluate_devices(module, sample.devices, arguments);
}

std::vector<Shape> shapes_of(const Value& value) {
  std::vector<Shape> shapes;
  for (const Array& leaf : leaves(value)) shapes.push_back(leaf.shape());
  return shapes;
}

}  // namespace

TEST_CASE("every opcode that can be run has a row and a sample", "[conformance]") {
  std::set<Opcode> sampled;
  for (const Sample& sample : samples()) {
    sampled.insert(sample.opcode);
    INFO(sample.name);
    CHECK(sample_module(sample)->entry()->root()->opcode() == sample.opcode);
  }
  for (int64_t i = 0; i < opcode_count(); ++i) {
    const auto opcode = static_cast<Opcode>(i);
    INFO(opcode_name(opcode));
    const OpInfo& info = op_info(opcode);
    CHECK(info.opcode == opcode);
    CHECK(info.infer != nullptr);
    CHECK(sampled.count(opcode) == (info.evaluate != nullptr ? 1 : 0));
  }
}

TEST_CASE("what an op infers is the shape that it computes", "[conformance]") {
  for (const Sample& sample : samples()) {
    INFO(sample.name);
    const std::unique_ptr<Module> module = sample_module(sample);
    const Node& node = *module->entry()->root();
    CHECK(node.op().infer(node) == node.shape);
    for (const Value& value : run(sample, *module, 1))
      CHECK(shapes_of(value) == leaf_shapes(node.shape));
  }
}

TEST_CASE("every sample prints and parses back to an equal module", "[conformance]") {
  for (const Sample& sample : samples()) {
    INFO(sample.name);
    const std::unique_ptr<Module> module = sample_module(sample);
    const std::string text = to_text(*module);
    const std::unique_ptr<Module> again = parse_module(text);
    CHECK(structurally_equal(*module, *again));
    CHECK(to_text(*again) == text);
  }
}

TEST_CASE("emitting a sample's node again gives the same shape", "[conformance]") {
  for (const Sample& sample : samples()) {
    INFO(sample.name);
    const std::unique_ptr<Module> module = sample_module(sample);
    Node* const node = module->entry()->root();
    if (node->is(Opcode::parameter)) continue;
    Node* const again = emit(*module->entry(), node->opcode(), node->operands(), node->attrs,
                             node->shape, node->called);
    CHECK(again->shape == node->shape);
  }
}

TEST_CASE("an op never writes into its operands", "[conformance]") {
  for (const Sample& sample : samples()) {
    if (sample.devices > 1) continue;
    INFO(sample.name);
    const std::unique_ptr<Module> module = sample_module(sample);
    const std::vector<Value> arguments = sample_arguments(sample, *module, Values::integers, 5);
    const std::vector<Value> again = sample_arguments(sample, *module, Values::integers, 5);
    evaluate(*module, arguments);
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::vector<Array> used = leaves(arguments[i]);
      const std::vector<Array> fresh = leaves(again[i]);
      for (size_t l = 0; l < used.size(); ++l) CHECK(bitwise_equal(used[l], fresh[l]));
    }
  }
}

}  // namespace gspmd::testing
