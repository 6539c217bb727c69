#include "runtime/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>

#include "runtime/transport.h"

namespace gspmd {
namespace {

constexpr std::string_view kWhat = "the start of the job";

// Where a process says that its memory is; `mark` stands at its beginning too: a number of a
// process on another machine, or in another container, may be that of something else here.
struct Offer {
  int64_t pid = 0, file = -1;
  uint64_t mark[2] = {};
};

bool is_wanted() {
  const char* const text = std::getenv("GSPMD_MPI_SHARED_MEMORY");
  return text == nullptr || std::string_view(text) != "0";
}

std::byte* map(int file, int64_t bytes) {
  void* const memory =
      ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

// The memory that another process offers, nullptr where it is not there.
std::byte* open_offer(const Offer& offer, int64_t bytes) {
  if (offer.file < 0) return nullptr;
  const int file =
      ::open(fmt::format("/proc/{}/fd/{}", offer.pid, offer.file).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  std::byte* memory = ::lseek(file, 0, SEEK_END) == bytes ? map(file, bytes) : nullptr;
  ::close(file);
  if (memory != nullptr && std::memcmp(memory, offer.mark, sizeof offer.mark) != 0) {
    ::munmap(memory, static_cast<size_t>(bytes));
    memory = nullptr;
  }
  return memory;
}

}  // namespace

SharedMemory::SharedMemory(Transport& transport, int64_t bytes) : bytes_(bytes) {
  Offer own;
  own.pid = ::getpid();
  std::random_device random;
  for (uint64_t& part : own.mark) part = uint64_t{random()} << 32 | random();
  const int file = is_wanted() ? ::memfd_create("gspmd", MFD_CLOEXEC) : -1;
  std::byte* memory = nullptr;
  if (file >= 0 && ::ftruncate(file, bytes) == 0) memory = map(file, bytes);
  if (memory != nullptr) {
    std::memcpy(memory, own.mark, sizeof own.mark);
    own.file = file;
  }
  std::vector<char> opened;
  for (const auto& said : gather_equal(transport, std::as_bytes(std::span(&own, 1)), kWhat)) {
    Offer offer;
    std::memcpy(&offer, said.data(), sizeof offer);
    const bool is_own = std::ssize(memory_) == transport.process();
    memory_.push_back(is_own ? memory : own.file >= 0 ? open_offer(offer, bytes) : nullptr);
    opened.push_back(memory_.back() != nullptr ? 1 : 0);
  }
  for (const auto& said : gather_equal(transport, std::as_bytes(std::span(opened)), kWhat)) {
    touches_.emplace_back(said.size());
    std::memcpy(touches_.back().data(), said.data(), said.size());
  }
  if (file >= 0) ::close(file);
}

SharedMemory::~SharedMemory() {
  for (std::byte* const memory : memory_)
    if (memory != nullptr) ::munmap(memory, static_cast<size_t>(bytes_));
}

std::span<std::byte> SharedMemory::of(int64_t process) const {
  std::byte* const memory = memory_[static_cast<size_t>(process)];
  return {memory, memory == nullptr ? 0 : static_cast<size_t>(bytes_)};
}

bool SharedMemory::touches(int64_t of, int64_t by) const {
  return touches_[static_cast<size_t>(by)][static_cast<size_t>(of)] != 0;
}

}  // namespace gspmd
