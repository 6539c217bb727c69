#include "gspmd/base/array.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <limits>
#include <new>
#include <typeinfo>

#include "base/guard_bytes.h"
#include "base/host_storage.h"
#include "base/narrow.h"
#include "base/pages.h"

namespace gspmd {
namespace {

#ifdef GSPMD_ADDRESS_SANITIZER
constexpr size_t kMappedBytes = SIZE_MAX;  // AddressSanitizer watches what is allocated
#else
constexpr size_t kMappedBytes = size_t{1} << 20;
#endif

class HostStorage final : public ArrayStorage {
 public:
  explicit HostStorage(int64_t bytes) : size_(static_cast<size_t>(bytes)) {
    if (is_mapped()) {
      data_ = map_pages(bytes, PageCount::at_once);
    } else {
      const size_t rounded = (size_ + 63) / 64 * 64;
      data_ = static_cast<std::byte*>(std::aligned_alloc(64, rounded ? rounded : 64));
      if (data_) std::memset(data_, 0, size_);
    }
    if (!data_) user_error("array: {} bytes cannot be allocated", bytes);
  }
  HostStorage(const HostStorage&) = delete;
  HostStorage& operator=(const HostStorage&) = delete;
  ~HostStorage() override {
    if (is_mapped())
      unmap_pages(data_, static_cast<int64_t>(size_));
    else
      std::free(data_);
  }

  std::span<std::byte> host_bytes() override {
    if (untouched_.load(std::memory_order_relaxed))
      untouched_.store(false, std::memory_order_relaxed);
    return {data_, size_};
  }
  bool on_host() const override { return true; }
  bool is_untouched() const { return untouched_.load(std::memory_order_relaxed); }

 private:
  // Large arrays get pages of their own, which cost nothing before they are touched.
  bool is_mapped() const { return size_ >= kMappedBytes; }

