#pragma once

// Convolutions by the sums that define them, and their arrays in any order of dims.

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "gspmd/base/array.h"
#include "gspmd/kernels/convolution.h"

namespace gspmd {

// A spec and how many elements its arrays have.
struct ConvolutionCase {
  ConvolutionSpec spec;
  int64_t input = 1, kernel = 1, result = 1;
};

inline int64_t count_of_sizes(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// Of a dense array whose dims are `order`, major first, of `sizes`.
inline std::vector<int64_t> dense_steps(const std::vector<size_t>& order,
                                        const std::vector<int64_t>& sizes) {
  std::vector<int64_t> steps(sizes.size());
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0; step *= sizes[order[i]]) steps[order[i]] = step;
  return steps;
}

// Calls f(index) for all indices below `sizes`, in order.
template <class F>
void each_index(const std::vector<int64_t>& sizes, F&& f) {
  std::vector<int64_t> index(sizes.size(), 0);
  for (int64_t n = count_of_sizes(sizes); n > 0; --n) {
    f(index);
    for (size_t d = sizes.size(); d-- > 0; index[d] = 0)
      if (++index[d] < sizes[d]) break;
  }
}

// In f64.
inline Array convolution_sums(const ConvolutionCase& c, const Array& x, const Array& w) {
  const ConvolutionSpec& s = c.spec;
  std::vector<double> sums(static_cast<size_t>(c.result), 0.0);
  std::vector<int64_t> positions, taps;
  for (const ConvolutionAxis& a : s.axes) positions.push_back(a.output), taps.push_back(a.kernel);
  each_index(positions, [&](const std::vector<int64_t>& o) {
    each_index(taps, [&](const std::vector<int64_t>& k) {
      int64_t from = 0, by = 0, to = 0;
      for (size_t i = 0; i < s.axes.size(); ++i) {
        const ConvolutionAxis& a = s.axes[i];
        const int64_t spread = o[i] * a.stride + k[i] * a.window_dilation - a.pad_low;
        const int64_t at = spread / a.base_dilation;
        if (spread < 0 || spread % a.base_dilation != 0 || at >= a.input) return;
        from += at * a.input_step;
        by += (a.reversal ? a.kernel - 1 - k[i] : k[i]) * a.kernel_step;
        to += o[i] * a.output_step;
      }
      const int64_t sharing = s.out_features / s.feature_groups;
      const int64_t of_batch = s.out_features / s.batch_groups;
      for (int64_t b = 0; b < s.batch; ++b)
        for (int64_t f = 0; f < s.out_features; ++f)
          for (int64_t i = 0; i < s.in_features; ++i)
            sums[static_cast<size_t>(to + b * s.output_batch + f * s.output_feature)] +=
                x.at(from + (f / of_batch * s.batch + b) * s.input_batch +
                     (f / sharing * s.in_features + i) * s.input_feature) *
                w.at(by + f * s.kernel_output + i * s.kernel_input);
    });
  });
  Array y(Shape(s.result, {c.result}));
  for (int64_t i = 0; i < c.result; ++i) y.set(i, sums[static_cast<size_t>(i)]);
  return y;
}

}  // namespace gspmd
