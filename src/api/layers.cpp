#include "gspmd/api/layers.h"

#include <algorithm>
#include <cmath>

#include "api/emit.h"
#include "gspmd/api/indexing.h"
#include "gspmd/api/linalg.h"

namespace gspmd {

using namespace detail;

namespace {

// A parameter of shape [size] as dim `axis` of x has it.
Node* parameter_along(const Operand& parameter, const char* what, Node* x, int64_t axis) {
  Node* node = node_of(parameter, x->shape.dtype);
  if (node->shape.dtype != x->shape.dtype)
    call_error("dtypes of {} and the {} {} differ; convert(x, DType::{}) one of them", describe(x),
               what, describe(node), dtype_name(x->shape.dtype));
  if (node->rank() != 1 || node->dim(0) != x->dim(axis))
    call_error("the {} {} must have one dim of {}, as dim {} of {}", what, describe(node),
               x->dim(axis), axis, describe(x));
  return node;
}

// The same along that dim.
Node* along(const Operand& parameter, const char* what, Node* x, int64_t axis) {
  return hlo::broadcast(parameter_along(parameter, what, x, axis), x->dims(), {axis});
}

Node* floating_node(const Operand& x) {
  Node* node = node_of(x);
  need_floating(node);
  return node;
}

void check_eps(double eps) {
  if (!(eps >= 0 && std::isfinite(eps))) call_error("eps {} is wrong; give 0 or more", eps);
}

Node* mean_over(Node* x, const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t d : dims) count *= x->dim(d);
  return divide(hlo::reduce_sum(x, dims), static_cast<double>(std::max<int64_t>(count, 1)));
}

// Mean and variance over some dims, without them, and x less its mean.
struct Statistics {
  Node* mean;
  Node* variance;
  Node* centered;
};
Statistics statistics_over(Node* x, const std::vector<int64_t>& dims) {
  Statistics s;
  s.mean = mean_over(x, dims);
  s.centered = subtract(x, stretch(s.mean, x->dims(), dims));
  s.variance = mean_over(multiply(s.centered, s.centered), dims);
  return s;
}

// The same, with derivatives that need fewer sums over x: the variance is taken around a constant,
// and the square of the mean's distance to it, which is 0, taken off. The mean then adds nothing to
// the variance's first derivative, as it has to, and what it adds to the second stays.
Statistics batch_statistics(Node* x, const std::vector<int64_t>& dims) {
  Statistics s;
  s.mean = mean_over(x, dims);
  Node* const pivot = stop_gradient_node(s.mean);
  Node* const around = subtract(x, stretch(pivot, x->dims(), dims));
  Node* const distance = subtract(s.mean, pivot);
  s.variance = subtract(mean_over(multiply(around, around), dims), multiply(distance, distance));
  s.centered = subtract(x, stretch(s.mean, x->dims(), dims));
  return s;
}

Node* standardized(const Statistics& s, const std::vector<int64_t>& dims, double eps) {
  Node* const scale = hlo::unary(Opcode::rsqrt, add(s.variance, eps));
  return multiply(s.centered, stretch(scale, s.centered->dims(), dims));
}

// Scale and bias along a dim of x.
struct Affine {
  Node* scale;
  Node* bias;
  Node* operator()(Node* y) const { return add(multiply(y, scale), bias); }
};
Affine affine_along(const Operand& scale, const Operand& bias, Node* x, int64_t axis) {
  Node* const factor = along(scale, "scale", x, axis);
  return {factor, along(bias, "bias", x, axis)};
}

// All dims of x but those listed.
std::vector<int64_t> dims_but(const Node* x, const std::vector<int64_t>& kept) {
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < x->rank(); ++i)
    if (std::find(kept.begin(), kept.end(), i) == kept.end()) dims.push_back(i);
  return dims;
}

