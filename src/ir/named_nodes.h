#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "gspmd/ir/module.h"

namespace gspmd {

// The nodes of a text by name, in flat memory: of millions, with no allocation per node. The names
// stand elsewhere and outlive it.
class NamedNodes {
 public:
  // nullptr where there is none of this name.
  Node* find(std::string_view name) const {
    return slots_.empty() ? nullptr : slots_[slot_of(hash_of(name), name)].node;
  }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  // The first node of a name stays.
  void emplace(std::string_view name, Node* node) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    const uint32_t hash = hash_of(name);
    Slot& slot = slots_[slot_of(hash, name)];
    if (slot.node != nullptr) return;
    slot = {name, node, hash};
    ++count_;
  }

 private:
  struct Slot {
    std::string_view name;
    Node* node = nullptr;  // nullptr: the slot is free
    uint32_t hash = 0;
  };

  static uint32_t hash_of(std::string_view name) {
    return static_cast<uint32_t>(std::hash<std::string_view>{}(name));
  }
  // The slot of the name, or the free one where it belongs; there is a free one.
  size_t slot_of(uint32_t hash, std::string_view name) const {
    const size_t mask = slots_.size() - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
      const Slot& slot = slots_[at];
      if (slot.node == nullptr || (slot.hash == hash && slot.name == name)) return at;
    }
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.node != nullptr) slots_[slot_of(slot.hash, slot.name)] = slot;
  }

  std::vector<Slot> slots_;  // a power of two, at most half of them taken
  size_t count_ = 0;
};

}  // namespace gspmd
