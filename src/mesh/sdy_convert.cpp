#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/mesh/sdy.h"
#include "mesh/device_terms.h"

namespace gspmd {
namespace {

int64_t stride_of(const SdyMesh& mesh, int64_t axis) {
  int64_t stride = 1;
  for (size_t i = mesh.axes.size(); i-- > static_cast<size_t>(axis) + 1;)
    stride *= mesh.axes[i].size;
  return stride;
}

DeviceOrder order_of(const SdyMesh& mesh) {
  return mesh.device_ids.empty() ? iota_order(mesh.num_devices()) : list_order(mesh.device_ids);
}

Digits digits_of(const SdyMesh& mesh, const SdyAxes& axes) {
  Digits digits;
  for (const SdyAxis& axis : axes)
    if (axis.size > 1) digits.push_back(to_digit(mesh, axis));
  return digits;
}

// A mesh whose axes are the parts that the lists of digits read, and what lies between them.
std::optional<SdyMesh> mesh_of_digits(const std::vector<Digits>& lists, DeviceOrder order) {
  const std::optional<Digits> atoms = common_atoms(lists);
  if (!atoms) return std::nullopt;
  SdyMesh mesh;
  int64_t above = order->count;
  const auto add = [&](int64_t size) {
    if (size > 1) mesh.axes.push_back({fmt::format("_axis_{}", mesh.axes.size()), size});
  };
  for (const Digit& atom : *atoms) {  // by descending stride
    const int64_t top = atom.stride * atom.size;
    if (above % top != 0) return std::nullopt;
    add(above / top);
    add(atom.size);
    above = atom.stride;
  }
  add(above);
  if (mesh.axes.empty()) mesh.axes.push_back({"_axis_0", 1});
  mesh.device_ids = ids_in_text(order);
  return mesh;
}

// Whether the devices are 0 to count - 1, in some order: the dialect has no others.
bool is_of_all(const DeviceOrderValue& order) {
  const std::vector<int64_t> devices = order.devices();
  return std::all_of(devices.begin(), devices.end(),
                     [&](int64_t device) { return device < order.count; });
}

SdySharding with_open_dims(SdySharding result, const Sharding& sharding) {
  for (size_t d = 0; d < sharding.open().size() && d < result.dims.size(); ++d)
    result.dims[d].open = sharding.open()[d];
  return result;
}

SdyMesh from_mesh(const Mesh& mesh) {
  SdyMesh result;
  result.axes = mesh.axes();
  result.device_ids = ids_in_text(mesh.order());
  return result;
}

}  // namespace

Mesh to_mesh(const SdyMesh& mesh) { return {mesh.axes, mesh.device_ids, Site{}}; }

Digit to_digit(const SdyMesh& mesh, const SdyAxis& axis) {
  const int64_t whole = mesh.axes.at(static_cast<size_t>(axis.axis)).size;
  return {axis.size, stride_of(mesh, axis.axis) * (whole / (axis.pre * axis.size))};
}

std::optional<SdyAxes> to_axes(const SdyMesh& mesh, const Digits& digits) {
  SdyAxes axes;
  for (const Digit& digit : digits) {
    int64_t top = digit.stride * digit.size;
    for (size_t i = 0; i < mesh.axes.size() && top > digit.stride; ++i) {
      const int64_t low = stride_of(mesh, static_cast<int64_t>(i));
      const int64_t high = low * mesh.axes[i].size;
      if (low >= top || top > high) continue;
      const int64_t bottom = std::max(low, digit.stride);
      if (high % top != 0 || top % bottom != 0 || bottom % low != 0) return std::nullopt;
      append_axis(axes, {static_cast<int64_t>(i), high / top, top / bottom});
      top = bottom;
    }
    if (top > digit.stride) return std::nullopt;
  }
  return axes;
}

Sharding to_sharding(const SdySharding& sharding, const SdyMeshes& meshes, const SdyAxes& manual,
                     bool keep_open) {
  const SdyMesh& mesh = meshes[sharding.mesh];
  if (mesh.is_maximal()) return Sharding::maximal(mesh.device_ids[0]);
  if (mesh.is_empty()) return Sharding::replicated();
  std::vector<Digits> dims;
  std::vector<bool> open;
  for (const SdyDim& dim : sharding.dims) {
    dims.push_back(digits_of(mesh, dim.axes));
    open.push_back(dim.open);
  }
  std::vector<Unreduced> unreduced;
  if (!sharding.unreduced.empty())
    unreduced.push_back({digits_of(mesh, sharding.unreduced), sharding.combiner});
  Sharding result = Sharding::tiled(order_of(mesh), std::move(dims), digits_of(mesh, manual),
                                    std::move(unreduced));
  if (result.is_tiled() && !result.is_replicated())
    result = result.with_mesh(std::make_shared<const Mesh>(to_mesh(mesh)));
  if (keep_open && result.is_tiled() && std::find(open.begin(), open.end(), true) != open.end())
    result = result.with_open(std::move(open));
  return result;
}

std::optional<SdySharding> from_sharding(const Sharding& sharding, int64_t rank,
                                         SdyMeshes& meshes) {
  if (sharding.kind() == ShardingKind::maximal)
    return closed_sharding(meshes.inlined({{}, {sharding.device()}}), 0);
  if (!sharding.is_tiled() || sharding.is_unreduced_everywhere()) return std::nullopt;
  if (sharding.order() != nullptr && !is_of_all(*sharding.order())) return std::nullopt;
  if (sharding.order() == nullptr)
    return with_open_dims(closed_sharding(meshes.inlined({}), rank), sharding);
  std::vector<Digits> lists;
  for (int64_t d = 0; d < rank; ++d) lists.push_back(sharding.dim(d));
  for (const Unreduced& unreduced : sharding.unreduced()) lists.push_back(unreduced.digits);
  const std::optional<SdyMesh> mesh = sharding.mesh() != nullptr
                                          ? from_mesh(*sharding.mesh())
                                          : mesh_of_digits(lists, sharding.order());
  if (!mesh || sharding.unreduced().size() > 1) return std::nullopt;
  SdySharding result = closed_sharding(meshes.inlined(*mesh), rank);
  for (size_t d = 0; d < lists.size(); ++d) {
    const std::optional<SdyAxes> axes = to_axes(*mesh, lists[d]);
    if (!axes) return std::nullopt;
    (d < static_cast<size_t>(rank) ? result.dims[d].axes : result.unreduced) = *axes;
  }
  if (!result.unreduced.empty()) result.combiner = sharding.unreduced()[0].combiner;
  return with_open_dims(std::move(result), sharding);
}

}  // namespace gspmd
