#include "ops/fast_kernels.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "gspmd/ir/op.h"
#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "kernels/run_kernel.h"
#include "ops/common/numeric.h"
#include "ops/evaluate/interpreter.h"

namespace gspmd::testing {
namespace {

double largest_of(const Array& array) {
  double most = 0;
  for (int64_t i = 0; i < array.size(); ++i)
    if (std::isfinite(array.at(i))) most = std::max(most, std::abs(array.at(i)));
  return most;
}

// Real and imaginary parts as reals.
Array parts_of(const Array& array) {
  if (!is_complex(array.dtype())) return array;
  Array parts(array.dtype() == DType::c64 ? DType::f32 : DType::f64, {2 * array.size()});
  std::memcpy(parts.bytes().data(), array.bytes().data(), array.bytes().size());
  return parts;
}

void expect_equal(const Array& got, const Array& wanted, double tolerance) {
  REQUIRE(got.shape() == wanted.shape());
  const double most = largest_of(wanted), size = double(dtype_size(wanted.dtype()));
  for (int64_t i = 0; i < wanted.size(); ++i) {
    const auto at = size_t(double(i) * size);
    if (std::memcmp(got.bytes().data() + at, wanted.bytes().data() + at, size_t(size)) == 0)
      continue;
    const double x = got.at(i), y = wanted.at(i);
    if (std::isnan(x) && std::isnan(y)) continue;
    INFO("element " << i << " is " << x << ", not " << y);
    REQUIRE((tolerance > 0 && std::abs(x - y) <= tolerance * most));
  }
}

}  // namespace

Array special_values(const Shape& shape, unsigned seed, bool nan) {
  std::mt19937 random(seed);
  Array array(Shape(shape.dtype, shape.dims));
  if (is_complex(shape.dtype)) {
    for (std::byte& b : array.bytes()) b = std::byte{0};
    const auto fill = [&](auto* out) {
      for (int64_t i = 0; i < 2 * array.size(); ++i) out[i] = (int(random() % 2001) - 1000) / 64.0f;
    };
    if (shape.dtype == DType::c64) fill(reinterpret_cast<float*>(array.bytes().data()));
    if (shape.dtype == DType::c128) fill(reinterpret_cast<double*>(array.bytes().data()));
    return array;
  }
  const bool floating = is_floating(shape.dtype);
  for (int64_t i = 0; i < array.size(); ++i) {
    const unsigned draw = random() % 64;
    double value = int(random() % 41) - 20;
    if (shape.dtype == DType::pred) value = draw % 2;
    if (is_unsigned_integer(shape.dtype)) value += 20;
    if (floating) value /= 4;
    if (floating && draw == 0) value = -0.0;
    if (floating && draw == 1) value = 0.0;
    if (floating && draw == 2) value = INFINITY;
    if (floating && draw == 3) value = -INFINITY;
    if (floating && nan && draw == 4) value = std::copysign(NAN, random() % 2 == 0 ? 1.0 : -1.0);
    array.set(i, value);
  }
  return array;
}

void expect_fast(const std::string& text, const std::vector<Array>& arguments, double tolerance) {
  INFO(text);
  const auto module = parse_module(text);
  const Node& root = *module->entry()->root();
  std::vector<Value> values;
  for (const Array& array : arguments) values.push_back({array, {}, false});
  const std::vector<Array> wanted = leaves(evaluate(*module, values));
  REQUIRE(root.op().lower != nullptr);
  const PreparedKernel kernel = root.op().lower(root);
  REQUIRE(kernel.run);
  std::vector<Array> operands;  // in the order of the instruction
  for (const Node* operand : root.operands()) {
    if (operand->is(Opcode::parameter)) {
      operands.push_back(arguments.at(size_t(operand->attrs.index)));
    } else {
      REQUIRE(operand->operands().empty());  // a constant, or an iota
      operands.push_back(operand->op().evaluate({*operand, {}, Interpreter().call()}).array);
    }
  }
  const std::vector<Array> got = run_kernel(kernel, operands, leaf_shapes(root.shape));
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i)
    expect_equal(parts_of(got[i]), parts_of(wanted[i]), tolerance);
}

Array first_run(const Node& node, const Array& operand) {
  return run_kernel(node.op().lower(node), {operand}, leaf_shapes(node.shape))[0];
}

}  // namespace gspmd::testing
