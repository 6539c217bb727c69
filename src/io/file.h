#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gspmd::io {

// A regular file opened for reading at any position. UserError "PATH: ..." where that fails.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  // Fills `to` from `offset` on. UserError when the file ends before.
  void read(int64_t offset, std::span<std::byte> to) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace gspmd::io
