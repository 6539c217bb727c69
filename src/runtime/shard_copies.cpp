#include "runtime/shard_copies.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "gspmd/base/error.h"
#include "kernels/host_threads.h"

namespace gspmd {
namespace {

constexpr int64_t kThreadBytes = 1 << 20;  // what is worth a thread's turn

// The copy of a tile inside the array to the device's own dense part of it.
ShardPiece tile_copy(const Shape& global, const Shape& local, const Box& box, int64_t part) {
  ShardPiece piece;
  piece.part = part;
  const Dims strides = row_major_strides(global.dims);
  for (size_t d = 0; d < strides.size(); ++d) piece.in_array += box.start[d] * strides[d];
  piece.in_array *= dtype_size(global.dtype);
  piece.copy = simplified(
      {dtype_size(global.dtype), box.size, std::move(strides), row_major_strides(local.dims)});
  return piece;
}

// Cuts it along its outermost dim. Either direction is in the fewest loops where one is: both ends
// lie row-major.
void add_pieces(std::vector<ShardPiece>& pieces, const ShardPiece& whole, bool to_host) {
  const StridedCopy& copy = whole.copy;
  int64_t bytes = copy.element_size;
  for (const int64_t d : copy.dims) bytes *= d;
  if (bytes == 0) return;
  const int64_t rows = copy.dims.empty() ? 1 : copy.dims[0];
  const int64_t cuts = std::clamp<int64_t>(bytes / kThreadBytes, 1, rows);
  for (int64_t i = 0; i < cuts; ++i) {
    ShardPiece& piece = pieces.emplace_back(whole);
    if (cuts > 1) {
      const int64_t first = i * rows / cuts;
      piece.copy.dims[0] = (i + 1) * rows / cuts - first;
      piece.in_array += first * copy.source[0] * copy.element_size;
      piece.in_part += first * copy.target[0] * copy.element_size;
    }
    if (to_host) std::swap(piece.copy.source, piece.copy.target);
    const StridedCopy& part = piece.copy;
    if (part.dims.empty() || (part.dims.size() == 1 && part.source[0] == 1 && part.target[0] == 1))
      piece.dense_bytes = part.element_size * (part.dims.empty() ? 1 : part.dims[0]);
  }
}

void move(const ShardPiece& piece, const std::byte* source, std::byte* target) {
  if (piece.dense_bytes > 0)
    std::memcpy(target, source, static_cast<size_t>(piece.dense_bytes));
  else
    run_copy(piece.copy, source, target);
}

// f(piece) of each.
template <class F>
void run_pieces(const std::vector<ShardPiece>& pieces, int64_t bytes, const F& f) {
  if (bytes < 2 * kThreadBytes) {
    for (const ShardPiece& piece : pieces) f(piece);
    return;
  }
  in_ranges(std::ssize(pieces), 1, [&](int64_t begin, int64_t end) {
    std::for_each(pieces.begin() + begin, pieces.begin() + end, f);
  });
}

}  // namespace

void add_pieces_to_host(std::vector<ShardPiece>& pieces, const Shape& global, const Shape& local,
                        const Box& box, int64_t part) {
  add_pieces(pieces, tile_copy(global, local, box, part), true);
}

void run_to_host(const std::vector<ShardPiece>& pieces, const std::vector<const std::byte*>& parts,
                 std::byte* array, int64_t bytes) {
  run_pieces(pieces, bytes, [&](const ShardPiece& piece) {
    move(piece, parts[static_cast<size_t>(piece.part)] + piece.in_part, array + piece.in_array);
  });
}

ShardCopies::ShardCopies(Shape global, const Sharding& sharding, int64_t num_devices)
    : global_(std::move(global)),
      local_(local_shape(global_, sharding)),
      local_bytes_(local_.bytes()) {
  const DeviceRange range = local_devices(num_devices);
  std::set<Dims> read;  // tiles by start: replicas hold the same
  for (int64_t d = range.first; d < range.last; ++d) {
    const Box box = shard_box(global_, sharding, d);
    if (box.size != local_.dims && local_bytes_ > 0) with_tails_.push_back(d);
    if (box.is_empty()) continue;
    const ShardPiece whole = tile_copy(global_, local_, box, d);
    add_pieces(to_devices_, whole, false);
    if (read.insert(box.start).second) add_pieces(to_host_, whole, true);
  }
}

void ShardCopies::scatter(const Array& global, DeviceBuffer& buffer) const {
  for (const int64_t device : with_tails_)
    std::memset(buffer.shard(device), 0, static_cast<size_t>(local_bytes_));
  const std::byte* const array = global.bytes().data();
  run_pieces(to_devices_, local_bytes_ * buffer.local().count(), [&](const ShardPiece& piece) {
    move(piece, array + piece.in_array, buffer.shard(piece.part) + piece.in_part);
  });
}

Array ShardCopies::gather(const DeviceBuffer& buffer) const {
  Array result(global_);
  std::byte* const array = result.bytes().data();
  run_pieces(to_host_, global_.bytes(), [&](const ShardPiece& piece) {
    move(piece, buffer.shard(piece.part) + piece.in_part, array + piece.in_array);
  });
  return result;
}

}  // namespace gspmd
