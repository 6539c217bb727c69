#pragma once

// Loop programs run between guards, and what differs between two results.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "gspmd/kernels/loop_program.h"

namespace gspmd::loop_code_test {

constexpr uint8_t kPoison = 0xA5;

// At which side of a buffer a page begins that cannot be read; at the other side it is poison.
enum class Fence { behind, before };

// Bytes that nobody may read or write beyond.
class Guarded {
 public:
  explicit Guarded(size_t bytes, Fence fence = Fence::behind) : size(bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    room_ = (bytes + page - 1) / page * page;
    all_ = room_ + 2 * page;
    void* const pages =
        mmap(nullptr, all_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    pages_.reset(static_cast<uint8_t*>(pages), Unmap{all_});
    begin_ = pages_.get() + page;
    std::memset(begin_, kPoison, room_);
    at_ = fence == Fence::behind ? room_ - bytes : 0;
    mprotect(pages_.get(), page, PROT_NONE);
    mprotect(begin_ + room_, page, PROT_NONE);
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(begin_ + at_); }
  bool is_whole() const {
    const auto is_poison = [](uint8_t b) { return b == kPoison; };
    return std::all_of(begin_, begin_ + at_, is_poison) &&
           std::all_of(begin_ + at_ + size, begin_ + room_, is_poison);
  }
  size_t size;

 private:
  struct Unmap {
    size_t bytes;
    void operator()(uint8_t* pages) const { munmap(pages, bytes); }
  };
  size_t room_ = 0, all_ = 0, at_ = 0;
  uint8_t* begin_ = nullptr;
  std::shared_ptr<uint8_t> pages_;
};

struct Case {
  LoopProgram program;
  std::vector<Array> operands;
  std::vector<Shape> results;
};

// Results of a run; `in_place`: per result the operand whose place it takes, -1 = none.
inline std::vector<std::vector<uint8_t>> run(const PreparedKernel& kernel, const Case& c,
                                             const std::vector<int>& in_place, bool parts_backwards,
                                             Fence fence = Fence::behind) {
  std::vector<Guarded> operands, results;
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (const Array& a : c.operands) {
    operands.emplace_back(a.bytes().size(), fence);
    std::memcpy(operands.back().data(), a.bytes().data(), a.bytes().size());
  }
  for (Guarded& g : operands) in.push_back(g.data());
  for (const Shape& s : c.results) results.emplace_back(static_cast<size_t>(s.bytes()), fence);
  for (size_t o = 0; o < results.size(); ++o)
    out.push_back(in_place[o] < 0 ? results[o].data() : operands[size_t(in_place[o])].data());
  Guarded scratch(static_cast<size_t>(kernel.scratch_bytes));
  Guarded shared(static_cast<size_t>(kernel.shared_bytes));
  KernelArgs args{in.data(), out.data(), scratch.data()};
  args.shared = shared.data();
  const auto stage = [&](const auto& run_part, int64_t parts) {
    for (int64_t i = 0; i < parts; ++i) {
      args.part = parts_backwards ? parts - 1 - i : i;
      std::memset(scratch.data(), 0xff, scratch.size);
      run_part(args);
    }
  };
  stage(kernel.prepare, kernel.prepare_parts);
  stage(kernel.run, kernel.parts);
  std::vector<std::vector<uint8_t>> bytes;
  for (size_t o = 0; o < results.size(); ++o) {
    const auto* from = reinterpret_cast<const uint8_t*>(out[o]);
    bytes.emplace_back(from, from + results[o].size);
    CHECK(results[o].is_whole());
  }
  for (const Guarded& g : operands) CHECK(g.is_whole());
  CHECK(scratch.is_whole());
  CHECK(shared.is_whole());
  return bytes;
}

// Elements whose bits differ, but for two NaNs of floats.
template <class T, class IsNan>
int64_t differing(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b, IsNan&& is_nan) {
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); i += sizeof(T)) {
    T x, y;
    std::memcpy(&x, a.data() + i, sizeof(T));
    std::memcpy(&y, b.data() + i, sizeof(T));
    count += x != y && !(is_nan(x) && is_nan(y));
  }
  return count;
}

inline int64_t differing(DType dtype, const std::vector<uint8_t>& a,
                         const std::vector<uint8_t>& b) {
  if (dtype == DType::f32)
    return differing<uint32_t>(
        a, b, [](uint32_t bits) { return std::isnan(std::bit_cast<float>(bits)); });
  if (dtype == DType::bf16)
    return differing<uint16_t>(a, b, [](uint16_t bits) { return (bits & 0x7fff) > 0x7f80; });
  if (dtype == DType::f16)
    return differing<uint16_t>(a, b, [](uint16_t bits) { return (bits & 0x7fff) > 0x7c00; });
  return differing<uint8_t>(a, b, [](uint8_t) { return false; });
}

// Those for which this machine runs code; where it runs none, what it has instead.
inline std::vector<LoopTarget> targets() {
  std::vector<LoopTarget> result;
  for (const LoopTarget target : {LoopTarget::avx2, LoopTarget::avx512})
    if (runs_loop_target(target)) result.push_back(target);
  if (result.empty()) result.push_back(LoopTarget::best);
  return result;
}

}  // namespace gspmd::loop_code_test
