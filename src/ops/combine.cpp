#include "ops/combine.h"

#include <cstring>

namespace gspmd {
namespace {

Value element(const Array& array, int64_t index) {
  const Array scalar(array.dtype(), {});
  const auto size = static_cast<size_t>(dtype_size(array.dtype()));
  std::memcpy(scalar.bytes().data(), array.bytes().data() + static_cast<size_t>(index) * size,
              size);
  return {scalar, {}, false};
}

}  // namespace

void combine_by_call(const CallComputation& call, const Computation& to_apply,
                     std::vector<Array>& accumulators, int64_t at, const std::vector<Array>& values,
                     int64_t from) {
  std::vector<Value> arguments;
  for (const Array& array : accumulators) arguments.push_back(element(array, at));
  for (const Array& array : values) arguments.push_back(element(array, from));
  const std::vector<Array> results = leaves(call(to_apply, arguments));
  for (size_t i = 0; i < accumulators.size(); ++i) {
    const auto size = static_cast<size_t>(dtype_size(accumulators[i].dtype()));
    std::memcpy(accumulators[i].bytes().data() + static_cast<size_t>(at) * size,
                results[i].bytes().data(), size);
  }
}

}  // namespace gspmd
