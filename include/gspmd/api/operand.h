#pragma once

// Operators on tensors, and what they take.

#include <concepts>
#include <type_traits>

#include "gspmd/api/tensor.h"
#include "gspmd/base/array.h"
#include "gspmd/base/export.h"

namespace gspmd {

// What operators and functions take: a Tensor, a C++ number, which takes the dtype of the tensor it
// meets, or a host Array captured by the traced function, which becomes a hidden parameter. Made
// implicitly at the call, so it knows the user's line.
class Operand {
 public:
  enum class Kind : uint8_t { tensor, array, scalar };  // which of the three it is

  // --- Implicit, so that every operation takes any of the three
  Operand(const Tensor& tensor, Site site = Site::here())
      : kind_(Kind::tensor), tensor_(tensor), site_(site) {}
  Operand(const Array& array, Site site = Site::here())
      : kind_(Kind::array), array_(array), site_(site) {}
  // A C++ number, which takes the dtype of the tensor it meets.
  template <class T>
  requires std::is_arithmetic_v<T> Operand(T value, Site site = Site::here())
      : kind_(Kind::scalar),
        number_(static_cast<double>(value)),
        integral_(std::is_integral_v<T>),
        site_(site) {}

  // --- What it is, and its value: tensor() of a tensor, array() of an array, number() of a scalar
  Kind kind() const { return kind_; }
  bool is_scalar() const { return kind_ == Kind::scalar; }
  const Tensor& tensor() const { return tensor_; }
  const Array& array() const { return array_; }
  double number() const { return number_; }
  bool is_integral() const { return integral_; }  // the C++ number was an integer or bool
  const Site& site() const { return site_; }      // The user's line.

 private:
  Kind kind_;
  Tensor tensor_;
  Array array_;
  double number_ = 0;
  bool integral_ = false;
  Site site_;
};

// --- Element by element, with numpy's broadcasting: dims are aligned at the end, size 1 stretches.
// Dtypes must be equal; there is no silent promotion.
GSPMD_API Tensor operator+(Operand a, Operand b);
GSPMD_API Tensor operator-(Operand a, Operand b);
GSPMD_API Tensor operator*(Operand a, Operand b);
GSPMD_API Tensor operator/(Operand a, Operand b);
GSPMD_API Tensor operator-(Operand x);
GSPMD_API Tensor& operator+=(Tensor& a, Operand b);
GSPMD_API Tensor& operator-=(Tensor& a, Operand b);
GSPMD_API Tensor& operator*=(Tensor& a, Operand b);
GSPMD_API Tensor& operator/=(Tensor& a, Operand b);

// Does not compile, and says what to write: whether a == b compares handles or numbers would be
// anybody's guess.
template <class T>
requires std::convertible_to<const T&, Operand>
bool operator==(const Tensor&, const T&) {
  static_assert(detail::never<T>,
                "tensors are compared element by element by equal(a, b) and not_equal(a, b)");
  return false;
}

// --- Comparisons give pred tensors; for equality see equal() and not_equal().
GSPMD_API Tensor operator<(Operand a, Operand b);
GSPMD_API Tensor operator<=(Operand a, Operand b);
GSPMD_API Tensor operator>(Operand a, Operand b);
GSPMD_API Tensor operator>=(Operand a, Operand b);

}  // namespace gspmd
