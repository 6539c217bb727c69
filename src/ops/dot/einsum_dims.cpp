// Products of two operands seen as einsums: dots, and the window dims of convolutions that are
// batch, free or contracting dims in disguise.

#include <algorithm>
#include <cstdlib>

#include "ops/common/completion.h"
#include "ops/common/completion_rules.h"
#include "ops/convolution/convolution.h"
#include "ops/dot/dot.h"

namespace gspmd {
namespace {

using Dim = EinsumDims::Dim;

bool contains(const Dims& dims, int64_t d) {
  return std::find(dims.begin(), dims.end(), d) != dims.end();
}

EinsumDims dot_dims(const Node& node) {
  const DotDims& dot = *node.attrs.dot;
  EinsumDims dims;
  int64_t out = 0;
  for (size_t i = 0; i < dot.lhs_batch.size(); ++i)
    dims.batch.push_back({dot.lhs_batch[i], dot.rhs_batch[i], out++});
  for (size_t i = 0; i < dot.lhs_contracting.size(); ++i)
    dims.contracting.push_back({dot.lhs_contracting[i], dot.rhs_contracting[i], -1});
  for (int64_t d = 0; d < node.operand(0)->rank(); ++d)
    if (!contains(dot.lhs_batch, d) && !contains(dot.lhs_contracting, d))
      dims.lhs_free.push_back({d, -1, out++});
  for (int64_t d = 0; d < node.operand(1)->rank(); ++d)
    if (!contains(dot.rhs_batch, d) && !contains(dot.rhs_contracting, d))
      dims.rhs_free.push_back({-1, d, out++});
  return dims;
}

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

EinsumDims convolution_dims(const Node& node) {
  const ConvDims& conv = *node.attrs.conv;
  EinsumDims dims;
  dims.lhs_free.push_back({conv.input_batch, -1, conv.output_batch});
  dims.rhs_free.push_back({-1, conv.kernel_output_feature, conv.output_feature});
  dims.contracting.push_back({conv.input_feature, conv.kernel_input_feature, -1});
  for (size_t i = 0; i < conv.input_spatial.size(); ++i) {
    const WindowDim w = i < node.attrs.window.size() ? node.attrs.window[i] : WindowDim{};
    const Dim dim{conv.input_spatial[i], conv.kernel_spatial.at(i), conv.output_spatial.at(i)};
    const int64_t lhs = node.operand(0)->dim(dim.lhs);
    const int64_t rhs = node.operand(1)->dim(dim.rhs);
    const int64_t out = node.dim(dim.out);
    const bool unpadded = w.pad_low == 0 && w.pad_high == 0;
    if (is_parallel(w, lhs, rhs, out))
      dims.batch.push_back(dim);
    else if (lhs == w.size && unpadded && w.base_dilation == 1 && w.window_dilation == 1 &&
             !w.reversal)
      dims.contracting.push_back(dim);
    else if (is_plain(w) && w.size == 1 && unpadded)
      dims.lhs_free.push_back(dim);
    else if (is_plain(w) && lhs == 1 && w.reversal && w.pad_low == rhs - 1 && w.pad_high == rhs - 1)
      dims.rhs_free.push_back(dim);
    else
      dims.spatial.push_back(dim);
  }
  return dims;
}

}  // namespace

EinsumDims einsum_dims(const Node& node) {
  return node.is(Opcode::dot) ? dot_dims(node) : convolution_dims(node);
}

bool completes_as_einsum(const Node& node) {
  if (node.is(Opcode::dot)) return true;
  const EinsumDims dims = einsum_dims(node);
  if (dims.spatial.empty()) return true;
  const ConvDims& conv = *node.attrs.conv;
  if (conv.batch_group_count != 1 || conv.feature_group_count != 1) return false;
  const Sharding* lhs = tiled_leaf(*node.operand(0));
  const Sharding* rhs = tiled_leaf(*node.operand(1));
  return std::none_of(dims.spatial.begin(), dims.spatial.end(), [&](const Dim& d) {
    return (lhs && lhs->tiles(d.lhs) > 1) || (rhs && rhs->tiles(d.rhs) > 1);
  });
}

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

Sharding einsum_result(const Node& node, const EinsumDims& dims, int64_t operand) {
  const Node& from = *node.operand(operand);
  Dims source(static_cast<size_t>(node.rank()), -1);
  const auto side = [&](const Dim& d) { return operand == 0 ? d.lhs : d.rhs; };
  const auto map = [&](const Dim& d) {
    if (d.out >= 0 && side(d) >= 0) source[static_cast<size_t>(d.out)] = side(d);
  };
  for (const Dim& d : dims.batch) map(d);
  for (const Dim& d : operand == 0 ? dims.lhs_free : dims.rhs_free) map(d);
  return select_dims(*from.sharding, source);
}

Sharding einsum_operand(const Node& node, const EinsumDims& dims, int64_t operand,
                        const Sharding& result) {
  Dims source(static_cast<size_t>(node.operand(operand)->rank()), -1);
  const auto map = [&](const Dim& d) {
    const int64_t mine = operand == 0 ? d.lhs : d.rhs;
    if (mine >= 0) source[static_cast<size_t>(mine)] = d.out;
  };
  for (const Dim& d : dims.batch) map(d);
  for (const Dim& d : operand == 0 ? dims.lhs_free : dims.rhs_free) map(d);
  return select_dims(result, source);
}

Sharding einsum_other_operand(const Node& node, const EinsumDims& dims, int64_t operand,
                              const Sharding& other) {
  Dims source(static_cast<size_t>(node.operand(operand)->rank()), -1);
  const auto map = [&](const Dim& d) {
    source[static_cast<size_t>(operand == 0 ? d.lhs : d.rhs)] = operand == 0 ? d.rhs : d.lhs;
  };
  for (const Dim& d : dims.batch) map(d);
  for (const Dim& d : dims.contracting) map(d);
  return select_dims(other, source);
}

std::vector<OperandSuggestion> einsum_suggestions(const Node& reader, int64_t operand,
                                                  CompletionMode) {
  const Sharding* result = tiled_leaf(reader);
  if (operand > 1 || !result) return {};
  const EinsumDims dims = einsum_dims(reader);
  if (!dims.spatial.empty()) return {};
  std::vector<OperandSuggestion> said{{einsum_operand(reader, dims, operand, *result)}};
  // The other operand has a say in the loops that the result does not see.
  if (const Sharding* other = tiled_leaf(*reader.operand(1 - operand)))
    said.push_back({einsum_other_operand(reader, dims, operand, *other), 1 - operand});
  return said;
}

}  // namespace gspmd
