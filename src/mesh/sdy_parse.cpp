#include "mesh/sdy_parse.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace gspmd {
namespace {

constexpr int64_t kMostListedDevices = int64_t{1} << 24;

}  // namespace

void SdyParser::fail_at(size_t column, const std::string& what) const {
  const std::string_view text = text_.text();
  constexpr size_t kShown = 120;
  user_error("{}, at column {} of `{}{}`", what, column, text.substr(0, kShown),
             text.size() > kShown ? "..." : "");
}

char SdyParser::peek() { return text_.peek(); }

bool SdyParser::accept(std::string_view marks) { return text_.accept(marks); }

void SdyParser::expect(char mark, const char* place) {
  if (accept(std::string_view(&mark, 1))) return;
  fail_at(text_.column(), fmt::format("sdy: '{}' is missing {}", mark, place));
}

void SdyParser::end() {
  if (!text_.at_end()) fail_at(text_.column(), "sdy: something stands behind the attribute");
}

int64_t SdyParser::integer(const char* what) {
  try {
    return text_.number(what);
  } catch (const UserError&) {
    fail_at(text_.column(), fmt::format("sdy: a number is missing or too large where the {} "
                                        "should stand",
                                        what));
  }
}

// A string of MLIR or of HLO, whose quotes may still be written \22 or \".
std::string SdyParser::string() {
  if (peek() != '"' && !accept("\\22") && !accept("\\\""))
    fail_at(text_.column(), "sdy: an axis name in quotes is missing");
  accept("\"");
  const std::string_view all = text_.text();
  const size_t start = text_.column();
  const size_t end = all.find_first_of("\"\\", start);
  if (end == std::string_view::npos) fail_at(start, "sdy: the quote before this is not closed");
  text_.rewind(end);
  if (!accept("\"") && !accept("\\22") && !accept("\\\""))
    fail_at(end, "sdy: an escape inside the name of an axis");
  return std::string(all.substr(start, end - start));
}

// A symbol or key: a bare word, or a quoted one.
std::string SdyParser::symbol(const char* what) {
  if (peek() == '"' || peek() == '\\') return string();
  const std::string_view all = text_.text();
  const size_t start = text_.column();
  size_t end = start;
  const auto belongs = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '$' ||
           c == '-';
  };
  while (end < all.size() && belongs(all[end])) ++end;
  if (end == start) fail_at(start, fmt::format("sdy: the name of {} is missing", what));
  text_.rewind(end);
  return std::string(all.substr(start, end - start));
}

SdyMesh SdyParser::mesh() {
  SdyMesh mesh;
  const size_t column = text_.column();
  expect('<', "before the axes of a mesh");
  expect('[', "before the axes of a mesh");
  while (!accept("]")) {
    if (!mesh.axes.empty()) expect(',', "between the axes of a mesh");
    MeshAxis& axis = mesh.axes.emplace_back();
    const size_t at = text_.column();
    axis.name = string();
    expect('=', "after the name of an axis");
    axis.size = integer("size of an axis");
    if (axis.size < 1)
      fail_at(at, fmt::format("sdy.mesh: axis \"{}\" has size {}; sizes are 1 or more", axis.name,
                              axis.size));
    if (mesh.axis(axis.name) + 1 != std::ssize(mesh.axes))
      fail_at(at, fmt::format("sdy.mesh: axis \"{}\" is there twice; rename one", axis.name));
  }
  if (accept(",")) device_ids(mesh);
  expect('>', "after a mesh");
  if (mesh.num_devices() > int64_t{1} << 31) fail_at(column, "sdy.mesh: more than 2^31 devices");
  return mesh;
}

