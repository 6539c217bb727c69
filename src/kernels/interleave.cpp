#include "kernels/interleave.h"

#include <algorithm>
#include <cstring>

#include "kernels/loop_functions.h"
#include "kernels/loop_strides.h"
#include "kernels/stream.h"

namespace gspmd {
namespace {

constexpr int64_t kZippedChunk = 4096;  // bytes that are combined at a time

struct InterleavePlan {
  Interleave spec;
  LoopFunction function = nullptr;
  int64_t element = 4;  // bytes
  bool streamed = false;

  // out = `from` op `other`, `bytes` of them. The first half of the scratch is full of `other`.
  void combine(const KernelArgs& args, const std::byte* from, int64_t bytes, std::byte* out) const {
    if (!streamed) return function(out, from, args.scratch, nullptr, bytes / element, 0);
    std::byte* const made = args.scratch + kZippedChunk;
    function(made, from, args.scratch, nullptr, bytes / element, 0);
    stream_function()(out, made, bytes);
  }

  // Elements in turn; of the first array one more if n is odd.
  void in_turn(const std::byte* a, const std::byte* b, int64_t n, std::byte* to) const {
    loop_strides(element).in_turn(to, a, b, n / 2);
    if (n % 2 != 0)
      std::memcpy(to + (n - 1) * element, a + n / 2 * element, static_cast<size_t>(element));
  }

  // How many bytes come next, so that those behind begin a line.
  static int64_t next(const std::byte* out, int64_t bytes) {
    return std::min(bytes,
                    kZippedChunk - static_cast<int64_t>(reinterpret_cast<uintptr_t>(out) % 64));
  }

  // Elements [first, last) along the dim, the first one even, of row `row`.
  void run_row(const KernelArgs& args, int64_t row, int64_t first, int64_t last) const {
    const int64_t block = spec.inner * element, odds = spec.size / 2, evens = spec.size - odds;
    const std::byte* a = args.operands[0] + (row * evens + first / 2) * block;
    const std::byte* b = args.operands[1] + (row * odds + first / 2) * block;
    std::byte* out = args.results[0] + (row * spec.size + first) * block;
    if (spec.inner == 1) {
      std::byte* const zipped = args.scratch + 2 * kZippedChunk;
      for (int64_t n = 0; first < last; first += n, out += n * element) {
        n = std::min(last - first, std::max<int64_t>(next(out, kZippedChunk) / element / 2, 1) * 2);
        in_turn(a, b, n, zipped);
        combine(args, zipped, n * element, out);
        a += n / 2 * element;
        b += n / 2 * element;
      }
      return;
    }
    for (; first < last; ++first, out += block) {
      const std::byte*& from = first % 2 == 0 ? a : b;
      for (int64_t at = 0, bytes = 0; at < block; at += bytes) {
        bytes = next(out + at, block - at);
        combine(args, from + at, bytes, out + at);
      }
      from += block;
    }
  }

  void run(const KernelArgs& args, int64_t parts) const {
    for (int64_t at = 0; at < kZippedChunk; at += element)
      std::memcpy(args.scratch + at, spec.other.bytes().data(), static_cast<size_t>(element));
    // Pairs of elements, of all rows.
    const int64_t pairs = spec.size / 2 + spec.size % 2, all = spec.outer * pairs;
    int64_t pair = args.part * all / parts;
    const int64_t end = (args.part + 1) * all / parts;
    while (pair < end) {
      const int64_t first = pair % pairs, count = std::min(pairs - first, end - pair);
      run_row(args, pair / pairs, 2 * first, std::min(2 * (first + count), spec.size));
      pair += count;
    }
    if (streamed) flush_stream();
  }
};

}  // namespace

PreparedKernel prepare_interleave(Interleave spec) {
  const DType type = spec.other.dtype();
  if (!has_loop_functions(type)) return {};
  InterleavePlan plan{spec, find_loop_function(spec.op, type, type), dtype_size(type)};
  if (plan.function == nullptr) return {};
  const int64_t elements = spec.outer * spec.size * spec.inner;
  plan.streamed = is_streamed(elements * plan.element);
  PreparedKernel kernel;
  kernel.scratch_bytes = 3 * kZippedChunk;
  kernel.parts = std::clamp<int64_t>(elements / 65536, 1, 8);
  kernel.cost = 100 + 0.1 * static_cast<double>(elements);
  kernel.run = [plan = std::move(plan), parts = kernel.parts](const KernelArgs& args) {
    plan.run(args, parts);
  };
  return kernel;
}

}  // namespace gspmd
