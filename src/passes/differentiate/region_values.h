#pragma once

#include <optional>

#include "gspmd/ir/module.h"

namespace gspmd {

// How a value that the backward part reads is handed to where that runs. One inside of a manual
// region goes as a whole value, with a dim in front that counts the devices: so that what a region
// makes stays in its region, and the loop's counter that it would be stored by does not become
// manual, and with it all that is stored by the same.
class HandedValue {
 public:
  explicit HandedValue(const Node& value);
  const Shape& shape() const { return shape_; }
  Node* hand(Node* value) const;   // as it is handed over
  Node* take(Node* handed) const;  // the value again

 private:
  struct Region {
    Sharding outside, inside;  // of values with the dim in front
  };
  Shape value_, shape_;
  std::optional<Region> region_;
};

}  // namespace gspmd
