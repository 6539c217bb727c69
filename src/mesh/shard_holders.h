#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gspmd/mesh/sharding.h"

namespace gspmd {

// The devices that hold one tile: the first of them, ascending, and how many there are.
struct Holders {
  std::vector<int64_t> ids;
  int64_t count = 0;
  bool one_run = false;  // first, first + 1, ... whether collected or not
};

// Which dims a picture shows as a plane, and which it goes through slice by slice. -1: there is
// none.
struct PicturePlan {
  int64_t rows = -1, columns = -1;
  std::vector<int64_t> sliced;  // dims
};
// The last two split dims as the plane; `matrix`: of a single one, with another dim beside it.
PicturePlan plan_picture(const Shape& global, const Sharding& sharding, bool matrix);
// The tiles drawn of `tiles`: all, or the first `limit - 1`, -1 for those left out, and the last.
std::vector<int64_t> drawn_tiles(int64_t tiles, int64_t limit);

// Of a tiled sharding with an order; `tiles` has an index per dim of the sharding.
Holders holders_of(const Sharding& sharding, const std::vector<int64_t>& tiles);
// "0-3,8"; shortened where there are many runs.
std::string to_string(const Holders& holders);

// Where no tile has to be told from another: "every device holds the whole value"; else empty.
std::string whole_sentence(const Sharding& sharding);

// "4:8": the elements of tile `index` along a dim of `size` in `tiles`.
std::string interval_text(int64_t size, int64_t tiles, int64_t index);

}  // namespace gspmd
