#include "ops/common/combine_values.h"

namespace gspmd {

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
  size_t parameter = 0;
  for (const Column& column : accumulators_)
    program_.set(parameter++, column.data + at * column.size);
  for (const Column& column : values_) program_.set(parameter++, column.data + from * column.size);
  program_.run();
  size_t result = 0;
  for (const Column& column : accumulators_)
    program_.take(result++, column.data + at * column.size);
}

}  // namespace gspmd
