#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gspmd {

class Transport;

// Memory of the processes of one machine that others there touch too, without a name that would
// stay behind: each opens the others' through /proc. Where that is not possible, as between
// machines and some containers, or GSPMD_MPI_SHARED_MEMORY=0 forbids it, nothing is shared.
class SharedMemory {
 public:
  // All processes of the job together; `bytes` each.
  SharedMemory(Transport& transport, int64_t bytes);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  // Of a process; empty where this one does not touch it.
  std::span<std::byte> of(int64_t process) const;
  // Known in all processes alike.
  bool touches(int64_t of, int64_t by) const;

 private:
  int64_t bytes_;
  std::vector<std::byte*> memory_;          // by process; nullptr: not touched
  std::vector<std::vector<char>> touches_;  // [by][of]
};

}  // namespace gspmd
