#pragma once

#include <optional>
#include <vector>

#include "gspmd/mesh/sharding.h"

namespace gspmd {

// The devices of a spread as a search sees them: one order, cut into atoms, the parts that move as
// a whole. Few devices are priced as they are. More are priced as if there were few: atoms keep
// their places and get smaller, so that one way is the cheapest on meshes of any size.
class PricedMesh {
 public:
  // Of the digits of `lists`, over `order`; as it is unless `scales`. nullopt where they have no
  // common cuts.
  static std::optional<PricedMesh> of(DeviceOrder order, std::vector<Digits> lists, bool scales);

  size_t size() const { return atoms_.size(); }
  bool is_scaled() const { return order_ != real_order_; }
  DeviceOrder order() const { return order_; }  // that prices are asked for
  DeviceOrder real_order() const { return real_order_; }
  const Digits& priced() const { return priced_; }     // the atoms as prices see them
  Digits priced(const std::vector<int>& atoms) const;  // a list of them, canonical
  Digits real(const std::vector<int>& atoms) const;    // as they are
  int64_t real_tiles(const std::vector<int>& atoms) const;
  // What digits are made of; nullopt: not of atoms.
  std::optional<std::vector<int>> atoms_of(const Digits& real) const;
  // The same layout over order(); nullopt where it is not made of atoms of real_order().
  std::optional<Sharding> priced(const Sharding& real) const;

 private:
  Digits atoms_, priced_;
  DeviceOrder real_order_ = nullptr, order_ = nullptr;
};

}  // namespace gspmd
