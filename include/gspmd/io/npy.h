#pragma once

// Arrays in NumPy's files.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/base/array.h"
#include "gspmd/base/export.h"
#include "gspmd/base/owned.h"

namespace gspmd {

// NumPy's .npy and .npz files. Element types that NumPy lacks are stored as raw bytes, which is how
// NumPy itself writes arrays of such types: bf16 as |V2, 8-bit and smaller floats as |V1; integers
// of less than 8 bits are stored as |i1 and |u1. Complex is <c8 and <c16, pred |b1. Both byte
// orders, both element orders and format versions 1 to 3 are read. Nothing is allocated that the
// file does not hold: sizes are compared with the file's first. Every error is a UserError that
// names the file.
//
// `as` is the element type that the reader wants: raw bytes and 8-bit integers become that narrow
// type; other types have to be the file's own. Without it |V2 is bf16 and |V1 is u8.

// --- One array. UserError names the file
GSPMD_API Array read_npy(const std::string& path, std::optional<DType> as = std::nullopt);
GSPMD_API void write_npy(const std::string& path, const Array& array);

// The same in memory; `name` is for messages.
GSPMD_API Array parse_npy(std::span<const std::byte> bytes, const std::string& name,
                          std::optional<DType> as = std::nullopt);
GSPMD_API std::vector<std::byte> npy_bytes(const Array& array);  // the file's bytes

// A zip archive of .npy files, opened for reading. Arrays are read one by one, when asked for.
class GSPMD_API NpzFile {
 public:
  // UserError names the file: it cannot be read, or is no zip archive.
  explicit NpzFile(const std::string& path);
  ~NpzFile();
  NpzFile(NpzFile&&) noexcept;
  NpzFile& operator=(NpzFile&&) noexcept;

  const std::vector<std::string>& names() const;  // without .npy, as they lie in the file
  bool contains(const std::string& name) const;   // by the name without .npy
  Shape shape(const std::string& name) const;     // reads the header only
  // UserError: no such array, or another element type.
  Array read(const std::string& name, std::optional<DType> as = std::nullopt) const;

 private:
  struct Impl;
  Owned<Impl> impl_;
};

// Named arrays in file order; names are unique. Equal arrays give equal files.
GSPMD_API std::vector<std::pair<std::string, Array>> read_npz(const std::string& path);
// UserError where the file cannot be written.
GSPMD_API void write_npz(const std::string& path,
                         std::span<const std::pair<std::string, Array>> arrays);

}  // namespace gspmd
