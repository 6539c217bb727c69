#pragma once

// Arrays in safetensors files, whole or only the bytes of a shard.

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gspmd/base/array.h"
#include "gspmd/base/export.h"
#include "gspmd/base/owned.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

namespace io {
class SafetensorsSet;
}

// One tensor of a file.
struct SafetensorsEntry {
  std::string name = {};  // unique in the file
  Shape shape = {};       // of the whole tensor
  // Of the first byte, from the beginning of the file; 0 where it lies in the parts of a set.
  int64_t offset = 0;
};

// A safetensors file opened for reading. Opening reads and checks the header: its length, types,
// shapes, duplicate names, and that the tensors' bytes follow each other without gap or overlap to
// the end of the file; and its checksum, where it has one (files of this library do, those of
// others are read without). UserError, naming file and tensor, for whatever does not hold.
// The index of a set of files, as several processes save it (gspmd/api/checkpoint.h), is read as
// the one file that they stand for; its parts are opened with it.
class GSPMD_API SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);  // UserError names file and tensor.
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;

  const std::vector<SafetensorsEntry>& tensors() const;        // in file order
  const std::map<std::string, std::string>& metadata() const;  // the header's __metadata__
  bool contains(const std::string& name) const;                // whether the file has the tensor
  const Shape& shape(const std::string& name) const;           // UserError: no such tensor

  bool has_checksums() const;  // whether this library wrote it
  // Reads a tensor, or all of them, and compares with the checksums, where there are any.
  // UserError.
  void verify(const std::string& name) const;
  void verify() const;  // all tensors

  Array read(const std::string& name) const;  // the whole tensor, verified; UserError as shape()
  // The part of a tensor inside `box`; reads no other bytes of the file than the box's rows, so it
  // is not verified.
  Array read_box(const std::string& name, const Box& box) const;
  // What `device` holds under `sharding`: shard shape, tails of uneven dims zero.
  Array read_shard(const std::string& name, const Sharding& sharding, int64_t device) const;
  // How many bytes of tensors were read so far.
  int64_t bytes_read() const;
  // Paths of the files that the tensors lie in: this one, or the parts of a set.
  std::vector<std::string> files() const;

 private:
  friend class io::SafetensorsSet;
  SafetensorsFile(const std::string& path, bool may_be_index);
  std::string note(std::string_view key) const;  // of the library's own metadata; "": none

  struct Impl;
  Owned<Impl> impl_;
};

// Tensors in the order given; names are unique. Narrow types that the format lacks are stored as I8
// and U8, with a note of the type in the metadata that SafetensorsFile follows; c128 has no form:
// UserError. The metadata also gets a checksum (XXH3) of the header and of each tensor. The file is
// written aside, synced and renamed: one of that name stays whole until the new one is.
// UserError, and no file left, where that fails; metadata names that begin with "gspmd." are taken.
GSPMD_API void write_safetensors(const std::string& path,
                                 std::span<const std::pair<std::string, Array>> tensors,
                                 const std::map<std::string, std::string>& metadata = {});

// A tensor to be written, which is asked for when its turn comes.
struct SafetensorsSource {
  std::string name = {};             // unique in the file
  Shape shape = {};                  // of what read() gives
  std::function<Array()> read = {};  // called once
};
// The same with one tensor in memory at a time.
GSPMD_API void write_safetensors_streamed(const std::string& path,
                                          std::span<const SafetensorsSource> tensors,
                                          const std::map<std::string, std::string>& metadata = {});

}  // namespace gspmd
