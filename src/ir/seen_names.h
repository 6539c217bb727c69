#pragma once

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace gspmd {

// Names that stood in a list so far. Most lists have a few; text may have lists of any length.
class SeenNames {
 public:
  bool contains(std::string_view name) const {
    return many_.empty() ? std::find(few_.begin(), few_.end(), name) != few_.end()
                         : many_.contains(name);
  }
  // False where the name stood before.
  bool insert(std::string_view name) {
    if (contains(name)) return false;
    if (!many_.empty()) {
      many_.insert(name);
      return true;
    }
    few_.push_back(name);
    if (few_.size() > kFew) many_.insert(few_.begin(), few_.end());
    return true;
  }

 private:
  static constexpr size_t kFew = 16;
  std::vector<std::string_view> few_;
  std::unordered_set<std::string_view> many_;
};

}  // namespace gspmd
