#pragma once

// Arrays of other libraries and ours as theirs, without copying: DLPack 1.x, in host memory.
//
//   Array x = from_dlpack(reinterpret_cast<dlpack::ManagedTensor*>(theirs));  // NumPy, PyTorch,
//   JAX auto* ours = to_dlpack_versioned(result);  // whoever takes it calls ours->deleter(ours)

#include <cstdint>

#include "gspmd/base/array.h"
#include "gspmd/base/export.h"

namespace gspmd {

// The structs of DLPack's interface, layout for layout; names without DL. A pointer to one of
// dlpack.h is a pointer to one of these.
namespace dlpack {

inline constexpr int32_t kCpu = 1;        // device type: plain memory of the host
inline constexpr int32_t kCudaHost = 3;   // the host's, pinned for CUDA
inline constexpr int32_t kRocmHost = 11;  // the host's, pinned for ROCm

inline constexpr uint64_t kReadOnly = 1;       // flag: nobody may write the elements
inline constexpr uint64_t kIsCopied = 2;       // flag: they are a copy, of nobody else
inline constexpr uint64_t kSubbytePadded = 4;  // flag: small elements have a byte each

// Where elements lie.
struct Device {
  int32_t type = kCpu;  // DLDeviceType
  int32_t id = 0;       // which one of the type
};
// An element type.
struct DataType {
  uint8_t code = 0;    // DLDataTypeCode
  uint8_t bits = 0;    // of one lane
  uint16_t lanes = 1;  // of a vector type
};
// A view of elements.
struct Tensor {
  void* data = nullptr;        // the elements begin byte_offset behind it
  Device device = {};          // where
  int32_t ndim = 0;            // number of dims
  DataType dtype = {};         // of an element
  int64_t* shape = nullptr;    // sizes, major first
  int64_t* strides = nullptr;  // in elements; nullptr: compact and row-major
  uint64_t byte_offset = 0;    // of the first element
};
// A tensor with its owner, as libraries hand it to each other before DLPack 1.0 and still do.
struct ManagedTensor {
  Tensor tensor = {};                         // the view
  void* manager_ctx = nullptr;                // the owner's
  void (*deleter)(ManagedTensor*) = nullptr;  // called once by whoever took it; may be nullptr
};
// Of the interface.
struct Version {
  uint32_t major = 1, minor = 0;  // of another `major` only the deleter may be used
};
// A tensor with its owner, since DLPack 1.0.
struct ManagedTensorVersioned {
  Version version = {};                                // of the interface
  void* manager_ctx = nullptr;                         // the owner's
  void (*deleter)(ManagedTensorVersioned*) = nullptr;  // called once by whoever took it
  uint64_t flags = 0;                                  // kReadOnly, ...
  Tensor tensor = {};                                  // the view
};

}  // namespace dlpack

// Whether an imported array has elements of its own.
enum class DlpackCopy : uint8_t {
  if_needed,  // where elements are not compact and row-major, or read-only
  never,      // UserError where they are not compact; read-only ones must not be written then
  always,     // at once
};

// Takes a tensor of somebody else's. An array that shares its elements keeps the tensor until its
// last copy is gone, and then calls the deleter, from any thread; one that has its own gives it
// back at once. UserError, and the tensor stays the caller's: not in host memory, an element type
// that the library lacks or that is packed, another major version.
GSPMD_API Array from_dlpack(dlpack::ManagedTensor* tensor, DlpackCopy copy = DlpackCopy::if_needed);
GSPMD_API Array from_dlpack(dlpack::ManagedTensorVersioned* tensor,
                            DlpackCopy copy = DlpackCopy::if_needed);

// Hands out an array: compact, row-major, in host memory, where it is gathered first if it is on
// devices. Its elements are shared and live until the deleter is called, whatever becomes of
// `array`. UserError: a token, or, without a version, elements of less than 8 bits.
GSPMD_API dlpack::ManagedTensor* to_dlpack(const Array& array);
// The same with version and flags: read-only where the array shares such elements.
GSPMD_API dlpack::ManagedTensorVersioned* to_dlpack_versioned(const Array& array);

}  // namespace gspmd
