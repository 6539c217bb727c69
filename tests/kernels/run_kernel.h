#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "gspmd/base/array.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// 64-byte aligned memory full of rubbish, and something behind it that nobody may write.
class Rubbish {
 public:
  explicit Rubbish(int64_t bytes) : held_(size_t(bytes) + 64 + kBehind), bytes_(size_t(bytes)) {
    void* base = held_.data();
    size_t space = held_.size();
    at_ = static_cast<std::byte*>(std::align(64, bytes_ + kBehind, base, space));
    std::memset(at_ + bytes_, kMark, kBehind);
    refill();
  }
  void refill() { std::memset(at_, 0xff, bytes_); }
  std::byte* data() const { return at_; }
  bool is_whole() const {
    return std::all_of(at_ + bytes_, at_ + bytes_ + kBehind,
                       [](std::byte b) { return b == std::byte{kMark}; });
  }

 private:
  static constexpr size_t kBehind = 4096;
  static constexpr uint8_t kMark = 0x5a;
  std::vector<std::byte> held_;
  size_t bytes_;
  std::byte* at_ = nullptr;
};

// Runs all parts, last one first, with scratch full of rubbish; results start as 77.
inline std::vector<Array> run_kernel(const PreparedKernel& kernel,
                                     const std::vector<Array>& operands,
                                     const std::vector<Shape>& results) {
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  std::vector<Array> arrays;
  for (const Array& a : operands) in.push_back(a.bytes().data());
  for (const Shape& shape : results) {
    arrays.push_back(Array::full(shape, 77));
    out.push_back(arrays.back().bytes().data());
  }
  Rubbish scratch(kernel.scratch_bytes);
  const Rubbish shared(kernel.shared_bytes);
  KernelArgs args{in.data(), out.data(), scratch.data()};
  args.shared = shared.data();
  for (args.part = kernel.prepare_parts; args.part-- > 0;) {
    scratch.refill();
    kernel.prepare(args);
  }
  for (args.part = kernel.parts; args.part-- > 0;) {
    scratch.refill();
    kernel.run(args);
  }
  if (!scratch.is_whole() || !shared.is_whole())
    throw std::logic_error("a kernel wrote behind its scratch");
  return arrays;
}

}  // namespace gspmd
