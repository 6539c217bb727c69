#include "runtime/exchanged_values.h"

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

class ExchangedValues {
 public:
  explicit ExchangedValues(const Program& program) : p_(program) {}

  // Where the results of a collective are read and stay.
  struct Uses {
    std::vector<int64_t> readers;  // entries of the argument table: of those in arenas
    std::vector<int64_t> leaves;   // of the program's results: they are these
  };

  // Of the collective that is an item of the main block; nullopt: somebody writes there while
  // others may still read, or has written there what is not the same everywhere.
  std::optional<Uses> uses(size_t item) const {
    const CollectiveStep& step = collective(p_.main.items[item]);
    Uses all;
    for (int64_t i = 0; i < step.results; ++i) {
      const Slot& slot = slot_of(step.first_argument + step.operands + i);
      if (slot.bytes == 0 || (slot.kind != BufferPlace::arena && !is_result(slot)))
        return std::nullopt;
      std::optional<std::vector<int64_t>> found = Scan(*this, slot).readers_behind(item);
      if (!found) return std::nullopt;
      if (slot.kind == BufferPlace::arena)
        all.readers.insert(all.readers.end(), found->begin(), found->end());
      else
        all.leaves.push_back(slot.index);
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

  // Whether it is all of one of the program's results, which takes no argument's place.
  bool is_result(const Slot& slot) const {
    if (slot.kind != BufferPlace::output) return false;
    const auto leaf = static_cast<size_t>(slot.index);
    return p_.donor[leaf] < 0 && slot.offset == 0 && slot.bytes >= p_.result_leaves[leaf].bytes();
  }

  // The life of one value, item by item of the main block.
  class Scan {
   public:
    Scan(const ExchangedValues& of, const Slot& value) : of_(of), p_(of.p_), value_(value) {}

    std::optional<std::vector<int64_t>> readers_behind(size_t item) {
      if (value_.kind == BufferPlace::output && is_touched_up_to(item)) return std::nullopt;
      for (size_t i = item + 1; i < p_.main.items.size() && state_ == State::lives; ++i)
        pass(p_.main.items[i]);
      if (state_ == State::spoilt || (state_ == State::over && value_.kind == BufferPlace::output))
        return std::nullopt;
      return std::move(readers_);
    }

   private:
    enum class State { lives, over, spoilt };

    // Whether what is made before, or what the collective reads, lies in the value's place.
    bool is_touched_up_to(size_t item) const {
      const auto& items = p_.main.items;
      const CollectiveStep& step = of_.collective(items[item]);
      return overlaps(step.first_argument, step.operands) ||
             std::any_of(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(item),
                         [&](const Block::Item& before) { return touches(before); });
    }

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
      const bool same = slot.kind == value_.kind &&
                        (slot.kind == BufferPlace::arena || slot.index == value_.index);
      return same && slot.offset < value_.offset + value_.bytes &&
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

    const ExchangedValues& of_;
    const Program& p_;
    const Slot value_;
    std::vector<int64_t> readers_;
    bool being_read_ = false;  // since all workers met
    State state_ = State::lives;
  };

  const Program& p_;
};

}  // namespace

void share_exchanged(Program& program, const SharedValues& values) {
  const ExchangedValues exchanged(program);
  for (size_t i = 0; i < program.main.items.size(); ++i) {
    const Block::Item& item = program.main.items[i];
    if (item.kind != Block::Item::collective) continue;
    CollectiveStep& step = program.collectives[static_cast<size_t>(item.first)];
    const bool gives_all = step.opcode == Opcode::all_gather || step.opcode == Opcode::all_reduce;
    if (!gives_all || step.is_split || step.reference || !step.receives.empty()) continue;
    const Replicas* const same = values.same(step.node);
    if (same == nullptr) continue;
    const Replicas keepers = keepers_of(*same);
    const auto is_keeper = [&](int64_t d) { return keepers[static_cast<size_t>(d)] == d; };
    std::vector<bool> receives;
    for (int64_t d = 0; d < std::ssize(keepers); ++d) receives.push_back(is_keeper(d));
    if (std::find(receives.begin(), receives.end(), false) == receives.end()) continue;
    const auto uses = exchanged.uses(i);
    if (!uses) continue;
    step.receives = std::move(receives);
    for (const int64_t argument : uses->readers) program.borrowed.push_back({argument, keepers});
    for (const int64_t leaf : uses->leaves)
      program.shared_results[static_cast<size_t>(leaf)] = keepers;
  }
}

}  // namespace gspmd
