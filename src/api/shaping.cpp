#include "gspmd/api/shaping.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "api/emit.h"

namespace gspmd {

using namespace detail;

namespace {

void check_new_shape(const Shape& shape) {
  if (shape.is_tuple) call_error("{} is a tuple; give the shape of one array", to_string(shape));
  for (const int64_t d : shape.dims)
    if (d < 0) call_error("{} has a negative size", to_string(shape));
  if (!is_computable(shape.dtype) && !is_complex(shape.dtype))
    call_error("type {} is not supported; use an integer, floating or complex type",
               dtype_name(shape.dtype));
}

// `dims` with its -1 replaced by what remains of `x`.
Dims resolve_dims(const Node* x, Dims dims) {
  const int64_t total = x->shape.elements_count();
  int64_t known = 1;
  int64_t open = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] >= 0) {
      known = saturating_multiply(known, dims[i]);
    } else if (dims[i] == -1 && open < 0) {
      open = static_cast<int64_t>(i);
    } else {
      call_error("size {} in {} is wrong; sizes are 0 or more, and one may be -1", dims[i],
                 dims_text(dims));
    }
  }
  if (open >= 0 && known > 0 && total % known == 0) {
    dims[static_cast<size_t>(open)] = total / known;
    return dims;
  }
  if (open >= 0)
    call_error("{} has {} elements, no multiple of the {} that the sizes of {} but -1 give",
               describe(x), total, known, dims_text(dims));
  if (known != total)
    call_error("{} has {} elements, {} has {}; the numbers must be equal", describe(x), total,
               dims_text(dims), known);
  return dims;
}

void check_length(const Dims& list, const Node* x, const char* what) {
  if (static_cast<int64_t>(list.size()) != x->rank())
    call_error("{} {} for {}, which has rank {}; give one per dim", list.size(), what, describe(x),
               x->rank());
}

void check_slice(const Node* x, const Dims& starts, const Dims& limits, const Dims& strides) {
  for (size_t i = 0; i < starts.size(); ++i)
    if (starts[i] < 0 || limits[i] < starts[i] || limits[i] > x->dims()[i] || strides[i] < 1)
      call_error(
          "dim {} of {}: start {}, limit {}, stride {} do not fit; 0 <= start <= limit <= {} "
          "and stride >= 1",
          i, describe(x), starts[i], limits[i], strides[i], x->dims()[i]);
}

}  // namespace

Tensor constant(const Array& array, Site site) {
  return call("constant", site, [&] { return tensor_of(node_of(Operand(array))); });
}

Tensor full(Shape shape, double value, Site site) {
  return call("full", site, [&] {
    trace_of_call();
    check_new_shape(shape);
    Node* scalar = scalar_node(value, false, shape.dtype);
    return tensor_of(shape.rank() == 0 ? scalar : hlo::broadcast(scalar, shape.dims, {}));
  });
}

Tensor zeros(Shape shape, Site site) {
  return call("zeros", site, [&] { return full(std::move(shape), 0); });
}
Tensor ones(Shape shape, Site site) {
  return call("ones", site, [&] { return full(std::move(shape), 1); });
}
Tensor zeros_like(Operand x) {
  return call("zeros_like", x.site(), [&] { return full(node_of(x)->shape, 0); });
}

Tensor iota(Shape shape, int64_t axis, Site site) {
  return call("iota", site, [&] {
    TraceState& trace = trace_of_call();
    check_new_shape(shape);
    const int64_t rank = shape.rank();
    if (axis < -rank || axis >= rank)
      call_error("axis {} is outside {}, which has rank {}", axis, to_string(shape), rank);
    if (shape.dtype == DType::pred)
      call_error("pred has no counts; use an integer or floating type");
    return tensor_of(hlo::iota(trace.here(), shape, axis < 0 ? axis + rank : axis));
  });
}

Tensor reshape(Operand x, Dims dims) {
  return call("reshape", x.site(), [&] {
    Node* node = node_of(x);
    dims = resolve_dims(node, dims);
    return tensor_of(node->dims() == dims ? node : hlo::reshape(node, dims));
  });
}

Tensor transpose(Operand x, std::vector<int64_t> permutation) {
  return call("transpose", x.site(), [&] {
    Node* node = node_of(x);
    if (permutation.empty()) {
      permutation.resize(static_cast<size_t>(node->rank()));
      std::iota(permutation.rbegin(), permutation.rend(), 0);
    }
    check_length(permutation, node, "dims in the permutation");
    for (int64_t& axis : permutation) axis = checked_axis(axis, node);
    checked_axes(permutation, node);
    if (std::is_sorted(permutation.begin(), permutation.end())) return tensor_of(node);
    return tensor_of(hlo::transpose(node, permutation));
  });
}

Tensor broadcast_to(Operand x, Dims dims) {
  return call("broadcast_to", x.site(), [&] {
    Node* node = node_of(x);
    const int64_t lead = static_cast<int64_t>(dims.size()) - node->rank();
    bool fits = lead >= 0;
    for (int64_t i = 0; fits && i < node->rank(); ++i)
      fits = node->dim(i) == 1 || node->dim(i) == dims[static_cast<size_t>(lead + i)];
    if (!fits)
      call_error("{} does not broadcast to {}; aligned at the end, sizes must be equal or 1",
                 describe(node), dims_text(dims));
    return tensor_of(broadcast_node(node, dims));
  });
}

