#pragma once

// A set of safetensors files that holds what one file would: parts with boxes of the tensors, each
// written by one process, and under the set's own name an index, a safetensors file without
// tensors. docs/design/0041

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gspmd/io/safetensors.h"
#include "io/safetensors_write.h"

namespace gspmd::io {

constexpr std::string_view kSetNote = "gspmd.set";       // of an index: what the parts hold
constexpr std::string_view kPartNote = "gspmd.part_of";  // of a part: the index's file name

struct SetPart {
  std::string file;  // in the index's folder
  WrittenFile written;
};
struct SetPiece {
  int64_t part = 0;
  Box box;  // of the tensor as stored
};
struct SetTensor {
  std::string name;
  Shape shape;
  Dims stored;  // the shape's, or flat, [elements]
  std::vector<SetPiece> pieces;
};
struct SetIndex {
  std::vector<SetPart> parts;
  std::vector<SetTensor> tensors;
};

// Where the index is that a path leads to: through a symbolic link.
std::string index_path(const std::string& path);
// "NAME.part-1-of-4-ID.safetensors" beside the index: of the part-th of `parts`, from 0. `id`: 16
// hexadecimal digits that no other set has.
std::string part_path(const std::string& index, int64_t part, int64_t parts, const std::string& id);
// A tensor of a part: "w" for all of it, "w[0:4,8:16]" for a box.
std::string piece_name(const SetTensor& tensor, const Box& box);

WrittenFile write_part(const std::string& index, const std::string& path,
                       std::span<const SafetensorsSource> pieces);
// The last step, after which the set is there: the parts are.
void write_index(const std::string& index, const SetIndex& set,
                 const std::map<std::string, std::string>& metadata);
// Removes the parts of an index's name that are none of `keep`, paths.
void remove_parts(const std::string& index, const std::vector<std::string>& keep);
// Removes parts of a folder whose index is not there or has others: what killed writers have left
// of files whose names begin with `prefix`.
void remove_lost_parts(const std::string& folder, const std::string& prefix);

// A set opened for reading. UserError, naming the part: one that is missing, truncated, or of
// another set.
class SafetensorsSet {
 public:
  // `note`: the index's.
  SafetensorsSet(const std::string& path, const std::string& note);

  std::vector<SafetensorsEntry> entries() const;
  std::vector<std::string> files() const;  // paths of the parts
  int64_t bytes_read() const;
  // The box's elements to the beginning of `to`.
  void read(size_t tensor, const Box& box, const Array& to) const;
  void verify(size_t tensor) const;

 private:
  void open_parts();
  void check(const SetTensor& tensor) const;
  void read_flat(const SetTensor& tensor, const Box& box, const Array& to) const;

  std::string path_;
  SetIndex index_;
  std::vector<SafetensorsFile> parts_;
};

}  // namespace gspmd::io
