#pragma once

// What the tests that docs/names.py makes of pages of names call for each row.
#include <catch2/catch.hpp>
#include <cmath>
#include <complex>
#include <functional>
#include <string>
#include <vector>

#include "gspmd/gspmd.h"
#include "gspmd/testing.h"

namespace gspmd::names {

// An array that a row gives; without values only its shape counts.
struct Value {
  std::string dtype;  // empty: any
  Dims dims;
  std::vector<std::complex<double>> values;
};
using Values = std::vector<Value>;

// --- The leaves of what a row's code gives, as arrays (on the host) or tensors (while tracing)

template <class T>
constexpr bool is_number = std::is_arithmetic_v<T>;

inline Array array_of(const std::vector<int64_t>& numbers) {
  return Array::of<int64_t>({static_cast<int64_t>(numbers.size())}, numbers);
}
template <class T>
std::vector<Array> host_leaves(const T& value) {
  if constexpr (is_number<T>) {
    return {Array::scalar<double>(static_cast<double>(value))};
  } else if constexpr (std::is_same_v<T, Dims>) {
    return {array_of(value)};
  } else {
    std::vector<Array> found;
    for_each_leaf(value, [&](const std::string&, const Array& leaf) { found.push_back(leaf); });
    return found;
  }
}
inline std::string host_leaves(const std::string& text) { return text; }
inline std::string host_leaves(const char* text) { return text; }
inline std::string host_leaves(const Sharding& sharding) { return to_string(sharding); }

template <class T>
std::vector<Tensor> leaves(const T& value) {
  if constexpr (is_number<T> || std::is_same_v<T, Dims>) {
    return {constant(host_leaves(value)[0])};
  } else {
    std::vector<Tensor> found;
    for_each_leaf(value, [&](const std::string&, const Tensor& leaf) { found.push_back(leaf); });
    return found;
  }
}

// --- Runs a row's code and compares what it gives

void check_row(int line, const char* code, const Values& gives,
               const std::function<std::vector<Tensor>()>& run);
void check_row(int line, const char* code, const Values& gives,
               const std::function<std::vector<Array>()>& run);
void check_row(int line, const char* code, const std::string& gives,
               const std::function<std::string()>& run);

}  // namespace gspmd::names

using namespace gspmd;
using namespace gspmd::names;
