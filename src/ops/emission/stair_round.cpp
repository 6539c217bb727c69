#include "ops/emission/stair_round.h"

#include <map>
#include <mutex>

#include "gspmd/ops/builders.h"

namespace gspmd {
namespace {

class StairRule final : public TileRule {
 public:
  StairRule(const StairPlan& plan, int64_t colour) : plan_(plan), colour_(colour) {}
  int64_t target(int64_t tile) const override { return plan_.target_of(tile, colour_); }

 private:
  StairPlan plan_;
  int64_t colour_;
};

// The least number from `first` on that, together with `other`, has the colour. None is negative.
IndexNode of_colour(const StairPlan& plan, int64_t colour, IndexNode first, IndexNode other) {
  return first + (plan.degree + colour - (other + first) % plan.degree) % plan.degree;
}

IndexNode smaller(IndexNode a, IndexNode b) {
  return IndexNode(hlo::binary(Opcode::minimum, a, b));
}

IndexNode larger(IndexNode a, IndexNode b) { return IndexNode(hlo::binary(Opcode::maximum, a, b)); }

}  // namespace

StairRound stair_round(const StairPlan& plan, const StairPlan::Round& round, IndexNode tile) {
  const int64_t shard = plan.dim.shard, step = plan.step;
  // As a source: the first target, then the one of the colour (StairPlan::target_of).
  const IndexNode own = tile * shard;
  const IndexNode before = maximum(own + (1 - plan.length - plan.offset), 0);
  const IndexNode target = of_colour(plan, round.colour, (before + (step - 1)) / step, tile);
  const IndexNode wanted = target * step + plan.offset - own;
  const IndexNode send = minimum(maximum(wanted, 0), shard - round.size);
  // As a target: the first source, then the one of the colour.
  const IndexNode number = plan.backwards ? plan.dim.tiles - 1 - tile : tile;
  const IndexNode first = number * step + plan.offset;
  const IndexNode source = of_colour(plan, round.colour, maximum(first, 0) / shard, number);
  const IndexNode at = source * shard;
  const IndexNode from = larger(maximum(first, 0), at);
  IndexNode to = minimum(smaller(first + plan.length, at + shard), plan.end);
  // What a tile has itself is not sent to it: nothing of its own shard is taken.
  Node* const same = compare(source, tile, Direction::eq);
  to = IndexNode(hlo::select(same, from, to));
  return {send, smaller(from, at + (shard - round.size)), from, to};
}

std::shared_ptr<const TileRule> stair_rule(const StairPlan& plan, int64_t colour) {
  static std::mutex mutex;
  static auto* const rules = new std::map<Dims, std::shared_ptr<const TileRule>>;
  const Dims key{plan.dim.size, plan.dim.tiles, plan.dim.shard, plan.step, plan.offset,
                 plan.length,   plan.end,       plan.backwards, colour};
  const std::lock_guard lock(mutex);
  std::shared_ptr<const TileRule>& rule = (*rules)[key];
  if (!rule) rule = std::make_shared<StairRule>(plan, colour);
  return rule;
}

}  // namespace gspmd
