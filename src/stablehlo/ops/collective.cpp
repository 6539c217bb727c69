// Collectives.
#include <algorithm>
#include <numeric>

#include "stablehlo/lowering.h"

namespace gspmd::stablehlo {
namespace {

constexpr int64_t kMostDevices = int64_t{1} << 31;

// A mesh of the text: sizes by name, and its devices.
struct MeshAxes {
  std::vector<std::pair<std::string, int64_t>> axes;
  std::vector<int64_t> devices;  // empty: 0, 1, ...
};

// "<["x"=2, "y"=2], device_ids=[0, 2, 1, 3]>", of sdy.
MeshAxes read_sdy_mesh(const std::string& text) {
  MeshAxes mesh;
  Cursor cursor(text, "mesh", 0, text.size());
  cursor.accept("#sdy.mesh");
  cursor.expect("<", "before a mesh");
  cursor.expect("[", "before the axes of a mesh");
  while (!cursor.accept("]")) {
    if (!mesh.axes.empty()) cursor.expect(",", "between the axes of a mesh");
    std::string name = cursor.quoted("an axis");
    cursor.expect("=", "behind the name of an axis");
    mesh.axes.emplace_back(std::move(name), cursor.integer("the size of an axis"));
  }
  if (cursor.accept(",")) {
    cursor.expect_word("device_ids", "behind the axes of a mesh");
    cursor.expect("=", "behind device_ids");
    cursor.expect("[", "before device ids");
    while (!cursor.accept("]")) {
      mesh.devices.push_back(cursor.integer("a device"));
      cursor.accept(",");
    }
  }
  return mesh;
}

class Groups {
 public:
  explicit Groups(OpLowering& op) : op_(op) {}

  Rare<ReplicaGroups> read(const Attribute& attribute) {
    if (attribute.kind == AttributeKind::dialect) return of_axes(attribute);
    if (attribute.kind != AttributeKind::dense || attribute.type->shape.rank() != 2)
      op_.fail("replica_groups is dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, or of mesh axes");
    const Dims flat = op_.integers_of(attribute, "replica_groups");
    const int64_t size = attribute.type->shape.dims[1];
    ReplicaGroups groups;
    std::vector<int64_t> all;
    for (size_t i = 0; i < flat.size(); ++i) {
      if (static_cast<int64_t>(i) % size == 0) groups.lists.emplace_back();
      if (flat[i] == -1) continue;  // a group of fewer devices
      if (flat[i] < 0) op_.fail("replica_groups: device {} is negative", flat[i]);
      groups.lists.back().push_back(flat[i]);
      all.push_back(flat[i]);
    }
    std::sort(all.begin(), all.end());
    const auto twice = std::adjacent_find(all.begin(), all.end());
    if (twice != all.end()) op_.fail("replica_groups: device {} stands in two places", *twice);
    if (all.empty()) groups.lists.clear();
    return groups;
  }

 private:
  // One digit of the grid for each axis listed.
  Rare<ReplicaGroups> of_axes(const Attribute& attribute) {
    MeshAxes mesh;
    Digits digits;
    const Dictionary fields = op_.fields(attribute);
    for (const NamedAttribute& field : fields)
      if (field.name == "mesh") mesh = mesh_of(field.value);
    int64_t count = 1;
    for (const auto& [name, size] : mesh.axes) count = saturating_multiply(count, size);
    if (mesh.axes.empty() || count < 1 || count > kMostDevices)
      op_.fail("replica_groups: the mesh has {} devices", count);
    for (const NamedAttribute& field : fields)
      if (field.name == "axes")
        for (const Attribute& axis : field.value.list) {
          const Digit next = digit_of(mesh, axis);
          for (const Digit& digit : digits)
            if (next.stride < digit.stride * digit.size && digit.stride < next.stride * next.size)
              op_.fail("replica_groups: an axis, or a part of one, is listed twice");
          digits.push_back(next);
        }
    if (!mesh.devices.empty() && std::ssize(mesh.devices) != count)
      op_.fail("replica_groups: {} device_ids for {} devices", mesh.devices.size(), count);
    std::vector<int64_t> sorted = mesh.devices;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i)
      if (sorted[i] != static_cast<int64_t>(i))
        op_.fail("replica_groups: device_ids are no permutation");
    const DeviceOrder order = mesh.devices.empty() ? iota_order(count) : list_order(mesh.devices);
    digits = canonical(digits);
    if (!digits.empty()) return groups_over(order, digits);
    ReplicaGroups groups;  // each device alone
    groups.num_groups = count;
    groups.group_size = 1;
    groups.reshape = {count};
    return groups;
  }

