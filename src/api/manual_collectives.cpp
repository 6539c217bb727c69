#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "api/emit.h"
#include "api/varying.h"
#include "gspmd/api/shard_map.h"

namespace gspmd {

using namespace detail;

namespace {

// The manual axes that a collective is over.
struct Over {
  const ManualRegion& region;
  Digits digits;  // in the order given, without axes of one device
  int64_t size = 1;
};

Over group_over(const AxisNames& axes) {
  const ManualRegion* region = trace_of_call().region;
  if (axes.names().empty()) call_error("no axis is given; name one of the mesh");
  if (region == nullptr)
    call_error("axis \"{}\" is manual in the function given to shard_map only; call it there",
               axes.names()[0]);
  Over result{*region, {}, 1};
  for (size_t i = 0; i < axes.names().size(); ++i) {
    const std::string& axis = axes.names()[i];
    if (!region->mesh.has(axis))
      call_error("axis \"{}\" is not in the mesh, {}; use one of its axes", axis,
                 to_string(region->mesh));
    if (!region->is_manual(axis))
      call_error(
          "axis \"{}\" is automatic in this shard_map, whose manual axes are {}; add it to "
          "them",
          axis, fmt::join(region->axes, ", "));
    if (std::find(axes.names().begin(), axes.names().begin() + static_cast<std::ptrdiff_t>(i),
                  axis) != axes.names().begin() + static_cast<std::ptrdiff_t>(i))
      call_error("axis \"{}\" is given twice; name each axis once", axis);
    const Digit digit = region->mesh.digit(region->mesh.index(axis));
    result.size *= digit.size;
    if (digit.size > 1) result.digits.push_back(digit);
  }
  return result;
}

Node* exchanged(Opcode opcode, Node* x, const Over& group, Dims dims, Shape shape,
                bool combines = false) {
  Attributes attrs;
  attrs.dimensions = std::move(dims);
  attrs.replica_groups = groups_over(group.region.mesh.order(), group.digits);
  attrs.channel_id = 1;
  attrs.use_global_device_ids = opcode != Opcode::all_to_all;
  std::vector<Computation*> called;
  if (combines)
    called.push_back(binary_computation(x->parent().module(), Opcode::add, x->shape.dtype));
  return emit(x->parent(), opcode, {x}, std::move(attrs), std::move(shape), std::move(called));
}

Node* reduced(Node* x, const Over& group, Opcode combiner) {
  if (group.digits.empty()) return x;
  Attributes attrs;
  attrs.replica_groups = groups_over(group.region.mesh.order(), group.digits);
  attrs.channel_id = 1;
  attrs.use_global_device_ids = true;
  return emit(x->parent(), Opcode::all_reduce, {x}, std::move(attrs), x->shape,
              {binary_computation(x->parent().module(), combiner, x->shape.dtype)});
}

Tensor reduction(const char* op, const Operand& x, const AxisNames& axes, Opcode combiner,
                 Needs needs) {
  return call(op, x.site(), [&] {
    const Over along = group_over(axes);
    Node* node = node_of(x);
    check_needs(node, needs);
    return tensor_of(reduced(node, along, combiner));
  });
}

Node* with_dim(Node* x, int64_t at, int64_t size) {
  Dims dims = x->dims();
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at), size);
  return hlo::reshape(x, dims);
}

Node* without_dim(Node* x, int64_t at) {
  Dims dims = x->dims();
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(at));
  return hlo::reshape(x, dims);
}

// `axis` of a value of this rank, which is that of the value with the new dim where there is one.
int64_t dim_of(int64_t axis, int64_t rank, const char* name, const Node* x) {
  if (axis < -rank || axis >= rank)
    call_error("{} {} is outside of the {} dims of {}", name, axis, rank, describe(x));
  return axis < 0 ? axis + rank : axis;
}

void check_divides(const Node* x, int64_t dim, const Over& along, bool tiled) {
  if (tiled && x->dim(dim) % along.size != 0)
    call_error("dim {} of {} does not divide by the {} devices along the axes; pad it first", dim,
               describe(x), along.size);
  if (!tiled && x->dim(dim) != along.size)
    call_error(
        "dim {} of {} has {} elements for {} devices along the axes; give it one for each, or say "
        "{{.tiled = true}}",
        dim, describe(x), x->dim(dim), along.size);
}

Node* move_dim(Node* x, int64_t from, int64_t to) {
  if (from == to) return x;
  Dims order;
  for (int64_t d = 0; d < x->rank(); ++d)
    if (d != from) order.push_back(d);
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), from);
  return hlo::transpose(x, order);
}

// Dim `dim` of n times m elements as two dims, of n and of m, or two such dims as one.
Node* cut_dim(Node* x, int64_t dim, int64_t n) {
  Dims dims = x->dims();
  const auto at = static_cast<size_t>(dim);
  dims[at] /= n;
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(dim), n);
  return hlo::reshape(x, dims);
}
Node* join_dims(Node* x, int64_t dim) {
  Dims dims = x->dims();
  const auto at = static_cast<size_t>(dim);
  dims[at + 1] *= dims[at];
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(dim));
  return hlo::reshape(x, dims);
}

void check_permutation(const std::vector<std::pair<int64_t, int64_t>>& pairs, int64_t size) {
  std::vector<bool> sends(static_cast<size_t>(size)), receives(static_cast<size_t>(size));
  for (const auto& [source, target] : pairs) {
    for (const int64_t end : {source, target})
      if (end < 0 || end >= size)
        call_error("pair {{{}, {}}} names device {}; there are 0 to {} along the axes", source,
                   target, end, size - 1);
    if (sends[static_cast<size_t>(source)])
      call_error("device {} sends twice; a device sends to one other", source);
    if (receives[static_cast<size_t>(target)])
      call_error("device {} is sent to twice; a device gets from one other", target);
    sends[static_cast<size_t>(source)] = receives[static_cast<size_t>(target)] = true;
  }
}

}  // namespace

