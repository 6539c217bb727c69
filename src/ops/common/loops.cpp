#include "ops/common/loops.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/narrow.h"

namespace gspmd {
namespace {

template <size_t kSize>
void copy_sized(const Dims& dims, const StridedView& to, const StridedView& from) {
  std::byte* const out = to.array.bytes().data();
  const std::byte* const in = from.array.bytes().data();
  for_each_offset<2>(dims, {to.strides, from.strides}, {to.base, from.base},
                     [&](const std::array<int64_t, 2>& at) {
                       std::memcpy(out + at[0] * static_cast<int64_t>(kSize),
                                   in + at[1] * static_cast<int64_t>(kSize), kSize);
                     });
}

}  // namespace

void copy_elements(const Dims& dims, const StridedView& to, const StridedView& from) {
  switch (dtype_size(to.array.dtype())) {
    case 1:
      return copy_sized<1>(dims, to, from);
    case 2:
      return copy_sized<2>(dims, to, from);
    case 4:
      return copy_sized<4>(dims, to, from);
    case 8:
      return copy_sized<8>(dims, to, from);
    case 16:
      return copy_sized<16>(dims, to, from);
    default:
      return;  // token: no bytes
  }
}

StridedView whole(const Array& array) { return {array, row_major_strides(array.dims())}; }

Array concatenated(const Array& result, const std::vector<Array>& arrays, size_t dim) {
  if (result.size() == 0) return result;
  StridedView to = whole(result);
  for (const Array& array : arrays) {
    copy_elements(array.dims(), to, whole(array));
    to.base += to.strides[dim] * array.dims()[dim];
  }
  return result;
}

void fill_elements(const Array& array, const Array& scalar) {
  const Dims strides = row_major_strides(array.dims());
  copy_elements(array.dims(), {array, strides}, {scalar, Dims(strides.size(), 0)});
}

int64_t index_at(const Array& index, int64_t element) {
  if (is_narrow(index.dtype()))
    return static_cast<int64_t>(narrow_to_double(
        index.dtype(), static_cast<uint8_t>(index.bytes()[static_cast<size_t>(element)])));
  return visit_dtype(index.dtype(), [&](auto tag) -> int64_t {
    using T = typename decltype(tag)::type;
    const T value = index.data<T>()[static_cast<size_t>(element)];
    if constexpr (std::is_same_v<T, uint64_t>)
      return static_cast<int64_t>(
          std::min<uint64_t>(value, uint64_t(std::numeric_limits<int64_t>::max())));
    else if constexpr (std::is_integral_v<T>)
      return static_cast<int64_t>(value);
    else
      internal_error("index: elements of {} are no indices", to_string(index.shape()));
  });
}

int64_t clamped_start(const Array& index, int64_t element, int64_t dim, int64_t size) {
  return std::clamp<int64_t>(index_at(index, element), 0, dim - size);
}

}  // namespace gspmd
