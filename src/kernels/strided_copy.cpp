#include "gspmd/kernels/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/rows.h"
#include "kernels/stream.h"
#include "kernels/transpose_block.h"

namespace gspmd {
namespace {

struct Bits128 {  // c128
  uint64_t low, high;
};

// One element of any kind moved as bits.
template <class T>
const T* as(const std::byte* p) {
  return reinterpret_cast<const T*>(p);
}
template <class T>
T* as(std::byte* p) {
  return reinterpret_cast<T*>(p);
}

template <class T>
const std::byte* as_bytes(const T* p) {
  return reinterpret_cast<const std::byte*>(p);
}
template <class T>
std::byte* as_bytes(T* p) {
  return reinterpret_cast<std::byte*>(p);
}

template <class T>
void copy_row(const T* source, int64_t step, T* target, int64_t target_step, int64_t n) {
  if (target_step != 1) {
    for (int64_t i = 0; i < n; ++i) target[i * target_step] = source[i * step];
  } else if (step == 1) {
    std::memcpy(target, source, static_cast<size_t>(n) * sizeof(T));
  } else if (step == 0) {
    std::fill_n(target, n, *source);
  } else if (step == 2) {  // a loop that vectorises
    for (int64_t i = 0; i < n; ++i) target[i] = source[2 * i];
  } else if (step == -1) {
    for (int64_t i = 0; i < n; ++i) target[i] = source[-i];
  } else {
    for (int64_t i = 0; i < n; ++i) target[i] = source[i * step];
  }
}

// A row from behind, past the caches: pieces are turned around in a buffer, the last of the target
// first, so that the source is read in the order in which it lies.
template <class T>
void stream_reversed(const T* source, T* target, int64_t n) {
  constexpr int64_t kPiece = 4096 / sizeof(T);
  alignas(64) T piece[kPiece];
  const StreamFunction stream = stream_function();
  for (int64_t i = (n - 1) / kPiece * kPiece; i >= 0; i -= kPiece) {
    const int64_t count = std::min(kPiece, n - i);
    const T* const from = source - i - (count - 1);
    for (int64_t k = 0; k < count; ++k) piece[count - 1 - k] = from[k];
    stream(as_bytes(target + i), as_bytes(piece), count * static_cast<int64_t>(sizeof(T)));
  }
}

// A part of target[i * t_row + j] = source[j * s_row + i].
template <class T>
struct Plane {
  const T* s;
  int64_t s_row;
  T* t;
  int64_t t_row;
  int64_t rows, columns;  // i, j

  Plane part(int64_t i, int64_t j, int64_t part_rows, int64_t part_columns) const {
    return {s + j * s_row + i, s_row, t + i * t_row + j, t_row, part_rows, part_columns};
  }
};

template <class T>
void transpose_part(const Plane<T>& p) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  constexpr int64_t kBlock = block_side(kSize);
  [[maybe_unused]] TransposeBlock block = nullptr;
  if constexpr (kSize <= 8) block = transpose_block_function(kSize);
  // Blocks side by side in the target: neighbouring lines of a row are written one after the other,
  // as memory likes it.
  constexpr int64_t kWide = 4 * kBlock;
  for (int64_t w0 = 0; w0 < p.columns; w0 += kWide) {
    const int64_t w1 = std::min(p.columns, w0 + kWide);
    for (int64_t i0 = 0; i0 < p.rows; i0 += kBlock) {
      const int64_t i1 = std::min(p.rows, i0 + kBlock);
      for (int64_t j0 = w0; j0 < w1; j0 += kBlock) {
        const int64_t j1 = std::min(w1, j0 + kBlock);
        if constexpr (kSize <= 8) {
          if (i1 - i0 == kBlock && j1 - j0 == kBlock) {
            const Plane<T> q = p.part(i0, j0, kBlock, kBlock);
            block(as_bytes(q.s), q.s_row, as_bytes(q.t), q.t_row);
            continue;
          }
        }
        for (int64_t i = i0; i < i1; ++i) {
          for (int64_t j = j0; j < j1; ++j) p.t[i * p.t_row + j] = p.s[j * p.s_row + i];
        }
      }
    }
  }
}

// At most so many lines of a source row are read together, and of a target row written together.
constexpr int64_t kLinesRead = 4, kLinesWritten = 4;

// At most kLinesRead by kLinesWritten whole lines, past the caches. Rows a power of two apart share
// a few places of the caches: so each is read at once, in whole lines, into a buffer whose rows do
// not, and turned around from there, while the next ones, of the `columns_left`, are fetched.
template <class T>
void stream_block(const Plane<T>& p, int64_t columns_left, TransposeBlock block,
                  StreamFunction stream) {
  constexpr int64_t kBlock = block_side(sizeof(T));
  constexpr int64_t kReadRow = (kLinesRead + 1) * kBlock, kWide = kLinesWritten * kBlock;
  alignas(64) T read[kBlock * kReadRow];
  alignas(64) T turned[kLinesRead * kBlock * kWide];
  for (int64_t j = 0; j < p.columns; j += kBlock) {
    const T* const from = p.s + j * p.s_row;
    const int64_t ahead = std::min(columns_left - j, 2 * kBlock);
    for (int64_t row = 0; row < kBlock; ++row)
      for (int64_t i = 0; i < p.rows; i += kBlock)
        std::memcpy(read + row * kReadRow + i, from + row * p.s_row + i, kBlock * sizeof(T));
    for (int64_t row = kBlock; row < ahead; ++row)
      for (int64_t i = 0; i < p.rows; i += kBlock) __builtin_prefetch(from + row * p.s_row + i);
    for (int64_t i = 0; i < p.rows; i += kBlock)
      block(as_bytes(read + i), kReadRow, as_bytes(turned + i * kWide + j), kWide);
  }
  for (int64_t i = 0; i < p.rows; ++i)
    stream(as_bytes(p.t + i * p.t_row), as_bytes(turned + i * kWide),
           p.columns * static_cast<int64_t>(sizeof(T)));
}

template <class T>
void transpose_plane(const Plane<T>& p, bool streamed) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  constexpr int64_t kBlock = block_side(kSize);
  if constexpr (kSize <= 8) {
    if (reinterpret_cast<uintptr_t>(p.t) % 64 == 0 && p.t_row % kBlock == 0 && streamed) {
      const TransposeBlock block = transpose_block_function(kSize);
      const StreamFunction stream = stream_function();
      const int64_t rows = p.rows / kBlock * kBlock, columns = p.columns / kBlock * kBlock;
      for (int64_t i = 0; i < rows; i += kLinesRead * kBlock)
        for (int64_t j = 0; j < columns; j += kLinesWritten * kBlock)
          stream_block(p.part(i, j, std::min(kLinesRead * kBlock, rows - i),
                              std::min(kLinesWritten * kBlock, columns - j)),
                       columns - j, block, stream);
      transpose_part(p.part(0, columns, rows, p.columns - columns));
      transpose_part(p.part(rows, 0, p.rows - rows, p.columns));
      return;
    }
  }
  transpose_part(p);
}

