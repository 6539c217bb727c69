#include "io/atomic_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <string_view>

#include "gspmd/base/error.h"

namespace gspmd::io {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp-";

// A writer holds a lock on its file: one that can be locked has lost its writer.
bool remove_leftover(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  const bool removed = ::flock(file, LOCK_EX | LOCK_NB) == 0 && ::unlink(path.c_str()) == 0;
  ::close(file);
  return removed;
}

// ".NAME.tmp-PID-COUNT" with a NAME that begins with `prefix`.
bool is_leftover(std::string_view name, std::string_view prefix) {
  const size_t mark = name.rfind(kMark);
  return name.starts_with(".") && name.substr(1).starts_with(prefix) &&
         mark != std::string_view::npos &&
         name.find_first_not_of("0123456789-", mark + kMark.size()) == std::string_view::npos;
}

// The files that writers of this process have not committed.
struct Unfinished {
  std::mutex mutex;  // held while one appears or goes
  std::set<std::string> paths;
};
Unfinished& unfinished() {
  static auto* const all = new Unfinished;  // also for a signal while the process ends
  return *all;
}

}  // namespace

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

int64_t remove_leftovers(const std::string& folder, const std::string& prefix) {
  DIR* const directory = ::opendir(folder.c_str());
  if (directory == nullptr) return 0;
  int64_t removed = 0;
  while (const dirent* const entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (is_leftover(name, prefix)) {
      removed += remove_leftover(fmt::format("{}/{}", folder, name)) ? 1 : 0;
    }
  }
  ::closedir(directory);
  return removed;
}

void sync_folder(const std::string& folder) {
  const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = directory >= 0 && ::fsync(directory) == 0;
  const int reason = errno;
  if (directory >= 0) ::close(directory);
  if (!synced) user_error("{}: the folder cannot be synced: {}", folder, std::strerror(reason));
}

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  std::error_code failed;
  // A symbolic link stays one: the file it leads to is replaced.
  if (fs::is_symlink(path, failed)) path_ = fs::weakly_canonical(path, failed).string();
  if (fs::exists(path_, failed) && !fs::is_regular_file(path_, failed))
    user_error("{}: cannot be written: it is no regular file; give another name", path);
  folder_ = folder_of(path_);
  directory_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory_ < 0)
    user_error("{}: cannot be written: the folder {}: {}", path_, folder_, std::strerror(errno));
  try {
    open_beside();
  } catch (...) {
    close();
    throw;
  }
}

void AtomicFile::open_beside() {
  static std::atomic<int64_t> count{0};
  const std::lock_guard lock(unfinished().mutex);
  const std::string name = fs::path(path_).filename().string();
  remove_leftovers(folder_, name + std::string(kMark));
  while (true) {
    temporary_ = fmt::format("{}/.{}{}{}-{}", folder_, name, kMark, getpid(), count++);
    file_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0 && errno == EEXIST) continue;
    if (file_ < 0) {
      temporary_.clear();
      fail("");
    }
    unfinished().paths.insert(temporary_);
    if (::flock(file_, LOCK_EX) != 0) fail("lock: ");
    struct stat status {};
    // Taken for a leftover before it was locked: once more under another name.
    if (::fstat(file_, &status) == 0 && status.st_nlink > 0) return;
    ::close(file_);
    unfinished().paths.erase(temporary_);
  }
}

void AtomicFile::fail(const char* what) const {
  const int reason = errno;
  user_error("{}: cannot be written: {}{}", path_, what, std::strerror(reason));
}

void AtomicFile::write(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("");
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

void AtomicFile::commit() {
  if (::fsync(file_) != 0) fail("sync: ");
  {
    const std::lock_guard lock(unfinished().mutex);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename: ");
    unfinished().paths.erase(temporary_);
  }
  temporary_.clear();
  if (::fsync(directory_) != 0) fail("sync of the folder: ");
}

void AtomicFile::close() {
  // Unlinked while still locked, so that nobody else takes it for a leftover.
  if (!temporary_.empty()) {
    const std::lock_guard lock(unfinished().mutex);
    ::unlink(temporary_.c_str());
    unfinished().paths.erase(temporary_);
  }
  if (file_ >= 0) ::close(file_);
  if (directory_ >= 0) ::close(directory_);
  file_ = directory_ = -1;
}

AtomicFile::~AtomicFile() { close(); }

void AtomicFile::remove_unfinished() {
  unfinished().mutex.lock();  // and never again free
  for (const std::string& path : unfinished().paths) ::unlink(path.c_str());
}

void check_writable(const std::string& path) { const AtomicFile file(path); }

void write_file(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  AtomicFile file(path);
  int64_t offset = 0;
  for (const std::span<const std::byte> piece : pieces) {
    file.write(offset, piece);
    offset += static_cast<int64_t>(piece.size());
  }
  file.commit();
}

}  // namespace gspmd::io