Tensor psum(Operand x, const AxisNames& axes) {
  return reduction("psum", x, axes, Opcode::add, Needs::number);
}
Tensor pmax(Operand x, const AxisNames& axes) {
  return reduction("pmax", x, axes, Opcode::maximum, Needs::real);
}
Tensor pmin(Operand x, const AxisNames& axes) {
  return reduction("pmin", x, axes, Opcode::minimum, Needs::real);
}

Tensor pmean(Operand x, const AxisNames& axes) {
  return call("pmean", x.site(), [&] {
    const Over along = group_over(axes);
    Node* node = node_of(x);
    check_needs(node, Needs::analytic);
    Node* sum = reduced(node, along, Opcode::add);
    return tensor_of(along.size == 1 ? sum : divide(sum, static_cast<double>(along.size)));
  });
}

Tensor all_gather(Operand x, const AxisNames& axes, const GatherOptions& options) {
  return call("all_gather", x.site(), [&] {
    const Over along = group_over(axes);
    Node* node = node_of(x);
    const int64_t dim = dim_of(options.axis, node->rank() + (options.tiled ? 0 : 1), "axis", node);
    if (!options.tiled) node = with_dim(node, dim, 1);
    if (along.digits.empty()) return tensor_of(node);
    Shape shape = node->shape;
    int64_t& size = shape.dims[static_cast<size_t>(dim)];
    size = saturating_multiply(size, along.size);
    return tensor_of(exchanged(Opcode::all_gather, node, along, {dim}, std::move(shape)));
  });
}

Tensor psum_scatter(Operand x, const AxisNames& axes, const GatherOptions& options) {
  return call("psum_scatter", x.site(), [&] {
    const Over along = group_over(axes);
    Node* node = node_of(x);
    check_needs(node, Needs::number);
    const int64_t dim = dim_of(options.axis, node->rank(), "axis", node);
    check_divides(node, dim, along, options.tiled);
    if (!along.digits.empty()) {
      Shape shape = node->shape;
      shape.dims[static_cast<size_t>(dim)] /= along.size;
      node = exchanged(Opcode::reduce_scatter, node, along, {dim}, std::move(shape), true);
    }
    return tensor_of(options.tiled ? node : without_dim(node, dim));
  });
}

Tensor all_to_all(Operand x, const AxisNames& axes, const AllToAllOptions& options) {
  return call("all_to_all", x.site(), [&] {
    const Over along = group_over(axes);
    Node* node = node_of(x);
    const int64_t split = dim_of(options.split_axis, node->rank(), "split_axis", node);
    const int64_t concat = dim_of(options.concat_axis, node->rank(), "concat_axis", node);
    check_divides(node, split, along, options.tiled);
    // The pieces along a dim 0 of their own: number i goes to device i, and there the place tells
    // whose it was.
    if (options.tiled) node = cut_dim(node, split, along.size);
    node = move_dim(node, split, 0);
    if (!along.digits.empty()) node = exchanged(Opcode::all_to_all, node, along, {0}, node->shape);
    node = move_dim(node, 0, concat);
    return tensor_of(options.tiled ? join_dims(node, concat) : node);
  });
}

Tensor ppermute(Operand x, const AxisNames& axes,
                const std::vector<std::pair<int64_t, int64_t>>& permutation) {
  return call("ppermute", x.site(), [&] {
    const Over along = group_over(axes);
    Node* node = node_of(x);
    check_permutation(permutation, along.size);
    if (along.digits.empty()) return tensor_of(permutation.empty() ? splat_like(node, 0) : node);
    Attributes attrs;
    attrs.channel_id = 1;
    Permutation& pairs = attrs.permutation.edit();
    for (const auto& group : materialize(groups_over(along.region.mesh.order(), along.digits),
                                         along.region.mesh.num_devices()))
      for (const auto& [source, target] : permutation)
        pairs.pairs.edit().emplace_back(group[static_cast<size_t>(source)],
                                        group[static_cast<size_t>(target)]);
    return tensor_of(emit(node->parent(), Opcode::collective_permute, {node}, std::move(attrs)));
  });
}

Tensor axis_index(const AxisNames& axes, Site site) {
  return call("axis_index", site, [&] {
    const Over along = group_over(axes);
    Computation& c = trace_of_call().here();
    if (along.digits.empty()) return tensor_of(hlo::scalar(c, DType::s32, 0));
    const Mesh& mesh = along.region.mesh;
    int64_t most = 0;
    for (int64_t rank = 0; rank < mesh.num_devices(); ++rank)
      most = std::max(most, mesh.order()->device(rank));
    Array indices(DType::s32, {most + 1});
    for (int64_t rank = 0; rank < mesh.num_devices(); ++rank)
      indices.set(mesh.order()->device(rank), static_cast<double>(tile_index(along.digits, rank)));
    // A value that no other one is an input of: completion is told that it is a device's own.
    Node* device = emit(c, Opcode::partition_id, {}, {}, Shape(DType::u32, {}));
    device->sharding = along.region.inside({});
    Node* place = hlo::convert(device, DType::s32);
    Node* index = hlo::reshape(hlo::dynamic_slice(hlo::constant(c, indices), {place}, {1}), {});
    index->frontend_attributes[kVariesAlong] = fmt::format("{}", fmt::join(axes.names(), ","));
    return tensor_of(index);
  });
}

int64_t axis_size(const AxisNames& axes, Site site) {
  return call("axis_size", site, [&] { return group_over(axes).size; });
}

}  // namespace gspmd
