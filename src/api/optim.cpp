#include "gspmd/api/optim.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "api/updates.h"

namespace gspmd {

using namespace detail;

namespace {

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

Node* with_decay(Node* grad, Node* param, double weight_decay) {
  return weight_decay == 0 ? grad : add(grad, multiply(param, weight_decay));
}

Node* minus_step(Node* param, Node* rate, Node* direction) {
  return subtract(param, multiply(over(rate, param), direction));
}

// sqrt of the sum of squares, without dims.
Node* length_of(Node* x) { return hlo::unary(Opcode::sqrt, sum_of_all(multiply(x, x))); }

Node* root_mean_square(Node* x) {
  const auto count = static_cast<double>(std::max<int64_t>(x->shape.elements_count(), 1));
  return hlo::unary(Opcode::sqrt, divide(sum_of_all(multiply(x, x)), count));
}

// a / b, and 1 where one of the two lengths is 0.
Node* ratio_or_1(Node* param, Node* a, Node* length, Node* b) {
  Node* const zero = splat_like(param, 0);
  Node* const both = hlo::binary(Opcode::and_, hlo::compare(param, zero, Direction::gt),
                                 hlo::compare(length, zero, Direction::gt));
  Node* const one = splat_like(param, 1);
  return hlo::select(both, divide(a, hlo::select(both, b, one)), one);
}

void check_options(const AdamOptions& options) {
  check_number("beta1", options.beta1, 0, 1);
  check_number("beta2", options.beta2, 0, 1);
  check_number("eps", options.eps, 0, kInfinity);
  check_number("weight decay", options.weight_decay, 0, kInfinity);
}

// What Adam and Lamb make of a gradient.
struct Moments {
  Node* first;
  Node* second;
};
Moments next_moments(Node* grad, const LeafNodes& beside, double beta1, double beta2) {
  return {moving_average(beside[1], grad, beta1),
          moving_average(beside[2], multiply(grad, grad), beta2)};
}

// rate * (m / c1) / (sqrt(v / c2) + eps), with the divisions by c1 and c2 on scalars.
Node* corrected(const Moments& moments, Node* rate, Node* step, double beta1, double beta2,
                double eps) {
  const DType dtype = moments.first->shape.dtype;
  Node* const scale = divide(rate, start_correction(step, beta1, dtype));
  Node* const inverse = divide(scalar_node(1, true, dtype), start_correction(step, beta2, dtype));
  Node* const deviation =
      hlo::unary(Opcode::sqrt, multiply(moments.second, over(inverse, moments.second)));
  return divide(multiply(over(scale, moments.first), moments.first), add(deviation, eps));
}

// As update_leaves, with the number of the update, which is returned behind.
LeafLists update_counted(const char* op, const PathLeaves& params,
                         const std::vector<Beside>& beside, const Tensor& step, Site site,
                         const std::function<LeafNodes(Node*, const LeafNodes&, Node*)>& update) {
  Node* next = nullptr;
  LeafLists lists =
      update_leaves(op, params, beside, site, [&](Node* param, const LeafNodes& others) {
        if (!next) next = counted(step);
        return update(param, others, next);
      });
  lists.push_back({call(op, site, [&] { return tensor_of(next ? next : counted(step)); })});
  return lists;
}

}  // namespace

namespace detail {

LeafLists sgd_update(const PathLeaves& params, const PathLeaves& grads, const PathLeaves& velocity,
                     const SgdOptions& options, Site site) {
  const std::vector<Beside> beside = {{"gradient", "gradients", grads},
                                      {"velocity", "velocities", velocity}};
  return update_leaves(
      "sgd", params, beside, site, [&](Node* p, const LeafNodes& leaf) -> LeafNodes {
        check_number("momentum", options.momentum, 0, kInfinity);
        check_number("weight decay", options.weight_decay, 0, kInfinity);
        Node* const g = with_decay(leaf[0], p, options.weight_decay);
        Node* const v = add(multiply(leaf[1], options.momentum), g);
        Node* const direction = options.nesterov ? add(g, multiply(v, options.momentum)) : v;
        return {minus_step(p, learning_rate(options.lr, p), direction), v};
      });
}

LeafLists adam_update(const PathLeaves& params, const PathLeaves& grads, const PathLeaves& m,
                      const PathLeaves& v, const Tensor& step, bool decoupled,
                      const AdamOptions& options, Site site) {
  const std::vector<Beside> beside = {{"gradient", "gradients", grads},
                                      {"first moment", "first moments", m},
                                      {"second moment", "second moments", v}};
  return update_counted(
      "adam", params, beside, step, site,
      [&](Node* p, const LeafNodes& leaf, Node* count) -> LeafNodes {
        check_options(options);
        Node* const g = decoupled ? leaf[0] : with_decay(leaf[0], p, options.weight_decay);
        const Moments moments = next_moments(g, leaf, options.beta1, options.beta2);
        Node* const lr = learning_rate(options.lr, p);
        Node* update = corrected(moments, lr, count, options.beta1, options.beta2, options.eps);
        if (decoupled && options.weight_decay != 0)
          update = add(update, multiply(over(multiply(lr, options.weight_decay), p), p));
        return {subtract(p, update), moments.first, moments.second};
      });
}

LeafLists lamb_update(const PathLeaves& params, const PathLeaves& grads, const PathLeaves& m,
                      const PathLeaves& v, const Tensor& step, const LambOptions& options,
                      Site site) {
  const std::vector<Beside> beside = {{"gradient", "gradients", grads},
                                      {"first moment", "first moments", m},
                                      {"second moment", "second moments", v}};
  return update_counted(
      "lamb", params, beside, step, site,
      [&](Node* p, const LeafNodes& leaf, Node* count) -> LeafNodes {
        check_options({.beta1 = options.beta1,
                       .beta2 = options.beta2,
                       .eps = options.eps,
                       .weight_decay = options.weight_decay});
        const Moments moments = next_moments(leaf[0], leaf, options.beta1, options.beta2);
        Node* const one = scalar_node(1, true, p->shape.dtype);
        Node* direction = corrected(moments, one, count, options.beta1, options.beta2, options.eps);
        Node* rate = learning_rate(options.lr, p);
        if (p->rank() >= options.min_rank) {
          direction = with_decay(direction, p, options.weight_decay);
          Node* const own = length_of(p);
          Node* const length = length_of(direction);
          rate = multiply(rate, ratio_or_1(own, own, length, length));
        }
        return {minus_step(p, rate, direction), moments.first, moments.second};
      });
}

LeafLists lars_update(const PathLeaves& params, const PathLeaves& grads, const PathLeaves& velocity,
                      const LarsOptions& options, Site site) {
  const std::vector<Beside> beside = {{"gradient", "gradients", grads},
                                      {"velocity", "velocities", velocity}};
  return update_leaves(
      "lars", params, beside, site, [&](Node* p, const LeafNodes& leaf) -> LeafNodes {
        check_number("momentum", options.momentum, 0, kInfinity);
        check_number("weight decay", options.weight_decay, 0, kInfinity);
        check_number("trust coefficient", options.trust_coefficient, 0, kInfinity);
        check_number("eps", options.eps, 0, kInfinity);
        Node* g = leaf[0];
        Node* rate = learning_rate(options.lr, p);
        if (p->rank() >= options.min_rank) {
          Node* const own = length_of(p);
          Node* const length = length_of(g);
          Node* divisor = with_decay(length, own, options.weight_decay);
          if (options.eps != 0) divisor = add(divisor, options.eps);
          Node* const trusted = multiply(own, options.trust_coefficient);
          rate = multiply(rate, ratio_or_1(own, trusted, length, divisor));
          g = with_decay(g, p, options.weight_decay);
        }
        const bool scaled = options.variant == LarsMomentum::scaled;
        Node* const part = scaled ? g : multiply(over(rate, g), g);
        Node* const v = add(multiply(leaf[1], options.momentum), part);
        Node* const direction = options.nesterov ? add(part, multiply(v, options.momentum)) : v;
        return {scaled ? minus_step(p, rate, direction) : subtract(p, direction), v};
      });
}

LeafLists rmsprop_update(const PathLeaves& params, const PathLeaves& grads, const PathLeaves& v,
                         const PathLeaves& velocity, const RmsPropOptions& options, Site site) {
  const std::vector<Beside> beside = {{"gradient", "gradients", grads},
                                      {"mean of squares", "means of squares", v},
                                      {"velocity", "velocities", velocity}};
  return update_leaves(
      "rmsprop", params, beside, site, [&](Node* p, const LeafNodes& leaf) -> LeafNodes {
        check_number("decay", options.decay, 0, 1);
        check_number("eps", options.eps, 0, kInfinity);
        check_number("momentum", options.momentum, 0, kInfinity);
        check_number("weight decay", options.weight_decay, 0, kInfinity);
        Node* const g = with_decay(leaf[0], p, options.weight_decay);
        Node* const squares = moving_average(leaf[1], multiply(g, g), options.decay);
        Node* const scaled = divide(g, add(hlo::unary(Opcode::sqrt, squares), options.eps));
        Node* const next = add(multiply(leaf[2], options.momentum), scaled);
        return {minus_step(p, learning_rate(options.lr, p), next), squares, next};
      });
}

LeafLists lion_update(const PathLeaves& params, const PathLeaves& grads, const PathLeaves& momentum,
                      const LionOptions& options, Site site) {
  const std::vector<Beside> beside = {{"gradient", "gradients", grads},
                                      {"momentum", "momenta", momentum}};
  return update_leaves(
      "lion", params, beside, site, [&](Node* p, const LeafNodes& leaf) -> LeafNodes {
        check_number("beta1", options.beta1, 0, 1);
        check_number("beta2", options.beta2, 0, 1);
        check_number("weight decay", options.weight_decay, 0, kInfinity);
        Node* const sign =
            hlo::unary(Opcode::sign, moving_average(leaf[1], leaf[0], options.beta1));
        Node* const direction = with_decay(sign, p, options.weight_decay);
        return {minus_step(p, learning_rate(options.lr, p), direction),
                moving_average(leaf[1], leaf[0], options.beta2)};
      });
}

}  // namespace detail

// --- Adafactor

namespace {

// The two largest dims of a leaf, of equal ones the last; none where they are too small.
struct FactoredDims {
  bool any = false;
  int64_t smaller = 0, larger = 0;
};

FactoredDims factored_dims(const Dims& dims, int64_t min_dim) {
  if (dims.size() < 2) return {};
  std::vector<int64_t> order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return dims[static_cast<size_t>(a)] < dims[static_cast<size_t>(b)];
  });
  const int64_t smaller = order[order.size() - 2];
  if (dims[static_cast<size_t>(smaller)] < min_dim) return {};
  return {true, smaller, order.back()};
}

