#include "ops/library/memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

namespace gspmd::library {
namespace {

// "{1,0:T(8,128)}" at the end of a text; nullopt unless it is a permutation of `rank` dims.
std::optional<Dims> parse_layout(std::string_view text, int64_t rank) {
  if (text.empty() || text.back() != '}') return std::nullopt;
  const size_t open = text.rfind('{');
  if (open == std::string_view::npos) return std::nullopt;
  text = text.substr(open + 1, text.size() - open - 2);
  text = text.substr(0, text.find(':'));
  Dims dims;
  while (!text.empty()) {
    int64_t dim = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (error != std::errc()) return std::nullopt;
    dims.push_back(dim);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty() && text.front() == ',') text.remove_prefix(1);
  }
  Dims sorted = dims;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t d = 0; d < std::ssize(sorted); ++d)
    if (sorted[static_cast<size_t>(d)] != d) return std::nullopt;
  return std::ssize(dims) == rank ? std::optional(std::move(dims)) : std::nullopt;
}

// The texts between commas outside of brackets.
std::vector<std::string_view> top_level_parts(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && std::strchr("{[(", text[i]) != nullptr) ++depth;
    if (i < text.size() && std::strchr("}])", text[i]) != nullptr) --depth;
    if (i < text.size() && !(text[i] == ',' && depth == 0)) continue;
    std::string_view part = text.substr(start, i - start);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    parts.push_back(part);
    start = i + 1;
  }
  return parts;
}

struct Wide {
  std::byte bytes[16];
};

// visit(k, i) for each element: k counts them in memory, i is its place in row-major order.
template <class F>
void each_element(const Dims& dims, const Dims& minor_to_major, F&& visit) {
  const Dims strides = row_major_strides(dims);
  int64_t count = 1;
  for (const int64_t size : dims) count *= size;
  Dims index(dims.size(), 0);
  int64_t at = 0;
  for (int64_t k = 0; k < count; ++k) {
    visit(k, at);
    for (const int64_t d : minor_to_major) {
      const auto i = static_cast<size_t>(d);
      at += strides[i];
      if (++index[i] < dims[i]) break;
      at -= strides[i] * dims[i];
      index[i] = 0;
    }
  }
}

// `to_memory`: from row-major order into memory, else back.
template <class T>
void rearrange(const Array& from, const Array& to, const Shape& shape, const Dims& layout,
               bool to_memory) {
  const auto* const in = reinterpret_cast<const T*>(from.bytes().data());
  auto* const out = reinterpret_cast<T*>(to.bytes().data());
  if (to_memory)
    each_element(shape.dims, layout, [&](int64_t k, int64_t i) { out[k] = in[i]; });
  else
    each_element(shape.dims, layout, [&](int64_t k, int64_t i) { out[i] = in[k]; });
}

void rearrange(const Array& from, const Array& to, const Shape& shape, const Dims& layout,
               bool to_memory) {
  switch (dtype_size(shape.dtype)) {
    case 1:
      return rearrange<uint8_t>(from, to, shape, layout, to_memory);
    case 2:
      return rearrange<uint16_t>(from, to, shape, layout, to_memory);
    case 4:
      return rearrange<uint32_t>(from, to, shape, layout, to_memory);
    case 8:
      return rearrange<uint64_t>(from, to, shape, layout, to_memory);
    default:
      return rearrange<Wide>(from, to, shape, layout, to_memory);
  }
}

}  // namespace

std::string layout_text(const Dims& minor_to_major) {
  return fmt::format("{{{}}}", fmt::join(minor_to_major, ","));
}

std::optional<Dims> stated_layout(const Node& node, int64_t operand) {
  const auto stated = node.attrs.other.find(kStatedLayouts);
  if (stated == node.attrs.other.end()) return std::nullopt;
  std::string_view text = stated->second;
  if (text.size() < 2 || text.front() != '{' || text.back() != '}') return std::nullopt;
  const auto parts = top_level_parts(text.substr(1, text.size() - 2));
  if (operand >= std::ssize(parts)) return std::nullopt;
  return parse_layout(parts[static_cast<size_t>(operand)], node.operand(operand)->rank());
}

std::optional<Dims> stated_result_layout(const Node& node, int64_t leaf) {
  if (!node.attrs.other.contains(kStatedLayouts)) return std::nullopt;
  const Shape shape = leaf_shapes(node.shape).at(static_cast<size_t>(leaf));
  return parse_layout(*shape.layout, shape.rank());
}

Dims row_major_layout(int64_t rank) {
  Dims layout;
  for (int64_t d = rank; d-- > 0;) layout.push_back(d);
  return layout;
}

Dims column_major_layout(int64_t rank) {
  Dims layout = row_major_layout(rank);
  if (rank >= 2) std::swap(layout[0], layout[1]);
  return layout;
}

Array to_memory(const Array& array, const Dims& minor_to_major) {
  Array memory(Shape(array.dtype(), {array.size()}));
  rearrange(array, memory, array.shape(), minor_to_major, true);
  return memory;
}

Array from_memory(const Array& memory, const Shape& shape, const Dims& minor_to_major) {
  Array array(Shape(shape.dtype, shape.dims));
  rearrange(memory, array, shape, minor_to_major, false);
  return array;
}

}  // namespace gspmd::library
