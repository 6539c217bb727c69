#pragma once

// Shardings as Shardy's dialect `sdy` says them, as values: meshes, axes and parts of axes, dims
// that are open or closed, priorities. docs/spec/sharding.md 5.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/base/shape.h"
#include "gspmd/mesh/mesh.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

// A mesh: `<["x"=4, "y"=2], device_ids=[...]>`. Without axes and ids it is a placeholder that fits
// any other mesh; without axes and with one id it is that device.
struct SdyMesh {
  std::vector<MeshAxis> axes;       // major first
  std::vector<int64_t> device_ids;  // empty: 0, 1, 2, ...
  // --- Of the forms without axes
  bool is_empty() const { return axes.empty() && device_ids.empty(); }
  bool is_maximal() const { return axes.empty() && device_ids.size() == 1; }
  int64_t num_devices() const;                // product of the axes' sizes
  int64_t axis(std::string_view name) const;  // its number; -1: none of the name
  bool operator==(const SdyMesh&) const = default;
};

// An axis of a mesh, or a part of it: of the digits [pre, size, rest] of the axis the middle one.
// The whole axis has pre 1 and the axis's size.
struct SdyAxis {
  int64_t axis = 0;  // number in the mesh
  int64_t pre = 1;   // product of the sizes major to the part
  int64_t size = 1;  // number of parts
  bool operator==(const SdyAxis&) const = default;
};
using SdyAxes = std::vector<SdyAxis>;  // major first

GSPMD_API int64_t shard_count(const SdyAxes& axes);  // product of sizes, saturating
// Whether the two read a common digit of one axis.
GSPMD_API bool overlap(const SdyAxis& a, const SdyAxis& b);
// `a` or the leading part of it that shares nothing with `other`; nullopt: none is left.
GSPMD_API std::optional<SdyAxis> prefix_without(const SdyAxis& a, const SdyAxis& other);
// Whether `a` begins `b`: they are equal, or a is a leading part of b.
GSPMD_API bool is_prefix(const SdyAxis& a, const SdyAxis& b);
// Whether `b` begins with `a`; the last axis of `a` may be a leading part of its counterpart.
GSPMD_API bool is_prefix(const SdyAxes& a, const SdyAxes& b);
// The same, and the two differ.
GSPMD_API bool is_strict_prefix(const SdyAxes& a, const SdyAxes& b);
// Appends, joining with the last axis where the two are neighbouring parts of one.
GSPMD_API void append_axis(SdyAxes& axes, const SdyAxis& axis);

// How one dim is split: by `axes`, to which propagation may append where it is open.
struct SdyDim {
  SdyAxes axes;                     // that split it, major first
  bool open = false;                // whether propagation may append axes
  std::optional<int64_t> priority;  // p1: heard in round 1; absent: in round 0
  bool operator==(const SdyDim&) const = default;
};

// How one value is laid out: `<@mesh, [{"x"}, {?}], replicated={"y"}, unreduced={"z"}>`.
struct SdySharding {
  int64_t mesh = 0;                   // number in the SdyMeshes it was read with
  std::vector<SdyDim> dims;           // one per dim; of a maximal mesh none
  SdyAxes replicated = {};            // may not be used by this value
  SdyAxes unreduced = {};             // the value is partial along these
  Combiner combiner = Combiner::sum;  // of the partials: sum, max or min
  bool operator==(const SdySharding&) const = default;
  bool splits_nothing() const;  // no dim has an axis
};

// The meshes of a module, in order: named ones, and those that shardings spell out themselves.
class GSPMD_API SdyMeshes {
 public:
  int64_t add(std::string name, SdyMesh mesh);  // its number; UserError: the name is taken
  int64_t find(std::string_view name) const;    // -1: none of the name
  int64_t inlined(SdyMesh mesh);                // the number of one without a name, added if new
  // --- By number, from 0 to size() - 1; no name: inlined
  const SdyMesh& operator[](int64_t i) const { return meshes_.at(static_cast<size_t>(i)); }
  const std::string& name(int64_t i) const { return names_.at(static_cast<size_t>(i)); }
  int64_t size() const { return static_cast<int64_t>(meshes_.size()); }

  // An inlined mesh gets a name.
  void rename(int64_t i, std::string name) { names_.at(static_cast<size_t>(i)) = std::move(name); }

 private:
  std::vector<std::string> names_;  // empty: inlined
  std::vector<SdyMesh> meshes_;
};

// --- Text. Parsers throw UserError with the column inside `text` and the way out.
// "{mesh = #sdy.mesh<["x"=2]>, ...}", the module's attribute xla.sdy.meshes.
GSPMD_API SdyMeshes parse_sdy_meshes(std::string_view text);
GSPMD_API SdyMesh parse_sdy_mesh(std::string_view text);  // with or without #sdy.mesh
// "#sdy.sharding<...>", or "<...>".
GSPMD_API SdySharding parse_sdy_sharding(std::string_view text, SdyMeshes& meshes);
// "#sdy.sharding_per_value<[<...>, <...>]>"; of a single sharding a list of one.
GSPMD_API std::vector<SdySharding> parse_sdy_shardings(std::string_view text, SdyMeshes& meshes);
// `#sdy<manual_axes{"a", "b"}>`: names.
GSPMD_API std::vector<std::string> parse_sdy_manual_axes(std::string_view text);
GSPMD_API std::string to_string(const SdyMesh& mesh);  // <["x"=2, "y"=2]>
GSPMD_API std::string to_string(const SdyMeshes& meshes);
GSPMD_API std::string to_string(const SdySharding& sharding, const SdyMeshes& meshes);  // <@m, []>
// As the value of an attribute: "#sdy.sharding<@m, []>", or per value of a list.
GSPMD_API std::string to_attribute(const SdySharding& sharding, const SdyMeshes& meshes);
GSPMD_API std::string to_attribute(const std::vector<SdySharding>& shardings,
                                   const SdyMeshes& meshes);

// UserError that names mesh, dim and axis where the sharding does not fit a value of this shape, or
// says an axis twice. `local`: sizes are those of a shard along some axes.
GSPMD_API void check_sharding(const SdySharding& sharding, const Shape& shape,
                              const SdyMeshes& meshes);

// --- A sharding of nothing, all dims open or all closed.
GSPMD_API SdySharding open_sharding(int64_t mesh, int64_t rank);
GSPMD_API SdySharding closed_sharding(int64_t mesh, int64_t rank);

// --- To and from the library's own form
GSPMD_API Mesh to_mesh(const SdyMesh& mesh);
// The digits of an axis of the mesh.
GSPMD_API Digit to_digit(const SdyMesh& mesh, const SdyAxis& axis);
// The axes and parts of axes that read the digits; nullopt: the mesh has no such parts.
GSPMD_API std::optional<SdyAxes> to_axes(const SdyMesh& mesh, const Digits& digits);
// The layout, with `manual` axes beside it, and the mesh attached. Dims become closed unless
// `keep_open`; priorities are of the annotation and go.
GSPMD_API Sharding to_sharding(const SdySharding& sharding, const SdyMeshes& meshes,
                               const SdyAxes& manual = {}, bool keep_open = false);
// The other way: named shardings keep their mesh, others get a mesh with made-up axes `_axis_0`,
// ...; nullopt for what sdy has no word for (unknown, wholly manual, a combiner that it lacks).
GSPMD_API std::optional<SdySharding> from_sharding(const Sharding& sharding, int64_t rank,
                                                   SdyMeshes& meshes);

}  // namespace gspmd
