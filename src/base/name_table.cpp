#include "gspmd/base/name_table.h"

#include <functional>

namespace gspmd {
namespace {

// Names that differ in their last character stand near one another: most are numbered in order.
uint64_t hash_of(std::string_view name) {
  if (name.empty()) return 0;
  const uint64_t stem = std::hash<std::string_view>{}(name.substr(0, name.size() - 1));
  return (stem & ~uint64_t{15}) | (static_cast<uint64_t>(name.back()) & 15U);
}

}  // namespace

NameTable::Slot& NameTable::slot_of(uint64_t hash, std::string_view name) {
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    Slot& slot = slots_[at];
    if (slot.length < 0) return slot;
    if (slot.hash == hash &&
        std::string_view(text_).substr(slot.begin, static_cast<size_t>(slot.length)) == name)
      return slot;
  }
}

void NameTable::grow() {
  std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size());
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.length < 0) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].length >= 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

NameTable::Entry NameTable::add(std::string_view name) {
  if (2 * (count_ + 1) > slots_.size()) grow();
  const uint64_t hash = hash_of(name);
  Slot& slot = slot_of(hash, name);
  if (slot.length >= 0) return {slot.number, false};
  slot = {hash, text_.size(), static_cast<int64_t>(name.size()), 0};
  text_ += name;
  ++count_;
  return {slot.number, true};
}

}  // namespace gspmd
