#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "gspmd/ir/op.h"
#include "gspmd/ir/text.h"
#include "gspmd/passes/pipeline.h"

namespace gspmd::testing {

// Computations that the texts of tests share.
inline constexpr const char* kSum = R"(sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] add(a, b) }
)";
inline constexpr const char* kMost = R"(most { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] maximum(a, b) }
)";
// Of two values with their positions the larger one; of equal ones the first.
inline constexpr const char* kLargest = R"(largest { a = f32[] parameter(0)
 i = s32[] parameter(1)
 b = f32[] parameter(2)
 j = s32[] parameter(3)
 g = pred[] compare(a, b), direction=GT
 e = pred[] compare(a, b), direction=EQ
 l = pred[] compare(i, j), direction=LT
 t = pred[] and(e, l)
 c = pred[] or(g, t)
 v = f32[] select(c, a, b)
 k = s32[] select(c, i, j)
 ROOT r = (f32[], s32[]) tuple(v, k) }
)";

// The text with each @ replaced by the sharding.
inline std::string with_sharding(std::string body, const std::string& sharding) {
  for (size_t at; (at = body.find('@')) != std::string::npos;)
    body.replace(at, 1, "sharding={" + sharding + "}");
  return body;
}

// "all-gather f32[4,2]" per collective of the uncombined program.
inline std::vector<std::string> results_of_collectives(const CompiledModule& compiled) {
  std::vector<std::string> result;
  for (const auto& computation : compiled.uncombined->computations())
    for (const auto& node : computation->nodes())
      if (node->op().has(kCollective))
        result.push_back(fmt::format("{} {}", opcode_name(node->opcode()),
                                     to_string(Shape(node->shape.dtype, node->dims()))));
  return result;
}

}  // namespace gspmd::testing
