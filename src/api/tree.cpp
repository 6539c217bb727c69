#include "gspmd/api/tree.h"

#include "gspmd/base/error.h"

namespace gspmd::detail {

void trees_differ(const std::string& path) {
  user_error("map_leaves: the trees differ at \"{}\"; give trees of one structure", path);
}

void first_tree_ends(const std::string& path) {
  user_error("map_leaves: the first tree ends before \"{}\"; give trees of one structure", path);
}

}  // namespace gspmd::detail
