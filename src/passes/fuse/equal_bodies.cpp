#include "passes/fuse/equal_bodies.h"

#include <algorithm>

#include "ir/equal_in_order.h"

namespace gspmd {
namespace {

bool equal_dynamic_dims(const Shape& a, const Shape& b) {
  return a.dynamic_dims == b.dynamic_dims &&
         std::equal(a.elements.begin(), a.elements.end(), b.elements.begin(), b.elements.end(),
                    equal_dynamic_dims);
}

bool equal_calls(const Node& a, const Node& b) {
  return std::equal(
      a.called.begin(), a.called.end(), b.called.begin(), b.called.end(),
      [](const Computation* x, const Computation* y) { return x == y || equal_bodies(*x, *y); });
}

}  // namespace

bool equal_bodies(const Computation& a, const Computation& b) {
  return equal_in_order(a, b, [](const Node& x, const Node& y) {
    return x.is(y.opcode()) && x.shape == y.shape && equal_dynamic_dims(x.shape, y.shape) &&
           equal(x.attrs, y.attrs) && equal_calls(x, y);
  });
}

}  // namespace gspmd
