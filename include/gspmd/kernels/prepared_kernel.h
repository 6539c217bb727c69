#pragma once

// Kernels chosen when a program is compiled.

#include <cstddef>
#include <cstdint>
#include <functional>

namespace gspmd {

// What a kernel gets when it runs on one device: operand and result leaf buffers of local shapes,
// and scratch of `scratch_bytes` that belongs to the running worker.
struct KernelArgs {
  const std::byte* const* operands = nullptr;  // one pointer per operand leaf
  std::byte* const* results = nullptr;         // one pointer per result leaf
  std::byte* scratch = nullptr;                // nullptr where none is needed
  int64_t device = 0;                          // which device's shards these are
  int64_t part = 0;                            // 0 <= part < PreparedKernel::parts
  std::byte* shared = nullptr;                 // `shared_bytes` that all parts on a device read
  std::byte* common = nullptr;                 // CommonStage::bytes; nullptr: nobody made them
};

// What may be laid out of one operand once for all devices that have the same of it: independent
// parts write KernelArgs::common, and read nothing else.
struct CommonStage {
  std::function<void(const KernelArgs&)> prepare;  // runs one part; empty: there is none
  int64_t operand = 0;                             // which one is laid out
  int64_t parts = 0;                               // of `prepare`
  int64_t bytes = 0;                               // of what it writes; 64-byte aligned
};

// A kernel chosen and prepared when the program is compiled: no allocation, no set-up per call.
// Parts are independent and fixed by shape (never by thread count); different parts may run on
// different workers at once, so `run` must be reentrant.
struct PreparedKernel {
  std::function<void(const KernelArgs&)> run;  // runs one part
  int64_t parts = 1;                           // from 1
  int64_t scratch_bytes = 0;                   // of one worker
  double cost = 0;  // rough nanoseconds of all parts, for deciding whether to split
  // What all parts read of their operands, made before the first of them runs: a stage of
  // `prepare_parts` parts that write KernelArgs::shared, and maybe results. Empty: there is none.
  std::function<void(const KernelArgs&)> prepare;
  int64_t prepare_parts = 0;  // of that stage
  int64_t shared_bytes = 0;   // of one device; 64-byte aligned
  CommonStage common;         // where it was not run, all else does without
};

}  // namespace gspmd
