#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/mesh/sdy.h"

namespace gspmd {

int64_t SdyMesh::num_devices() const {
  int64_t count = 1;
  for (const MeshAxis& axis : axes) count = saturating_multiply(count, axis.size);
  return count;
}

int64_t SdyMesh::axis(std::string_view name) const {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == name) return static_cast<int64_t>(i);
  return -1;
}

int64_t shard_count(const SdyAxes& axes) {
  int64_t count = 1;
  for (const SdyAxis& axis : axes) count = saturating_multiply(count, axis.size);
  return count;
}

bool overlap(const SdyAxis& a, const SdyAxis& b) {
  if (a.axis != b.axis) return false;
  if (a == b) return true;  // axes of size 1 too
  return a.pre < b.pre * b.size && b.pre < a.pre * a.size;
}

std::optional<SdyAxis> prefix_without(const SdyAxis& a, const SdyAxis& other) {
  if (!overlap(a, other)) return a;
  if (a.pre >= other.pre || other.pre % a.pre != 0) return std::nullopt;
  const int64_t size = other.pre / a.pre;
  if (a.size % size != 0) return std::nullopt;  // no part of `a` ends there
  return SdyAxis{a.axis, a.pre, size};
}

bool is_prefix(const SdyAxis& a, const SdyAxis& b) {
  return a.axis == b.axis && a.pre == b.pre && b.size % a.size == 0;
}

bool is_prefix(const SdyAxes& a, const SdyAxes& b) {
  if (a.size() > b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (i + 1 != a.size() || !is_prefix(a[i], b[i])) return false;
  }
  return true;
}

bool is_strict_prefix(const SdyAxes& a, const SdyAxes& b) { return a != b && is_prefix(a, b); }

void append_axis(SdyAxes& axes, const SdyAxis& axis) {
  if (!axes.empty() && axes.back().axis == axis.axis &&
      axes.back().pre * axes.back().size == axis.pre && axis.size > 1)
    axes.back().size *= axis.size;
  else
    axes.push_back(axis);
}

bool SdySharding::splits_nothing() const {
  return std::all_of(dims.begin(), dims.end(), [](const SdyDim& d) { return d.axes.empty(); });
}

int64_t SdyMeshes::add(std::string name, SdyMesh mesh) {
  if (find(name) >= 0) user_error("sdy.mesh: @{} is defined twice; give it another name", name);
  names_.push_back(std::move(name));
  meshes_.push_back(std::move(mesh));
  return size() - 1;
}

int64_t SdyMeshes::find(std::string_view name) const {
  for (size_t i = 0; i < names_.size(); ++i)
    if (!names_[i].empty() && names_[i] == name) return static_cast<int64_t>(i);
  return -1;
}

int64_t SdyMeshes::inlined(SdyMesh mesh) {
  for (size_t i = 0; i < names_.size(); ++i)
    if (names_[i].empty() && meshes_[i] == mesh) return static_cast<int64_t>(i);
  names_.emplace_back();
  meshes_.push_back(std::move(mesh));
  return size() - 1;
}

SdySharding open_sharding(int64_t mesh, int64_t rank) {
  SdySharding result;
  result.mesh = mesh;
  result.dims.assign(static_cast<size_t>(rank), SdyDim{{}, true, std::nullopt});
  return result;
}

SdySharding closed_sharding(int64_t mesh, int64_t rank) {
  SdySharding result;
  result.mesh = mesh;
  result.dims.assign(static_cast<size_t>(rank), SdyDim{});
  return result;
}

}  // namespace gspmd
