#include "gspmd/api/training.h"

#include <algorithm>
#include <cmath>

#include "api/updates.h"
#include "gspmd/api/regions.h"
#include "gspmd/api/shaping.h"

namespace gspmd {

using namespace detail;

namespace {

Node* floating_node(const Tensor& tensor) {
  Node* node = node_of(tensor);
  need_floating(node);
  return node;
}

// The type in which many numbers of a type are added up.
DType sum_type(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

Node* converted(Node* node, DType dtype) {
  return node->shape.dtype == dtype ? node : hlo::convert(node, dtype);
}

// UserError at `site` where two lists of leaves have other paths.
void check_leaves(const PathLeaves& params, const PathLeaves& other, const char* op,
                  const char* what, Site site) {
  for (size_t i = 0; i < std::max(params.size(), other.size()); ++i) {
    if (i < params.size() && i < other.size() && params[i].first == other[i].first) continue;
    const auto at = [i](const PathLeaves& leaves) {
      return i < leaves.size() ? fmt::format("\"{}\"", leaves[i].first)
                               : std::string("no more leaves");
    };
    user_error(site,
               "{}: where the parameters have {}, the {} have {} ({} leaves and {}); give trees of "
               "one structure",
               op, at(params), what, at(other), params.size(), other.size());
  }
}

}  // namespace

namespace detail {

Array zero_of(const Array&, Shape shape) { return Array(std::move(shape)); }
Shape zero_of(const Shape&, Shape shape) { return shape; }
Tensor zero_of(const Tensor&, Shape shape) { return zeros(std::move(shape)); }

void check_number(const char* what, double value, double low, double high) {
  if (!(value >= low && value < high))
    call_error("{} {} is wrong; give {} or more{}", what, value, low,
               std::isfinite(high) ? fmt::format(" and less than {}", high) : ", and finite");
}

std::vector<std::vector<Tensor>> update_leaves(const char* op, const PathLeaves& params,
                                               const std::vector<Beside>& beside, Site site,
                                               const LeafUpdate& update) {
  for (const Beside& other : beside) check_leaves(params, other.leaves, op, other.many, site);
  return call(op, site, [&] {
    // Of each value a leaf has but the gradient.
    std::vector<std::vector<Tensor>> lists(beside.size());
    for (size_t i = 0; i < params.size(); ++i) {
      Node* const param = floating_node(params[i].second);
      LeafNodes others;
      for (const Beside& other : beside) {
        Node* const node = others.emplace_back(node_of(other.leaves[i].second));
        if (other.like_params && !(node->shape == param->shape))
          call_error("the {} {} differs from its parameter {}; shapes and dtypes must be equal",
                     other.one, describe(node), describe(param));
      }
      const LeafNodes next = update(param, others);
      lists.resize(next.size());
      for (size_t j = 0; j < next.size(); ++j) lists[j].push_back(tensor_of(next[j]));
    }
    return lists;
  });
}

Node* over(Node* scalar, const Node* param) {
  return param->rank() == 0 ? scalar : hlo::broadcast(scalar, param->dims(), {});
}

Node* moving_average(Node* old, Node* value, double rate) {
  return add(multiply(old, rate), multiply(value, 1 - rate));
}

Node* counted(const Tensor& step) {
  Node* node = node_of(step);
  need_integer(node, "step counts");
  return add(node, 1);
}

Node* start_correction(Node* step, double rate, DType dtype) {
  Computation& c = step->parent();
  Node* power = hlo::binary(Opcode::power, hlo::scalar(c, dtype, rate), hlo::convert(step, dtype));
  return subtract(hlo::scalar(c, dtype, 1), power);
}

Node* sum_of_all(Node* x) {
  Dims all;
  for (int64_t i = 0; i < x->rank(); ++i) all.push_back(i);
  return all.empty() ? x : hlo::reduce_sum(x, all);
}

}  // namespace detail

Tensor global_norm(const std::vector<Tensor>& leaves, Site site) {
  return call("global_norm", site, [&] {
    Node* total = nullptr;
    for (const Tensor& leaf : leaves) {
      Node* node = floating_node(leaf);
      Node* sum = sum_of_all(multiply(node, node));
      if (total) sum = converted(sum, total->shape.dtype);
      total = total ? add(total, sum) : sum;
    }
    if (!total) call_error("the tree has no leaves");
    return tensor_of(hlo::unary(Opcode::sqrt, total));
  });
}

namespace detail {

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
    Node* node = floating_node(leaf);
    Node* scale = converted(node_of(factor), node->shape.dtype);
    return tensor_of(multiply(node, over(scale, node)));
  });
}