Shape without(const Shape& shape, int64_t dim) {
  Dims dims = shape.dims;
  dims.erase(dims.begin() + dim);
  return Shape(shape.dtype, dims);
}

Node* mean_along(Node* x, int64_t dim) {
  const auto size = static_cast<double>(std::max<int64_t>(x->dim(dim), 1));
  return divide(hlo::reduce_sum(x, {dim}), size);
}

// rate * old + (1 - rate) * value, by a rate of the trace.
Node* average_by(Node* rate, Node* old, Node* value) {
  Node* const rest = subtract(splat_like(rate, 1), rate);
  return add(multiply(over(rate, old), old), multiply(over(rest, value), value));
}

// The direction of a leaf and its new state: {direction, row, column, v}.
LeafNodes factored_direction(Node* g, Node* squares, const LeafNodes& leaf, Node* rate,
                             const FactoredDims& dims) {
  Node* const row = average_by(rate, leaf[1], mean_along(squares, dims.larger));
  Node* const column = average_by(rate, leaf[2], mean_along(squares, dims.smaller));
  // Of `row` the smaller dim is the only one of the two that is left.
  const int64_t left = dims.smaller - (dims.smaller > dims.larger ? 1 : 0);
  Node* const relative = divide(row, stretch(mean_along(row, left), row->dims(), {left}));
  Node* const by_row = stretch(hlo::unary(Opcode::rsqrt, relative), g->dims(), {dims.larger});
  Node* const by_column = stretch(hlo::unary(Opcode::rsqrt, column), g->dims(), {dims.smaller});
  return {multiply(multiply(g, by_row), by_column), row, column, leaf[3]};
}