constexpr int64_t kShortCopiedRow = 256;  // bytes: a call for each costs more than the row

template <class T>
void copy_plane(const StridedCopy& c, const T* source, T* target, bool streamed) {
  const size_t rank = c.dims.size();
  if (rank == 0) {
    *target = *source;
  } else if (rank == 1) {
    copy_row(source, c.source[0], target, c.target[0], c.dims[0]);
  } else {
    const size_t row = rank - 2, inner = rank - 1;
    if (c.source[row] == 1 && c.target[inner] == 1 && c.source[inner] > 1) {
      return transpose_plane<T>(
          {source, c.source[inner], target, c.target[row], c.dims[row], c.dims[inner]}, streamed);
    }
    const auto size = static_cast<int64_t>(sizeof(T)), bytes = c.dims[inner] * size;
    if (c.source[inner] == 1 && c.target[inner] == 1 && bytes <= kShortCopiedRow) {
      return copy_rows({c.dims[row], bytes}, as_bytes(target), c.target[row] * size,
                       as_bytes(source), c.source[row] * size, false);
    }
    const bool reversed = streamed && c.source[inner] == -1 && c.target[inner] == 1;
    for (int64_t i = 0; i < c.dims[row]; ++i) {
      const T* const from = source + i * c.source[row];
      T* const to = target + i * c.target[row];
      if (reversed)
        stream_reversed(from, to, c.dims[inner]);
      else
        copy_row(from, c.source[inner], to, c.target[inner], c.dims[inner]);
    }
  }
}

template <class T>
void copy_outer(const StridedCopy& c, size_t dim, const T* source, T* target, bool streamed) {
  if (dim + 2 >= c.dims.size()) return copy_plane(c, source, target, streamed);
  for (int64_t i = 0; i < c.dims[dim]; ++i) {
    copy_outer(c, dim + 1, source + i * c.source[dim], target + i * c.target[dim], streamed);
  }
}

int64_t count(const StridedCopy& c) {
  return std::accumulate(c.dims.begin(), c.dims.end(), int64_t{1}, saturating_multiply);
}

}  // namespace

StridedCopy simplified(StridedCopy copy) {
  std::vector<size_t> order;
  for (size_t d = 0; d < copy.dims.size(); ++d) {
    if (copy.dims[d] != 1) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::abs(copy.target[a]) > std::abs(copy.target[b]);
  });
  StridedCopy out{copy.element_size, {}, {}, {}};
  for (const size_t d : order) {
    if (!out.dims.empty() && out.source.back() == copy.source[d] * copy.dims[d] &&
        out.target.back() == copy.target[d] * copy.dims[d]) {
      out.dims.back() *= copy.dims[d];
      out.source.back() = copy.source[d];
      out.target.back() = copy.target[d];
      continue;
    }
    out.dims.push_back(copy.dims[d]);
    out.source.push_back(copy.source[d]);
    out.target.push_back(copy.target[d]);
  }
  // The dim that is contiguous in the source goes next to the innermost: a plane to transpose.
  const size_t rank = out.dims.size();
  for (size_t d = 0; d + 2 < rank && out.source[rank - 1] != 1; ++d) {
    if (out.source[d] != 1) continue;
    for (Dims* list : {&out.dims, &out.source, &out.target}) {
      std::rotate(list->begin() + static_cast<std::ptrdiff_t>(d),
                  list->begin() + static_cast<std::ptrdiff_t>(d) + 1, list->end() - 1);
    }
    break;
  }
  return out;
}

