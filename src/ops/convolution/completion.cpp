// A convolution's loop nest as completion sees it: window dims that are batch, free or contracting
// dims in disguise are such loops.

#include "ops/common/completion.h"

#include <algorithm>
#include <cstdlib>

#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/convolution/convolution.h"

namespace gspmd {
namespace {

// Position k of the input meets element k of the kernel in position k of the result, and nothing
// else meets anything: one group per position. Two spellings are known; small dims are counted out.
bool is_parallel(const WindowDim& w, int64_t lhs, int64_t rhs, int64_t out) {
  constexpr int64_t kCountable = 128, kMost = int64_t{1} << 40;
  if (lhs != rhs || lhs != out || lhs < 1 || (lhs == 1 && w.reversal)) return false;
  if (std::max({w.stride, w.window_dilation, w.base_dilation, std::abs(w.pad_low)}) > kMost ||
      w.base_dilation < 1)
    return false;
  if (lhs > kCountable)
    return w.stride == lhs - 1 && w.base_dilation == lhs && w.window_dilation == 1 &&
           w.pad_low == 0 && !w.reversal;
  for (int64_t o = 0; o < out; ++o)
    for (int64_t k = 0; k < rhs; ++k) {
      const int64_t tap = w.reversal ? rhs - 1 - k : k;
      const int64_t at = o * w.stride + tap * w.window_dilation - w.pad_low;
      const bool meets = at >= 0 && at % w.base_dilation == 0 && at / w.base_dilation < lhs;
      if (meets != (o == k)) return false;
      if (meets && at / w.base_dilation != o) return false;
    }
  return true;
}

bool is_plain(const WindowDim& w) {
  return w.stride == 1 && w.window_dilation == 1 && w.base_dilation == 1;
}

// Who shares the loop that a window dim is; nobody: a window indeed.
struct SpatialLoop {
  bool input = false, kernel = false, result = false;
};

SpatialLoop spatial_loop(const WindowDim& w, int64_t lhs, int64_t rhs, int64_t out) {
  const bool unpadded = w.pad_low == 0 && w.pad_high == 0;
  if (is_parallel(w, lhs, rhs, out)) return {true, true, true};
  if (lhs == w.size && unpadded && w.base_dilation == 1 && w.window_dilation == 1 && !w.reversal)
    return {true, true, false};
  if (is_plain(w) && w.size == 1 && unpadded) return {true, false, true};
  if (is_plain(w) && lhs == 1 && w.reversal && w.pad_low == rhs - 1 && w.pad_high == rhs - 1)
    return {false, true, true};
  return {};
}

bool is_window(const FactorRule& rule, int64_t factor) {
  return factor >= 0 && rule.factors[static_cast<size_t>(factor)].kind == FactorKind::window;
}

bool has_windows(const FactorRule& rule) {
  return std::any_of(rule.factors.begin(), rule.factors.end(),
                     [](const Factor& f) { return f.kind == FactorKind::window; });
}

// No window at all, or none that is split, and no groups.
bool completes_as_einsum(const Node& node, const FactorRule& nest) {
  if (!has_windows(nest)) return true;
  const ConvDims& conv = *node.attrs.conv;
  if (conv.batch_group_count != 1 || conv.feature_group_count != 1) return false;
  for (int64_t i = 0; i < 2; ++i)
    if (const Sharding* s = tiled_leaf(*node.operand(i)))
      for (int64_t d = 0; d < node.operand(i)->rank(); ++d)
        if (is_window(nest, nest.operands[static_cast<size_t>(i)][static_cast<size_t>(d)]) &&
            s->tiles(d) > 1)
          return false;
  return true;
}

// The window is smaller than the result, so that a shard of the input gives a shard of the result.
bool has_small_kernel(const Node& node) {
  const ConvDims& conv = *node.attrs.conv;
  int64_t kernel_taps = 1, positions = 1;
  for (size_t i = 0; i < conv.kernel_spatial.size(); ++i) {
    const int64_t kernel = node.operand(1)->dim(conv.kernel_spatial[i]);
    const int64_t out = node.dim(conv.output_spatial.at(i));
    kernel_taps = saturating_multiply(kernel_taps, kernel);
    positions = saturating_multiply(positions, out);
    // A third and later dim of at most three taps may cover its result, as long as the window as a
    // whole does not.
    if (kernel >= out && (i < 2 || kernel > 3 || kernel_taps >= positions)) return false;
  }
  return true;
}

Proposals beside_nest(const Sharding& from_input) {
  return {{.sharding = from_input, .operand = 0, .beside_nest = true}};
}

}  // namespace

FactorRule convolution_nest(const Node& node, CompletionMode) {
  const ConvDims& conv = *node.attrs.conv;
  FactorRule rule = no_factors(node);
  // Completion asks for no sizes.
  const auto add = [&](int64_t lhs, int64_t rhs, int64_t out, FactorKind kind = FactorKind::pass) {
    const int64_t factor = add_factor(rule, 1, kind);
    if (lhs >= 0) rule.operands[0].at(static_cast<size_t>(lhs)) = factor;
    if (rhs >= 0) rule.operands[1].at(static_cast<size_t>(rhs)) = factor;
    if (out >= 0) rule.results[0].at(static_cast<size_t>(out)) = factor;
  };
  add(conv.input_batch, -1, conv.output_batch);
  add(-1, conv.kernel_output_feature, conv.output_feature);
  add(conv.input_feature, conv.kernel_input_feature, -1);
  for (size_t i = 0; i < conv.input_spatial.size(); ++i) {
    const WindowDim w = i < node.attrs.window.size() ? node.attrs.window[i] : WindowDim{};
    const int64_t in = conv.input_spatial[i], kernel = conv.kernel_spatial.at(i);
    const int64_t out = conv.output_spatial.at(i);
    const auto [input, taps, result] =
        spatial_loop(w, node.operand(0)->dim(in), node.operand(1)->dim(kernel), node.dim(out));
    if (input || taps || result) {
      add(input ? in : -1, taps ? kernel : -1, result ? out : -1);
    } else {
      add(in, -1, -1, FactorKind::window);
      add(-1, kernel, -1, FactorKind::window);
    }
  }
  return rule;
}

// As an einsum; else, beside its split window dims, a small kernel leaves the result where the
// input is, and of what a large one makes only the batch is known.
Proposals convolution_forward(const Node& node, CompletionMode mode) {
  const Sharding* s = tiled_leaf(*node.operand(0));
  if (!s && !tiled_leaf(*node.operand(1))) return {};
  FactorRule nest = convolution_nest(node, mode);
  if (completes_as_einsum(node, nest)) return nest_forward(node, mode, std::move(nest));
  const ConvDims& conv = *node.attrs.conv;
  if (!s) return {};
  if (s->is_replicated()) return beside_nest(*s);
  Dims source(static_cast<size_t>(node.rank()), -1);
  source.at(static_cast<size_t>(conv.output_batch)) = conv.input_batch;
  if (has_small_kernel(node)) {
    // Whole groups of features stay together.
    if (conv.feature_group_count % s->tiles(conv.input_feature) != 0) return {};
    source.at(static_cast<size_t>(conv.output_feature)) = conv.input_feature;
    for (size_t i = 0; i < conv.output_spatial.size(); ++i)
      source.at(static_cast<size_t>(conv.output_spatial[i])) = conv.input_spatial.at(i);
  }
  return beside_nest(select_dims(*s, source));
}

Suggestions convolution_suggestions(const Node& reader, int64_t operand, CompletionMode mode) {
  if (!tiled_leaf(reader)) return {};
  FactorRule nest = convolution_nest(reader, mode);
  if (has_windows(nest)) return {};
  return nest_suggestions(reader, operand, mode, std::move(nest));
}

}  // namespace gspmd
