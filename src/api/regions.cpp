#include "gspmd/api/regions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "api/emit.h"

namespace gspmd {

using namespace detail;

namespace {

Tensor with_priority(const Tensor& annotated, int64_t priority) {
  if (priority < 0) call_error("priority {} is negative; 0 is heard first", priority);
  Node* node = TensorAccess::node(annotated);
  if (priority > 0) node->frontend_attributes["gspmd.priority"] = fmt::format("{}", priority);
  return annotated;
}

// How a Sharding op says which dims are open; "" for none.
std::string open_config(const std::vector<bool>& open) {
  std::vector<size_t> dims;
  for (size_t d = 0; d < open.size(); ++d)
    if (open[d]) dims.push_back(d);
  return dims.empty() ? "" : fmt::format("\"unspecified_dims=[{}]\"", fmt::join(dims, ","));
}

Node* emit_call(Node* x, const char* target, const Sharding* sharding, Shape shape,
                const std::vector<bool>& open = {}) {
  Attributes attrs;
  attrs.custom_call_target = target;
  const std::string config = open_config(open);
  if (!config.empty()) attrs.other["backend_config"] = config;
  Node* node = emit(x->parent(), Opcode::custom_call, {x}, std::move(attrs), std::move(shape));
  if (sharding) node->sharding = *sharding;
  return node;
}

std::pair<Tensor, Tensor> grouped(const char* op, Operand& a, Operand& b, bool as) {
  return call(op, a.site(), [&] {
    Node* first = node_of(a);
    Node* second = node_of(b);
    if (first->rank() != second->rank())
      call_error("{} and {} have ranks {} and {}; give values of one rank", describe(first),
                 describe(second), first->rank(), second->rank());
    // Node ids are unique in a module, and so are groups named after them.
    const int64_t group = first->parent().module().next_id() + 1;
    const Sharding member = Sharding::unknown().with_shard_group(group, as);
    Node* x = emit_call(first, "Sharding", &member, first->shape);
    Node* y = emit_call(second, "Sharding", &member, second->shape);
    return std::pair{tensor_of(x), tensor_of(y)};
  });
}

struct ManualLayout {
  Sharding outside, inside;
  Dims parts;  // per dim, how many pieces the manual axes make
};

Digits without(const Digits& digits, const Digits& manual) {
  Digits kept;
  for (const Digit& digit : digits)
    if (disjoint({digit}, manual)) kept.push_back(digit);
  return kept;
}

ManualLayout layout_of(const Node* x, const Mesh& mesh, const SplitDims& dims,
                       const std::vector<std::string>& axes) {
  if (trace_of_call().region != nullptr)
    call_error(
        "called in the function given to shard_map, which is manual already; give the axes "
        "to shard_map");
  if (static_cast<int64_t>(dims.dims().size()) != x->rank())
    call_error("{} entries for {}, which has rank {}; give one per dim, _ where it is not split",
               dims.dims().size(), describe(x), x->rank());
  ManualLayout layout;
  layout.outside = sharding_of(mesh, dims, called_site());
  Digits manual;
  for (const std::string& axis : axes) {
    if (!mesh.has(axis))
      call_error("{} has no axis \"{}\" to be manual; give some of its own", to_string(mesh), axis);
    const Digit digit = mesh.digit(mesh.index(axis));
    if (digit.size > 1) manual.push_back(digit);
  }
  std::vector<Digits> inside(dims.dims().size());
  layout.parts.assign(inside.size(), 1);
  for (size_t d = 0; d < inside.size(); ++d) {
    // Axes of one dim may have been joined into one digit: take them one by one.
    Digits all;
    for (const AxisRef& axis : dims.dims()[d].axes()) {
      if (axis.is_open) continue;
      const Digit digit = mesh.digit(axis.is_number ? axis.number : mesh.index(axis.name));
      if (digit.size > 1) all.push_back(digit);
    }
    inside[d] = without(all, manual);
    layout.parts[d] = tile_count(all) / tile_count(inside[d]);
  }
  const bool everything = tile_count(manual) == mesh.num_devices();
  layout.inside =
      everything ? Sharding::manual() : Sharding::tiled(mesh.order(), std::move(inside), manual);
  return layout;
}

}  // namespace

Tensor annotate(Operand x, const Sharding& sharding, const AnnotateOptions& options) {
  return call("annotate", x.site(),
              [&] { return with_priority(annotate(x, sharding), options.priority); });
}

Tensor mesh_split(Operand x, const Mesh& mesh, const SplitDims& dims,
                  const AnnotateOptions& options) {
  return call("mesh_split", x.site(),
              [&] { return with_priority(mesh_split(x, mesh, dims), options.priority); });
}

std::pair<Tensor, Tensor> shard_as(Operand a, Operand b) { return grouped("shard_as", a, b, true); }

std::pair<Tensor, Tensor> shard_like(Operand a, Operand b) {
  return grouped("shard_like", a, b, false);
}

Tensor shard_barrier_from(Operand x) {
  return call("shard_barrier_from", x.site(), [&] {
    Node* node = node_of(x);
    return tensor_of(emit_call(node, "ShardBarrierFrom", nullptr, node->shape));
  });
}

Tensor shard_barrier_to(Operand x) {
  return call("shard_barrier_to", x.site(), [&] {
    Node* node = node_of(x);
    return tensor_of(emit_call(node, "ShardBarrierTo", nullptr, node->shape));
  });
}

Tensor auto_to_manual(Operand x, const Mesh& mesh, const SplitDims& dims,
                      const std::vector<std::string>& axes) {
  return call("auto_to_manual", x.site(), [&] {
    Node* node = node_of(x);
    const ManualLayout layout = layout_of(node, mesh, dims, axes);
    Shape part = node->shape;
    for (size_t d = 0; d < part.dims.size(); ++d) {
      if (part.dims[d] % layout.parts[d] != 0)
        call_error("dim {} of {} has {} elements, the manual axes cut it into {}; pad it", d,
                   describe(node), part.dims[d], layout.parts[d]);
      part.dims[d] /= layout.parts[d];
    }
    const std::vector<bool> open = layout.outside.open();
    Node* annotated = TensorAccess::node(mesh_split(x, mesh, dims));
    const std::string config = open_config(open);
    if (!config.empty()) annotated->attrs.other["backend_config"] = config;
    return tensor_of(
        emit_call(annotated, "SPMDFullToShardShape", &layout.inside, std::move(part), open));
  });
}

Tensor manual_to_auto(Operand x, const Mesh& mesh, const SplitDims& dims,
                      const std::vector<std::string>& axes) {
  return call("manual_to_auto", x.site(), [&] {
    Node* node = node_of(x);
    const ManualLayout layout = layout_of(node, mesh, dims, axes);
    Shape whole = node->shape;
    for (size_t d = 0; d < whole.dims.size(); ++d)
      whole.dims[d] = saturating_multiply(whole.dims[d], layout.parts[d]);
    const std::vector<bool> open = layout.outside.open();
    const Sharding inside = open.empty() ? layout.inside : layout.inside.with_open(open);
    Node* annotated = emit_call(node, "Sharding", &inside, node->shape, open);
    const Sharding outside = layout.outside.with_open({});
    return tensor_of(
        emit_call(annotated, "SPMDShardToFullShape", &outside, std::move(whole), open));
  });
}

}  // namespace gspmd
