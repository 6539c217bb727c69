#include <algorithm>
#include <optional>

#include "ops/convolution/convolution.h"

namespace gspmd {
namespace {

// How elements of a value lie in what a convolution reads: `spread` apart, so many places before
// and behind them.
struct Lying {
  int64_t spread = 1, low = 0, high = 0;
};

bool is_nothing(const Lying& lying) {
  return lying.spread == 1 && lying.low == 0 && lying.high == 0;
}

bool is_zero(const Node& value) {
  return value.is(Opcode::constant) && !value.attrs.literal.empty() &&
         value.attrs.literal.at(0) == 0.0;
}

// How the operand of a slice or pad lies in its result, by dim; nothing where other ops are between
// them, other steps, or another value than 0.
std::vector<Lying> lying_in(Node& node) {
  std::vector<Lying> lying;
  const auto one = [](int64_t stride) { return stride == 1; };
  if (node.is(Opcode::slice) &&
      std::all_of(node.attrs.strides.begin(), node.attrs.strides.end(), one)) {
    for (size_t d = 0; d < node.dims().size(); ++d)
      lying.push_back(
          {1, -node.attrs.starts[d], node.attrs.limits[d] - node.operand(0)->dims()[d]});
  } else if (node.is(Opcode::pad) && is_zero(*node.operand(1))) {
    for (const PaddingDim& p : node.attrs.padding) lying.push_back({p.interior + 1, p.low, p.high});
  }
  return lying;
}

// Whether padding by one, then by the other, is padding by the sum: what is cut first is not there
// to be read again. Negative padding cuts.
bool adds_up(int64_t first, int64_t then) { return first >= 0 || then <= 0; }

// The window as it reads the operand instead; nothing where a dim would be spread twice, zeros
// would stand where elements were cut, or what changes is no window's.
std::optional<std::vector<WindowDim>> window_over(const ConvDims& conv,
                                                  const std::vector<Lying>& lying,
                                                  std::vector<WindowDim> window) {
  const auto at = [&](int64_t d) { return lying[static_cast<size_t>(d)]; };
  if (!is_nothing(at(conv.input_batch)) || !is_nothing(at(conv.input_feature))) return {};
  for (size_t i = 0; i < window.size(); ++i) {
    const Lying l = at(conv.input_spatial[i]);
    if (is_nothing(l)) continue;
    if (window[i].base_dilation != 1 || !adds_up(l.low, window[i].pad_low) ||
        !adds_up(l.high, window[i].pad_high))
      return {};
    window[i].base_dilation = l.spread;
    window[i].pad_low += l.low;
    window[i].pad_high += l.high;
  }
  return window;
}

// Windows over spread elements have kernels where they are gradients: steps of one, and no padding
// that a whole window lies in.
bool is_gradient_of_input(const std::vector<WindowDim>& window) {
  return std::all_of(window.begin(), window.end(), [](const WindowDim& w) {
    const int64_t reach = (w.size - 1) * w.window_dilation;
    return w.stride == 1 && w.pad_low >= 0 && w.pad_low <= reach && w.pad_high >= 0 &&
           w.pad_high < reach + w.base_dilation;
  });
}

bool is_spread(const std::vector<WindowDim>& window) {
  return std::any_of(window.begin(), window.end(),
                     [](const WindowDim& w) { return w.base_dilation != 1; });
}

}  // namespace

Node* fold_padding(Node& node) {
  if (!node.is(Opcode::convolution) || !is_floating(node.operand(0)->shape.dtype)) return nullptr;
  std::vector<WindowDim> window = node.attrs.window;
  Node* x = node.operand(0);
  for (std::vector<Lying> lying; !(lying = lying_in(*x)).empty(); x = x->operand(0)) {
    auto below = window_over(*node.attrs.conv, lying, window);
    if (!below) break;
    window = std::move(*below);
  }
  if (x == node.operand(0) || x->shape.elements_count() == 0) return nullptr;
  if (is_spread(window) && !is_gradient_of_input(window)) return nullptr;
  Attributes attrs = node.attrs;
  attrs.window = std::move(window);
  return node.parent().append(Opcode::convolution, node.shape, {x, node.operand(1)},
                              std::move(attrs));
}

}  // namespace gspmd
