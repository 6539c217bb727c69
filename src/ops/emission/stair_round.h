#pragma once

#include <memory>

#include "gspmd/ir/attributes.h"
#include "moves/stairs.h"
#include "ops/emission/index.h"

namespace gspmd {

// What a device does in one round of stairs, of which it is tile number `tile`.
struct StairRound {
  IndexNode send;      // where in its shard what it sends begins
  IndexNode begin;     // where what it is sent begins, in the whole
  IndexNode from, to;  // what it takes of that, in the whole; empty where it is sent nothing
};
StairRound stair_round(const StairPlan& plan, const StairPlan::Round& round, IndexNode tile);

// Who sends to whom in the round of that colour.
std::shared_ptr<const TileRule> stair_rule(const StairPlan& plan, int64_t colour);

}  // namespace gspmd
