#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gspmd::io {

// A file that appears under its name whole or not at all: written beside as ".NAME.tmp-PID-COUNT",
// synced, renamed, and the folder synced. Until then the file of that name, if any, stays as it is.
// What killed writers of the same name have left is removed; a living one's file is locked and
// stays. UserError "PATH: cannot be written: ..." where a step fails; nothing is left then.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(int64_t offset, std::span<const std::byte> bytes);
  void commit();

  // For a process that a signal is about to end, outside of its handlers: removes what all writers
  // have not committed, and lets none begin or commit after it.
  static void remove_unfinished();

 private:
  void open_beside();
  [[noreturn]] void fail(const char* what) const;  // with errno
  void close();

  std::string path_, folder_, temporary_;
  int file_ = -1, directory_ = -1;
};

// Removes what killed writers of files whose names begin with `prefix` have left in a folder.
// Returns how many; errors are passed over: the next write meets them.
int64_t remove_leftovers(const std::string& folder, const std::string& prefix);

// The folder of a file: "." where the path names none.
std::string folder_of(const std::string& path);

// UserError where an AtomicFile of this path could not be made; leaves everything as it is.
void check_writable(const std::string& path);

// Writes a whole file from pieces, one after the other, as an AtomicFile.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> pieces);

// Makes the names in a folder durable. UserError.
void sync_folder(const std::string& folder);

}  // namespace gspmd::io
