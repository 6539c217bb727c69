#include "gspmd/api/precision.h"

#include <algorithm>
#include <cmath>

#include "api/emit.h"

namespace gspmd::detail {
namespace {

bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

Node* checked_scale(const Operand& scale) {
  if (scale.is_scalar() && !(scale.number() > 0 && std::isfinite(scale.number())))
    call_error("the loss scale is {}; give a positive number", scale.number());
  Node* node = node_of(scale, DType::f32);
  if (node->rank() != 0 || node->shape.dtype != DType::f32)
    call_error("the loss scale {} must be a number or an f32 scalar", describe(node));
  return node;
}

bool is_one(const Operand& scale) { return scale.is_scalar() && scale.number() == 1; }

}  // namespace

Tensor to_compute(const Tensor& x, const std::string& path, const Precision& precision, Site site) {
  return call("at_precision", site, [&] {
    const DType compute = precision.compute;
    if (!is_half(compute) && compute != DType::f32)
      call_error("cannot compute in {}; choose DType::f32, DType::bf16 or DType::f16",
                 dtype_name(compute));
    Node* node = node_of(x);
    const DType dtype = node->shape.dtype;
    const std::vector<std::string>& keep = precision.keep;
    const bool kept =
        std::find(keep.begin(), keep.end(), path.substr(path.rfind('.') + 1)) != keep.end();
    const bool converts = !kept && is_half(compute) && (dtype == DType::f32 || dtype == DType::f64);
    return tensor_of(converts ? hlo::convert(node, compute) : node);
  });
}

Tensor from_compute(const Tensor& x, Site site) {
  return call("at_precision", site, [&] { return tensor_of(in_32_bits(node_of(x))); });
}

Tensor scaled_loss(const Tensor& loss, const Operand& scale, Site site) {
  return call("value_and_grad", site, [&] {
    Node* node = node_of(loss);
    if (is_one(scale)) return tensor_of(node);
    Node* factor = checked_scale(scale);
    need_floating(node);
    return tensor_of(multiply(node, broadcast_node(in_type_of(factor, node), node->dims())));
  });
}

Tensor unscaled_gradient(const Tensor& gradient, const Operand& scale, Site site) {
  return call("value_and_grad", site, [&] {
    Node* node = node_of(gradient);
    if (is_one(scale)) return tensor_of(node);
    Node* factor = in_type_of(checked_scale(scale), node);
    return tensor_of(divide(node, broadcast_node(factor, node->dims())));
  });
}

void check_loss_scale(double scale, Site site) {
  if (!(scale > 0 && std::isfinite(scale)))
    user_error(site, "LossScale: the scale is {}; give a positive number", scale);
}

Tensor all_finite_leaves(const std::vector<Tensor>& leaves, Site site) {
  return call("all_finite", site, [&] {
    Node* finite = nullptr;
    for (const Tensor& leaf : leaves) {
      Node* node = node_of(leaf);
      if (!is_floating(node->shape.dtype)) continue;
      Node* all = hlo::unary(Opcode::is_finite, node);
      Dims dims(static_cast<size_t>(all->rank()));
      for (size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<int64_t>(i);
      if (!dims.empty()) all = reduce_with(Opcode::and_, all, dims);
      finite = finite == nullptr ? all : hlo::binary(Opcode::and_, finite, all);
    }
    return tensor_of(finite != nullptr ? finite : scalar_node(1, true, DType::pred));
  });
}

Tensor select_leaf(const Tensor& pred, const Tensor& yes, const Tensor& no, Site site) {
  return call("select_tree", site, [&] {
    Node *chosen = node_of(pred), *a = node_of(yes), *b = node_of(no);
    if (chosen->rank() != 0 || chosen->shape.dtype != DType::pred)
      call_error("the condition {} must be a pred scalar", describe(chosen));
    if (!(a->shape == b->shape))
      call_error("leaves {} and {} differ; the trees must be alike", describe(a), describe(b));
    return tensor_of(hlo::select(broadcast_node(chosen, a->dims()), a, b));
  });
}

std::pair<Tensor, Tensor> next_loss_scale(const Tensor& scale, const Tensor& steps,
                                          const Tensor& finite, const LossScaleOptions& options,
                                          Site site) {
  return call("LossScale::update", site, [&] {
    if (options.growth_interval < 1)
      call_error("growth_interval is {}; give 1 or more", options.growth_interval);
    for (const double factor : {options.growth, options.backoff})
      if (!(factor > 0 && std::isfinite(factor)))
        call_error("the factor {} is wrong; give a positive number", factor);
    Node *now = node_of(scale), *count = node_of(steps), *good = node_of(finite);
    if (good->rank() != 0 || good->shape.dtype != DType::pred)
      call_error("finite is {}; give all_finite(grads), a pred scalar", describe(good));
    Node* grows = compare(count, static_cast<double>(options.growth_interval - 1), Direction::ge);
    Node* larger = multiply(now, options.growth);
    // It does not grow out of f32.
    Node* kept = hlo::select(
        hlo::binary(Opcode::and_, grows, hlo::unary(Opcode::is_finite, larger)), larger, now);
    Node* smaller =
        hlo::binary(Opcode::maximum, multiply(now, options.backoff), splat_like(now, 1));
    Node* zero = splat_like(count, 0);
    Node* counted = hlo::select(grows, zero, add(count, 1));
    return std::pair{tensor_of(hlo::select(good, kept, smaller)),
                     tensor_of(hlo::select(good, counted, zero))};
  });
}

}  // namespace gspmd::detail
