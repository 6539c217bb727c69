#pragma once

#include <catch2/catch.hpp>

#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/passes/simplify/simplify.h"

namespace gspmd {

inline int count(const Module& module, Opcode opcode, bool entry_only = false) {
  int found = 0;
  for (const auto& computation : module.computations())
    if (!entry_only || computation.get() == module.entry())
      for (const auto& node : computation->nodes()) found += node->is(opcode);
  return found;
}

// Small integers, different on each device.
inline std::vector<std::vector<Value>> arguments(const Module& module, int64_t devices) {
  std::vector<std::vector<Value>> all(static_cast<size_t>(devices));
  int64_t seed = 1;
  for (std::vector<Value>& of_device : all)
    for (const Node* parameter : module.entry()->parameters()) {
      Array array(parameter->shape);
      for (int64_t i = 0; i < array.size(); ++i) {
        seed = (seed * 1103515245 + 12345) % (int64_t{1} << 31);
        array.set(i, static_cast<double>(seed / 65536 % 9 - 4));
      }
      of_device.push_back({std::move(array), {}, false});
    }
  return all;
}

// The module after `pass`, which must change it and compute the same bits on every device.
template <class Pass>
std::unique_ptr<Module> changed(const std::string& text, Pass pass) {
  const std::unique_ptr<Module> before = parse_module(text);
  std::unique_ptr<Module> after = before->clone();
  REQUIRE(pass(*after));
  eliminate_dead_code(*after);
  verify_module(*after);
  const auto inputs = arguments(*before, before->num_partitions);
  const auto expected = evaluate_devices(*before, before->num_partitions, inputs);
  const auto actual = evaluate_devices(*after, before->num_partitions, inputs);
  for (size_t d = 0; d < expected.size(); ++d) {
    const std::vector<Array> a = leaves(actual[d]), e = leaves(expected[d]);
    for (size_t l = 0; l < e.size(); ++l) CHECK(bitwise_equal(a[l], e[l]));
  }
  return after;
}

}  // namespace gspmd
