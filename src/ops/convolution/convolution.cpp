#include "ops/convolution/convolution.h"

#include "gspmd/base/error.h"
#include "ops/common/batch.h"
#include "ops/common/check.h"
#include "ops/common/completion_rules.h"
#include "ops/common/factors.h"
#include "ops/common/widen.h"
#include "ops/convolution/gradient.h"
#include "ops/dot/dot.h"
#include "ops/rows.h"
#include "ops/window/window.h"

namespace gspmd {
namespace {

int64_t dim_of(const Shape& shape, int64_t d) { return shape.dims[static_cast<size_t>(d)]; }

// Two feature-like dims and the spatial ones: every dim of the array exactly once.
void check_labels(const Node& node, const char* side, const Shape& shape, int64_t first,
                  int64_t second, const Dims& spatial) {
  Dims all{first, second};
  all.insert(all.end(), spatial.begin(), spatial.end());
  if (static_cast<int64_t>(all.size()) != shape.rank())
    user_error("convolution: dim_labels name {} dims of the {}, which is {}", all.size(), side,
               to_string(shape));
  check_dim_list(node, fmt::format("dim_labels of the {} ", side), all, shape.rank());
}

void check_groups(const Shape& lhs, const Shape& rhs, const ConvDims& conv) {
  const int64_t groups = conv.feature_group_count, batches = conv.batch_group_count;
  const int64_t in = dim_of(lhs, conv.input_feature), batch = dim_of(lhs, conv.input_batch);
  const int64_t kernel_in = dim_of(rhs, conv.kernel_input_feature);
  const int64_t out = dim_of(rhs, conv.kernel_output_feature);
  if (groups < 1 || batches < 1 || (groups > 1 && batches > 1))
    user_error(
        "convolution: feature_group_count={}, batch_group_count={}; both are at least 1 and "
        "one of them is 1",
        groups, batches);
  if (in % groups != 0 || in / groups != kernel_in)
    user_error(
        "convolution: {} has {} input features in {} groups, the kernel {} has {}; it needs "
        "input features / feature_group_count",
        to_string(lhs), in, groups, to_string(rhs), kernel_in);
  if (out % groups != 0)
    user_error(
        "convolution: the {} output features of {} do not divide into "
        "feature_group_count={}",
        out, to_string(rhs), groups);
  if (batch % batches != 0 || out % batches != 0)
    user_error(
        "convolution: batch {} and output features {} have to divide into "
        "batch_group_count={}",
        batch, out, batches);
}

Shape infer_convolution(const Node& node) {
  check_operand_count(node, 2);
  const Shape& lhs = array_operand(node, 0);
  const Shape& rhs = array_operand(node, 1);
  const ConvDims& conv = *node.attrs.conv;
  if (conv.input_spatial.size() != conv.kernel_spatial.size() ||
      conv.input_spatial.size() != conv.output_spatial.size())
    user_error(
        "convolution: dim_labels name {}, {} and {} spatial dims; input, kernel and output "
        "have equally many",
        conv.input_spatial.size(), conv.kernel_spatial.size(), conv.output_spatial.size());
  check_labels(node, "input", lhs, conv.input_batch, conv.input_feature, conv.input_spatial);
  check_labels(node, "kernel", rhs, conv.kernel_input_feature, conv.kernel_output_feature,
               conv.kernel_spatial);
  Shape result(declared_array(node).dtype, Dims(lhs.dims.size(), 0));
  check_labels(node, "output", result, conv.output_batch, conv.output_feature, conv.output_spatial);
  check_product_types(node);
  check_groups(lhs, rhs, conv);
  Dims spatial;
  for (const int64_t d : conv.input_spatial) spatial.push_back(dim_of(lhs, d));
  const Dims positions = window_positions(node, node.attrs.window, spatial);
  for (size_t i = 0; i < positions.size(); ++i) {
    if (node.attrs.window[i].size != dim_of(rhs, conv.kernel_spatial[i]))
      user_error("convolution: window dim {} has size {}, the kernel {} has {}", i,
                 node.attrs.window[i].size, to_string(rhs), dim_of(rhs, conv.kernel_spatial[i]));
    result.dims[static_cast<size_t>(conv.output_spatial[i])] = positions[i];
  }
  result.dims[static_cast<size_t>(conv.output_batch)] =
      dim_of(lhs, conv.input_batch) / conv.batch_group_count;
  result.dims[static_cast<size_t>(conv.output_feature)] = dim_of(rhs, conv.kernel_output_feature);
  return checked_size(node, std::move(result));
}

// Input and kernel may be split alike along spatial dim i: the form of a gradient for the kernel.
void add_kernel_sum(FactorRule& rule, const Node& node, size_t i) {
  constexpr int64_t kMost = int64_t(1) << 20;
  const ConvDims& conv = *node.attrs.conv;
  const WindowDim& w = node.attrs.window[i];
  const int64_t size = node.operand(0)->dim(conv.input_spatial[i]);
  const int64_t positions = node.dim(conv.output_spatial[i]);
  if (!is_floating(node.shape.dtype) || node.shape.elements_count() == 0 || w.base_dilation != 1 ||
      w.size >= kMost || w.window_dilation >= 256 || w.stride >= 256 || positions >= kMost ||
      w.pad_low >= kMost || w.pad_low <= -kMost || size == 0 || size >= kMost)
    return;
  WindowStep step{.step = w.window_dilation, .low = w.pad_low};
  step.reach = (positions - 1) * w.stride + 1;
  if (w.reversal) {
    step.step = -w.window_dilation;
    step.low -= (w.size - 1) * w.window_dilation;
  }
  rule.sums.push_back(
      {{w.size, FactorKind::reduction}, conv.input_spatial[i], conv.kernel_spatial[i], step});
}

// Groups tie parts of several dims together: those dims have to be whole, or groups of them are
// split.
FactorRule convolution_factors(const Node& node) {
  const ConvDims& conv = *node.attrs.conv;
  FactorRule rule = no_factors(node);
  const auto lhs = [&](int64_t d) -> int64_t& { return rule.operands[0][static_cast<size_t>(d)]; };
  const auto rhs = [&](int64_t d) -> int64_t& { return rule.operands[1][static_cast<size_t>(d)]; };
  const auto out = [&](int64_t d) -> int64_t& { return rule.results[0][static_cast<size_t>(d)]; };
  if (conv.batch_group_count == 1) {
    lhs(conv.input_batch) = out(conv.output_batch) = add_factor(rule, node.dim(conv.output_batch));
  } else {
    block_operand(rule, node, 0, conv.input_batch);
    block_result(rule, node, conv.output_batch);
  }
  const bool grouped = conv.feature_group_count > 1 || conv.batch_group_count > 1;
  rhs(conv.kernel_output_feature) = out(conv.output_feature) = add_factor(
      rule, node.dim(conv.output_feature), grouped ? FactorKind::blocked : FactorKind::pass);
  if (conv.feature_group_count == 1) {
    const Combiner combiner =
        node.shape.dtype == DType::pred ? Combiner::logical_or : Combiner::sum;
    lhs(conv.input_feature) = rhs(conv.kernel_input_feature) =
        add_factor(rule, node.operand(0)->dim(conv.input_feature), FactorKind::reduction, combiner);
  } else {
    block_operand(rule, node, 0, conv.input_feature);
    block_operand(rule, node, 1, conv.kernel_input_feature);
  }
  for (size_t i = 0; i < conv.input_spatial.size(); ++i) {
    const bool pass = is_trivial(node.attrs.window[i]);
    lhs(conv.input_spatial[i]) = out(conv.output_spatial[i]) = add_factor(
        rule, node.dim(conv.output_spatial[i]), pass ? FactorKind::pass : FactorKind::window);
    block_operand(rule, node, 1, conv.kernel_spatial[i]);
    if (!pass) add_window(rule, 0, conv.input_spatial[i], window_step(node.attrs.window[i]));
    add_kernel_sum(rule, node, i);
  }
  if (grouped && node.shape.elements_count() != 0)
    rule.groups = {conv.feature_group_count > 1 ? conv.input_feature : conv.input_batch,
                   out(conv.output_feature),
                   std::max(conv.feature_group_count, conv.batch_group_count)};
  rule.outside = 0;
  return rule;
}

// What is fetched has its padding and holes; the kernel may be a part, and parts have as many
// groups as fit into them.
Attributes convolution_on_part(const Node& node, const NodePart& part) {
  Attributes attrs = node.attrs;
  ConvDims& conv = attrs.conv.edit();
  const Shape &lhs = part.operands[0], &rhs = part.operands[1];
  for (size_t i = 0; i < conv.input_spatial.size(); ++i) {
    if (part.dims[static_cast<size_t>(conv.input_spatial[i])] != PartDim::fetched) continue;
    WindowDim& w = attrs.window.edit()[i];
    w.size = dim_of(rhs, conv.kernel_spatial[i]);
    w.pad_low = w.pad_high = 0;
    w.base_dilation = 1;
  }
  const auto groups = [](int64_t size, int64_t group) {
    return std::max<int64_t>(1, size / group);
  };
  if (conv.feature_group_count > 1 && dim_of(rhs, conv.kernel_input_feature) > 0)
    conv.feature_group_count =
        groups(dim_of(lhs, conv.input_feature), dim_of(rhs, conv.kernel_input_feature));
  if (conv.batch_group_count > 1 && dim_of(part.results[0], conv.output_batch) > 0)
    conv.batch_group_count =
        groups(dim_of(lhs, conv.input_batch), dim_of(part.results[0], conv.output_batch));
  return attrs;
}

// How many elements the windows of one dim meet together; padding and holes are not multiplied.
int64_t met_elements(const WindowDim& dim, int64_t input_size, int64_t positions) {
  constexpr int64_t kCounted = 1 << 16;
  if (positions > kCounted) return saturating_multiply(positions, dim.size) / dim.base_dilation;
  int64_t met = 0;
  for (const WindowRun& run : window_runs(dim, input_size, positions)) met += run.count;
  return met;
}

int64_t convolution_flops(const Node& node) {
  const ConvDims& conv = *node.attrs.conv;
  int64_t flops = saturating_multiply(2, node.dim(conv.output_batch));
  flops = saturating_multiply(flops, node.dim(conv.output_feature));
  flops = saturating_multiply(flops, node.operand(1)->dim(conv.kernel_input_feature));
  for (size_t i = 0; i < conv.input_spatial.size(); ++i)
    flops = saturating_multiply(
        flops, met_elements(node.attrs.window[i], node.operand(0)->dim(conv.input_spatial[i]),
                            node.dim(conv.output_spatial[i])));
  return flops;
}

const OpInfo kConvolutionRows[] = {
    {.opcode = Opcode::convolution,
     .traits = kLinearInEach | kIntegerPreserving,
     .operands = {2, 2},
     .infer = infer_convolution,
     .factors = convolution_factors,
     .evaluate = any_width<evaluate_convolution>,
     .gradient = convolution_gradient,
     .completion = {.forward = convolution_forward,
                    .suggestions = convolution_suggestions,
                    .nest = convolution_nest,
                    .speakers = Speakers::all,
                    .operands_confer = true,
                    .weighed = true},
     .on_part = convolution_on_part,
     .lower = lower_convolution,
     .flops = convolution_flops,
     .batch = batch_convolution},
};

}  // namespace

std::span<const OpInfo> convolution_rows() { return kConvolutionRows; }

}  // namespace gspmd