Tensor expand_dims(Operand x, int64_t axis) {
  return call("expand_dims", x.site(), [&] {
    Node* node = node_of(x);
    const int64_t rank = node->rank() + 1;
    if (axis < -rank || axis >= rank)
      call_error("axis {} is outside the {} places for a new dim of {}", axis, rank,
                 describe(node));
    Dims dims = node->dims();
    dims.insert(dims.begin() + (axis < 0 ? axis + rank : axis), 1);
    return tensor_of(hlo::reshape(node, dims));
  });
}

Tensor squeeze(Operand x, int64_t axis) {
  return call("squeeze", x.site(), [&] {
    Node* node = node_of(x);
    const int64_t at = checked_axis(axis, node);
    if (node->dim(at) != 1)
      call_error("dim {} of {} has size {}; only dims of size 1 can be dropped", at, describe(node),
                 node->dim(at));
    Dims dims = node->dims();
    dims.erase(dims.begin() + at);
    return tensor_of(hlo::reshape(node, dims));
  });
}

Tensor slice(Operand x, Dims starts, Dims limits, Dims strides) {
  return call("slice", x.site(), [&] {
    Node* node = node_of(x);
    if (strides.empty()) strides.assign(starts.size(), 1);
    check_length(starts, node, "starts");
    check_length(limits, node, "limits");
    check_length(strides, node, "strides");
    check_slice(node, starts, limits, strides);
    return tensor_of(hlo::slice(node, starts, limits, strides));
  });
}

Tensor slice_dim(Operand x, int64_t axis, int64_t start, int64_t limit) {
  return call("slice_dim", x.site(), [&] {
    Node* node = node_of(x);
    const auto at = static_cast<size_t>(checked_axis(axis, node));
    Dims starts(node->dims().size(), 0);
    Dims limits = node->dims();
    starts[at] = start < 0 ? start + limits[at] : start;
    limits[at] = limit < 0 ? limit + limits[at] : limit;
    const Dims strides(starts.size(), 1);
    check_slice(node, starts, limits, strides);
    return tensor_of(hlo::slice(node, starts, limits, strides));
  });
}

Tensor concatenate(std::vector<Tensor> parts, int64_t axis, Site site) {
  return call("concatenate", site, [&] {
    if (parts.empty()) call_error("no parts given; give at least one tensor");
    std::vector<Node*> nodes;
    for (const Tensor& part : parts) nodes.push_back(node_of(part));
    const int64_t at = checked_axis(axis, nodes[0]);
    for (const Node* node : nodes) {
      Dims expected = nodes[0]->dims();
      if (node->rank() == nodes[0]->rank()) expected[static_cast<size_t>(at)] = node->dim(at);
      if (node->dims() != expected || node->shape.dtype != nodes[0]->shape.dtype)
        call_error("{} and {} do not fit along axis {}; dtypes and all other dims must be equal",
                   describe(nodes[0]), describe(node), at);
    }
    return tensor_of(nodes.size() == 1 ? nodes[0] : hlo::concatenate(nodes, at));
  });
}

Tensor pad(Operand x, std::vector<PaddingDim> padding, double value) {
  return call("pad", x.site(), [&] {
    Node* node = node_of(x);
    if (static_cast<int64_t>(padding.size()) != node->rank())
      call_error("{} paddings for {}, which has rank {}; give one per dim", padding.size(),
                 describe(node), node->rank());
    for (size_t i = 0; i < padding.size(); ++i) {
      const PaddingDim& p = padding[i];
      const int64_t size = node->dims()[i];
      const int64_t padded = size + p.low + p.high + p.interior * std::max<int64_t>(size - 1, 0);
      if (p.interior < 0 || padded < 0)
        call_error(
            "dim {} of {}: low {}, high {}, interior {} give size {}; sizes and interior "
            "padding are 0 or more",
            i, describe(node), p.low, p.high, p.interior, padded);
    }
    return tensor_of(
        hlo::pad(node, scalar_node(value, false, node->shape.dtype), std::move(padding)));
  });
}

Tensor one_hot(Operand indices, int64_t depth, DType dtype) {
  return call("one_hot", indices.site(), [&] {
    Node* node = node_of(indices, DType::s32);
    need_integer(node, "indices");
    if (depth < 0) call_error("depth {} is negative", depth);
    if (!is_computable(dtype))
      call_error("type {} is not supported; use an integer or floating type", dtype_name(dtype));
    Dims dims = node->dims();
    dims.push_back(depth);
    const int64_t last = node->rank();
    Node* counts = hlo::iota(node->parent(), Shape(node->shape.dtype, dims), last);
    Node* hit = hlo::compare(stretch(node, dims, {last}), counts, Direction::eq);
    return tensor_of(dtype == DType::pred ? hit : hlo::convert(hit, dtype));
  });
}

}  // namespace gspmd
