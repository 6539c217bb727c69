#pragma once

// Hash tables in flat memory, for graphs of millions of nodes.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gspmd {

// The hash of a key of flat tables: of a number or a pointer, or of a text by what it says.
template <class Key>
uint32_t flat_hash(const Key& key) {
  if constexpr (std::is_convertible_v<Key, std::string_view>) {
    return static_cast<uint32_t>(std::hash<std::string_view>{}(key));
  } else {
    uint64_t bits = 0;
    if constexpr (std::is_pointer_v<Key>)
      bits = reinterpret_cast<uintptr_t>(key);
    else
      bits = static_cast<uint64_t>(key);
    return static_cast<uint32_t>((bits * 0x9E3779B97F4A7C15U) >> 32);
  }
}

// What stands under a key (a number, a pointer, or a text, which stands elsewhere and outlives the
// table), with no allocation per key. None is taken out again; an addition may move all values.
template <class Key, class T>
class FlatMap {
 public:
  // nullptr where there is none of this key.
  const T* find(const Key& key) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[slot_of(flat_hash(key), key)];
    return slot.taken ? &slot.value : nullptr;
  }
  T* find(const Key& key) { return const_cast<T*>(std::as_const(*this).find(key)); }
  bool contains(const Key& key) const { return find(key) != nullptr; }  // whether it has it
  // std::out_of_range where there is none.
  const T& at(const Key& key) const {
    const T* const found = find(key);
    if (found == nullptr) throw std::out_of_range("FlatMap::at");
    return *found;
  }
  T& at(const Key& key) { return const_cast<T&>(std::as_const(*this).at(key)); }
  // What stands there; T's default where there was none.
  T& operator[](const Key& key) {
    if (2 * (count_ + 1) > slots_.size()) resize(slots_.empty() ? kLeast : 2 * slots_.size());
    const uint32_t hash = flat_hash(key);
    Slot& slot = slots_[slot_of(hash, key)];
    if (slot.taken) return slot.value;
    slot.key = key;
    slot.hash = hash;
    slot.taken = true;
    ++count_;
    return slot.value;
  }
  // The first of a key stays; whether this is it.
  bool emplace(const Key& key, T value) {
    const size_t before = count_;
    T& found = (*this)[key];
    if (count_ == before) return false;
    found = std::move(value);
    return true;
  }
  // Makes room for so many keys in all.
  void reserve(size_t count) {
    const size_t slots = 2 * count > kLeast ? std::bit_ceil(2 * count) : kLeast;
    if (slots > slots_.size()) resize(slots);
  }
  size_t size() const { return count_; }      // number of keys
  bool empty() const { return count_ == 0; }  // whether it has no key

 private:
  static constexpr size_t kLeast = 16;
  struct Slot {
    Key key{};
    uint32_t hash = 0;
    bool taken = false;
    T value{};
  };

  // The slot of the key, or the free one where it belongs; there is a free one.
  size_t slot_of(uint32_t hash, const Key& key) const {
    const size_t mask = slots_.size() - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
      const Slot& slot = slots_[at];
      if (!slot.taken || (slot.hash == hash && slot.key == key)) return at;
    }
  }
  void resize(size_t slots) {
    std::vector<Slot> old(slots);
    old.swap(slots_);
    for (Slot& slot : old)
      if (slot.taken) slots_[slot_of(slot.hash, slot.key)] = std::move(slot);
  }

  std::vector<Slot> slots_;  // a power of two, at most half of them taken
  size_t count_ = 0;
};

// The keys alone.
template <class Key>
class FlatSet {
 public:
  bool insert(const Key& key) { return keys_.emplace(key, {}); }       // whether it was not there
  bool contains(const Key& key) const { return keys_.contains(key); }  // whether it has it
  void reserve(size_t count) { keys_.reserve(count); }                 // for so many in all
  size_t size() const { return keys_.size(); }                         // number of keys
  bool empty() const { return keys_.empty(); }                         // whether it has no key

 private:
  struct Nothing {};
  FlatMap<Key, Nothing> keys_;
};

}  // namespace gspmd
