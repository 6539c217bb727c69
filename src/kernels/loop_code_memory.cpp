#include "kernels/loop_code_memory.h"

#include <sys/mman.h>

#include <cstring>

namespace gspmd {

std::shared_ptr<const CodeMemory> CodeMemory::make(const std::vector<uint8_t>& code) {
  if (code.empty()) return nullptr;
  void* const pages =
      mmap(nullptr, code.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  std::memcpy(pages, code.data(), code.size());
  if (mprotect(pages, code.size(), PROT_READ | PROT_EXEC) != 0) {
    munmap(pages, code.size());
    return nullptr;
  }
  return std::shared_ptr<const CodeMemory>(new CodeMemory(pages, code.size()));
}

CodeMemory::~CodeMemory() { munmap(pages_, bytes_); }

}  // namespace gspmd
