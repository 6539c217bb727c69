// Blocks of one cache line square: every line of source and target is touched once, so that rows a
// power of two apart, which share one cache set, do not throw each other out.
#include "kernels/loop_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/transpose_block.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.

#include "kernels/transpose-inl.h"
#include "kernels/transpose_block.h"

HWY_BEFORE_NAMESPACE();
namespace gspmd {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

template <class T>
void transpose_by_small(const T* source, int64_t source_row, T* target, int64_t target_row) {
  constexpr int64_t kSide = block_side(sizeof(T));
  for (int64_t i = 0; i < kSide; ++i)
    for (int64_t j = 0; j < kSide; ++j) target[i * target_row + j] = source[j * source_row + i];
}

#else

template <class T>
void transpose_by_small(const T* source, int64_t source_row, T* target, int64_t target_row) {
  constexpr int64_t kSide = block_side(sizeof(T)), kLanes = 16 / sizeof(T);
  for (int64_t j = 0; j < kSide; j += kLanes)
    for (int64_t i = 0; i < kSide; i += kLanes)
      transpose_small(source + j * source_row + i, source_row, target + i * target_row + j,
                      target_row);
}

#endif

template <class T>
void transpose(const std::byte* source_bytes, int64_t source_row, std::byte* target_bytes,
               int64_t target_row) {
  const auto* const source = reinterpret_cast<const T*>(source_bytes);
  auto* const target = reinterpret_cast<T*>(target_bytes);
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4)
    return transpose_wide(reinterpret_cast<const float*>(source), source_row,
                          reinterpret_cast<float*>(target), target_row);
  else if constexpr (sizeof(T) == 2)
    return transpose_wide(source, source_row, target, target_row);
#endif
  transpose_by_small(source, source_row, target, target_row);
}

}  // namespace

TransposeBlock find_transpose_block(int64_t element_size) {
  switch (element_size) {
    case 1:
      return transpose<uint8_t>;
    case 2:
      return transpose<uint16_t>;
    case 4:
      return transpose<uint32_t>;
    default:
      return transpose<uint64_t>;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gspmd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gspmd {
HWY_EXPORT(find_transpose_block);
TransposeBlock transpose_block_function(int64_t element_size) {
  return HWY_DYNAMIC_DISPATCH(find_transpose_block)(element_size);
}
}  // namespace gspmd
#endif
