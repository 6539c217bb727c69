#include "passes/shardy/propagation.h"

#include <algorithm>
#include <set>

#include "gspmd/ir/place.h"

namespace gspmd {
namespace {

constexpr int kPropagationRounds = 5;

class ShardyPropagation {
 public:
  ShardyPropagation(SdyProgram& program, const SdyPropagation& how)
      : program_(program), how_(how), queued_(program.ops.size()) {
    for (size_t i = 0; i < program.slots.size(); ++i)
      if (program.slots[i].group >= 0)
        groups_[program.slots[i].group].push_back(static_cast<int64_t>(i));
  }

  bool run() {
    if (!how_.user_priorities) {
      run_op_priorities();
      return changed_;
    }
    const std::set<int64_t> priorities = withhold();
    run_op_priorities();
    for (const int64_t priority : priorities) {
      release(priority);
      run_op_priorities();
    }
    return changed_;
  }

 private:
  void run_op_priorities() {
    if (!how_.op_priorities) {
      run_round(-1);
      return;
    }
    for (int round = 0; round < kPropagationRounds; ++round) run_round(round);
  }

  // --- User priorities: dims of a later one are closed and whole, their axes nobody's
  std::set<int64_t> withhold() {
    std::set<int64_t> priorities;
    for (SdySlot& slot : program_.slots) {
      given_.push_back(slot.sharding);
      if (!slot.sharding) continue;
      for (SdyDim& dim : slot.sharding->dims) {
        if (dim.priority.value_or(0) > 0) {
          priorities.insert(*dim.priority);
          reserve(*slot.sharding, dim.axes);
          dim = {};
        }
        dim.priority.reset();
      }
    }
    return priorities;
  }

  static void reserve(SdySharding& sharding, const SdyAxes& axes) {
    for (const SdyAxis& axis : axes) {
      const auto at = std::find_if(
          sharding.replicated.begin(), sharding.replicated.end(), [&](const SdyAxis& other) {
            return std::pair(other.axis, other.pre) > std::pair(axis.axis, axis.pre);
          });
      sharding.replicated.insert(at, axis);
    }
  }

  void release(int64_t priority) {
    for (size_t i = 0; i < program_.slots.size(); ++i) {
      std::optional<SdySharding>& sharding = program_.slots[i].sharding;
      const std::optional<SdySharding>& given = given_[i];
      if (!given || !sharding) continue;
      bool any = false;
      for (const SdyDim& dim : given->dims) any |= dim.priority.value_or(0) == priority;
      if (!any) continue;
      sharding->replicated = given->replicated;
      for (size_t d = 0; d < given->dims.size(); ++d) {
        const int64_t at = given->dims[d].priority.value_or(0);
        if (at == priority) sharding->dims[d] = {given->dims[d].axes, given->dims[d].open, {}};
        if (at > priority) reserve(*sharding, given->dims[d].axes);
      }
    }
  }

  // --- One fixed point
  void run_round(int round) {
    exchange_results();
    stack_.clear();
    std::fill(queued_.begin(), queued_.end(), false);
    for (size_t i = program_.ops.size(); i-- > 0;) push(static_cast<int64_t>(i));
    while (!stack_.empty()) {
      const int64_t index = stack_.back();
      stack_.pop_back();
      queued_[static_cast<size_t>(index)] = false;
      at_work_ = index;
      const SdyOp& op = program_.ops[static_cast<size_t>(index)];
      step(op, sdy_directions(op, round));
    }
    at_work_ = -1;
    exchange_results();
  }

  void exchange_results() {
    for (const SdyOp& op : program_.function_results) step(op, sdy_directions(op, -1));
  }

  void push(int64_t op) {
    if (op < 0 || op == at_work_ || queued_[static_cast<size_t>(op)]) return;
    queued_[static_cast<size_t>(op)] = true;
    stack_.push_back(op);
  }

  // --- One op
  SdySlot& slot(int64_t i) { return program_.slots[static_cast<size_t>(i)]; }

  // The mesh that all shardings of the op are over; -1: none, or several.
  int64_t common_mesh(const SdyOp& op) {
    int64_t mesh = -1;
    for (const auto* list : {&op.operands, &op.results})
      for (const int64_t i : *list) {
        if (!slot(i).sharding) continue;
        const int64_t here = slot(i).sharding->mesh;
        const SdyMesh& value = program_.meshes[here];
        if (value.is_maximal()) return -1;
        if (value.is_empty()) continue;
        if (mesh >= 0 && !(program_.meshes[mesh] == value)) return -1;
        if (mesh < 0) mesh = here;
      }
    return mesh;
  }

  void step(const SdyOp& op, std::vector<SdyDirection> directions) {
    if (op.rule.factors.empty()) return;
    const int64_t mesh = common_mesh(op);
    if (mesh < 0) return;
    Projection projection;
    projection.operands = op.operands.size();
    for (size_t i = 0; i < op.operands.size(); ++i)
      projection.tensors.push_back(
          project(slot(op.operands[i]).sharding, op.rule.operands.at(i), op.rule));
    for (size_t i = 0; i < op.results.size(); ++i)
      projection.tensors.push_back(
          project(slot(op.results[i]).sharding, op.rule.results.at(i), op.rule));
    const SdyStep step{op.rule, std::move(directions), op.traits.elementwise, how_.conservative};
    const std::vector<bool> updated = how_.aggressive ? propagate_aggressive(projection, step)
                                                      : propagate_basic(projection, step);
    for (size_t t = 0; t < updated.size(); ++t) {
      if (!updated[t]) continue;
      const bool is_operand = projection.is_operand(t);
      const size_t i = is_operand ? t : t - projection.operands;
      const SdyRule::Tensor& factors = is_operand ? op.rule.operands[i] : op.rule.results[i];
      update(is_operand ? op.operands[i] : op.results[i],
             project_back(projection.tensors[t], factors, op.rule), mesh, op, factors);
    }
  }

