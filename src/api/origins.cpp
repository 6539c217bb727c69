#include "gspmd/api/origins.h"

#include <fmt/format.h>

#include "gspmd/base/error.h"
#include "gspmd/passes/explain/explain_sharding.h"

namespace gspmd {

std::string sharding_origins(const ExecutableBase& step, std::string_view name) {
  std::string text;
  bool found = false;
  for (const auto& computation : step.module().completed->computations())
    for (const auto& node : computation->nodes()) {
      if (node->name() != name && node->metadata.op_name != name) continue;
      found = true;
      text += describe_sharding(*node);
    }
  if (!found) user_error("sharding_origins: no value of the program is named {}", name);
  return text;
}

std::string sharding_lint(const ExecutableBase& step) {
  ShardingLint lint = lint_shardings(*step.module().completed);
  lint.redundant = redundant_annotations(step.traced().module());
  lint.alone = lone_group_members(step.traced().module());
  return to_string(lint);
}

}  // namespace gspmd
