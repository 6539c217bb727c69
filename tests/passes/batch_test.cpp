// Every op of the table, batched: any part of its operands, against one element after the other.

#include "gspmd/passes/batch/batch.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/builders.h"
#include "ops/samples.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

constexpr int64_t kSize = 3;

std::vector<Array> leaves_of_all(const std::vector<Value>& values) {
  std::vector<Array> all;
  for (const Value& value : values)
    for (const Array& leaf : leaves(value)) all.push_back(leaf);
  return all;
}

Array stacked(const std::vector<Array>& slices) {
  Shape shape = slices[0].shape();
  shape.dims.insert(shape.dims.begin(), std::ssize(slices));
  Array all(shape);
  const size_t bytes = slices[0].bytes().size();
  for (size_t i = 0; i < slices.size() && bytes > 0; ++i)
    std::memcpy(all.bytes().data() + i * bytes, slices[i].bytes().data(), bytes);
  return all;
}

std::vector<Value> values_of(const std::vector<Array>& arrays) {
  std::vector<Value> values;
  for (const Array& array : arrays) values.push_back({array, {}, false});
  return values;
}

// By device: the values, one list of leaves each.
std::vector<std::vector<Array>> run(const Module& module, int64_t devices,
                                    const std::vector<std::vector<Value>>& arguments) {
  if (devices == 1) return {leaves(evaluate(module, arguments[0]))};
  std::vector<std::vector<Array>> results;
  for (const Value& value : evaluate_devices(module, devices, arguments))
    results.push_back(leaves(value));
  return results;
}

struct Batched {
  std::unique_ptr<Module> module;
  std::vector<BatchLeaf> results;
};

// The sample's entry on a batch of the parameters' leaves that `which` has the bits of.
Batched batched(const Sample& sample, uint64_t which) {
  Batched result{sample_module(sample), {}};
  Module& module = *result.module;
  const Computation* const source = module.entry();
  Computation* const into = module.add_computation("batched");
  std::vector<BatchLeaf> arguments;
  for (const Node* parameter : source->parameters())
    for (Shape leaf : leaf_shapes(parameter->shape)) {
      const bool is_batched = (which >> arguments.size() & 1) != 0;
      if (is_batched) leaf.dims.insert(leaf.dims.begin(), kSize);
      arguments.push_back({hlo::parameter(*into, std::ssize(arguments), leaf, "p"), is_batched});
    }
  result.results = batch(*source, *into, arguments, {.size = kSize});
  std::vector<Node*> roots;
  for (const BatchLeaf& leaf : result.results) roots.push_back(leaf.node);
  into->set_root(hlo::tuple(*into, roots));
  module.set_entry(into);
  module.remove_unreachable();
  module.sort_computations();
  verify_module(module);
  return result;
}

