#include "ops/shape/lower.h"

#include <algorithm>
#include <cstring>

#include "gspmd/kernels/indexed_slices.h"
#include "gspmd/kernels/strided_copy.h"
#include "kernels/pad.h"

namespace gspmd {
namespace {

bool movable(const Node& node) {
  const int64_t size = dtype_size(node.shape.dtype);
  return size == 1 || size == 2 || size == 4 || size == 8;
}

StridedCopy whole(const Node& node) {
  StridedCopy copy;
  copy.element_size = dtype_size(node.shape.dtype);
  copy.dims = node.dims();
  copy.target = row_major_strides(node.dims());
  copy.source.assign(copy.dims.size(), 0);
  return copy;
}

PreparedKernel one_copy(StridedCopy copy, int64_t source_offset = 0) {
  std::vector<PlacedCopy> copies(1);
  copies[0].copy = std::move(copy);
  copies[0].source_offset = source_offset;
  return prepare_copies(std::move(copies));
}

// Start of a dynamic slice from the scalars in operands [first, ...), kept inside.
struct DynamicStart {
  std::vector<IndexReader> readers;
  Dims last, strides;
  int64_t first = 1;

  int64_t offset(const KernelArgs& args) const {
    int64_t offset = 0;
    for (size_t d = 0; d < last.size(); ++d) {
      const int64_t start = readers[d](args.operands[first + static_cast<int64_t>(d)], 0);
      offset += std::clamp<int64_t>(start, 0, last[d]) * strides[d];
    }
    return offset;
  }
};

std::optional<DynamicStart> dynamic_start(const Node& node, int64_t first, const Dims& dims,
                                          const Dims& sizes) {
  DynamicStart start;
  start.first = first;
  start.strides = row_major_strides(dims);
  for (size_t d = 0; d < dims.size(); ++d) {
    start.last.push_back(dims[d] - sizes[d]);
    start.readers.push_back(
        index_reader(node.operand(first + static_cast<int64_t>(d))->shape.dtype));
    if (start.readers.back() == nullptr) return std::nullopt;
  }
  return start;
}

}  // namespace

PreparedKernel lower_broadcast(const Node& node) {
  if (!movable(node)) return {};
  StridedCopy copy = whole(node);
  const Dims strides = row_major_strides(node.operand(0)->dims());
  for (size_t i = 0; i < strides.size(); ++i) {
    copy.source[static_cast<size_t>(node.attrs.dimensions[i])] = strides[i];
  }
  return one_copy(std::move(copy));
}

PreparedKernel lower_transpose(const Node& node) {
  if (!movable(node)) return {};
  StridedCopy copy = whole(node);
  const Dims strides = row_major_strides(node.operand(0)->dims());
  for (size_t d = 0; d < copy.dims.size(); ++d) {
    copy.source[d] = strides[static_cast<size_t>(node.attrs.dimensions[d])];
  }
  return one_copy(std::move(copy));
}

PreparedKernel lower_reverse(const Node& node) {
  if (!movable(node)) return {};
  StridedCopy copy = whole(node);
  copy.source = copy.target;
  int64_t offset = 0;
  for (const int64_t d : node.attrs.dimensions) {
    const auto k = static_cast<size_t>(d);
    offset += copy.source[k] * (node.dims()[k] - 1);
    copy.source[k] = -copy.source[k];
  }
  return one_copy(std::move(copy), offset);
}

PreparedKernel lower_slice(const Node& node) {
  if (!movable(node)) return {};
  StridedCopy copy = whole(node);
  const Dims strides = row_major_strides(node.operand(0)->dims());
  int64_t offset = 0;
  for (size_t d = 0; d < copy.dims.size(); ++d) {
    const int64_t step = node.attrs.strides.empty() ? 1 : node.attrs.strides[d];
    copy.source[d] = copy.dims[d] > 1 ? strides[d] * step : 0;
    offset += strides[d] * node.attrs.starts[d];
  }
  return one_copy(std::move(copy), offset);
}

PreparedKernel lower_concatenate(const Node& node) {
  if (!movable(node)) return {};
  const auto dim = static_cast<size_t>(node.attrs.dimensions.at(0));
  const Dims strides = row_major_strides(node.dims());
  std::vector<PlacedCopy> copies;
  int64_t at = 0;
  for (size_t i = 0; i < node.operands().size(); ++i) {
    const Dims& dims = node.operands()[i]->dims();
    PlacedCopy placed;
    placed.copy = {dtype_size(node.shape.dtype), dims, row_major_strides(dims), strides};
    placed.operand = static_cast<int64_t>(i);
    placed.target_offset = at * strides[dim];
    at += dims[dim];
    copies.push_back(std::move(placed));
  }
  return prepare_copies(std::move(copies));
}

PreparedKernel lower_pad(const Node& node) {
  if (!movable(node)) return {};
  std::vector<PadDim> dims;
  for (size_t d = 0; d < node.dims().size(); ++d) {
    const PaddingDim& padding = node.attrs.padding.at(d);
    dims.push_back({node.operand(0)->dims()[d], node.dims()[d], padding.low, padding.interior + 1});
  }
  return prepare_pad(dtype_size(node.shape.dtype), std::move(dims));
}

PreparedKernel lower_dynamic_slice(const Node& node) {
  const Dims& dims = node.operand(0)->dims();
  const std::optional<DynamicStart> start = dynamic_start(node, 1, dims, node.dims());
  if (!movable(node) || !start) return {};
  StridedCopy copy = whole(node);
  copy.source = row_major_strides(dims);
  PreparedKernel kernel = one_copy(std::move(copy));
  kernel.run = [run = std::move(kernel.run), start = *start,
                size = dtype_size(node.shape.dtype)](const KernelArgs& args) {
    const std::byte* const operand = args.operands[0] + start.offset(args) * size;
    KernelArgs moved = args;
    moved.operands = &operand;
    run(moved);
  };
  return kernel;
}

// The operand is copied first unless the result lies in its storage.
PreparedKernel lower_dynamic_update_slice(const Node& node) {
  const Node& update = *node.operand(1);
  const std::optional<DynamicStart> start = dynamic_start(node, 2, node.dims(), update.dims());
  if (!movable(node) || !start) return {};
  const StridedCopy copy =
      simplified({dtype_size(node.shape.dtype), update.dims(), row_major_strides(update.dims()),
                  row_major_strides(node.dims())});
  const bool empty = update.shape.elements_count() == 0;
  PreparedKernel kernel;
  kernel.cost = 50 + 0.1 * static_cast<double>(node.shape.elements_count());
  kernel.run = [copy, empty, start = *start, bytes = node.shape.bytes()](const KernelArgs& args) {
    if (args.results[0] != args.operands[0] && bytes > 0) {
      std::memcpy(args.results[0], args.operands[0], static_cast<size_t>(bytes));
    }
    if (!empty)
      run_copy(copy, args.operands[1], args.results[0] + start.offset(args) * copy.element_size);
  };
  return kernel;
}

}  // namespace gspmd
