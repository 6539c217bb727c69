#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/mesh/sharding.h"
#include "mesh/text_cursor.h"

namespace gspmd {

// The most devices a text may name.
inline constexpr int64_t kMaxDevices = int64_t{1} << 31;

// "[2,1,4]": positive numbers whose product is at most kMaxDevices; `what` names one of them.
Dims parse_counts(TextCursor& text, std::string_view what);
// "0,1,2": distinct ids. UserErrors at the column of the offender.
std::vector<int64_t> parse_devices(TextCursor& text);
// "T(1,0)": a permutation of 0..rank-1; the identity where no T stands.
std::vector<int64_t> parse_transpose(TextCursor& text, int64_t rank);

// The named form, V3, read piece by piece as the keywords come: mesh[...], device_ids, [dims],
// unreduced=, replicated=, manual=.
class NamedShardingParser {
 public:
  explicit NamedShardingParser(TextCursor& text) : text_(text) {}

  void mesh();                             // after `mesh`
  void device_ids();                       // after `device_ids`
  void dims();                             // at '['
  void axes_of(std::string_view keyword);  // at '=' after unreduced, replicated or manual
  bool started() const { return started_; }
  bool has_dims() const { return has_dims_; }
  int64_t num_dims() const { return static_cast<int64_t>(dims_.size()); }
  Sharding build();

 private:
  Digits axis();
  Digits axis_list(bool* open);
  void take(const Digits& digits, size_t column);
  void resolve_mesh();

  TextCursor& text_;
  bool started_ = false;
  bool has_dims_ = false;
  std::vector<MeshAxis> axes_;
  std::vector<int64_t> devices_;
  size_t mesh_column_ = 0;
  std::shared_ptr<const Mesh> mesh_;
  Digits taken_;
  std::vector<Digits> dims_;
  std::vector<bool> open_;
  Digits manual_;
  std::vector<Unreduced> unreduced_;
};

// "max" and the like; nullopt for other words.
std::optional<Combiner> combiner_from_name(std::string_view name);

}  // namespace gspmd