  // The first other value of the op that has the axis in a dim of one of these factors; -1: none.
  int64_t source_in(const SdyOp& op, int64_t target, const SdyAxis& axis,
                    const std::vector<int64_t>& factors) {
    const auto has_axis = [&](int64_t index, const SdyRule::Tensor& tensor) {
      const std::optional<SdySharding>& sharding = slot(index).sharding;
      if (!sharding || index == target) return false;
      for (size_t d = 0; d < tensor.size() && d < sharding->dims.size(); ++d) {
        const bool shares = std::any_of(tensor[d].begin(), tensor[d].end(), [&](int64_t factor) {
          return std::find(factors.begin(), factors.end(), factor) != factors.end();
        });
        const SdyAxes& axes = sharding->dims[d].axes;
        if (shares && std::any_of(axes.begin(), axes.end(),
                                  [&](const SdyAxis& other) { return overlap(other, axis); }))
          return true;
      }
      return false;
    };
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (has_axis(op.operands[i], op.rule.operands.at(i))) return op.operands[i];
    for (size_t i = 0; i < op.results.size(); ++i)
      if (has_axis(op.results[i], op.rule.results.at(i))) return op.results[i];
    return -1;
  }

  void update(int64_t index, std::vector<SdyAxes> dims, int64_t mesh, const SdyOp& op,
              const SdyRule::Tensor& factors) {
    const std::optional<SdySharding>& old = slot(index).sharding;
    SdySharding next = old ? *old : open_sharding(mesh, std::ssize(dims));
    next.mesh = mesh;
    for (size_t d = 0; d < dims.size(); ++d)
      if (slot(index).shape.dims.at(d) > 0) next.dims[d].axes = std::move(dims[d]);
    if (old ? next.dims == old->dims : next.splits_nothing()) return;
    if (how_.origins)
      note_taken(slot(index), next, [&](size_t dim, const SdyAxis& axis) {
        return source_in(op, index, axis, factors.at(dim));
      });
    set(index, std::move(next));
  }

  // A slot takes a sharding; so do the other side of a border, and the members of its group.
  void set(int64_t index, SdySharding sharding) {
    std::vector<std::pair<int64_t, SdySharding>> work{{index, std::move(sharding)}};
    while (!work.empty()) {
      const auto [next, wanted] = std::move(work.back());
      work.pop_back();
      if (slot(next).sharding == wanted) continue;
      if (next != index) note(next, wanted, slot(next).border);
      take(next, wanted, work);
      if (slot(next).group < 0) continue;
      for (const int64_t member : groups_[slot(next).group]) {
        if (slot(member).sharding == wanted || slot(member).shape.dims != slot(next).shape.dims)
          continue;
        note(member, wanted, next);
        take(member, wanted, work);
      }
    }
  }

  void note(int64_t index, const SdySharding& next, int64_t source) {
    if (how_.origins) note_taken(slot(index), next, [&](size_t, const SdyAxis&) { return source; });
  }

  void take(int64_t index, const SdySharding& sharding,
            std::vector<std::pair<int64_t, SdySharding>>& work) {
    SdySlot& target = slot(index);
    target.sharding = sharding;
    changed_ = true;
    notify(target);
    if (target.border < 0) return;
    const SdySlot& other = slot(target.border);
    work.emplace_back(target.border, target.inside
                                         ? with_manual(sharding, *other.sharding, target.manual)
                                         : without_manual(sharding, target.manual));
  }

  // Users last in the text go first on the stack, so that the first is on top; edges above them.
  void notify(const SdySlot& changed) {
    push(changed.definer);
    for (size_t i = changed.users.size(); i-- > 0;) push(changed.users[i]);
    for (size_t i = changed.edges.size(); i-- > 0;) push(changed.edges[i]);
  }

  SdyProgram& program_;
  const SdyPropagation how_;
  std::vector<std::optional<SdySharding>> given_;
  std::map<int64_t, std::vector<int64_t>> groups_;
  std::vector<int64_t> stack_;
  std::vector<bool> queued_;
  int64_t at_work_ = -1;
  bool changed_ = false;
};

}  // namespace

std::vector<SdyDirection> sdy_directions(const SdyOp& op, int round) {
  const bool all_rounds = round < 0 || op.node == nullptr;
  std::vector<SdyDirection> directions;
  for (const SdyFactor& factor : op.rule.factors) {
    SdyDirection direction = SdyDirection::none;
    if (op.barrier) {
      direction = *op.barrier;
    } else if (!factor.blocked) {
      const bool heard = op.single_use || round >= 1;
      const bool broadcast = op.traits.round == SdyRound::broadcast;
      if (op.traits.round == SdyRound::pass_through && heard) direction = SdyDirection::both;
      if (op.traits.round == SdyRound::dynamic_slice && heard) direction = SdyDirection::forward;
      const bool passes = factor.kind == SdyFactorKind::pass_through;
      if ((round >= 2 && passes) || round >= 3)
        direction = direction | (broadcast ? SdyDirection::backward : SdyDirection::both);
      if (round >= 4 || all_rounds) direction = SdyDirection::both;
    }
    directions.push_back(direction);
  }
  return directions;
}

bool propagate_program(SdyProgram& program, const SdyPropagation& how) {
  return ShardyPropagation(program, how).run();
}

}  // namespace gspmd
