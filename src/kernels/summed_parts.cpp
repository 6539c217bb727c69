#include "kernels/summed_parts.h"

#include <array>
#include <span>

#include "gspmd/base/shape.h"
#include "kernels/rows.h"

namespace gspmd {

int64_t summed_step(int64_t bytes) { return ceil_div(bytes, 64) * 64; }

void sum_parts(PreparedKernel& kernel, int64_t count, int64_t bytes) {
  constexpr int64_t kParts = 4;
  kernel.shared_bytes = count * summed_step(bytes);
  kernel.parts = kParts;
  kernel.run = [count, step = summed_step(bytes), elements = bytes / 4,
                sum = find_sum_rows(DType::f32)](const KernelArgs& args) {
    const int64_t begin = args.part * elements / kParts * 4;
    const int64_t end = (args.part + 1) * elements / kParts * 4;
    std::array<const std::byte*, kMostSummed> from{};
    for (int64_t p = 0; p < count; ++p)
      from[static_cast<size_t>(p)] = args.shared + p * step + begin;
    std::byte* const to = args.results[0] + begin;
    sum({1, end - begin}, std::span(&to, 1), 0, std::span(from).first(static_cast<size_t>(count)),
        0, false);
  };
}

}  // namespace gspmd
