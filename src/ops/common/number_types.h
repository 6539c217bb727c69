#pragma once

#include <complex>
#include <type_traits>
#include <vector>

#include "gspmd/base/array.h"
#include "gspmd/ir/module.h"
#include "ops/common/numeric.h"

namespace gspmd {

// What products of T are summed in: floats in double, complex numbers in complex<double>, integers
// wrapping in 64 bits, pred as the "or" of "and"s in a byte.
template <class T>
using ProductAccumulator = std::conditional_t<
    is_complex_v<T>, std::complex<double>,
    std::conditional_t<is_float_v<T>, double,
                       std::conditional_t<std::is_same_v<T, bool>, uint8_t, uint64_t>>>;

// f(TypeTag<A>{}) for the A that holds products of both operands' elements: of complex numbers if
// one of them is, else of integers where the result is of integers, else of floats, else of
// integers; a result of pred is an "or" of "and"s.
template <class F>
void visit_product_accumulator(const Node& node, F&& f) {
  const DType lhs = node.operand(0)->shape.dtype;
  const DType rhs = node.operand(1)->shape.dtype;
  if (node.shape.dtype == DType::pred) return f(TypeTag<uint8_t>{});
  if (is_complex(lhs) || is_complex(rhs)) return f(TypeTag<std::complex<double>>{});
  const bool floating = is_floating(lhs) || is_floating(rhs);
  if (floating && !is_integer(node.shape.dtype)) return f(TypeTag<double>{});
  f(TypeTag<uint64_t>{});
}

template <class A, class T>
A to_accumulator(T value) {
  if constexpr (std::is_integral_v<A> && is_float_v<T>)
    return static_cast<A>(convert_element<int64_t>(value));
  else
    return convert_element<A>(value);
}

// Integers wrap; those of integer sums that become floats or complex numbers are signed.
template <class T, class A>
T from_accumulator(A value) {
  if constexpr (std::is_same_v<A, uint64_t> && (is_float_v<T> || is_complex_v<T>))
    return convert_element<T>(static_cast<int64_t>(value));
  else
    return convert_element<T>(value);
}

// sum += a * b, without C's recovery of infinities in complex products.
template <class A>
void add_product(A& sum, A a, A b) {
  if constexpr (std::is_same_v<A, uint8_t>)
    sum = static_cast<uint8_t>(sum | (a & b));
  else if constexpr (std::is_same_v<A, std::complex<double>>)
    sum += A(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  else
    sum += a * b;
}

// All elements of an array as accumulators, in its order.
template <class A>
std::vector<A> to_accumulators(const Array& array) {
  return visit_number(array.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> in = array.data<T>();
    std::vector<A> out;
    out.reserve(in.size());
    for (const T value : in) out.push_back(to_accumulator<A>(value));
    return out;
  });
}

// Sums, one an element, rounded once into an array.
template <class A>
void from_accumulators(const std::vector<A>& sums, const Array& result) {
  visit_number(result.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<T> out = result.data<T>();
    for (size_t i = 0; i < out.size(); ++i) out[i] = from_accumulator<T>(sums[i]);
  });
}

}  // namespace gspmd
