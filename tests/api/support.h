#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gspmd/gspmd.h"
#include "gspmd/testing.h"

namespace gspmd::test {

inline std::vector<double> values(const Array& array) {
  std::vector<double> result;
  for (int64_t i = 0; i < array.size(); ++i) result.push_back(array.at(i));
  return result;
}

// The single result of a function of arrays, by the reference interpreter.
template <class Fn, class... Args>
Array run_typed(const Fn& fn, const Args&... args) {
  const std::vector<Array> results = reference_results(fn, args...);
  REQUIRE(results.size() == 1);
  return results[0];
}

// The same, compiled once for each type of arguments where the result is one tensor, not for each
// lambda.
template <class Fn, class... Args>
Array run(Fn fn, const Args&... args) {
  using Function = std::function<Tensor(rebind_t<Args, Tensor>...)>;
  if constexpr (std::is_convertible_v<Fn, Function>)
    return run_typed(Function(std::move(fn)), args...);
  else
    return run_typed(fn, args...);
}

inline Array random_array(Shape shape, unsigned seed, double low = -1, double high = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  Array array(std::move(shape));
  for (int64_t i = 0; i < array.size(); ++i) array.set(i, uniform(generator));
  return array;
}

inline Array random_integers(Shape shape, unsigned seed, int low, int high) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> uniform(low, high);
  Array array(std::move(shape));
  for (int64_t i = 0; i < array.size(); ++i) array.set(i, uniform(generator));
  return array;
}

// A function of one tensor, whatever its type: compilers trace it and derive from it once.
using TensorFunction = std::function<Tensor(Tensor)>;

// Central differences of a scalar function of one f64 array, element by element.
inline Array numeric_gradient(const TensorFunction& fn, const Array& x, double step = 1e-5) {
  Array gradient(x.shape());
  for (int64_t i = 0; i < x.size(); ++i) {
    Array up = x.clone();
    Array down = x.clone();
    up.set(i, x.at(i) + step);
    down.set(i, x.at(i) - step);
    gradient.set(i, (run(fn, up).item() - run(fn, down).item()) / (2 * step));
  }
  return gradient;
}

// Whether grad(fn) agrees with central differences at x (f64).
inline Expectation gradient_is_right(const TensorFunction& fn, const Array& x) {
  return expect_close({run(grad(fn), x)}, {numeric_gradient(fn, x)}, {1e-6, 1e-7}, "gradient");
}

// Whether grad(fn) is right at x, and so is the gradient of its squared length: second derivatives,
// by reverse over reverse mode, and forward over reverse mode.
inline Expectation derivatives_are_right(const TensorFunction& fn, const Array& x) {
  const Expectation first = gradient_is_right(fn, x);
  if (!first) return first;
  const auto squared = [fn](Tensor t) { return sum(square(grad(fn)(t))); };
  const Array expected = numeric_gradient(squared, x);
  const Expectation reverse = expect_close({run(grad(squared), x)}, {expected}, {1e-6, 1e-6},
                                           "gradient of the gradient's squared length");
  if (!reverse) return reverse;
  // d |g|^2 = 2 H g
  const auto forward = [fn](Tensor t) {
    const auto [g, hg] = jvp(grad(fn), std::tuple{t}, std::tuple{stop_gradient(grad(fn)(t))});
    return hg * 2.;
  };
  return expect_close({run(forward, x)}, {expected}, {1e-6, 1e-6}, "product with the Hessian");
}

// The message of the E that f throws; a failed requirement when it throws none.
template <class E, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  FAIL("no error was thrown");
  return {};
}

// "(errors_math.cpp:12)": what a message ends with when the mistake is on that line.
inline std::string at_line(const char* file, int line) {
  return fmt::format("({}:{})", Site::base_name(file), line);
}

}  // namespace gspmd::test

// Requires a UserError whose message contains `fact` and names this statement: file and line are
// those of the macro's name, as for the calls inside it.
#define GSPMD_REQUIRE_ERROR(fact, expression)                                                    \
  do {                                                                                           \
    const gspmd::Site statement = gspmd::Site::here();                                           \
    const std::string seen = gspmd::test::message_of<gspmd::UserError>([&] { expression; });     \
    INFO(seen);                                                                                  \
    CHECK(seen.find(fact) != std::string::npos);                                                 \
    CHECK(seen.find(gspmd::test::at_line(statement.file, statement.line)) != std::string::npos); \
  } while (false)
