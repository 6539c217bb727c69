#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gspmd/base/array.h"
#include "gspmd/kernels/strided_copy.h"
#include "gspmd/mesh/sharding.h"
#include "gspmd/runtime/executor.h"

namespace gspmd {

// What one copy between a whole array and a dense part of it moves, as much as is worth a thread's
// turn.
struct ShardPiece {
  StridedCopy copy;                   // in the direction in which it runs
  int64_t part = 0;                   // which: a device, or a place in a list
  int64_t in_array = 0, in_part = 0;  // where it begins, in bytes
  int64_t dense_bytes = 0;            // where elements lie side by side at both ends: of all
};

// The copy from part `part`, of shape `local`, to the tile `box` of an array.
void add_pieces_to_host(std::vector<ShardPiece>& pieces, const Shape& global, const Shape& local,
                        const Box& box, int64_t part);
// Runs such copies, on several threads where `bytes` of all are many: parts[piece.part] to `array`.
void run_to_host(const std::vector<ShardPiece>& pieces, const std::vector<const std::byte*>& parts,
                 std::byte* array, int64_t bytes);

// The copies between a whole array and the parts that the devices of this process have of it: made
// once for all arrays of the shape.
class ShardCopies {
 public:
  ShardCopies(Shape global, const Sharding& sharding, int64_t num_devices);

  const Shape& local() const { return local_; }  // of one device's part
  // Into all parts, whatever they held; tails of uneven dims become zero.
  void scatter(const Array& global, DeviceBuffer& buffer) const;
  // The whole array, where this process has all devices: a part that several have is read from the
  // first.
  Array gather(const DeviceBuffer& buffer) const;

 private:
  Shape global_, local_;
  int64_t local_bytes_;
  std::vector<ShardPiece> to_devices_, to_host_;
  std::vector<int64_t> with_tails_;  // devices whose part has more than their tile
};

}  // namespace gspmd
