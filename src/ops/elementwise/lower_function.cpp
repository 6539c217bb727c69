// Functions that loops do not have, of floats of up to 32 bits: in vectors of doubles, in parts.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "gspmd/kernels/prepared_kernel.h"
#include "kernels/rare_functions.h"
#include "ops/common/numeric.h"
#include "ops/elementwise/elementwise.h"

namespace gspmd {
namespace {

constexpr double kAllNumbers = std::numeric_limits<double>::max();

// Between `least` and `most`, neither included, vectors have the function.
struct RareFunctionRow {
  Opcode opcode;
  RareFunction function;
  double least, most;
};
constexpr RareFunctionRow kRareFunctions[] = {
    {Opcode::acos, RareFunction::acos, -1, 1},
    {Opcode::acosh, RareFunction::acosh, 1, kAllNumbers},
    {Opcode::asin, RareFunction::asin, -1, 1},
    {Opcode::asinh, RareFunction::asinh, -kAllNumbers, kAllNumbers},
    {Opcode::atanh, RareFunction::atanh, -1, 1},
    {Opcode::cosh, RareFunction::cosh, -88, 88},
    {Opcode::sinh, RareFunction::sinh, -88, 88},
};

// Where the vectors' number may be rounded otherwise than the evaluator's, this is computed.
template <class T>
void run_rare(const RareFunctionRow& row, const T* in, int64_t n, T* out) {
  constexpr int64_t kBlock = 256;
  constexpr double kDifference = 0x1p-42;  // more than that of both
  const RareLoop loop = rare_loop(row.function);
  const RealFunction exact = real_function(row.opcode);
  double x[kBlock + 8] = {}, y[kBlock + 8];
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t count = std::min(kBlock, n - first);
    for (int64_t i = 0; i < count; ++i) x[i] = convert_element<double>(in[first + i]);
    loop(x, count, y);
    for (int64_t i = 0; i < count; ++i) {
      const T least = convert_element<T>(y[i] * (1 - kDifference));
      const T most = convert_element<T>(y[i] * (1 + kDifference));
      const bool is_sure = x[i] > row.least && x[i] < row.most && x[i] != 0 &&
                           std::memcmp(&least, &most, sizeof(T)) == 0;
      out[first + i] = is_sure ? least : convert_element<T>(exact(x[i]));
    }
  }
}

}  // namespace

PreparedKernel lower_function(const Node& node) {
  const auto* const row =
      std::find_if(std::begin(kRareFunctions), std::end(kRareFunctions),
                   [&](const RareFunctionRow& r) { return r.opcode == node.opcode(); });
  if (row == std::end(kRareFunctions) || !is_floating(node.shape.dtype) ||
      !is_computable(node.shape.dtype))
    return {};
  return visit_dtype(node.shape.dtype, [&](auto tag) -> PreparedKernel {
    using T = typename decltype(tag)::type;
    PreparedKernel kernel;
    if constexpr (is_float_v<T> && sizeof(T) <= 4) {
      const int64_t n = node.shape.elements_count();
      kernel.parts = std::clamp<int64_t>(n / 4096, 1, 16);
      kernel.cost = 100 + 5.0 * static_cast<double>(n);
      kernel.run = [row = *row, n, parts = kernel.parts](const KernelArgs& args) {
        const int64_t first = args.part * n / parts, last = (args.part + 1) * n / parts;
        run_rare(row, reinterpret_cast<const T*>(args.operands[0]) + first, last - first,
                 reinterpret_cast<T*>(args.results[0]) + first);
      };
    }
    return kernel;
  });
}

}  // namespace gspmd