void SdyParser::device_ids(SdyMesh& mesh) {
  const size_t column = text_.column();
  if (symbol("device_ids") != "device_ids")
    fail_at(column, "sdy.mesh: device_ids=[...] or '>' should stand here");
  expect('=', "after device_ids");
  expect('[', "before the device ids");
  while (!accept("]")) {
    if (!mesh.device_ids.empty()) expect(',', "between device ids");
    mesh.device_ids.push_back(integer("device id"));
  }
  const int64_t count = std::ssize(mesh.device_ids);
  if (mesh.axes.empty()) {
    if (count > 1)
      fail_at(column, fmt::format("sdy.mesh: {} device ids without axes; one device, or axes whose "
                                  "sizes give {}",
                                  count, count));
    return;
  }
  std::vector<int64_t> sorted = mesh.device_ids;
  std::sort(sorted.begin(), sorted.end());
  bool whole = count == mesh.num_devices() && count <= kMostListedDevices;
  for (int64_t i = 0; whole && i < count; ++i) whole = sorted[static_cast<size_t>(i)] == i;
  if (!whole)
    fail_at(column, fmt::format("sdy.mesh: device_ids is no permutation of 0 to {}; list each of "
                                "the {} devices once",
                                mesh.num_devices() - 1, mesh.num_devices()));
  if (sorted == mesh.device_ids) mesh.device_ids.clear();
}

SdyAxis SdyParser::axis_of(const SdyMesh& mesh) {
  const size_t column = text_.column();
  const std::string name = string();
  SdyAxis axis;
  axis.axis = mesh.axis(name);
  if (axis.axis < 0)
    fail_at(column, fmt::format("sdy.sharding: axis \"{}\" is not in the mesh {}; use its axes",
                                name, to_string(mesh)));
  const int64_t whole = mesh.axes[static_cast<size_t>(axis.axis)].size;
  axis.size = whole;
  if (!accept(":")) return axis;
  expect('(', "after ':' of a sub-axis");
  axis.pre = integer("size before the sub-axis");
  expect(')', "after the size before the sub-axis");
  axis.size = integer("size of the sub-axis");
  const int64_t used = axis.pre < 1 || axis.size < 1 ? 0 : saturating_multiply(axis.pre, axis.size);
  if (used < 1 || whole % used != 0)
    fail_at(column, fmt::format("sdy.sharding: sub-axis \"{}\":({}){} does not divide the {} "
                                "devices of its axis",
                                name, axis.pre, axis.size, whole));
  if (axis.size == 1 || axis.size == whole)
    fail_at(column, fmt::format("sdy.sharding: sub-axis \"{}\":({}){} is {}; write {}", name,
                                axis.pre, axis.size, axis.size == 1 ? "of size 1" : "all of it",
                                axis.size == 1 ? "no axis" : "the axis alone"));
  return axis;
}

SdyAxes SdyParser::axis_list(const SdyMesh& mesh, bool* open) {
  SdyAxes axes;
  expect('{', "before axes");
  for (bool first = true; !accept("}"); first = false) {
    if (open != nullptr && accept("?")) {
      *open = true;
      expect('}', "after '?'");
      break;
    }
    if (!first) {
      expect(',', "between axes");
      if (open != nullptr && accept("?")) {
        *open = true;
        expect('}', "after '?'");
        break;
      }
    }
    const size_t column = text_.column();
    const SdyAxis axis = axis_of(mesh);
    for (const SdyAxis& other : taken_)
      if (overlap(axis, other))
        fail_at(column, fmt::format("sdy.sharding: axis \"{}\", or a part of it, is used twice; "
                                    "each may be used once",
                                    mesh.axes[static_cast<size_t>(axis.axis)].name));
    taken_.push_back(axis);
    append_axis(axes, axis);
  }
  return axes;
}

SdyDim SdyParser::dim(const SdyMesh& mesh) {
  SdyDim dim;
  const size_t column = text_.column();
  dim.axes = axis_list(mesh, &dim.open);
  if (peek() != 'p') return dim;
  accept("p");
  dim.priority = integer("priority");
  if (dim.axes.empty() && !dim.open)
    fail_at(column, "sdy.sharding: an empty closed dim has no priority; drop it, or write {?}");
  return dim;
}