Tensor clip_leaf(Tensor leaf, Operand limit, Site site) {
  return call("clip_by_value", site, [&] {
    Node* node = floating_node(leaf);
    if (limit.is_scalar() && !(limit.number() > 0))
      call_error("the limit {} must be positive", limit.number());
    Node* most = node_of(limit, node->shape.dtype);
    if (most->rank() != 0)
      call_error("the limit {} must be a number or a tensor without dims", describe(most));
    most = over(converted(most, node->shape.dtype), node);
    Node* const least = hlo::unary(Opcode::negate, most);
    return tensor_of(hlo::binary(Opcode::minimum, hlo::binary(Opcode::maximum, node, least), most));
  });
}

std::vector<Tensor> microbatches_of(const PathLeaves& batch, int64_t n, Site site) {
  return call("accumulate_gradients", site, [&] {
    if (n < 1) call_error("{} microbatches are wrong; give 1 or more", n);
    if (batch.empty()) call_error("the batch has no leaves; give a tensor or a tree of them");
    std::vector<Tensor> slices;
    const Node* first = nullptr;
    for (const auto& leaf : batch) {
      Node* const node = node_of(leaf.second);
      if (node->rank() == 0)
        call_error("{} has no dims; dim 0 of all that is in the batch counts it", describe(node));
      if (node->dim(0) % n != 0)
        call_error("dim 0 of {} has {} elements, which {} microbatches do not divide",
                   describe(node), node->dim(0), n);
      if (!first) first = node;
      if (node->dim(0) != first->dim(0))
        call_error("dim 0 of {} and {} counts the batch; they must be equal", describe(first),
                   describe(node));
      Dims dims = node->dims(), order(node->dims().size() + 1);
      dims[0] /= n;
      dims.insert(dims.begin() + 1, n);
      for (size_t i = 0; i < order.size(); ++i)
        order[i] = i < 2 ? 1 - static_cast<int64_t>(i) : static_cast<int64_t>(i);
      slices.push_back(tensor_of(hlo::transpose(hlo::reshape(node, dims), order)));
    }
    return slices;
  });
}

std::vector<Tensor> accumulators(const std::vector<Tensor>& leaves, Site site) {
  return call("accumulate_gradients", site, [&] {
    std::vector<Tensor> sums;
    for (const Tensor& leaf : leaves) {
      Node* const node = node_of(leaf);
      sums.push_back(zeros(Shape(sum_type(node->shape.dtype), node->dims())));
    }
    return sums;
  });
}

Tensor loss_accumulator(const std::vector<Tensor>& leaves, Site site) {
  return call("accumulate_gradients", site, [&] {
    DType dtype = DType::f32;
    for (const Tensor& leaf : leaves)
      if (node_of(leaf)->shape.dtype == DType::f64) dtype = DType::f64;
    return zeros(Shape(dtype, {}));
  });
}

std::vector<Tensor> accumulated(const std::vector<Tensor>& sums, const std::vector<Tensor>& values,
                                Site site) {
  return call("accumulate_gradients", site, [&] {
    std::vector<Tensor> result;
    for (size_t i = 0; i < sums.size(); ++i) {
      Node* const sum = node_of(sums[i]);
      result.push_back(tensor_of(add(sum, converted(node_of(values.at(i)), sum->shape.dtype))));
    }
    return result;
  });
}

std::vector<Tensor> averages(const std::vector<Tensor>& sums, const AccumulateOptions& options,
                             const std::vector<Tensor>& like, Site site) {
  return call("accumulate_gradients", site, [&] {
    std::vector<Tensor> result;
    for (size_t i = 0; i < sums.size(); ++i) {
      // A state that is split over the batch's axes would have the sums split like it, and each
      // microbatch's gradients scattered.
      Node* const sum = node_of(options.scatter_each ? sums[i] : shard_barrier_to(sums[i]));
      result.push_back(tensor_of(converted(divide(sum, static_cast<double>(options.microbatches)),
                                           node_of(like[i])->shape.dtype)));
    }
    return result;
  });
}

std::vector<Tensor> moved_averages(const PathLeaves& params, const PathLeaves& average,
                                   const Tensor& step, const AverageOptions& options, Site site) {
  const char* op = "moving average";
  Node* next = nullptr;
  auto lists =
      update_leaves(op, params, {{"average", "averages", average}}, site,
                    [&](Node* param, const LeafNodes& leaf) -> LeafNodes {
                      check_number("decay", options.decay, 0, 1);
                      if (!next) next = counted(step);
                      // The weight of an update, of those of all updates so far.
                      const DType dtype = param->shape.dtype;
                      Node* const weight = divide(scalar_node(1 - options.decay, false, dtype),
                                                  start_correction(next, options.decay, dtype));
                      Node* const change = multiply(subtract(param, leaf[0]), over(weight, param));
                      return {add(leaf[0], change)};
                    });
  std::vector<Tensor> result = lists.empty() ? std::vector<Tensor>{} : std::move(lists[0]);
  result.push_back(call(op, site, [&] { return tensor_of(next ? next : counted(step)); }));
  return result;
}

}  // namespace detail

}  // namespace gspmd
