#include "moves/rematerialization.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "gspmd/moves/reshard.h"

namespace gspmd {
namespace {

constexpr size_t kMostTried = 48;

void place(const std::vector<Digits>& parts, size_t next, std::vector<Digits>& dims,
           const Sharding& s, std::vector<Sharding>& out) {
  if (out.size() >= kMostTried) return;
  if (next == parts.size()) {
    out.push_back(Sharding::tiled(s.order(), dims, s.manual_digits()));
    return;
  }
  for (Digits& dim : dims) {
    if (!dim.empty()) continue;
    dim = parts[next];
    place(parts, next + 1, dims, s, out);
    dim.clear();
  }
}

// What splits one dim splits another.
std::vector<Sharding> on_other_dims(const Sharding& s, int64_t rank) {
  std::vector<Digits> parts, dims(static_cast<size_t>(rank));
  for (int64_t d = 0; d < s.rank(); ++d)
    if (!s.dim(d).empty()) parts.push_back(s.dim(d));
  std::vector<Sharding> result;
  place(parts, 0, dims, s, result);
  return result;
}

struct Remedy {
  Sharding layout;
  int64_t bytes = 0;
};

// The layout instead of `given` that is reached, or left, by the fewest bytes. The one that is
// there already, `other`, only where nothing else serves.
std::optional<Remedy> best_instead(const Shape& shape, const Sharding& given, const Sharding& other,
                                   bool given_is_source, int64_t num_devices, int64_t bytes) {
  std::vector<Sharding> tried = on_other_dims(given, shape.rank());
  for (Sharding& s : on_other_dims(other, shape.rank())) tried.push_back(std::move(s));
  std::optional<Remedy> best;
  for (const bool settle_for_other : {false, true}) {
    for (const Sharding& layout : tried) {
      if (equivalent(layout, other) != settle_for_other) continue;
      if (layout.num_tiles() < given.num_tiles() && !settle_for_other) continue;
      const ReshardPlan plan = given_is_source ? plan_reshard(shape, layout, other, num_devices)
                                               : plan_reshard(shape, other, layout, num_devices);
      if (plan.full_rematerialization || plan.cost.bytes >= bytes) continue;
      if (!best || plan.cost.bytes < best->bytes) best = Remedy{layout, plan.cost.bytes};
    }
    if (best) return best;
  }
  return best;
}

}  // namespace

std::string how_to_avoid(const Shape& shape, const Sharding& from, const Sharding& to,
                         const std::string& tensor, const std::string& reader,
                         int64_t num_devices) {
  if (!from.is_tiled() || !to.is_tiled() || !from.unreduced().empty()) return "";
  const int64_t bytes = plan_reshard(shape, from, to, num_devices).cost.bytes;
  std::string text;
  const auto say = [&](const std::string& name, const std::optional<Remedy>& remedy) {
    if (!remedy) return;
    text += text.empty() ? "annotate " : ", or ";
    text += fmt::format("{} with {}: {} bytes instead of {}", name, to_string(remedy->layout),
                        remedy->bytes, bytes);
  };
  say(tensor, best_instead(shape, from, to, true, num_devices, bytes));
  say(reader, best_instead(shape, to, from, false, num_devices, bytes));
  return text;
}

}  // namespace gspmd