  MeshAxes mesh_of(const Attribute& value) {
    if (value.kind == AttributeKind::symbol) {
      for (const Mesh& mesh : op_.lowering().syntax().meshes)
        if (mesh.name == value.text) return read_sdy_mesh(mesh.text);
      op_.fail("there is no mesh @{}", value.text);
    }
    MeshAxes mesh;
    for (const NamedAttribute& field : op_.fields(value)) {
      if (field.name == "device_ids") mesh.devices = op_.integers_of(field.value, "device_ids");
      if (field.name != "axes") continue;
      for (const Attribute& axis : field.value.list) {
        auto& [name, size] = mesh.axes.emplace_back();
        for (const NamedAttribute& part : op_.fields(axis)) {
          if (part.name == "name") name = part.value.text;
          if (part.name == "size") size = part.value.integer;
        }
      }
    }
    return mesh;
  }

  // "<name = "y", sub_axis_info = (1)2>".
  Digit digit_of(const MeshAxes& mesh, const Attribute& axis) {
    Cursor cursor = op_.lowering().cursor().sub(axis.body, axis.body_end);
    cursor.expect_word("name", "in an axis");
    cursor.expect("=", "behind name");
    const std::string name = cursor.quoted("an axis");
    int64_t stride = 1, size = 0;
    for (size_t i = mesh.axes.size(); i-- > 0;) {
      if (mesh.axes[i].first == name) {
        size = mesh.axes[i].second;
        break;
      }
      stride *= mesh.axes[i].second;
    }
    if (size == 0) op_.fail("the mesh has no axis \"{}\"", name);
    if (!cursor.accept(",")) return {size, stride};
    cursor.expect_word("sub_axis_info", "in an axis");
    cursor.expect("=", "behind sub_axis_info");
    cursor.expect("(", "before the size in front of a sub-axis");
    const int64_t before = cursor.integer("the size in front of a sub-axis");
    cursor.expect(")", "behind the size in front of a sub-axis");
    const int64_t part = cursor.integer("the size of a sub-axis");
    if (before < 1 || part < 1 || saturating_multiply(before, part) > size ||
        size % (before * part) != 0)
      op_.fail("\"{}\":({}){} is no part of an axis of {}", name, before, part, size);
    return {part, stride * (size / (before * part))};
  }

