#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "gspmd/io/safetensors.h"

namespace gspmd::io {

// What tells a file from every other one.
struct WrittenFile {
  int64_t bytes = 0;
  std::string checksum;  // of the header, which has those of the tensors
};

// As write_safetensors_streamed, with `notes` of the library's own beside the metadata.
WrittenFile write_with_notes(const std::string& path, std::span<const SafetensorsSource> tensors,
                             const std::map<std::string, std::string>& metadata,
                             const std::map<std::string, std::string>& notes);

}  // namespace gspmd::io
