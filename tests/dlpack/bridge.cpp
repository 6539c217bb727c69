// What a program in another language calls: arrays of ours as DLPack tensors, theirs as arrays of
// ours. check.py loads it beside NumPy.

#include "gspmd/io/dlpack.h"

using namespace gspmd;

namespace {

Array held;

}  // namespace

extern "C" {

// An array of `count` elements 0, 1, 2, ... in two rows.
__attribute__((visibility("default"))) dlpack::ManagedTensor* make(const char* dtype,
                                                                   int64_t count) {
  Array array(Shape(*dtype_from_name(dtype), {2, count / 2}));
  for (int64_t i = 0; i < count; ++i) array.set(i, static_cast<double>(i));
  return to_dlpack(array);
}

// Takes a tensor and keeps it; returns the address of its elements, nullptr where it is refused.
__attribute__((visibility("default"))) void* take(dlpack::ManagedTensor* tensor) {
  try {
    held = from_dlpack(tensor);
    return held.bytes().data();
  } catch (const Error&) {
    return nullptr;
  }
}

__attribute__((visibility("default"))) double element(int64_t i) { return held.at(i); }
__attribute__((visibility("default"))) void release() { held = Array(); }
}
