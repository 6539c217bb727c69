#include "gspmd/api/tree.h"

#include "gspmd/base/error.h"

namespace gspmd::detail {

std::string join_path(const std::string& path, std::string_view name) {
  if (name.empty()) return path;
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

void trees_differ(const std::string& path) {
  user_error("map_leaves: the trees differ at \"{}\"; give trees of one structure", path);
}

void first_tree_ends(const std::string& path) {
  user_error("map_leaves: the first tree ends before \"{}\"; give trees of one structure", path);
}

}  // namespace gspmd::detail