  OpLowering& op_;
};

void add_channel(OpLowering& op, Attributes& attrs) {
  const Attribute* const channel = op.find("channel_handle");
  if (channel != nullptr)
    for (const NamedAttribute& field : op.fields(*channel))
      if (field.name == "handle" && field.value.integer > 0) attrs.channel_id = field.value.integer;
  if (const Attribute* const id = op.find("channel_id"); id != nullptr && id->integer > 0)
    attrs.channel_id = id->integer;
}

// Groups of processes of a program inside another one, as groups of partitions (2.6 of the
// specification: process_groups). `reduces`: ops that may be over replicas and partitions at once.
std::vector<std::vector<int64_t>> process_groups(const OpLowering& op, const Attributes& attrs,
                                                 const Processes& grid, bool reduces) {
  const bool is_flat = attrs.use_global_device_ids;
  const bool of_partitions = attrs.channel_id && !reduces;
  const int64_t ids = is_flat         ? grid.replicas * grid.partitions
                      : of_partitions ? grid.partitions
                                      : grid.replicas;
  std::vector<std::vector<int64_t>> result;
  for (const std::vector<int64_t>& group : materialize(attrs.replica_groups, ids)) {
    for (const int64_t id : group)
      if (id >= ids) op.fail("replica_groups: there is no process {}, there are {}", id, ids);
    if (is_flat) {
      result.push_back(group);
    } else if (of_partitions) {
      for (int64_t r = 0; r < grid.replicas; ++r)
        for (auto& made = result.emplace_back(); const int64_t p : group)
          made.push_back(r * grid.partitions + p);
    } else {
      for (int64_t p = 0; p < grid.partitions; ++p) {
        if (p == 0 || !attrs.channel_id) result.emplace_back();
        for (const int64_t r : group) result.back().push_back(r * grid.partitions + p);
      }
    }
  }
  return result;
}

Attributes collective_attributes(OpLowering& op, bool reduces = false) {
  Attributes attrs;
  if (const Attribute* const groups = op.find("replica_groups"))
    attrs.replica_groups = Groups(op).read(*groups);
  add_channel(op, attrs);
  attrs.use_global_device_ids = op.flag("use_global_device_ids", false);
  if (const std::optional<Processes>& grid = op.lowering().processes()) {
    ReplicaGroups groups;
    groups.lists = process_groups(op, attrs, *grid, reduces);
    attrs.replica_groups = std::move(groups);
    attrs.channel_id = 1;
    attrs.use_global_device_ids = reduces;
  }
  return attrs;
}

Shape declared(const OpLowering& op) {
  std::vector<Shape> results;
  for (size_t i = 0; i < op.result_count(); ++i) results.push_back(op.result(i));
  return results.size() == 1 ? results[0] : Shape::tuple(results);
}

// Several operands of all_reduce and all_gather are one exchange with a tuple.
Node* lower_all_gather(OpLowering& op) {
  Attributes attrs = collective_attributes(op, true);
  attrs.dimensions = {op.integer("all_gather_dim")};
  return op.emit(Opcode::all_gather, op.operands(), std::move(attrs), declared(op));
}

Node* lower_all_reduce(OpLowering& op) {
  Attributes attrs = collective_attributes(op, true);
  Computation* const body = op.body(0, "region");
  return op.emit(Opcode::all_reduce, op.operands(), std::move(attrs), declared(op), {body});
}

Node* lower_cross_replica_sum(OpLowering& op) {
  op.need_operands(1, 1);
  Attributes attrs = collective_attributes(op, true);
  Computation* const body =
      binary_computation(op.lowering().module(), Opcode::add, op.operand(0)->shape.dtype);
  return op.emit(Opcode::all_reduce, op.operands(), std::move(attrs), declared(op), {body});
}

Node* lower_reduce_scatter(OpLowering& op) {
  op.need_operands(1, 1);
  Attributes attrs = collective_attributes(op, true);
  attrs.dimensions = {op.integer("scatter_dimension")};
  Computation* const body = op.body(0, "region");
  return op.emit(Opcode::reduce_scatter, op.operands(), std::move(attrs), declared(op), {body});
}

// Split along one dim and joined along another: HLO has one dim for both, so the parts are moved to
// the dim that they are joined along before they are exchanged (sdy_all_to_all).
Node* all_to_all(OpLowering& op, Node* x, const Attributes& attrs, int64_t split, int64_t concat,
                 int64_t parts) {
  Attributes own = attrs;
  own.dimensions = {concat};
  const int64_t devices = group_size(attrs.replica_groups, op.lowering().module().num_partitions);
  const ReplicaGroups& groups = attrs.replica_groups;
  if ((!groups.lists.empty() || groups.num_groups > 0) && parts != devices)
    op.fail("split_count {} for groups of {} devices; each gets one part", parts, devices);
  if (split == concat) return op.emit(Opcode::all_to_all, {x}, std::move(own));
  Dims dims = x->dims();
  const auto s = static_cast<size_t>(split), c = static_cast<size_t>(concat);
  if (parts < 1 || dims[s] % parts != 0)
    op.fail("split_count {} does not divide dim {} of {}", parts, split, to_string(x->shape));
  dims[s] /= parts;
  Dims apart = dims;
  apart.insert(apart.begin() + split, parts);
  x = op.implicit(hlo::reshape(x, apart));
  Dims order;
  for (int64_t d = 0; d < std::ssize(apart); ++d) {
    if (d == split) continue;
    if (d == (concat < split ? concat : concat + 1)) order.push_back(split);
    order.push_back(d);
  }
  x = op.implicit(hlo::transpose(x, order));
  dims[c] = saturating_multiply(dims[c], parts);
  return op.emit(Opcode::all_to_all, {op.implicit(hlo::reshape(x, dims))}, std::move(own));
}

Node* lower_all_to_all(OpLowering& op) {
  const Attributes attrs = collective_attributes(op);
  const int64_t split = op.integer("split_dimension"), concat = op.integer("concat_dimension"),
                parts = op.integer("split_count");
  std::vector<Node*> results;
  for (Node* x : op.operands()) {
    if (split < 0 || split >= x->rank() || concat < 0 || concat >= x->rank())
      op.fail("dims {} and {} of {}", split, concat, to_string(x->shape));
    results.push_back(all_to_all(op, x, attrs, split, concat, parts));
  }
  if (results.size() == 1) return results[0];
  op.set_results(results);
  return results.empty() ? nullptr : results[0];
}

// The same of pairs.
std::vector<std::pair<int64_t, int64_t>> process_pairs(const OpLowering& op, const Processes& grid,
                                                       const Attributes& attrs) {
  const bool of_partitions = attrs.channel_id.has_value();
  const int64_t ids = of_partitions ? grid.partitions : grid.replicas;
  const int64_t others = of_partitions ? grid.replicas : grid.partitions;
  const auto process = [&](int64_t id, int64_t other) {
    return of_partitions ? other * grid.partitions + id : id * grid.partitions + other;
  };
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (const auto& [source, target] : attrs.permutation->pairs) {
    if (source >= ids || target >= ids)
      op.fail("source_target_pairs: {} to {}, there are {} processes", source, target, ids);
    for (int64_t other = 0; other < others; ++other)
      pairs.emplace_back(process(source, other), process(target, other));
  }
  return pairs;
}

Node* lower_collective_permute(OpLowering& op) {
  Attributes attrs;
  add_channel(op, attrs);
  attrs.permutation.edit().pairs = op.pairs("source_target_pairs");
  for (const auto& [source, target] : attrs.permutation->pairs)
    if (source < 0 || target < 0) op.fail("source_target_pairs: {} to {}", source, target);
  if (const std::optional<Processes>& grid = op.lowering().processes()) {
    attrs.permutation.edit().pairs = process_pairs(op, *grid, attrs);
    attrs.channel_id = 1;
  }
  return op.emit(Opcode::collective_permute, op.operands(), std::move(attrs), declared(op));
}

Node* lower_collective_broadcast(OpLowering& op) {
  Attributes attrs = collective_attributes(op);
  if (op.flag("has_dynamic_root", false))
    op.fail("has_dynamic_root is not supported; the first of a group sends");
  return op.emit(Opcode::collective_broadcast, op.operands(), std::move(attrs), declared(op));
}

// What is undefined where it is no root is the sum there too.
Node* lower_collective_reduce(OpLowering& op) {
  if (op.flag("has_dynamic_root", false)) op.fail("has_dynamic_root is not supported");
  return lower_all_reduce(op);
}

Node* lower_id(OpLowering& op) {
  const std::optional<Processes>& grid = op.lowering().processes();
  if (!grid) return op.emit(op.opcode(), {}, {}, Shape(DType::u32, {}));
  Node* const process = op.emit(Opcode::partition_id, {}, {}, Shape(DType::u32, {}));
  Node* const count =
      hlo::scalar(op.computation(), DType::u32, static_cast<double>(grid->partitions));
  return hlo::binary(op.opcode() == Opcode::replica_id ? Opcode::divide : Opcode::remainder,
                     process, count);
}

// clang-format off
const OpRow kCollectiveRows[] = {
    {"stablehlo.all_gather", lower_all_gather, Opcode::all_gather},
    {"stablehlo.all_reduce", lower_all_reduce, Opcode::all_reduce},
    {"stablehlo.reduce_scatter", lower_reduce_scatter, Opcode::reduce_scatter},
    {"stablehlo.all_to_all", lower_all_to_all, Opcode::all_to_all},
    {"stablehlo.collective_permute", lower_collective_permute, Opcode::collective_permute},
    {"stablehlo.collective_broadcast", lower_collective_broadcast, Opcode::collective_broadcast},
    {"stablehlo.collective_reduce", lower_collective_reduce, Opcode::all_reduce},
    {"stablehlo.cross-replica-sum", lower_cross_replica_sum, Opcode::all_reduce},
    {"stablehlo.replica_id", lower_id, Opcode::replica_id},
    {"stablehlo.partition_id", lower_id, Opcode::partition_id},
};
// clang-format on

}  // namespace

std::span<const OpRow> collective_rows() { return kCollectiveRows; }

}  // namespace gspmd::stablehlo
