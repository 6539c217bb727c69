#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "gspmd/mesh/sharding.h"
#include "mesh/device_terms.h"
#include "mesh/digit_tools.h"
#include "mesh/sharding_text.h"

namespace gspmd {
namespace {

std::string group_text(const Sharding& sharding) {
  if (sharding.shard_group() == 0) return "";
  return fmt::format(" {} {}", sharding.shard_group_is_as() ? "shard_as" : "shard_like",
                     sharding.shard_group() - 1);
}

std::string subgroup_text(const std::string& types) {
  if (types.empty()) return "";
  if (types == "r") return " last_tile_dim_replicate";
  std::string text;
  for (const char type : types) {
    const std::string_view name = type == 'm' ? "manual" : type == 'u' ? "unreduced" : "replicated";
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
  }
  return fmt::format(" last_tile_dims={{{}}}", text);
}

std::string iota_text(const Digits& sequence) {
  const IotaForm form = iota_form(sequence);
  std::string text = fmt::format("<=[{}]", fmt::join(form.reshape, ","));
  if (!form.transpose.empty()) text += fmt::format("T({})", fmt::join(form.transpose, ","));
  return text;
}

// The device list, as an iota where it is one under another order of ranks.
std::string list_text(const Sharding& sharding) {
  const DeviceArray array = device_array(sharding, sharding.rank());
  const int64_t n[] = {static_cast<int64_t>(array.devices.size())};
  if (const std::optional<std::vector<Digits>> digits = find_digits(n, array.devices))
    return iota_text(digits->front());
  return fmt::format("{}", fmt::join(array.devices, ","));
}

std::string tiled_text(const Sharding& sharding) {
  Dims dims;
  std::string types;
  for (int64_t i = 0; i < sharding.rank(); ++i) dims.push_back(sharding.tiles(i));
  for (const auto& [type, digits] : ShardingText::subgroups(sharding)) {
    dims.push_back(tile_count(digits));
    types += type;
  }
  const std::string devices = sharding.order()->is_iota()
                                  ? iota_text(ShardingText::sequence(sharding))
                                  : list_text(sharding);
  return fmt::format("{{devices=[{}]{}{}{}}}", fmt::join(dims, ","), devices, subgroup_text(types),
                     group_text(sharding));
}

// 'x', or 'x':(pre)size where the digit reads a part of the axis only; false where the mesh has no
// such part.
bool append_axes(const Digit& digit, const Mesh& mesh, std::vector<std::string>& axes) {
  int64_t top = digit.stride * digit.size;
  for (int64_t a = 0; a < mesh.rank() && top > digit.stride; ++a) {
    const Digit axis = mesh.digit(a);
    const int64_t axis_top = axis.stride * axis.size;
    if (axis.size == 1 || top <= axis.stride) continue;
    if (top > axis_top) return false;
    const int64_t low = std::max(axis.stride, digit.stride);
    if (axis_top % top != 0 || top % low != 0 || low % axis.stride != 0) return false;
    const std::string& name = mesh.axes()[static_cast<size_t>(a)].name;
    if (top == axis_top && low == axis.stride)
      axes.push_back(fmt::format("'{}'", name));
    else
      axes.push_back(fmt::format("'{}':({}){}", name, axis_top / top, top / low));
    top = low;
  }
  return top == digit.stride;
}

// "{'x', 'y':(1)2}"
std::optional<std::string> axes_text(const Digits& digits, const Mesh& mesh, bool open) {
  std::vector<std::string> axes;
  for (const Digit& d : digits)
    if (!append_axes(d, mesh, axes)) return std::nullopt;
  if (open) axes.emplace_back("?");
  return fmt::format("{{{}}}", fmt::join(axes, ", "));
}

// Axes a0, a1, ... for what has no other spelling: one per atom of all digits.
Mesh made_up_mesh(const Sharding& sharding) {
  std::vector<MeshAxis> axes;
  Digits sequence = ShardingText::sequence(sharding);
  std::sort(sequence.begin(), sequence.end(),
            [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
  for (const Digit& d : sequence) axes.push_back({fmt::format("a{}", axes.size()), d.size});
  return Mesh(std::move(axes), ids_in_text(sharding.order()));
}

bool needs_combiners(const Sharding& sharding) {
  return sharding.order() &&
         std::any_of(sharding.unreduced().begin(), sharding.unreduced().end(),
                     [](const Unreduced& u) { return u.combiner != Combiner::sum; });
}

std::string unmeshed_text(const Sharding& sharding) {
  const std::string group = group_text(sharding);
  switch (sharding.kind()) {
    case ShardingKind::manual:
      return fmt::format("{{manual{}}}", group);
    case ShardingKind::unknown:
      return fmt::format("{{unknown{}}}", group);
    case ShardingKind::maximal:
      return fmt::format("{{maximal device={}{}}}", sharding.device(), group);
    default:
      break;
  }
  if (sharding.order()) return tiled_text(sharding);
  if (sharding.is_replicated()) return fmt::format("{{replicated{}}}", group);
  const Combiner combiner = sharding.unreduced().front().combiner;
  if (combiner == Combiner::sum) return fmt::format("{{unreduced{}}}", group);
  return fmt::format("{{unreduced={}{}}}", combiner_name(combiner), group);
}

std::string tuple_text(const Sharding& sharding, std::string (*element_text)(const Sharding&)) {
  std::vector<std::string> elements;
  for (const Sharding& element : sharding.elements()) elements.push_back(element_text(element));
  return fmt::format("{{{}}}", fmt::join(elements, ", "));
}

}  // namespace

std::optional<std::string> named_text(const Sharding& sharding, const Mesh& mesh) {
  if (!sharding.is_tiled() || sharding.is_unreduced_everywhere()) return std::nullopt;
  if (sharding.order() && sharding.order() != mesh.order()) return std::nullopt;
  std::vector<std::string> dims;
  const auto open_dims = static_cast<int64_t>(sharding.open().size());
  for (int64_t i = 0; i < std::max(sharding.rank(), open_dims); ++i) {
    const bool open = i < open_dims && sharding.open()[static_cast<size_t>(i)];
    const std::optional<std::string> axes = axes_text(sharding.dim(i), mesh, open);
    if (!axes) return std::nullopt;
    dims.push_back(*axes);
  }
  std::string text = fmt::format("{{{}, [{}]", to_string(mesh), fmt::join(dims, ", "));
  for (const Unreduced& u : sharding.unreduced()) {
    const std::optional<std::string> axes = axes_text(u.digits, mesh, false);
    if (!axes) return std::nullopt;
    const std::string_view combiner =
        u.combiner == Combiner::sum ? std::string_view() : combiner_name(u.combiner);
    text += fmt::format(", unreduced={}{}", combiner, *axes);
  }
  if (!sharding.manual_digits().empty()) {
    const std::optional<std::string> axes = axes_text(sharding.manual_digits(), mesh, false);
    if (!axes) return std::nullopt;
    text += fmt::format(", manual={}", *axes);
  }
  return fmt::format("{}{}}}", text, group_text(sharding));
}

std::string to_string(const Sharding& sharding) {
  if (sharding.is_tuple()) return tuple_text(sharding, to_string);
  const bool plain = sharding.is_replicated() && sharding.open().empty();
  if (sharding.mesh() && !plain && !ShardingText::is_spelled(sharding))
    if (std::optional<std::string> text = named_text(sharding, *sharding.mesh())) return *text;
  if (needs_combiners(sharding))
    if (std::optional<std::string> text = named_text(sharding, made_up_mesh(sharding)))
      return *text;
  return unmeshed_text(sharding);
}

std::string to_string_v2(const Sharding& sharding) {
  if (sharding.is_tuple()) return tuple_text(sharding, to_string_v2);
  return unmeshed_text(sharding);
}

}  // namespace gspmd
