#include "gspmd/api/optim.h"

#include <cmath>
#include <limits>

#include "api/emit.h"

namespace gspmd {

using namespace detail;

namespace {

// A number of the options: finite and inside [low, high).
void check_number(const char* what, double value, double low, double high) {
  if (!(value >= low && value < high))
    call_error("{} {} is wrong; give {} or more{}", what, value, low,
               std::isfinite(high) ? fmt::format(" and less than {}", high) : ", and finite");
}
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One value of the optimizer's state or the gradient beside its parameter.
Node* beside(const Node* param, const Tensor& tensor, const char* what) {
  Node* node = node_of(tensor);
  if (!(node->shape == param->shape))
    call_error("the {} {} differs from its parameter {}; shapes and dtypes must be equal", what,
               describe(node), describe(param));
  return node;
}

Node* parameter_node(const Tensor& param) {
  Node* node = node_of(param);
  need_floating(node);
  return node;
}

// A scalar over the parameter's dims.
Node* over(Node* scalar, const Node* param) {
  return param->rank() == 0 ? scalar : hlo::broadcast(scalar, param->dims(), {});
}

Node* learning_rate(const Operand& lr, const Node* param) {
  const DType dtype = param->shape.dtype;
  if (lr.is_scalar() && !std::isfinite(lr.number()))
    call_error("the learning rate {} is not finite; give a number", lr.number());
  Node* node = node_of(lr, dtype);
  if (node->rank() != 0)
    call_error("the learning rate {} must be a number or a tensor without dims", describe(node));
  if (node->shape.dtype != dtype) node = hlo::convert(node, dtype);
  return node;
}

// rate * old + (1 - rate) * value
Node* moving_average(Node* old, Node* value, double rate) {
  return add(multiply(old, rate), multiply(value, 1 - rate));
}

// 1 - rate^step, without dims.
Node* start_correction(Node* step, double rate, DType dtype) {
  Computation& c = step->parent();
  Node* power = hlo::binary(Opcode::power, hlo::scalar(c, dtype, rate), hlo::convert(step, dtype));
  return subtract(hlo::scalar(c, dtype, 1), power);
}

}  // namespace

namespace detail {

template <>
Array zero_count<Array>() {
  return Array(DType::s32, {});
}
template <>
Shape zero_count<Shape>() {
  return Shape(DType::s32, {});
}
template <>
Tensor zero_count<Tensor>() {
  return zeros(Shape(DType::s32, {}));
}

void check_leaves(const std::vector<std::string>& params, const std::vector<std::string>& other,
                  const char* op, const char* what, Site site) {
  for (size_t i = 0; i < std::max(params.size(), other.size()); ++i) {
    if (i < params.size() && i < other.size() && params[i] == other[i]) continue;
    const auto at = [i](const std::vector<std::string>& paths) {
      return i < paths.size() ? fmt::format("\"{}\"", paths[i]) : std::string("no more leaves");
    };
    user_error(site,
               "{}: where the parameters have {}, the {} have {} ({} leaves and {}); give trees of "
               "one structure",
               op, at(params), what, at(other), params.size(), other.size());
  }
}

}  // namespace detail

SgdLeaf sgd_update(Tensor param, Tensor grad, Tensor velocity, const SgdOptions& options,
                   Site site) {
  return call("sgd", site, [&] {
    check_number("momentum", options.momentum, 0, kInfinity);
    check_number("weight decay", options.weight_decay, 0, kInfinity);
    Node* p = parameter_node(param);
    Node* g = beside(p, grad, "gradient");
    if (options.weight_decay != 0) g = add(g, multiply(p, options.weight_decay));
    Node* v = add(multiply(beside(p, velocity, "velocity"), options.momentum), g);
    Node* step = multiply(over(learning_rate(options.lr, p), p), v);
    return SgdLeaf{tensor_of(subtract(p, step)), tensor_of(v)};
  });
}

AdamLeaf adam_update(Tensor param, Tensor grad, Tensor m, Tensor v, Tensor step, bool decoupled,
                     const AdamOptions& options, Site site) {
  return call("adam", site, [&] {
    check_number("beta1", options.beta1, 0, 1);
    check_number("beta2", options.beta2, 0, 1);
    check_number("eps", options.eps, 0, kInfinity);
    check_number("weight decay", options.weight_decay, 0, kInfinity);
    Node* p = parameter_node(param);
    Node* g = beside(p, grad, "gradient");
    if (!decoupled && options.weight_decay != 0) g = add(g, multiply(p, options.weight_decay));
    const DType dtype = p->shape.dtype;
    Node* count = node_of(step);
    Node* first = moving_average(beside(p, m, "first moment"), g, options.beta1);
    Node* second = moving_average(beside(p, v, "second moment"), multiply(g, g), options.beta2);
    // lr * (m / c1) / (sqrt(v / c2) + eps), with the divisions by c1 and c2 on scalars.
    Node* lr = learning_rate(options.lr, p);
    Node* rate = divide(lr, start_correction(count, options.beta1, dtype));
    Node* inverse =
        divide(scalar_node(1, true, dtype), start_correction(count, options.beta2, dtype));
    Node* deviation = hlo::unary(Opcode::sqrt, multiply(second, over(inverse, p)));
    Node* update = divide(multiply(over(rate, p), first), add(deviation, options.eps));
    if (decoupled && options.weight_decay != 0)
      update = add(update, multiply(over(multiply(lr, options.weight_decay), p), p));
    return AdamLeaf{tensor_of(subtract(p, update)), tensor_of(first), tensor_of(second)};
  });
}

Tensor next_step(Tensor step, Site site) {
  return call("adam", site, [&] {
    Node* node = node_of(step);
    need_integer(node, "step counts");
    return tensor_of(add(node, 1));
  });
}

Tensor global_norm(const std::vector<Tensor>& leaves, Site site) {
  return call("global_norm", site, [&] {
    Node* total = nullptr;
    for (const Tensor& leaf : leaves) {
      Node* node = parameter_node(leaf);
      Dims all;
      for (int64_t i = 0; i < node->rank(); ++i) all.push_back(i);
      Node* squares = multiply(node, node);
      Node* sum = all.empty() ? squares : hlo::reduce_sum(squares, all);
      if (total && sum->shape.dtype != total->shape.dtype)
        sum = hlo::convert(sum, total->shape.dtype);
      total = total ? add(total, sum) : sum;
    }
    if (!total) call_error("the tree has no leaves");
    return tensor_of(hlo::unary(Opcode::sqrt, total));
  });
}

Tensor clip_factor(Tensor norm, Operand max_norm, Site site) {
  return call("clip_by_global_norm", site, [&] {
    Node* actual = node_of(norm);
    Node* limit = node_of(max_norm, actual->shape.dtype);
    if (max_norm.is_scalar() && !(max_norm.number() > 0))
      call_error("the largest norm {} must be positive", max_norm.number());
    if (limit->rank() != 0 || limit->shape.dtype != actual->shape.dtype)
      call_error("the largest norm {} must be a number or a {} tensor without dims",
                 describe(limit), dtype_name(actual->shape.dtype));
    // limit / max(norm, limit) is 1 below the limit, and never divides by zero.
    return tensor_of(divide(limit, hlo::binary(Opcode::maximum, actual, limit)));
  });
}

Tensor scale_leaf(Tensor leaf, Tensor factor, Site site) {
  return call("clip_by_global_norm", site, [&] {
    Node* node = parameter_node(leaf);
    Node* scale = node_of(factor);
    if (scale->shape.dtype != node->shape.dtype) scale = hlo::convert(scale, node->shape.dtype);
    return tensor_of(multiply(node, over(scale, node)));
  });
}

}  // namespace gspmd