LeafNodes full_direction(Node* g, Node* squares, const LeafNodes& leaf, Node* rate) {
  Node* const v = average_by(rate, leaf[3], squares);
  return {multiply(g, hlo::unary(Opcode::rsqrt, v)), leaf[1], leaf[2], v};
}

void check_adafactor(const AdafactorOptions& options) {
  check_number("decay rate", options.decay_rate, 0, kInfinity);
  check_number("eps", options.eps, 0, kInfinity);
  check_number("the least scale", options.min_scale, 0, kInfinity);
  check_number("weight decay", options.weight_decay, 0, kInfinity);
  if (!(options.clip_threshold > 0 && std::isfinite(options.clip_threshold)))
    call_error("clip threshold {} is wrong; give a number above 0", options.clip_threshold);
}

// The state of a leaf has to be what zeros_like makes for some least dim.
FactoredDims factored_as_state(Node* p, const LeafNodes& leaf) {
  FactoredDims dims = factored_dims(p->dims(), 1);
  if (leaf[3]->shape == p->shape) return {};
  if (!dims.any || !(leaf[1]->shape == without(p->shape, dims.larger)) ||
      !(leaf[2]->shape == without(p->shape, dims.smaller)))
    call_error(
        "the state {}, {}, {} is not that of the parameter {}; make it by zeros_like(params)",
        describe(leaf[1]), describe(leaf[2]), describe(leaf[3]), describe(p));
  return dims;
}

}  // namespace

