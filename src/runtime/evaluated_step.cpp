#include "gspmd/runtime/evaluated_step.h"

#include <fmt/format.h>

#include "gspmd/ir/place.h"
#include "runtime/program.h"

namespace gspmd {
namespace {

EvaluatedStep evaluated_step(const Node& node) {
  return {std::string(opcode_name(node.opcode())), node.name(), node.shape,
          source_line(node.metadata)};
}

int64_t elements_of(const Shape& shape) {
  int64_t count = 0;
  for (const Shape& leaf : leaf_shapes(shape)) count += leaf.elements_count();
  return count;
}

bool has_many_elements(const Node& node) {
  if (elements_of(node.shape) > 1) return true;
  for (const Node* operand : node.operands())
    if (elements_of(operand->shape) > 1) return true;
  return false;
}

}  // namespace

std::string to_string(const EvaluatedStep& step) {
  return fmt::format("{} \"{}\" {}{}", step.op, step.instruction, to_string(step.shape),
                     step.source.empty() ? "" : fmt::format(" ({})", step.source));
}

std::vector<EvaluatedStep> evaluated_steps(const Program& program) {
  std::vector<EvaluatedStep> all;
  for (const Step& step : program.steps)
    if (step.is_evaluated && has_many_elements(*step.node))
      all.push_back(evaluated_step(*step.node));
  for (const CollectiveStep& step : program.collectives)
    if (step.reference && has_many_elements(*step.node)) all.push_back(evaluated_step(*step.node));
  return all;
}

}  // namespace gspmd