void check_sample(const Sample& sample, uint64_t which) {
  const Batched together = batched(sample, which);
  const std::unique_ptr<Module> one = sample_module(sample);
  // [device][element of the batch]
  std::vector<std::vector<std::vector<Value>>> single(static_cast<size_t>(sample.devices));
  std::vector<std::vector<Value>> all;
  for (int64_t d = 0; d < sample.devices; ++d) {
    std::vector<std::vector<Array>> drawn;
    for (int64_t i = 0; i < kSize; ++i)
      drawn.push_back(leaves_of_all(
          sample_arguments(sample, *one, Values::integers, static_cast<uint64_t>(10 * d + i + 1))));
    std::vector<Array> stack;
    for (size_t leaf = 0; leaf < drawn[0].size(); ++leaf) {
      std::vector<Array> slices;
      for (std::vector<Array>& element : drawn) slices.push_back(element[leaf]);
      const bool is_batched = (which >> leaf & 1) != 0;
      stack.push_back(is_batched ? stacked(slices) : slices[0]);
      if (!is_batched)
        for (std::vector<Array>& element : drawn) element[leaf] = slices[0];
    }
    all.push_back(values_of(stack));
    for (const std::vector<Array>& element : drawn) {
      std::vector<Value> arguments;
      auto next = element.begin();
      for (const Node* parameter : one->entry()->parameters()) {
        const auto end = next + static_cast<std::ptrdiff_t>(leaf_count(parameter->shape));
        arguments.push_back(pack(parameter->shape, std::vector<Array>(next, end)));
        next = end;
      }
      single[static_cast<size_t>(d)].push_back(arguments);
    }
  }
  std::vector<std::vector<std::vector<Array>>> expected;  // [element][device][leaf]
  for (size_t i = 0; i < static_cast<size_t>(kSize); ++i) {
    std::vector<std::vector<Value>> arguments;
    for (const auto& of_device : single) arguments.push_back(of_device[i]);
    expected.push_back(run(*one, sample.devices, arguments));
  }
  const auto found = run(*together.module, sample.devices, all);
  for (size_t d = 0; d < found.size(); ++d)
    for (size_t leaf = 0; leaf < found[d].size(); ++leaf) {
      std::vector<Array> slices;
      for (const auto& element : expected) slices.push_back(element[d][leaf]);
      INFO("device " << d << " leaf " << leaf);
      if (together.results[leaf].batched) {
        CHECK(bitwise_equal(found[d][leaf], stacked(slices)));
      } else {
        for (const Array& slice : slices) CHECK(bitwise_equal(found[d][leaf], slice));
      }
    }
}

// What depends on state, starts or ends something, or has a size of its own.
const std::set<Opcode> kRefused = {Opcode::copy_start,         Opcode::copy_done,
                                   Opcode::async_start,        Opcode::async_update,
                                   Opcode::async_done,         Opcode::all_reduce_start,
                                   Opcode::all_reduce_done,    Opcode::all_gather_start,
                                   Opcode::all_gather_done,    Opcode::collective_permute_start,
                                   Opcode::set_dimension_size, Opcode::collective_permute_done,
                                   Opcode::dynamic_reshape};

}  // namespace

TEST_CASE("every op on a batch gives what it gives for each element", "[conformance]") {
  for (const Sample& sample : samples()) {
    const std::unique_ptr<Module> module = sample_module(sample);
    int64_t count = 0;
    for (const Node* parameter : module->entry()->parameters())
      count += leaf_count(parameter->shape);
    for (uint64_t which = 0; which < uint64_t(1) << count; ++which) {
      INFO(sample.name << ", leaves " << which);
      if (which > 0 && kRefused.count(sample.opcode) != 0) {
        CHECK_THROWS_AS(batched(sample, which), UserError);
        continue;
      }
      CHECK_NOTHROW(check_sample(sample, which));
    }
  }
}

TEST_CASE("what cannot be batched is an error that names the op and its line", "[conformance]") {
  const auto refused = [](const std::string& body) {
    const Sample sample{Opcode::rng, "refused.hlo", body};
    try {
      batched(sample, 1);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto line = [](const std::string& body) {
    const std::string text = with_entry(body);
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(text.find(body));
    const auto before = std::count(text.begin(), end, '\n');
    return "(refused.hlo:" +
           std::to_string(before + std::count(body.begin(), body.end(), '\n') + 1) + ")";
  };
  const std::string rng =
      "a = f32[] parameter(0)\nb = f32[] constant(2)\nROOT r = f32[3,5] rng(a, b), "
      "distribution=rng_uniform";
  CHECK_THAT(refused(rng),
             Catch::StartsWith("rng: \"r\" f32[3,5] cannot be batched by vmap: it has no rule") &&
                 Catch::EndsWith(line(rng)));
  CHECK_THAT(refused("a = f32[3] parameter(0)\nROOT r = f32[3] custom-call(a), "
                     "custom_call_target=\"Mystery\""),
             Catch::StartsWith("custom-call: \"r\" of target \"Mystery\" cannot be batched") &&
                 Catch::Contains("refused.hlo"));
}
