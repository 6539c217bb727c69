#pragma once

// The names that a module has given, in flat memory.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gspmd/base/export.h"

namespace gspmd {

// A set of names, each with a number: of millions of names, with no allocation per name. Copies
// are copies of memory. References to numbers hold until the next add.
class GSPMD_API NameTable {
 public:
  // What `add` found.
  struct Entry {
    int64_t& number;  // 0 of a new name
    bool is_new;      // whether `add` added it
  };
  Entry add(std::string_view name);       // Adds the name where it is absent.
  size_t size() const { return count_; }  // number of names

 private:
  struct Slot {
    uint64_t hash = 0;
    size_t begin = 0;     // in text_
    int64_t length = -1;  // -1: the slot is free
    int64_t number = 0;
  };
  // The slot of the name, or the free one where it belongs; there is a free one.
  Slot& slot_of(uint64_t hash, std::string_view name);
  void grow();

  std::vector<Slot> slots_;  // a power of two, at most half of them taken
  std::string text_;         // all names
  size_t count_ = 0;
};

}  // namespace gspmd
