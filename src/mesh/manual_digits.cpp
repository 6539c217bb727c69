#include "mesh/manual_digits.h"

#include <algorithm>

namespace gspmd {
namespace {

Sharding rebuilt(const Sharding& s, DeviceOrder order, const Digits& manual) {
  return Sharding::tiled(order, dims_of(s, s.rank()), manual, s.unreduced());
}

}  // namespace

std::vector<Digits> dims_of(const Sharding& s, int64_t rank) {
  std::vector<Digits> dims;
  for (int64_t d = 0; d < rank; ++d) dims.push_back(s.dim(d));
  return dims;
}

bool is_manual_value(const Sharding& s) {
  if (!s.is_tuple()) return s.is_manual();
  return !s.elements().empty() && std::all_of(s.elements().begin(), s.elements().end(),
                                              [](const Sharding& e) { return e.is_manual(); });
}

bool has_manual_digits(const Sharding& s) { return s.is_tiled() && !s.manual_digits().empty(); }

Sharding without_manual(const Sharding& s) {
  return has_manual_digits(s) ? rebuilt(s, s.order(), {}) : s;
}

Sharding with_manual(const Sharding& s, DeviceOrder order, const Digits& manual) {
  return manual.empty() ? s : rebuilt(s, order, manual);
}

}  // namespace gspmd
