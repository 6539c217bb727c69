#pragma once

// Arrays of numbers, on the host or on the devices of a mesh.

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "gspmd/base/error.h"
#include "gspmd/base/export.h"
#include "gspmd/base/shape.h"

namespace gspmd {

// Where an array's elements live. Host storage owns bytes; device storage (runtime) owns one shard
// per device and gathers on `host_bytes()`.
class GSPMD_API ArrayStorage {
 public:
  virtual ~ArrayStorage() = default;
  // Row-major, 64-byte aligned bytes of the whole array. ExecutionError or UserError when they are
  // gone (donated).
  virtual std::span<std::byte> host_bytes() = 0;
  virtual bool on_host() const = 0;  // whether the bytes are at hand, without a gather
};

// A dense row-major array of any dtype. Copying an Array shares its elements; `clone()` copies
// them. One pointer: trees of thousands of arrays are cheap to copy and return.
class GSPMD_API Array {
 public:
  Array() = default;
  // Zeros. UserError when the size in bytes overflows.
  explicit Array(Shape shape);
  Array(DType dtype, Dims dims);
  Array(Shape shape, std::shared_ptr<ArrayStorage> storage);

  // An array of these dims with these values, row-major. UserError: another count than the dims
  // have.
  template <class T>
  static Array of(Dims dims, const std::vector<T>& values) {
    Array array(Shape(dtype_of<T>(), std::move(dims)));
    array.check_count(values.size());
    std::span<T> out = array.data<T>();
    for (size_t i = 0; i < values.size(); ++i) out[i] = values[i];
    return array;
  }
  // An array without dims.
  template <class T>
  static Array scalar(T value) {
    return of<T>({}, std::vector<T>{value});
  }
  static Array full(Shape shape, double value);  // every element `value`, converted

  bool empty() const { return value_ == nullptr; }  // default-constructed
  // Whether there is no copy of this Array; others may have its storage.
  bool is_only() const { return value_.use_count() == 1; }
  // --- Of an empty array: f32[]
  const Shape& shape() const;
  DType dtype() const { return shape().dtype; }
  const Dims& dims() const { return shape().dims; }
  int64_t dim(int64_t i) const { return dims().at(size_t(i < 0 ? i + shape().rank() : i)); }
  int64_t size() const { return shape().elements_count(); }

  std::span<std::byte> bytes() const;  // gathers device storage
  // Elements as T. UserError when T does not store this array's dtype.
  template <class T>
  std::span<T> data() const {
    check_type(dtype_of<T>());
    const std::span<std::byte> raw = bytes();
    return {reinterpret_cast<T*>(raw.data()), static_cast<size_t>(size())};
  }
  // The element of an array of one element, converted. UserError otherwise.
  double item() const;
  double at(int64_t flat_index) const;  // converted to double; pred is 0 or 1
  // Writes one element, converted to the dtype. UserError: no such index, or the array is on the
  // devices.
  void set(int64_t flat_index, double value);
  Array clone() const;  // on the host
  // nullptr of an empty array.
  const std::shared_ptr<ArrayStorage>& storage() const;

 private:
  struct Parts;
  const Parts& value() const;  // of an empty array: a scalar shape without storage
  void check_count(size_t count) const;
  void check_type(DType dtype) const;

  std::shared_ptr<const Parts> value_;
};

// Same shape and the same bits, except that every NaN equals every NaN.
GSPMD_API bool bitwise_equal(const Array& a, const Array& b);

}  // namespace gspmd
