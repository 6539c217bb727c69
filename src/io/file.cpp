#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "gspmd/base/error.h"

namespace gspmd::io {

InputFile::InputFile(const std::string& path) : path_(path) {
  // A pipe without a writer is refused below, not waited for.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) user_error("{}: cannot be opened: {}", path, std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    user_error("{}: is not a regular file", path);
  }
  size_ = status.st_size;
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = ::pread(descriptor_, to.data(), to.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) user_error("{}: cannot be read: {}", path_, std::strerror(errno));
    if (count == 0) user_error("{}: ends at byte {}, {} bytes too early", path_, offset, to.size());
    to = to.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

}  // namespace gspmd::io
