#pragma once

// Memory that holds generated machine code.

#include <cstdint>
#include <memory>
#include <vector>

namespace gspmd {

// Code in pages that are written first and executable afterwards, never both.
class CodeMemory {
 public:
  // nullptr where the system gives no executable memory.
  static std::shared_ptr<const CodeMemory> make(const std::vector<uint8_t>& code);
  ~CodeMemory();
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;

  const void* at(size_t offset) const { return static_cast<const uint8_t*>(pages_) + offset; }

 private:
  CodeMemory(void* pages, size_t bytes) : pages_(pages), bytes_(bytes) {}
  void* pages_;
  size_t bytes_;
};

}  // namespace gspmd
