#include "gspmd/mesh/mesh.h"

#include <fmt/format.h>

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/base/shape.h"

namespace gspmd {
namespace {

constexpr int64_t kMostDevices = int64_t{1} << 31;
constexpr size_t kMaxAxes = 256;  // 31 axes of size 2 are the most that split anything

std::string axis_list(const std::vector<MeshAxis>& axes) {
  std::string text;
  for (const MeshAxis& axis : axes)
    text += fmt::format("{}'{}'={}", text.empty() ? "" : ",", axis.name, axis.size);
  return text;
}

void check_axes(const std::vector<MeshAxis>& axes, Site site) {
  if (axes.size() > kMaxAxes)
    user_error(site, "mesh: {} axes; at most {} are possible", axes.size(), kMaxAxes);
  int64_t count = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    const MeshAxis& axis = axes[i];
    if (axis.name.empty())
      user_error(site, "mesh: axis {} of {} has no name; give every axis one", i, axes.size());
    for (const char c : axis.name)
      if (c == '\'' || c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ')
        user_error(site,
                   "mesh: axis name {} holds a quote, backslash or control character; "
                   "names are written between quotes, leave these out",
                   i);
    if (axis.size < 1)
      user_error(site, "mesh: axis \"{}\" has size {}; sizes are at least 1", axis.name, axis.size);
    for (size_t j = 0; j < i; ++j)
      if (axes[j].name == axis.name)
        user_error(site, "mesh: axes {} and {} are both named \"{}\"; names must differ", j, i,
                   axis.name);
    count = saturating_multiply(count, axis.size);
    if (count > kMostDevices)
      user_error(site, "mesh: [{}] has more than 2^31 devices; make its axes smaller",
                 axis_list(axes));
  }
}

DeviceOrder checked_order(const std::vector<MeshAxis>& axes, std::vector<int64_t> devices,
                          Site site) {
  int64_t count = 1;
  for (const MeshAxis& axis : axes) count *= axis.size;
  if (devices.empty()) return iota_order(count);
  if (static_cast<int64_t>(devices.size()) != count)
    user_error(site, "mesh: {} device ids given for the {} devices of [{}]; give one id each",
               devices.size(), count, axis_list(axes));
  std::vector<int64_t> sorted = devices;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.front() < 0)
    user_error(site, "mesh: device id {} is negative; ids start at 0", sorted.front());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    user_error(site, "mesh: device id {} is given twice; every position needs its own device",
               *twice);
  return list_order(std::move(devices));
}

}  // namespace

Mesh::Mesh(std::vector<MeshAxis> axes, std::vector<int64_t> devices, Site site)
    : axes_(std::move(axes)) {
  check_axes(axes_, site);
  order_ = checked_order(axes_, std::move(devices), site);
}

Mesh::Mesh(std::initializer_list<MeshAxis> axes, Site site)
    : Mesh(std::vector<MeshAxis>(axes), {}, site) {}

Mesh::Mesh() = default;
Mesh::Mesh(const Mesh& other) noexcept = default;
Mesh::Mesh(Mesh&& other) noexcept = default;
Mesh& Mesh::operator=(const Mesh& other) noexcept = default;
Mesh& Mesh::operator=(Mesh&& other) noexcept = default;
Mesh::~Mesh() = default;
bool Mesh::operator==(const Mesh& other) const = default;

const std::vector<MeshAxis>& Mesh::axes() const { return axes_.get(); }
int64_t Mesh::rank() const { return static_cast<int64_t>(axes_.size()); }
int64_t Mesh::num_devices() const { return order_->count; }

bool Mesh::has(std::string_view axis) const {
  return std::any_of(axes_.begin(), axes_.end(), [&](const MeshAxis& a) { return a.name == axis; });
}

int64_t Mesh::index(std::string_view axis, Site site) const {
  for (size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i].name == axis) return static_cast<int64_t>(i);
  if (axes_.empty()) user_error(site, "mesh: there is no axis \"{}\"; the mesh has no axes", axis);
  user_error(site, "mesh: there is no axis \"{}\"; the axes are {}", axis, axis_list(axes_));
}

int64_t Mesh::size(std::string_view axis, Site site) const {
  return axes_[static_cast<size_t>(index(axis, site))].size;
}

Digit Mesh::digit(int64_t axis) const {
  if (axis < 0 || axis >= rank()) internal_error("mesh: axis number {} of {} axes", axis, rank());
  int64_t stride = 1;
  for (size_t i = axes_.size(); i-- > static_cast<size_t>(axis) + 1;) stride *= axes_[i].size;
  return {axes_[static_cast<size_t>(axis)].size, stride};
}

std::string to_string(const Mesh& mesh) {
  std::string text = fmt::format("mesh[{}]", axis_list(mesh.axes()));
  if (!mesh.order()->is_iota())
    text += fmt::format(", device_ids=[{}]", fmt::join(mesh.order()->devices(), ","));
  return text;
}

}  // namespace gspmd