namespace detail {

FactoredShapes factored_shapes(const Shape& param, int64_t min_dim) {
  const FactoredDims dims = factored_dims(param.dims, std::max<int64_t>(min_dim, 1));
  const Shape none(param.dtype, {1});
  if (!dims.any) return {none, none, param};
  return {without(param, dims.larger), without(param, dims.smaller), none};
}

LeafLists adafactor_update(const PathLeaves& params, const PathLeaves& grads, const PathLeaves& row,
                           const PathLeaves& column, const PathLeaves& v, const Tensor& step,
                           const AdafactorOptions& options, Site site) {
  const std::vector<Beside> beside = {{"gradient", "gradients", grads},
                                      {"row", "rows", row, false},
                                      {"column", "columns", column, false},
                                      {"second moment", "second moments", v, false}};
  return update_counted(
      "adafactor", params, beside, step, site,
      [&](Node* p, const LeafNodes& leaf, Node* count) -> LeafNodes {
        check_adafactor(options);
        const DType dtype = p->shape.dtype;
        Node* const t = hlo::convert(count, dtype);
        Node* const fresh = hlo::binary(Opcode::power, t, splat_like(t, -options.decay_rate));
        Node* const rate = subtract(splat_like(t, 1), fresh);
        Node* const squares = add(multiply(leaf[0], leaf[0]), options.eps);
        const FactoredDims dims = factored_as_state(p, leaf);
        LeafNodes next = dims.any ? factored_direction(leaf[0], squares, leaf, rate, dims)
                                  : full_direction(leaf[0], squares, leaf, rate);
        Node* const direction = next[0];
        Node* const excess = divide(root_mean_square(direction), options.clip_threshold);
        Node* const lr = learning_rate(options.lr, p);
        Node* scale = divide(lr, hlo::binary(Opcode::maximum, excess, splat_like(excess, 1)));
        if (options.scale_by_param) {
          Node* const size = root_mean_square(p);
          scale = multiply(scale,
                           hlo::binary(Opcode::maximum, size, splat_like(size, options.min_scale)));
        }
        next[0] = minus_step(p, scale, direction);
        if (options.weight_decay != 0)
          next[0] = subtract(next[0], multiply(over(multiply(lr, options.weight_decay), p), p));
        return next;
      });
}

}  // namespace detail

}  // namespace gspmd