// Dim `axis` as two, of these sizes.
Node* split_dim(Node* x, int64_t axis, int64_t major, int64_t minor) {
  Dims dims = x->dims();
  dims[static_cast<size_t>(axis)] = minor;
  dims.insert(dims.begin() + axis, major);
  return hlo::reshape(x, dims);
}

}  // namespace

namespace detail {

void check_sizes(const char* op, std::initializer_list<NamedSize> sizes, Site site) {
  for (const auto& [what, size] : sizes)
    if (size < 1) user_error(site, "{}: {} is {}; give 1 or more", op, what, size);
}

Tensor linear(const Operand& x, const Operand& weight, const std::optional<Operand>& bias,
              Site site) {
  return call("linear", site, [&] {
    Node* input = floating_node(x);
    Node* matrix = node_of(weight);
    if (matrix->rank() != 2)
      call_error("the weight {} must have two dims, [in,out]", describe(matrix));
    if (input->rank() == 0 || input->dims().back() != matrix->dim(0))
      call_error("the last dim of {} must be {}, dim 0 of the weight {}", describe(input),
                 matrix->dim(0), describe(matrix));
    Node* y = node_of(matmul(x, weight));
    if (bias) y = add(y, along(*bias, "bias", y, y->rank() - 1));
    return tensor_of(y);
  });
}

Tensor embed(const Operand& ids, const Operand& table, Site site) {
  return call("embedding", site, [&] {
    Node* rows = node_of(table);
    if (rows->rank() != 2)
      call_error("the table {} must have two dims, [vocab,features]", describe(rows));
    need_integer(node_of(ids), "ids");
    return take(table, ids);
  });
}

Tensor attend_embedding(const Operand& x, const Operand& table, Site site) {
  return call("embedding", site, [&] {
    Node* input = floating_node(x);
    Node* rows = node_of(table);
    if (rows->rank() != 2 || input->rank() == 0 || input->dims().back() != rows->dim(1))
      call_error("the last dim of {} must be that of the table {}, [vocab,features]",
                 describe(input), describe(rows));
    return tensordot(x, table, {-1}, {1});
  });
}

Tensor convolve(const Operand& x, const Operand& kernel, const std::optional<Operand>& bias,
                std::string_view layout, const ConvOptions& options, Site site) {
  return call("conv", site, [&] {
    Node* input = floating_node(x);
    Node* weights = node_of(kernel);
    std::string text(layout);
    if (layout.empty()) {
      if (input->rank() != weights->rank() || input->rank() < 2)
        call_error(
            "{} and the kernel {} must have as many dims: [batch, spatial dims, in] and "
            "[spatial dims, in / groups, out]",
            describe(input), describe(weights));
      std::string spatial;
      for (int64_t i = 2; i < input->rank(); ++i) spatial += static_cast<char>('a' + i - 2);
      text = "N" + spatial + "C," + spatial + "IO->N" + spatial + "C";
    }
    Node* y = node_of(conv(x, kernel, text, options));
    if (bias) {
      const std::string result = text.substr(text.find("->") + 2);
      y = add(y, along(*bias, "bias", y, static_cast<int64_t>(result.find('C'))));
    }
    return tensor_of(y);
  });
}

std::pair<Tensor, BatchStatistics<Tensor>> batch_norm_train(
    const Operand& x, const Operand& scale, const Operand& bias, const Operand& mean,
    const Operand& variance, const BatchNormOptions& options, Site site) {
  return call("batch_norm", site, [&] {
    Node* node = floating_node(x);
    check_eps(options.eps);
    if (!(options.momentum >= 0 && options.momentum <= 1))
      call_error("momentum {} is wrong; give 0 to 1", options.momentum);
    const int64_t axis = checked_axis(options.axis, node);
    if (axis == 0)
      call_error("axis 0 of {} is the batch; give that of the features", describe(node));
    const int64_t batch = node->dim(0), groups = options.groups;
    if (groups < 1 || batch % groups != 0)
      call_error("{} groups do not divide dim 0 of {}, the batch of {}", groups, describe(node),
                 batch);
    Node* const factor = parameter_along(scale, "scale", node, axis);
    Node* const shift = along(bias, "bias", node, axis);
    Node* grouped = groups == 1 ? node : split_dim(node, 0, groups, batch / groups);
    std::vector<int64_t> kept = {axis};
    if (groups > 1) kept = {0, axis + 1};
    const std::vector<int64_t> dims = dims_but(grouped, kept);
    const Statistics s = batch_statistics(in_32_bits(grouped), dims);
    Node* spread = hlo::unary(Opcode::rsqrt, add(s.variance, options.eps));
    const int64_t feature = spread->rank() - 1;
    spread = multiply(spread, hlo::broadcast(in_32_bits(factor), spread->dims(), {feature}));
    Node* y = multiply(s.centered, stretch(spread, s.centered->dims(), dims));
    if (groups > 1) y = hlo::reshape(y, node->dims());
    y = in_type_of(add(y, in_32_bits(shift)), node);

    const auto running = [&](const Operand& old, const char* what, Node* now) {
      Node* before = node_of(old, node->shape.dtype);
      if (groups > 1) now = mean_over(now, {0});
      const DType dtype = before->shape.dtype;
      if (before->dims() != now->dims() ||
          (dtype != now->shape.dtype && dtype != node->shape.dtype))
        call_error("the running {} {} must be {}[{}], as dim {} of {}", what, describe(before),
                   dtype_name(now->shape.dtype), now->dim(0), axis, describe(node));
      Node* const next = add(multiply(in_32_bits(before), options.momentum),
                             multiply(stop_gradient_node(now), 1 - options.momentum));
      return tensor_of(in_type_of(next, before));
    };
    const Tensor new_mean = running(mean, "mean", s.mean);
    const Tensor new_variance = running(variance, "variance", s.variance);
    return std::pair{tensor_of(y), BatchStatistics<Tensor>{new_mean, new_variance}};
  });
}

Tensor batch_norm_infer(const Operand& x, const Operand& scale, const Operand& bias,
                        const Operand& mean, const Operand& variance,
                        const BatchNormOptions& options, Site site) {
  return call("batch_norm", site, [&] {
    Node* node = floating_node(x);
    check_eps(options.eps);
    const int64_t axis = checked_axis(options.axis, node);
    const Affine affine = affine_along(scale, bias, node, axis);
    Node* const wide = in_32_bits(node);
    const auto running = [&](const Operand& statistic, const char* what) {
      const Operand in_f32 = tensor_of(in_32_bits(node_of(statistic, node->shape.dtype)));
      return along(in_f32, what, wide, axis);
    };
    Node* const centered = subtract(wide, running(mean, "running mean"));
    Node* const spread = add(running(variance, "running variance"), options.eps);
    Node* const y = multiply(centered, hlo::unary(Opcode::rsqrt, spread));
    return tensor_of(affine(in_type_of(y, node)));
  });
}

}  // namespace detail

Tensor group_norm(Operand x, Operand scale, Operand bias, const GroupNormOptions& options) {
  return call("group_norm", x.site(), [&] {
    Node* node = floating_node(x);
    check_eps(options.eps);
    const int64_t axis = checked_axis(options.axis, node);
    if (axis == 0)
      call_error("axis 0 of {} is the batch; give that of the features", describe(node));
    const int64_t features = node->dim(axis), groups = options.groups;
    if (groups < 1 || features % groups != 0)
      call_error("{} groups do not divide dim {} of {}, the {} features", groups, axis,
                 describe(node), features);
    const Affine affine = affine_along(scale, bias, node, axis);
    Node* const grouped = split_dim(node, axis, groups, features / groups);
    const std::vector<int64_t> dims = dims_but(grouped, {0, axis});
    Node* const y = standardized(statistics_over(in_32_bits(grouped), dims), dims, options.eps);
    return tensor_of(affine(hlo::reshape(in_type_of(y, node), node->dims())));
  });
}

}  // namespace gspmd
