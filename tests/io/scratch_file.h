#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace gspmd {

// A file name in the build folder that is this process's own, removed at the end.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& suffix, const std::string& content = "")
      : path_(fmt::format(GSPMD_BINARY_DIR "/tests/io-{}{}", getpid(), suffix)) {
    if (!content.empty()) std::ofstream(path_, std::ios::binary) << content;
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace gspmd
