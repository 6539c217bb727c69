#include "gspmd/api/annotate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/emit.h"

namespace gspmd {

using namespace detail;

AxisRef::AxisRef(const char* axis) : name(axis == nullptr ? "" : axis) {}
AxisRef::AxisRef(std::string axis) : name(std::move(axis)) {}
AxisRef::AxisRef(OpenDim) : is_open(true) {}

DimSplit::DimSplit(Unsplit) {}
DimSplit::DimSplit(OpenDim marker) : axes_(std::vector{AxisRef(marker)}) {}
DimSplit::DimSplit(const char* axis) : axes_(std::vector{AxisRef(axis)}) {}
DimSplit::DimSplit(const std::string& axis) : axes_(std::vector{AxisRef(axis)}) {}
DimSplit::DimSplit(std::initializer_list<AxisRef> axes) : axes_(std::vector(axes)) {}
DimSplit::DimSplit(const std::vector<std::string>& axes)
    : axes_(std::vector<AxisRef>(axes.begin(), axes.end())) {}
DimSplit::DimSplit(std::vector<AxisRef> axes) : axes_(std::move(axes)) {}
DimSplit::DimSplit(const DimSplit& other) noexcept = default;
DimSplit::DimSplit(DimSplit&& other) noexcept = default;
DimSplit& DimSplit::operator=(const DimSplit& other) noexcept = default;
DimSplit& DimSplit::operator=(DimSplit&& other) noexcept = default;
DimSplit::~DimSplit() = default;
const std::vector<AxisRef>& DimSplit::axes() const { return axes_.get(); }
void DimSplit::split_over(int64_t axis) { axes_ = std::vector{AxisRef(axis)}; }

SplitDims::SplitDims(std::initializer_list<DimSplit> dims) : dims_(std::vector(dims)) {}
SplitDims::SplitDims(std::vector<DimSplit> dims) : dims_(std::move(dims)) {}
SplitDims::SplitDims(const SplitDims& other) noexcept = default;
SplitDims::SplitDims(SplitDims&& other) noexcept = default;
SplitDims& SplitDims::operator=(const SplitDims& other) noexcept = default;
SplitDims& SplitDims::operator=(SplitDims&& other) noexcept = default;
SplitDims::~SplitDims() = default;
const std::vector<DimSplit>& SplitDims::dims() const { return dims_.get(); }

namespace {

struct Split {
  std::vector<std::vector<int64_t>> axes;  // per dim, mesh axes, major first
  std::vector<bool> open;
};

std::string axes_text(const Mesh& mesh) {
  if (mesh.rank() == 0) return "no axes";
  std::vector<std::string> texts;
  for (const MeshAxis& axis : mesh.axes())
    texts.push_back(fmt::format("{}={}", axis.name, axis.size));
  return fmt::format("axes {}", fmt::join(texts, ", "));
}

int64_t axis_number(const Mesh& mesh, const AxisRef& axis, size_t dim, const std::string& what) {
  if (axis.is_number) {
    if (axis.number < 0 || axis.number >= mesh.rank())
      call_error("axis {} for dim {} of {} is not in the mesh, which has {}; give 0 to {} or -1",
                 axis.number, dim, what, axes_text(mesh), mesh.rank() - 1);
    return axis.number;
  }
  if (mesh.rank() == 0)
    call_error("axis \"{}\" for dim {} of {}: the mesh is empty; give it axes or use _", axis.name,
               dim, what);
  if (!mesh.has(axis.name))
    call_error(
        "axis \"{}\" for dim {} of {} is not in the mesh, which has {}; use one of them or _",
        axis.name, dim, what, axes_text(mesh));
  return mesh.index(axis.name);
}

Split resolve(const Mesh& mesh, const SplitDims& dims, const std::string& what) {
  Split split;
  std::vector<int64_t> used(static_cast<size_t>(mesh.rank()), -1);
  for (size_t i = 0; i < dims.dims().size(); ++i) {
    split.axes.emplace_back();
    split.open.push_back(false);
    for (const AxisRef& axis : dims.dims()[i].axes()) {
      if (axis.is_open) {
        split.open.back() = true;
        continue;
      }
      const int64_t number = axis_number(mesh, axis, i, what);
      int64_t& before = used[static_cast<size_t>(number)];
      if (before >= 0) {
        const MeshAxis& repeated = mesh.axes()[static_cast<size_t>(number)];
        const std::string where = before == static_cast<int64_t>(i)
                                      ? fmt::format("dim {} twice", i)
                                      : fmt::format("dims {} and {}", before, i);
        call_error("axis \"{}\" (size {}) splits {} of {}; an axis may split one dim only",
                   repeated.name, repeated.size, where, what);
      }
      before = static_cast<int64_t>(i);
      split.axes.back().push_back(number);
    }
  }
  return split;
}

Sharding to_sharding(const Mesh& mesh, const SplitDims& dims, const std::string& what) {
  const Split split = resolve(mesh, dims, what);
  bool any_open = false;
  for (const bool open : split.open) any_open = any_open || open;
  const Sharding sharding =
      mesh_sharding(mesh, split.axes, any_open ? split.open : std::vector<bool>(), called_site());
  return mesh.rank() == 0 ? sharding : sharding.with_mesh(std::make_shared<const Mesh>(mesh));
}

// Every annotation of a program is for the same number of devices.
void check_devices(int64_t num_devices, const std::string& text) {
  TraceState& trace = trace_of_call();
  if (trace.num_devices == 0) {
    trace.num_devices = num_devices;
    trace.mesh_text = text;
  }
  if (trace.num_devices != num_devices)
    call_error("{} has {} devices, but {} was used before with {}; one program runs on one mesh",
               text, num_devices, trace.mesh_text, trace.num_devices);
}

// What an annotation in the function given to shard_map says: the manual axes are the function's.
Sharding in_region(const ManualRegion& region, const Node* node, const Sharding& s) {
  if (tile_count(region.digits) == region.mesh.num_devices())
    call_error(
        "{} is what one device has, in a shard_map whose manual axes are all of the mesh's; "
        "there is no axis left to split it over",
        describe(node));
  if (!s.is_tiled() || s.shard_group() != 0)
    call_error("{} cannot be annotated with {} in the function given to shard_map; use mesh_split",
               describe(node), to_string(s));
  std::vector<Digits> dims;
  for (int64_t d = 0; d < node->rank(); ++d) {
    dims.push_back(s.dim(d));
    if (!disjoint(s.dim(d), region.digits))
      call_error(
          "dim {} of {} is split over an axis that is manual here, {}; split it over the "
          "others, or in in_specs",
          d, describe(node), fmt::join(region.axes, ", "));
  }
  return region.inside(std::move(dims)).with_mesh(s.mesh()).with_open(s.open());
}

Tensor emit_annotation(Node* node, const Sharding& sharding) {
  Attributes attrs;
  attrs.custom_call_target = "Sharding";
  Node* annotated =
      emit(node->parent(), Opcode::custom_call, {node}, std::move(attrs), node->shape);
  const ManualRegion* region = trace_of_call().region;
  annotated->sharding = region == nullptr ? sharding : in_region(*region, node, sharding);
  return tensor_of(annotated);
}

}  // namespace

Tensor mesh_split(Operand x, const Mesh& mesh, const SplitDims& dims) {
  return call("mesh_split", x.site(), [&] {
    Node* node = node_of(x);
    const std::string what = describe(node);
    if (static_cast<int64_t>(dims.dims().size()) != node->rank())
      call_error("{} entries for {}, which has rank {}; give one per dim, _ where it is not split",
                 dims.dims().size(), what, node->rank());
    const Sharding sharding = to_sharding(mesh, dims, what);
    if (mesh.rank() > 0) check_devices(mesh.num_devices(), to_string(mesh));
    return emit_annotation(node, sharding);
  });
}

Tensor annotate(Operand x, const Sharding& sharding) {
  return call("annotate", x.site(), [&] {
    Node* node = node_of(x);
    if (sharding.is_tuple() || sharding.rank() > node->rank())
      call_error("sharding {} does not fit {}, which has rank {}; give a sharding of this rank",
                 to_string(sharding), describe(node), node->rank());
    if (sharding.kind() == ShardingKind::maximal && sharding.device() < 0)
      call_error("device {} of {} is negative; devices count from 0", sharding.device(),
                 to_string(sharding));
    if (sharding.is_tiled() && sharding.order())
      check_devices(sharding.order()->count, to_string(sharding));
    return emit_annotation(node, sharding);
  });
}

Sharding sharding_of(const Mesh& mesh, const SplitDims& dims, Site site) {
  return call("sharding_of", site, [&] {
    return to_sharding(mesh, dims, fmt::format("a tensor of rank {}", dims.dims().size()));
  });
}

}  // namespace gspmd
