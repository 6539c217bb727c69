#include "ops/common/open_dims.h"

#include <fmt/format.h>

#include <algorithm>

#include "gspmd/base/error.h"

namespace gspmd {
namespace {

[[noreturn]] void refuse(const Node& node, const std::string& what) {
  const int64_t rank = node.shape.is_tuple ? 0 : node.rank();
  const std::string dims = rank == 0   ? "which has none"
                           : rank == 1 ? "which is 0"
                                       : fmt::format("which are 0 to {}", rank - 1);
  user_error(
      "custom-call: unspecified_dims of {} \"{}\" {}; write unspecified_dims=[0,1] with dims of "
      "{}, {}, or leave it out",
      *node.attrs.custom_call_target, node.name(), what, to_string(node.shape), dims);
}

}  // namespace

std::vector<bool> unspecified_dims(const Node& node) {
  const auto found = node.attrs.other.find("backend_config");
  if (found == node.attrs.other.end()) return {};
  constexpr std::string_view kBegin = "unspecified_dims=[";
  const size_t at = found->second.find(kBegin);
  if (at == std::string::npos) return {};
  const int64_t rank = node.shape.is_tuple ? 0 : node.rank();
  std::vector<bool> open(static_cast<size_t>(rank), false);
  int64_t dim = -1;
  for (const char c : std::string_view(found->second).substr(at + kBegin.size())) {
    if (c >= '0' && c <= '9') {
      constexpr int64_t kMost = 1'000'000;
      dim = std::min((dim < 0 ? 0 : dim * 10) + (c - '0'), kMost);
      continue;
    }
    if (dim >= rank) refuse(node, fmt::format("names dim {}", dim));
    if (dim >= 0) open[static_cast<size_t>(dim)] = true;
    dim = -1;
    if (c == ']') return open;
    if (c != ',' && c != ' ') refuse(node, fmt::format("has '{}' where a dim is expected", c));
  }
  refuse(node, "has no ] at its end");
}

}  // namespace gspmd
