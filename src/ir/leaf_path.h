#pragma once

#include <cstdint>

#include "gspmd/base/shape.h"

namespace gspmd {

// Leaves of a tuple that stand side by side, in the order of all its leaves.
struct LeafRange {
  int64_t first = 0, count = 0;
};

// Those of the element that `path` leads to, an index per level; all of `shape` for {}.
// std::out_of_range where there is no such element.
inline LeafRange leaves_at(const Shape& shape, const Dims& path) {
  LeafRange leaves;
  const Shape* at = &shape;
  for (const int64_t index : path) {
    for (int64_t i = 0; i < index; ++i)
      leaves.first += leaf_count(at->elements.at(static_cast<size_t>(i)));
    at = &at->elements.at(static_cast<size_t>(index));
  }
  leaves.count = leaf_count(*at);
  return leaves;
}

}  // namespace gspmd
