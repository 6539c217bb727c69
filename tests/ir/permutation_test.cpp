#include <catch2/catch.hpp>

#include "gspmd/ir/attributes.h"

namespace gspmd {

TEST_CASE("a shift sends along rows of devices, round the end or not") {
  const DeviceOrder order = iota_order(8);
  // Rows of four devices with stride 2: {0,2,4,6} and {1,3,5,7}.
  CHECK(materialize(shift_along(order, {{4, 2}}, 1, false)) ==
        Pairs{{0, 2}, {1, 3}, {2, 4}, {3, 5}, {4, 6}, {5, 7}});
  CHECK(materialize(shift_along(order, {{4, 2}}, -1, true)) ==
        Pairs{{0, 6}, {1, 7}, {2, 0}, {3, 1}, {4, 2}, {5, 3}, {6, 4}, {7, 5}});
  // A row in the order of two digits, the one of stride 1 major: 0, 4, 1, 5 of the ranks 0, 1,
  // 4, 5.
  CHECK(materialize(shift_along(order, {{2, 1}, {2, 4}}, 2, false)) ==
        Pairs{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(materialize(shift_along(list_order({3, 1, 0}), {{3, 1}}, 1, false)) ==
        Pairs{{3, 1}, {1, 0}});
}

}  // namespace gspmd
