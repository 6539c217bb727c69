#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "moves/halo.h"

namespace gspmd {

// A transfer between tiles that are too many to list. What tiles need moves on with their number,
// so the pairs (source s, target t) of which t needs something that s has are the steps of a stair:
// with either of both given the others are neighbours. The pairs of one colour, (s + t) modulo
// `degree`, are therefore a round, in which nobody sends or receives twice, and who takes part in
// it is arithmetic. Targets are counted from the end where what is needed moves backwards.
struct StairPlan {
  struct Round {
    int64_t colour = 0, size = 0;  // elements that each sender sends
    // Least and greatest of where what a target needs begins less where what it is sent does.
    int64_t least_ahead = 0, greatest_ahead = 0;
  };
  HeldDim dim;
  int64_t step = 0, offset = 0, length = 0;  // target t needs `length` from step * t + offset on
  int64_t end = 0;                           // of all that is needed
  bool backwards = false;                    // target t is tile number tiles - 1 - t
  int64_t degree = 0;
  std::vector<Round> rounds;
  bool own = false;      // some tile needs of what it has itself
  int64_t received = 0;  // elements that one tile gets from others

  int64_t number(int64_t target) const { return backwards ? dim.tiles - 1 - target : target; }
  Interval needed(int64_t target) const;
  // The first target that can need of this source, which may need nothing of it.
  int64_t first_target(int64_t source) const;
  // The tile to which this one sends in the round of the colour; -1: none.
  int64_t target_of(int64_t tile, int64_t colour) const;
};
// nullopt where what is needed does not move on, or not by whole elements. O(tiles).
std::optional<StairPlan> plan_stairs(const HeldDim& dim, const Access& access);

}  // namespace gspmd
