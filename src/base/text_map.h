#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace gspmd {

// What stands under a name, in flat memory: of millions of names, with no allocation per name. The
// names stand elsewhere and outlive it; none is taken out again. An addition moves all values.
template <class T>
class TextMap {
 public:
  // nullptr where there is none of this name.
  const T* find(std::string_view name) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[slot_of(hash_of(name), name)];
    return slot.taken ? &slot.value : nullptr;
  }
  T* find(std::string_view name) { return const_cast<T*>(std::as_const(*this).find(name)); }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  // What stands there; T's default where there was none.
  T& operator[](std::string_view name) {
    if (2 * (count_ + 1) > slots_.size()) resize(std::max<size_t>(16, 2 * slots_.size()));
    const uint32_t hash = hash_of(name);
    Slot& slot = slots_[slot_of(hash, name)];
    if (slot.taken) return slot.value;
    slot.name = name;
    slot.hash = hash;
    slot.taken = true;
    ++count_;
    return slot.value;
  }
  // The first of a name stays.
  void emplace(std::string_view name, T value) {
    if (!contains(name)) (*this)[name] = std::move(value);
  }
  // Makes room for so many names in all.
  void reserve(size_t count) {
    const size_t slots = std::bit_ceil(std::max<size_t>(16, 2 * count));
    if (slots > slots_.size()) resize(slots);
  }
  size_t size() const { return count_; }

 private:
  struct Slot {
    std::string_view name;
    uint32_t hash = 0;
    bool taken = false;
    T value{};
  };

  static uint32_t hash_of(std::string_view name) {
    return static_cast<uint32_t>(std::hash<std::string_view>{}(name));
  }
  // The slot of the name, or the free one where it belongs; there is a free one.
  size_t slot_of(uint32_t hash, std::string_view name) const {
    const size_t mask = slots_.size() - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
      const Slot& slot = slots_[at];
      if (!slot.taken || (slot.hash == hash && slot.name == name)) return at;
    }
  }
  void resize(size_t slots) {
    std::vector<Slot> old(slots);
    old.swap(slots_);
    for (Slot& slot : old)
      if (slot.taken) slots_[slot_of(slot.hash, slot.name)] = std::move(slot);
  }

  std::vector<Slot> slots_;  // a power of two, at most half of them taken
  size_t count_ = 0;
};

}  // namespace gspmd
