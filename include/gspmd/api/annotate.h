#pragma once

// Annotations: how tensors are split over a mesh, said by axis.

#include <concepts>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/api/operand.h"
#include "gspmd/base/export.h"
#include "gspmd/base/rare.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

// `_` in a list of dims: this dim is not split.
struct Unsplit {
  explicit constexpr Unsplit() = default;
};
inline constexpr Unsplit _{};  // the mark of a dim that is not split

// `open_dim`: completion may split this dim (further).
struct OpenDim {
  explicit constexpr OpenDim() = default;
};
inline constexpr OpenDim open_dim{};  // the mark of a dim that completion may split

// One mesh axis, by name or number.
struct GSPMD_API AxisRef {
  // --- By name, by number (0 is the mesh's first axis), or the mark of an open dim
  AxisRef(const char* axis);  // nullptr: no axis's name
  AxisRef(std::string axis);
  template <std::integral T>
  AxisRef(T axis) : number(static_cast<int64_t>(axis)), is_number(true) {}
  AxisRef(OpenDim);

  std::string name;        // of an axis given by name
  int64_t number = -1;     // of an axis given by number
  bool is_number = false;  // whether `number` counts
  bool is_open = false;    // the mark `open_dim`, no axis
};

// How one tensor dim is split: "data", _, open_dim, 0, -1, {"data", "model"}, {"data", open_dim}.
class GSPMD_API DimSplit {
 public:
  // --- Not split; open to completion; over one axis by name or number (-1: not split); over
  // several axes, major first
  DimSplit(Unsplit);
  DimSplit(OpenDim marker);
  DimSplit(const char* axis);
  DimSplit(const std::string& axis);
  template <std::integral T>
  DimSplit(T axis) {
    if (axis != T(-1)) split_over(static_cast<int64_t>(axis));
  }
  DimSplit(std::initializer_list<AxisRef> axes);
  DimSplit(const std::vector<std::string>& axes);
  DimSplit(std::vector<AxisRef> axes);
  // --- Copies share the axes
  DimSplit(const DimSplit& other) noexcept;
  DimSplit(DimSplit&& other) noexcept;
  DimSplit& operator=(const DimSplit& other) noexcept;
  DimSplit& operator=(DimSplit&& other) noexcept;
  ~DimSplit();
  const std::vector<AxisRef>& axes() const;  // major first; empty: not split

 private:
  void split_over(int64_t axis);

  Rare<std::vector<AxisRef>> axes_;  // as axes()
};

// One entry per tensor dim: {"data", _, {"x", "y"}}. An own type, because {"a", "b"} would make a
// std::string from two iterators.
class GSPMD_API SplitDims {
 public:
  // --- One entry per tensor dim
  SplitDims(std::initializer_list<DimSplit> dims);
  SplitDims(std::vector<DimSplit> dims);
  // --- Copies share the dims
  SplitDims(const SplitDims& other) noexcept;
  SplitDims(SplitDims&& other) noexcept;
  SplitDims& operator=(const SplitDims& other) noexcept;
  SplitDims& operator=(SplitDims&& other) noexcept;
  ~SplitDims();
  const std::vector<DimSplit>& dims() const;  // one per tensor dim

 private:
  Rare<std::vector<DimSplit>> dims_;
};

// The same value, split over the mesh: arXiv:2105.04663, 3.6. UserError: an axis that the mesh
// lacks or that is used twice, a number of dims that is not the tensor's rank, two meshes of
// different numbers of devices in one program. A dim need not be a multiple of its parts, and may
// be smaller.
GSPMD_API Tensor mesh_split(Operand x, const Mesh& mesh, const SplitDims& dims);

// The same value with any sharding; its open dims may be refined by completion.
GSPMD_API Tensor annotate(Operand x, const Sharding& sharding);

// The sharding that mesh_split gives a tensor of dims.size() dims.
GSPMD_API Sharding sharding_of(const Mesh& mesh, const SplitDims& dims, Site site = Site::here());

}  // namespace gspmd
