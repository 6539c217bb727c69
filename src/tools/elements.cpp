#include "tools/elements.h"

#include <cstring>

#include "base/narrow.h"

namespace gspmd::tools {
namespace {

template <class T>
T load(const Array& array, int64_t index) {
  T value;
  std::memcpy(&value, array.bytes().data() + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(const Array& array, int64_t index, T value) {
  std::memcpy(array.bytes().data() + static_cast<size_t>(index) * sizeof(T), &value, sizeof(T));
}

}  // namespace

bool has_elements(DType dtype) { return dtype_size(dtype) > 0; }
int64_t part_count(DType dtype) { return is_complex(dtype) ? 2 : 1; }

Element element_at(const Array& array, int64_t index) {
  const DType dtype = array.dtype();
  if (dtype == DType::c64) return std::complex<double>(load<std::complex<float>>(array, index));
  if (dtype == DType::c128) return load<std::complex<double>>(array, index);
  if (is_narrow(dtype)) {
    const double value = narrow_to_double(dtype, load<uint8_t>(array, index));
    if (is_floating(dtype)) return value;
    return static_cast<int64_t>(value);
  }
  return visit_dtype(dtype, [&](auto tag) -> Element {
    using T = typename decltype(tag)::type;
    const T value = load<T>(array, index);
    if constexpr (std::is_same_v<T, bool>)
      return value;
    else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
      return static_cast<int64_t>(value);
    else if constexpr (std::is_integral_v<T>)
      return static_cast<uint64_t>(value);
    else
      return static_cast<double>(value);
  });
}

void set_element(const Array& array, int64_t index, double real, double imaginary) {
  const DType dtype = array.dtype();
  if (dtype == DType::c64)
    return store(array, index,
                 std::complex<float>(static_cast<float>(real), static_cast<float>(imaginary)));
  if (dtype == DType::c128) return store(array, index, std::complex<double>(real, imaginary));
  if (is_narrow(dtype)) return store(array, index, narrow_from_double(dtype, real));
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>)
      store<T>(array, index, real != 0);
    else if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>)
      store<T>(array, index, static_cast<T>(real));
    else
      store<T>(array, index, T(static_cast<float>(real)));
  });
}

double part_of(const Element& element, int64_t part) {
  if (const auto* z = std::get_if<std::complex<double>>(&element))
    return part == 0 ? z->real() : z->imag();
  if (const auto* flag = std::get_if<bool>(&element)) return *flag ? 1 : 0;
  if (const auto* integer = std::get_if<int64_t>(&element)) return static_cast<double>(*integer);
  if (const auto* natural = std::get_if<uint64_t>(&element)) return static_cast<double>(*natural);
  return std::get<double>(element);
}

}  // namespace gspmd::tools
