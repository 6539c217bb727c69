// Products of types without kernels of their own.
#include "ops/common/widened_products.h"

#include <catch2/catch.hpp>

#include "gspmd/ir/text.h"
#include "gspmd/ops/evaluate.h"
#include "ops/common/numeric.h"
#include "ops/fast_kernels.h"

namespace gspmd::testing::widened_products_test {
namespace {

std::string product(const std::string& a, const std::string& b, const std::string& result,
                    int64_t k = 40) {
  return fmt::format(R"(HloModule m
ENTRY e {{
  x = {}[3,{}] parameter(0)
  y = {}[{},5] parameter(1)
  ROOT r = {}[3,5] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
)",
                     a, k, b, k, result);
}

std::string window(const std::string& a, const std::string& b, const std::string& result) {
  return fmt::format(R"(HloModule m
ENTRY e {{
  x = {}[2,6,5,4] parameter(0)
  y = {}[3,2,4,6] parameter(1)
  ROOT r = {}[2,5,6,6] convolution(x, y), window={{size=3x2 pad=1_0x1_1}}, dim_labels=b01f_01io->b01f
}}
)",
                     a, b, result);
}

Array filled(const Shape& shape, int64_t seed) {
  Array array(shape);
  const bool is_narrow_float = is_floating(shape.dtype);
  for (int64_t i = 0; i < array.size(); ++i) {
    const int64_t bits = (i * 2654435761 + seed * 40503) % 251;
    if (is_narrow_float)
      array.set(i, static_cast<double>(bits - 125) / 16);
    else  // the extremes too
      array.set(i,
                static_cast<double>(is_signed_integer(shape.dtype) ? bits % 256 - 128 : bits + 4));
  }
  return array;
}

// The type that the only product of the widened module is computed in; nullopt: as it was. Its
// numbers are those of the reference.
std::optional<DType> widened(const std::string& text, double tolerance = 0) {
  INFO(text);
  const auto plain = parse_module(text), wide = parse_module(text);
  std::vector<Value> arguments;
  for (const Node* parameter : plain->entry()->parameters())
    arguments.push_back({filled(parameter->shape, parameter->attrs.index), {}, false});
  const bool changed = widen_products(*wide->entry());
  CHECK(wide->entry()->root()->shape == plain->entry()->root()->shape);
  const Array want = evaluate(*plain, arguments).array, got = evaluate(*wide, arguments).array;
  for (int64_t i = 0; i < want.size(); ++i)
    CHECK(std::abs(got.at(i) - want.at(i)) <= tolerance * std::abs(want.at(i)));
  if (!changed) return std::nullopt;
  for (const auto& node : wide->entry()->nodes()) {
    if (!node->is(Opcode::dot) && !node->is(Opcode::convolution)) continue;
    CHECK(node->operand(0)->shape.dtype == node->operand(1)->shape.dtype);
    CHECK(node->op().lower(*node).run);
    return node->operand(0)->shape.dtype;
  }
  FAIL("no product is left");
  return std::nullopt;
}

}  // namespace

TEST_CASE("widened products: floats without kernels", "[dot]") {
  CHECK(widened(window("f16", "f16", "f16"), 1e-3) == DType::f32);
  CHECK(widened(window("f16", "f16", "f32"), 1e-6) == DType::f32);
  CHECK(widened(window("f16", "f16", "f64"), 1e-15) == DType::f64);
  CHECK(widened(window("bf16", "f32", "bf16"), 1e-2) == DType::f32);
  CHECK(widened(product("f8e4m3fn", "f8e5m2", "f32"), 1e-6) == DType::f32);
  CHECK(widened(product("bf16", "f32", "bf16"), 1e-2) == DType::f32);
  CHECK(widened(product("f32", "f64", "f64"), 1e-15) == DType::f64);
  for (const char* type : {"f16", "bf16", "f32", "f64"}) CHECK(!widened(product(type, type, type)));
  for (const char* type : {"bf16", "f32", "f64"}) CHECK(!widened(window(type, type, type)));
}

TEST_CASE("widened products: integers in floats that hold every sum", "[dot]") {
  CHECK(widened(product("s8", "s8", "s32")) == DType::f32);
  CHECK(widened(product("s8", "s8", "s32", 1024)) == DType::f32);
  CHECK(widened(product("s8", "s8", "s32", 1025)) == DType::f64);
  CHECK(widened(product("u8", "s8", "s32")) == DType::f32);
  CHECK(widened(product("u8", "u8", "s64", 300)) == DType::f64);
  CHECK(widened(product("s8", "s8", "s8")) == DType::f32);  // wraps around as it is stored
  CHECK(widened(product("s8", "s8", "u16")) == DType::f32);
  CHECK(widened(window("s8", "s8", "s32")) == DType::f32);
  CHECK(!widened(product("s16", "s16", "s32")));  // sums may wrap around
  CHECK(!widened(product("s32", "s8", "s32")));
  CHECK(!widened(product("s32", "s32", "s32")));
}

}  // namespace gspmd::testing::widened_products_test
