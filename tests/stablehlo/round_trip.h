#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "gspmd/ir/op.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/stablehlo/text.h"

namespace gspmd::stablehlo {

// Small integers for a shape, by seed.
inline Value some_value(const Shape& shape, uint64_t& state) {
  std::vector<Array> leaves;
  for (const Shape& leaf : leaf_shapes(shape)) {
    Array array(leaf);
    for (int64_t i = 0; i < array.size(); ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      const auto value = static_cast<double>((state >> 33) % 5);
      const bool is_unsigned = is_unsigned_integer(leaf.dtype) || leaf.dtype == DType::pred;
      if (!is_complex(leaf.dtype) && leaf.dtype != DType::token)
        array.set(i, is_unsigned ? std::min(value, 1.0) : value - 2);
    }
    leaves.push_back(std::move(array));
  }
  return pack(shape, leaves);
}

inline std::vector<Value> some_arguments(const Module& module) {
  uint64_t state = 7;
  std::vector<Value> values;
  for (const Node* parameter : module.entry()->parameters())
    values.push_back(some_value(parameter->shape, state));
  return values;
}

// "opcode shape sharding" of what is annotated, sorted. Tuples and their elements are no ops of
// StableHLO, parameters of regions are no values of it, and regions have constants of their own.
inline std::vector<std::string> annotations(const Module& module) {
  std::vector<std::string> list;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) {
      const bool is_inner = node->is(Opcode::parameter) && computation.get() != module.entry();
      if (!node->sharding || node->is(Opcode::get_tuple_element) || is_inner) continue;
      if (node->is(Opcode::constant) || node->is(Opcode::iota)) continue;
      if (node->is(Opcode::tuple) && node.get() != module.entry()->root()) continue;
      // One result stands without a tuple.
      const bool is_one = node->shape.elements.size() == 1 && node->sharding->is_tuple();
      list.push_back(
          fmt::format("{} {} {}", opcode_name(node->opcode()),
                      to_string(is_one ? node->shape.elements[0] : node->shape),
                      to_string(is_one ? node->sharding->elements()[0] : *node->sharding)));
    }
  std::sort(list.begin(), list.end());
  return list;
}

// Whether one device can run it: no collectives, no custom code.
inline bool can_run(const Module& module) {
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes()) {
      const bool is_collective = node->op().has(kCollective) || node->is(Opcode::partition_id);
      if (is_collective ||
          (node->is(Opcode::custom_call) && node->attrs.custom_call_target != "Sharding"))
        return false;
    }
  return true;
}

// HLO -> StableHLO -> HLO: the text is a fixed point, shardings and values are equal.
inline void check_round_trip(const Module& module, bool run = true) {
  INFO(to_text(module));
  const std::string text = to_stablehlo(module);
  INFO(text);
  const std::unique_ptr<Module> read = parse_stablehlo(text, "printed.mlir");
  verify_module(*read);
  CHECK(to_stablehlo(*read) == text);
  CHECK(read->num_partitions == module.num_partitions);
  if (module.entry()->root()->shape.elements.size() != 1)
    CHECK(annotations(*read) == annotations(module));
  if (!run) return;
  const std::vector<Value> arguments = some_arguments(module);
  const std::vector<Array> wanted = leaves(evaluate(module, arguments));
  const std::vector<Array> given = leaves(evaluate(*read, arguments));
  REQUIRE(wanted.size() == given.size());
  for (size_t i = 0; i < wanted.size(); ++i) CHECK(bitwise_equal(wanted[i], given[i]));
}

}  // namespace gspmd::stablehlo