void SdyParser::sets(SdySharding& sharding, const SdyMesh& mesh) {
  bool replicated = false, unreduced = false;
  while (accept(",")) {
    const size_t column = text_.column();
    const std::string word = symbol("replicated or unreduced");
    const bool is_replicated = word == "replicated";
    bool& seen = is_replicated ? replicated : unreduced;
    if ((!is_replicated && word != "unreduced") || seen)
      fail_at(column, fmt::format("sdy.sharding: {} stands where replicated={{..}} or "
                                  "unreduced={{..}} may, each once",
                                  word));
    seen = true;
    accept("=");
    if (!is_replicated && peek() != '{') {
      const std::string name = symbol("a combiner");
      if (name != "sum" && name != "max" && name != "min")
        fail_at(column,
                fmt::format("sdy.sharding: unreduced={}; sum, max and min are known", name));
      sharding.combiner = name == "max"   ? Combiner::max
                          : name == "min" ? Combiner::min
                                          : Combiner::sum;
      accept("=");
    }
    SdyAxes axes = axis_list(mesh, nullptr);
    std::stable_sort(axes.begin(), axes.end(), [](const SdyAxis& a, const SdyAxis& b) {
      return std::pair(a.axis, a.pre) < std::pair(b.axis, b.pre);
    });
    SdyAxes& joined = is_replicated ? sharding.replicated : sharding.unreduced;
    for (const SdyAxis& axis : axes) append_axis(joined, axis);
  }
}

SdySharding SdyParser::sharding(SdyMeshes& meshes) {
  SdySharding sharding;
  taken_.clear();
  expect('<', "before a sharding");
  const size_t column = text_.column();
  if (accept("@")) {
    const std::string name = symbol("a mesh");
    sharding.mesh = meshes.find(name);
    if (sharding.mesh < 0)
      fail_at(column,
              fmt::format("sdy.sharding: there is no mesh @{}; define it with sdy.mesh", name));
  } else {
    if (symbol("a mesh") != "mesh")
      fail_at(column, "sdy.sharding: @name or mesh<...> should stand here");
    sharding.mesh = meshes.inlined(mesh());
  }
  const SdyMesh mesh = meshes[sharding.mesh];
  expect(',', "after the mesh");
  expect('[', "before the dims");
  while (!accept("]")) {
    if (!sharding.dims.empty()) expect(',', "between dims");
    sharding.dims.push_back(dim(mesh));
  }
  sets(sharding, mesh);
  expect('>', "after a sharding");
  return sharding;
}

SdyMeshes parse_sdy_meshes(std::string_view text) {
  SdyParser parser(text);
  SdyMeshes meshes;
  parser.expect('{', "before the meshes");
  for (bool first = true; !parser.accept("}"); first = false) {
    if (!first) parser.expect(',', "between meshes");
    std::string name = parser.symbol("a mesh");
    parser.expect('=', "after the name of a mesh");
    parser.accept("#sdy.mesh");
    meshes.add(std::move(name), parser.mesh());
  }
  parser.end();
  return meshes;
}

SdyMesh parse_sdy_mesh(std::string_view text) {
  SdyParser parser(text);
  parser.accept("#sdy.mesh");
  SdyMesh mesh = parser.mesh();
  parser.end();
  return mesh;
}

SdySharding parse_sdy_sharding(std::string_view text, SdyMeshes& meshes) {
  std::vector<SdySharding> list = parse_sdy_shardings(text, meshes);
  if (list.size() != 1)
    user_error("sdy.sharding: {} shardings where one is wanted, `{}`", list.size(), text);
  return std::move(list[0]);
}

std::vector<SdySharding> parse_sdy_shardings(std::string_view text, SdyMeshes& meshes) {
  SdyParser parser(text);
  std::vector<SdySharding> list;
  if (parser.accept("#sdy.sharding_per_value")) parser.expect('<', "before shardings");
  parser.accept("#sdy.sharding");
  if (parser.accept("[")) {
    while (!parser.accept("]")) {
      if (!list.empty()) parser.expect(',', "between shardings");
      list.push_back(parser.sharding(meshes));
    }
    parser.accept(">");
  } else {
    list.push_back(parser.sharding(meshes));
  }
  parser.end();
  return list;
}

std::vector<std::string> parse_sdy_manual_axes(std::string_view text) {
  SdyParser parser(text);
  if (parser.accept("#sdy")) {
    parser.expect('<', "before manual_axes");
    parser.symbol("manual_axes");
  }
  std::vector<std::string> names;
  parser.expect('{', "before the manual axes");
  while (!parser.accept("}")) {
    if (!names.empty()) parser.expect(',', "between manual axes");
    names.push_back(parser.string());
  }
  parser.accept(">");
  parser.end();
  return names;
}

}  // namespace gspmd
