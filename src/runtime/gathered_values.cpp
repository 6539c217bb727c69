#include "runtime/gathered_values.h"

#include <algorithm>
#include <map>
#include <optional>

namespace gspmd {
namespace {

// For each device, which one keeps the value: of each class another member, so that workers, who
// have devices side by side, keep as much.
Replicas keepers_of(const Replicas& replicas) {
  std::map<int64_t, std::vector<int64_t>> classes;
  for (int64_t d = 0; d < std::ssize(replicas); ++d)
    classes[replicas[static_cast<size_t>(d)]].push_back(d);
  Replicas keepers(replicas.size());
  size_t number = 0;
  for (const auto& [first, members] : classes) {
    const int64_t keeper = members[number++ * members.size() / classes.size()];
    for (const int64_t d : members) keepers[static_cast<size_t>(d)] = keeper;
  }
  return keepers;
}

class GatheredValues {
 public:
  explicit GatheredValues(const Program& program) : p_(program) {}

  // Entries of the argument table that read the results of the collective that is an item of the
  // main block; nullopt: somebody writes there while others may still read.
  std::optional<std::vector<int64_t>> readers(size_t item) const {
    const CollectiveStep& step = collective(p_.main.items[item]);
    std::vector<int64_t> all;
    for (int64_t i = 0; i < step.results; ++i) {
      const Slot& slot = slot_of(step.first_argument + step.operands + i);
      if (slot.kind != BufferPlace::arena || slot.bytes == 0) return std::nullopt;
      std::optional<std::vector<int64_t>> found = Scan(*this, slot).readers_behind(item);
      if (!found) return std::nullopt;
      all.insert(all.end(), found->begin(), found->end());
    }
    return all;
  }

  const CollectiveStep& collective(const Block::Item& item) const {
    return p_.collectives[static_cast<size_t>(item.first)];
  }

 private:
  const Slot& slot_of(int64_t argument) const {
    return p_.arguments[static_cast<size_t>(argument)];
  }

  // The life of one value, item by item of the main block.
  class Scan {
   public:
    Scan(const GatheredValues& of, const Slot& value) : of_(of), p_(of.p_), value_(value) {}

    std::optional<std::vector<int64_t>> readers_behind(size_t item) {
      for (size_t i = item + 1; i < p_.main.items.size() && state_ == State::lives; ++i)
        pass(p_.main.items[i]);
      if (state_ == State::spoilt) return std::nullopt;
      return std::move(readers_);
    }

   private:
    enum class State { lives, over, spoilt };

    // All workers meet before and behind collectives and shared segments, nowhere else for sure.
    void pass(const Block::Item& item) {
      const bool meets = item.kind == Block::Item::collective || item.shared;
      if (meets) being_read_ = false;
      if (item.kind == Block::Item::segment) {
        for (int64_t i = item.first; i < item.last && state_ == State::lives; ++i) {
          const Step& step = p_.steps[static_cast<size_t>(i)];
          use(step.first_argument, step.operands, step.results);
        }
      } else if (item.kind == Block::Item::collective) {
        const CollectiveStep& step = of_.collective(item);
        use(step.first_argument, step.operands, step.results);
      } else if (touches(item)) {  // an inner block reads it, or writes there
        state_ = State::spoilt;
      }
      if (meets) being_read_ = false;
    }

    void use(int64_t first, int64_t operands, int64_t results) {
      for (int64_t a = first; a < first + operands; ++a) {
        if (!overlaps(a)) continue;
        if (of_.slot_of(a) != value_) state_ = State::spoilt;
        readers_.push_back(a);
        being_read_ = true;
      }
      for (int64_t a = first + operands; a < first + operands + results; ++a)
        if (overlaps(a) && state_ == State::lives)
          state_ = being_read_ ? State::spoilt : State::over;
    }

    bool overlaps(int64_t argument) const {
      const Slot& slot = of_.slot_of(argument);
      return slot.kind == BufferPlace::arena && slot.offset < value_.offset + value_.bytes &&
             value_.offset < slot.offset + slot.bytes;
    }
    bool overlaps(int64_t first, int64_t count) const {
      for (int64_t a = first; a < first + count; ++a)
        if (overlaps(a)) return true;
      return false;
    }

    bool touches(const Block& block) const {
      return std::any_of(block.items.begin(), block.items.end(),
                         [&](const Block::Item& item) { return touches(item); });
    }
    bool touches(const Block::Item& item) const {
      const auto index = static_cast<size_t>(item.first);
      if (item.kind == Block::Item::loop) {
        const LoopStep& loop = *p_.loops[index];
        return overlaps(loop.predicate_argument) ||
               overlaps(loop.first_carried, std::ssize(loop.carried_bytes)) ||
               touches(loop.condition) || touches(loop.body);
      }
      if (item.kind == Block::Item::branch) {
        const BranchStep& branch = *p_.branches[index];
        return overlaps(branch.selector_argument) ||
               std::any_of(branch.blocks.begin(), branch.blocks.end(),
                           [&](const Block& inner) { return touches(inner); });
      }
      if (item.kind != Block::Item::segment) {
        const CollectiveStep& step = of_.collective(item);
        return overlaps(step.first_argument, step.operands + step.results);
      }
      for (int64_t i = item.first; i < item.last; ++i) {
        const Step& step = p_.steps[static_cast<size_t>(i)];
        if (overlaps(step.first_argument, step.operands + step.results)) return true;
      }
      return false;
    }

    const GatheredValues& of_;
    const Program& p_;
    const Slot value_;
    std::vector<int64_t> readers_;
    bool being_read_ = false;  // since all workers met
    State state_ = State::lives;
  };

  const Program& p_;
};

}  // namespace

void share_gathered(Program& program, const SharedValues& values) {
  const GatheredValues gathered(program);
  for (size_t i = 0; i < program.main.items.size(); ++i) {
    const Block::Item& item = program.main.items[i];
    if (item.kind != Block::Item::collective) continue;
    CollectiveStep& step = program.collectives[static_cast<size_t>(item.first)];
    if (step.opcode != Opcode::all_gather || step.is_split || step.reference) continue;
    const Replicas* const same = values.same(step.node);
    if (same == nullptr) continue;
    const Replicas keepers = keepers_of(*same);
    const auto is_keeper = [&](int64_t d) { return keepers[static_cast<size_t>(d)] == d; };
    std::vector<bool> receives;
    for (int64_t d = 0; d < std::ssize(keepers); ++d) receives.push_back(is_keeper(d));
    if (std::find(receives.begin(), receives.end(), false) == receives.end()) continue;
    const auto readers = gathered.readers(i);
    if (!readers) continue;
    step.receives = std::move(receives);
    for (const int64_t argument : *readers) program.borrowed.push_back({argument, keepers});
  }
}

}  // namespace gspmd
