#include "ops/common/combine_values.h"

#include <cstring>

#include "gspmd/ops/loop_guard.h"
#include "ops/common/loops.h"

namespace gspmd {

std::vector<Array> initial_results(const EvalContext& context) {
  std::vector<Array> results;
  for (const Shape& shape : leaf_shapes(context.node.shape)) {
    results.emplace_back(shape);
    const size_t initial = context.operands.size() / 2 + results.size() - 1;
    fill_elements(results.back(), context.operands[initial].array);
  }
  return results;
}

std::vector<Array> inputs_of(const EvalContext& context) {
  std::vector<Array> inputs;
  for (size_t i = 0; i < context.operands.size() / 2; ++i)
    inputs.push_back(context.operands[i].array);
  return inputs;
}

CalledCombiner::CalledCombiner(const CallComputation& call, const Computation& to_apply,
                               const std::vector<Array>& accumulators,
                               const std::vector<Array>& values)
    : program_(to_apply, call), accumulators_(columns(accumulators)), values_(columns(values)) {}

std::vector<CalledCombiner::Column> CalledCombiner::columns(const std::vector<Array>& arrays) {
  std::vector<Column> columns;
  for (const Array& array : arrays)
    columns.push_back({array.bytes().data(), dtype_size(array.dtype())});
  return columns;
}

void CalledCombiner::combine(int64_t at, int64_t from) {
  constexpr uint32_t kUnwatchedValues = 4096;  // what takes a fraction of a millisecond
  if (++combined_ % kUnwatchedValues == 0) give_up_when_late();
  size_t parameter = 0;
  for (const Column& column : accumulators_)
    program_.set(parameter++, column.data + at * column.size);
  for (const Column& column : values_) program_.set(parameter++, column.data + from * column.size);
  program_.run();
  size_t result = 0;
  for (const Column& column : accumulators_)
    program_.take(result++, column.data + at * column.size);
}

void CalledCombiner::copy(int64_t at, int64_t from) {
  for (const Column& column : accumulators_)
    std::memcpy(column.data + at * column.size, column.data + from * column.size,
                static_cast<size_t>(column.size));
}

}  // namespace gspmd
