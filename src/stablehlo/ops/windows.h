#pragma once

#include "stablehlo/lowering.h"

namespace gspmd::stablehlo {

// The names of a window's attributes; empty: the op has none.
struct WindowNames {
  std::string_view strides, base_dilations, window_dilations, reversal;
};

// A window of these sizes with what the op's attributes say of it.
std::vector<WindowDim> window_of(const OpLowering& op, const Dims& sizes, const WindowNames& names,
                                 const std::vector<std::pair<int64_t, int64_t>>& padding);

// The attribute `padding`, [n,2] numbers; none where it is absent.
std::vector<std::pair<int64_t, int64_t>> padding_of(const OpLowering& op, size_t dims);

// The attributes of a convolution whose kernel is operand 1.
Attributes convolution_attributes(OpLowering& op,
                                  const std::vector<std::pair<int64_t, int64_t>>& padding);

// "precision_config" as HLO's operand_precision.
void add_precision(const OpLowering& op, Attributes& attrs);
// "algorithm" by HLO's name.
void add_algorithm(const OpLowering& op, Attributes& attrs);

}  // namespace gspmd::stablehlo