  size_t size_;
  std::byte* data_;
  std::atomic<bool> untouched_{true};
};

// Saturates to integers; NaN is 0 there.
template <class T>
T element_of(double value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else if constexpr (std::is_integral_v<T>) {
    const double limit = std::ldexp(1.0, std::numeric_limits<T>::digits);
    if (std::isnan(value)) return 0;
    if (value >= limit) return std::numeric_limits<T>::max();
    if (value <= static_cast<double>(std::numeric_limits<T>::min()))
      return std::numeric_limits<T>::min();
    return static_cast<T>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return T(static_cast<float>(value));
  }
}

// Equal bits, or both NaN; T is a floating point number in some storage.
template <class T>
bool equal_or_nan(const T& x, const T& y) {
  if (std::memcmp(&x, &y, sizeof(T)) == 0) return true;
  return std::isnan(static_cast<double>(x)) && std::isnan(static_cast<double>(y));
}

template <class T>
bool equal_elements(std::span<const T> x, std::span<const T> y) {
  for (size_t i = 0; i < x.size(); ++i) {
    if constexpr (std::is_integral_v<T>) {
      if (x[i] != y[i]) return false;
    } else {
      if (!equal_or_nan(x[i], y[i])) return false;
    }
  }
  return true;
}

// Complex numbers are two floats each.
template <class T>
std::span<const T> parts_of(const Array& array) {
  const std::span<const std::complex<T>> data = array.data<std::complex<T>>();
  return {reinterpret_cast<const T*>(data.data()), 2 * data.size()};
}

bool equal_narrow(const Array& a, const Array& b) {
  for (size_t i = 0; i < a.bytes().size(); ++i) {
    const auto x = static_cast<uint8_t>(a.bytes()[i]);
    const auto y = static_cast<uint8_t>(b.bytes()[i]);
    if (x != y && !equal_or_nan(narrow_to_double(a.dtype(), x), narrow_to_double(a.dtype(), y)))
      return false;
  }
  return true;
}

}  // namespace

struct Array::Parts {
  Shape shape;
  std::shared_ptr<ArrayStorage> storage;
};

const Shape& Array::shape() const { return value().shape; }
const std::shared_ptr<ArrayStorage>& Array::storage() const { return value().storage; }

Array::Array(DType dtype, Dims dims) : Array(Shape(dtype, std::move(dims))) {}
Array::Array(Shape shape) {
  if (shape.is_tuple) internal_error("array: a tuple shape {} has no elements", to_string(shape));
  for (const int64_t d : shape.dims)
    if (d < 0) user_error("array: {} has a negative size; sizes are 0 or more", to_string(shape));
  const int64_t bytes = shape.bytes();
  if (bytes == std::numeric_limits<int64_t>::max())
    user_error("array: {} has more bytes than can be addressed", to_string(shape));
  value_ =
      std::make_shared<const Parts>(Parts{std::move(shape), std::make_shared<HostStorage>(bytes)});
}

Array::Array(Shape shape, std::shared_ptr<ArrayStorage> storage)
    : value_(std::make_shared<const Parts>(Parts{std::move(shape), std::move(storage)})) {}

const Array::Parts& Array::value() const {
  if (value_) return *value_;
  static const Parts empty;
  return empty;
}

bool is_untouched_zero(const Array& array) {
  const ArrayStorage* const storage = array.storage().get();
  return storage != nullptr && typeid(*storage) == typeid(HostStorage) &&
         static_cast<const HostStorage*>(storage)->is_untouched();
}

Array Array::full(Shape shape, double value) {
  Array array(std::move(shape));
  if (array.size() == 0 || dtype_size(array.dtype()) == 0) return array;
  array.set(0, value);
  // The bytes of the first element behind it, then those of all so far behind them.
  const std::span<std::byte> all = array.bytes();
  for (size_t done = static_cast<size_t>(dtype_size(array.dtype())); done < all.size();) {
    const size_t more = std::min({done, all.size() - done, size_t{1} << 14});
    std::memcpy(all.data() + done, all.data(), more);
    done += more;
  }
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

namespace {

// Where element `i` lies; elements of no size lie nowhere.
std::byte* element_at(const Array& array, int64_t i) {
  const int64_t size = dtype_size(array.dtype());
  const std::span<std::byte> bytes = array.bytes();
  const int64_t count = size == 0 ? array.size() : std::ssize(bytes) / size;
  if (i < 0 || i >= count)
    user_error("array: index {} is outside the {} elements of {}", i, count,
               to_string(array.shape()));
  return size == 0 ? nullptr : bytes.data() + i * size;
}

template <class T>
T& as(std::byte* element) {
  return *reinterpret_cast<T*>(element);
}

}  // namespace

double Array::at(int64_t flat_index) const {
  std::byte* const element = element_at(*this, flat_index);
  if (element == nullptr) return 0;  // a token has no value
  const DType type = dtype();
  if (is_narrow(type)) return narrow_to_double(type, std::to_integer<uint8_t>(*element));
  if (type == DType::c64) return as<std::complex<float>>(element).real();
  if (type == DType::c128) return as<std::complex<double>>(element).real();
  return visit_dtype(type, [&](auto tag) {
    return static_cast<double>(as<typename decltype(tag)::type>(element));
  });
}

void Array::set(int64_t flat_index, double value) {
  if (storage() && !storage()->on_host())
    user_error(
        "array: {} lives on the devices and cannot be written element by element; clone() it",
        to_string(shape()));
  std::byte* const element = element_at(*this, flat_index);
  if (element == nullptr) return;
  const DType type = dtype();
  if (is_narrow(type)) {
    *element = std::byte(narrow_from_double(type, value));
  } else if (type == DType::c64) {
    as<std::complex<float>>(element) = static_cast<float>(value);
  } else if (type == DType::c128) {
    as<std::complex<double>>(element) = value;
  } else {
    visit_dtype(type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      as<T>(element) = element_of<T>(value);
    });
  }
}

Array Array::clone() const {
  Array copy(shape());
  const std::span<std::byte> from = bytes();
  if (!from.empty()) std::memcpy(copy.bytes().data(), from.data(), from.size());
  return copy;
}

void Array::check_count(size_t count) const {
  if (static_cast<int64_t>(count) != size())
    user_error("array: {} values given for {} of {} elements", count, to_string(shape()), size());
}

void Array::check_type(DType wanted) const {
  if (wanted != dtype())
    user_error("array: elements of {} read as {}; use the element type of its dtype",
               to_string(shape()), dtype_name(wanted));
}

bool bitwise_equal(const Array& a, const Array& b) {
  if (!(a.shape() == b.shape())) return false;
  if (dtype_size(a.dtype()) == 0) return true;
  if (a.dtype() == DType::c64) return equal_elements<float>(parts_of<float>(a), parts_of<float>(b));
  if (a.dtype() == DType::c128)
    return equal_elements<double>(parts_of<double>(a), parts_of<double>(b));
  if (is_narrow(a.dtype())) return equal_narrow(a, b);
  return visit_dtype(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return equal_elements<T>(a.data<T>(), b.data<T>());
  });
}

}  // namespace gspmd
