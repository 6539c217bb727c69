#include <fmt/format.h>

#include "gspmd/base/error.h"
#include "gspmd/mesh/sdy.h"

namespace gspmd {
namespace {

std::string axis_text(const SdyAxis& axis, const SdyMesh& mesh) {
  const MeshAxis& whole = mesh.axes.at(static_cast<size_t>(axis.axis));
  if (axis.size == whole.size) return fmt::format("\"{}\"", whole.name);
  return fmt::format("\"{}\":({}){}", whole.name, axis.pre, axis.size);
}

std::string axes_text(const SdyAxes& axes, const SdyMesh& mesh) {
  std::string text;
  for (const SdyAxis& axis : axes)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", axis_text(axis, mesh));
  return text;
}

std::string dim_text(const SdyDim& dim, const SdyMesh& mesh) {
  std::string text = axes_text(dim.axes, mesh);
  if (dim.open) text += text.empty() ? "?" : ", ?";
  return dim.priority ? fmt::format("{{{}}}p{}", text, *dim.priority) : fmt::format("{{{}}}", text);
}

bool is_bare(const std::string& name) {
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '$' && c != '.')
      return false;
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0;
}

std::string symbol_text(const std::string& name) {
  return is_bare(name) ? name : fmt::format("\"{}\"", name);
}

}  // namespace

std::string to_string(const SdyMesh& mesh) {
  std::string text;
  for (const MeshAxis& axis : mesh.axes)
    text += fmt::format("{}\"{}\"={}", text.empty() ? "" : ", ", axis.name, axis.size);
  if (mesh.device_ids.empty()) return fmt::format("<[{}]>", text);
  return fmt::format("<[{}], device_ids=[{}]>", text, fmt::join(mesh.device_ids, ", "));
}

std::string to_string(const SdyMeshes& meshes) {
  std::string text;
  for (int64_t i = 0; i < meshes.size(); ++i)
    if (!meshes.name(i).empty())
      text += fmt::format("{}{} = #sdy.mesh{}", text.empty() ? "" : ", ",
                          symbol_text(meshes.name(i)), to_string(meshes[i]));
  return fmt::format("{{{}}}", text);
}

std::string to_string(const SdySharding& sharding, const SdyMeshes& meshes) {
  const SdyMesh& mesh = meshes[sharding.mesh];
  const std::string& name = meshes.name(sharding.mesh);
  std::string dims;
  for (const SdyDim& dim : sharding.dims)
    dims += fmt::format("{}{}", dims.empty() ? "" : ", ", dim_text(dim, mesh));
  std::string text = fmt::format("<{}{}, [{}]", name.empty() ? "mesh" : "@",
                                 name.empty() ? to_string(mesh) : symbol_text(name), dims);
  if (!sharding.replicated.empty())
    text += fmt::format(", replicated={{{}}}", axes_text(sharding.replicated, mesh));
  if (!sharding.unreduced.empty())
    text += fmt::format(
        ", unreduced={}{{{}}}",
        sharding.combiner == Combiner::sum ? "" : std::string(combiner_name(sharding.combiner)),
        axes_text(sharding.unreduced, mesh));
  return text + ">";
}

std::string to_attribute(const SdySharding& sharding, const SdyMeshes& meshes) {
  return fmt::format("#sdy.sharding{}", to_string(sharding, meshes));
}

std::string to_attribute(const std::vector<SdySharding>& shardings, const SdyMeshes& meshes) {
  std::string text;
  for (const SdySharding& sharding : shardings)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", to_string(sharding, meshes));
  return fmt::format("#sdy.sharding_per_value<[{}]>", text);
}

void check_sharding(const SdySharding& sharding, const Shape& shape, const SdyMeshes& meshes) {
  const SdyMesh& mesh = meshes[sharding.mesh];
  if (mesh.is_maximal()) {
    if (!sharding.dims.empty())
      user_error("sdy.sharding: {} names dims on the mesh of one device {}; write []",
                 to_string(sharding, meshes), to_string(mesh));
    return;
  }
  if (shape.is_tuple)
    user_error("sdy.sharding: {} on a tuple; give each element one", to_string(sharding, meshes));
  if (std::ssize(sharding.dims) != shape.rank())
    user_error("sdy.sharding: {} has {} dims for {} of rank {}; give one entry per dim",
               to_string(sharding, meshes), sharding.dims.size(), to_string(shape), shape.rank());
  for (size_t d = 0; d < sharding.dims.size(); ++d)
    if (shape.dims[d] == 0 && !sharding.dims[d].axes.empty())
      user_error("sdy.sharding: {} splits dim {} of {}, which has no elements; leave it whole",
                 to_string(sharding, meshes), d, to_string(shape));
}

}  // namespace gspmd
