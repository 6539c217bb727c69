#pragma once

// The values of a function that is being traced.

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>

#include "gspmd/base/export.h"
#include "gspmd/base/shape.h"
#include "gspmd/base/site.h"

namespace gspmd {

class Node;
class Index;
namespace detail {
struct TraceState;
struct TensorAccess;
template <class>
inline constexpr bool never = false;  // a condition that fails where it is instantiated
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

  // Does not compile, and says what to write: its numbers are not known while the function is
  // traced, so that neither if, ?: and while, nor &&, || and ! can ask for them.
  template <std::same_as<bool> Bool>
  explicit operator Bool() const {
    static_assert(detail::never<Bool>,
                  "a tensor is not true or false while it is traced: branch by cond(p, f, g) or "
                  "where(p, a, b), join by logical_and, logical_or and logical_not");
    return false;
  }

  // Does not compile, and says what to write.
  template <class Number>
  requires(std::is_arithmetic_v<Number> && !std::same_as<Number, bool>) explicit operator Number()
      const {
    static_assert(detail::never<Number>,
                  "the numbers of a tensor are not known while it is traced: return it from the "
                  "function, whose results are arrays with item() and at(i)");
    return {};
  }

  // A part of it, as NumPy's x[...]: x(0, range(1, 5), newaxis, rows, ellipsis), see indexing.h.
  template <class... More>
  Tensor operator()(const Index& first, const More&... more) const;

  // Does not compile, and says what to write.
  template <class T>
  Tensor operator[](const T&) const {
    static_assert(detail::never<T>, "parts of a tensor are x(i, j), as x[i, j] in NumPy");
    return {};
  }

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
