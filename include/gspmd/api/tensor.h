#pragma once

// The values of a function that is being traced.

#include <memory>
#include <string>

#include "gspmd/base/export.h"
#include "gspmd/base/shape.h"
#include "gspmd/base/site.h"

namespace gspmd {

class Node;
class Index;
namespace detail {
struct TraceState;
struct TensorAccess;
}  // namespace detail

// A value of the function being traced: a handle, cheap to copy, that knows its shape but no
// numbers. Valid while the trace that made it runs; using it later, or before it was given a value,
// is a UserError with the user's line.
class GSPMD_API Tensor {
 public:
  Tensor() = default;  // no value yet; may only be assigned to

  // --- Shape and dtype of the whole value, whatever its sharding. UserError: it has no value yet,
  // or its trace is over
  const Shape& shape(Site site = Site::here()) const;
  const Dims& dims(Site site = Site::here()) const { return shape(site).dims; }
  int64_t dim(int64_t i, Site site = Site::here()) const;  // negative i counts from the end
  int64_t rank(Site site = Site::here()) const { return shape(site).rank(); }
  int64_t size(Site site = Site::here()) const { return shape(site).elements_count(); }
  DType dtype(Site site = Site::here()) const { return shape(site).dtype; }

  // A part of it, as NumPy's x[...]: x(0, range(1, 5), newaxis, rows, ellipsis), see indexing.h.
  template <class... More>
  Tensor operator()(const Index& first, const More&... more) const;

 private:
  friend struct detail::TensorAccess;
  Node* node_ = nullptr;
  std::shared_ptr<const detail::TraceState> trace_;
};

// While alive, names of emitted operations start with "name/"; scopes nest.
class GSPMD_API NameScope {
 public:
  // Of the trace that runs on this thread.
  explicit NameScope(const std::string& name);
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
  ~NameScope();

 private:
  size_t saved_length_;
};

// Gives the value a name of the user's: the instruction and its op_name in programs and statistics.
GSPMD_API Tensor named(Tensor x, const std::string& name, Site site = Site::here());

}  // namespace gspmd