namespace {

void run(const StridedCopy& copy, const std::byte* source, std::byte* target, bool streamed) {
  switch (copy.element_size) {
    case 0:
      return;  // tokens
    case 1:
      return copy_outer(copy, 0, as<uint8_t>(source), as<uint8_t>(target), streamed);
    case 2:
      return copy_outer(copy, 0, as<uint16_t>(source), as<uint16_t>(target), streamed);
    case 4:
      return copy_outer(copy, 0, as<uint32_t>(source), as<uint32_t>(target), streamed);
    case 16:
      return copy_outer(copy, 0, as<Bits128>(source), as<Bits128>(target), streamed);
    default:
      return copy_outer(copy, 0, as<uint64_t>(source), as<uint64_t>(target), streamed);
  }
}

}  // namespace

void run_copy(const StridedCopy& copy, const std::byte* source, std::byte* target) {
  run(copy, source, target, false);
}

// Short parts of the same rows of the result, as of a concatenation along the last dim: written
// some rows at a time, so that lines are whole before they leave the caches.
bool share_rows(const std::vector<PlacedCopy>& copies) {
  return copies.size() > 1 &&
         std::all_of(copies.begin(), copies.end(), [&](const PlacedCopy& placed) {
           const StridedCopy &copy = placed.copy, &first = copies[0].copy;
           return copy.dims.size() >= 2 && copy.dims[0] == first.dims[0] &&
                  copy.target[0] == first.target[0] && copy.target.back() == 1 &&
                  copy.dims.back() * copy.element_size <= kShortCopiedRow;
         });
}

PreparedKernel prepare_copies(std::vector<PlacedCopy> copies) {
  constexpr int64_t kPartElements = 65536, kSharedElements = 8192, kMostShared = 1024;
  std::vector<PlacedCopy> pieces;  // large copies cut along their outermost dim
  double elements = 0;
  int64_t bytes = 0;
  std::erase_if(copies, [](const PlacedCopy& placed) { return count(placed.copy) == 0; });
  for (PlacedCopy& placed : copies) placed.copy = simplified(std::move(placed.copy));
  const bool shared = share_rows(copies);
  for (const PlacedCopy& placed : copies) {
    const int64_t n = count(placed.copy);
    elements += static_cast<double>(n);
    bytes = saturating_add(bytes, saturating_multiply(n, placed.copy.element_size));
    const int64_t rows = placed.copy.dims.empty() ? 1 : placed.copy.dims[0];
    const int64_t all = shared ? rows * placed.copy.target[0] : n;
    const int64_t cuts = std::clamp<int64_t>(all / (shared ? kSharedElements : kPartElements), 1,
                                             std::min<int64_t>(rows, shared ? kMostShared : 8));
    for (int64_t i = 0; i < cuts; ++i) {
      PlacedCopy piece = placed;
      if (cuts > 1) {
        const int64_t first = i * rows / cuts;
        piece.copy.dims[0] = (i + 1) * rows / cuts - first;
        piece.source_offset += first * placed.copy.source[0];
        piece.target_offset += first * placed.copy.target[0];
      }
      pieces.push_back(std::move(piece));
    }
  }
  if (shared)
    std::stable_sort(pieces.begin(), pieces.end(), [](const PlacedCopy& a, const PlacedCopy& b) {
      return a.target_offset < b.target_offset;
    });
  PreparedKernel kernel;
  const int64_t parts = elements < 2 * kPartElements
                            ? 1
                            : std::clamp<int64_t>(static_cast<int64_t>(pieces.size()), 1, 8);
  kernel.parts = parts;
  kernel.cost = 20 + 0.15 * elements;
  kernel.run = [pieces = std::move(pieces), parts,
                streamed = is_streamed(bytes)](const KernelArgs& args) {
    const int64_t n = static_cast<int64_t>(pieces.size());
    for (int64_t i = args.part * n / parts; i < (args.part + 1) * n / parts; ++i) {
      const PlacedCopy& piece = pieces[static_cast<size_t>(i)];
      const int64_t size = piece.copy.element_size;
      run(piece.copy, args.operands[piece.operand] + piece.source_offset * size,
          args.results[0] + piece.target_offset * size, streamed);
    }
    if (streamed) flush_stream();
  };
  return kernel;
}

}  // namespace gspmd
