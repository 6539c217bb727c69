#include "gspmd/base/array.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>

namespace gspmd {
namespace {

class HostStorage final : public ArrayStorage {
 public:
  explicit HostStorage(int64_t bytes) : size_(static_cast<size_t>(bytes)) {
    const size_t rounded = (size_ + 63) / 64 * 64;
    data_ = static_cast<std::byte*>(std::aligned_alloc(64, rounded ? rounded : 64));
    if (!data_) user_error("array: {} bytes cannot be allocated", bytes);
    std::memset(data_, 0, size_);
  }
  HostStorage(const HostStorage&) = delete;
  HostStorage& operator=(const HostStorage&) = delete;
  ~HostStorage() override { std::free(data_); }

  std::span<std::byte> host_bytes() override { return {data_, size_}; }
  bool on_host() const override { return true; }

 private:
  size_t size_;
  std::byte* data_;
};

}  // namespace

Array::Array(Shape shape) {
  if (shape.is_tuple) internal_error("array: a tuple shape {} has no elements", to_string(shape));
  for (const int64_t d : shape.dims)
    if (d < 0) user_error("array: {} has a negative size; sizes are 0 or more", to_string(shape));
  const int64_t bytes = shape.bytes();
  if (bytes == std::numeric_limits<int64_t>::max())
    user_error("array: {} has more bytes than can be addressed", to_string(shape));
  value_ = std::make_shared<const Parts>(Parts{std::move(shape), std::make_shared<HostStorage>(bytes)});
}

Array::Array(Shape shape, std::shared_ptr<ArrayStorage> storage)
    : value_(std::make_shared<const Parts>(Parts{std::move(shape), std::move(storage)})) {}

const Array::Parts& Array::value() const {
  static const Parts empty;
  return value_ ? *value_ : empty;
}

Array Array::full(Shape shape, double value) {
  Array array(std::move(shape));
  for (int64_t i = 0; i < array.size(); ++i) array.set(i, value);
  return array;
}

std::span<std::byte> Array::bytes() const {
  if (empty()) user_error("array: an empty Array has no elements; give it a shape first");
  return storage()->host_bytes();
}

double Array::item() const {
  if (size() != 1)
    user_error("item: {} has {} elements; item() needs exactly one", to_string(shape()), size());
  return at(0);
}

double Array::at(int64_t flat_index) const {
  if (flat_index < 0 || flat_index >= size())
    user_error("array: index {} is outside the {} elements of {}", flat_index, size(), to_string(shape()));
  return visit_dtype(dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return static_cast<double>(data<T>()[static_cast<size_t>(flat_index)]);
  });
}

void Array::set(int64_t flat_index, double value) {
  if (storage() && !storage()->on_host())
    user_error("array: {} lives on the devices and cannot be written element by element; clone() it",
               to_string(shape()));
  if (flat_index < 0 || flat_index >= size())
    user_error("array: index {} is outside the {} elements of {}", flat_index, size(), to_string(shape()));
  visit_dtype(dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>)
      data<T>()[static_cast<size_t>(flat_index)] = value != 0;
    else if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)
      data<T>()[static_cast<size_t>(flat_index)] = T(static_cast<float>(value));
    else
      data<T>()[static_cast<size_t>(flat_index)] = static_cast<T>(value);
  });
}

Array Array::clone() const {
  Array copy(shape());
  const std::span<std::byte> from = bytes();
  std::memcpy(copy.bytes().data(), from.data(), from.size());
  return copy;
}

void Array::check_count(size_t count) const {
  if (static_cast<int64_t>(count) != size())
    user_error("array: {} values given for {} of {} elements", count, to_string(shape()), size());
}

void Array::check_type(DType wanted) const {
  if (wanted != dtype())
    user_error("array: elements of {} read as {}; use the element type of its dtype", to_string(shape()),
               dtype_name(wanted));
}

bool bitwise_equal(const Array& a, const Array& b) {
  if (!(a.shape() == b.shape())) return false;
  return visit_dtype(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<T> x = a.data<T>();
    const std::span<T> y = b.data<T>();
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::memcmp(&x[i], &y[i], sizeof(T)) == 0) continue;
      if constexpr (std::is_integral_v<T>) return false;
      else if (!std::isnan(static_cast<double>(x[i])) || !std::isnan(static_cast<double>(y[i])))
        return false;
    }
    return true;
  });
}

}  // namespace gspmd
