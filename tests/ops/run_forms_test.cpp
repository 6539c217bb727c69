// Ops without kernels of their own by others.
#include "ops/common/run_forms.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <complex>

#include "gspmd/ir/text.h"
#include "gspmd/kernels/prepared_kernel.h"
#include "gspmd/ops/evaluate.h"
#include "ops/common/numeric.h"
#include "ops/convolution/convolution.h"
#include "ops/fast_kernels.h"

namespace gspmd::testing::run_forms_test {
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
  const bool changed = use_run_forms(*wide->entry());
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
  CHECK(widened(product("f32", "f32", "bf16"), 1e-2) == DType::f32);
  CHECK(widened(product("f32", "f32", "f64"), 1e-15) == DType::f64);
  CHECK(!widened(product("bf16", "bf16", "f32")));
  for (const char* type : {"f16", "bf16", "f32", "f64"}) CHECK(!widened(product(type, type, type)));
  for (const char* type : {"f32", "f64"}) CHECK(!widened(window(type, type, type)));
}

TEST_CASE("widened products: convolutions of bf16 where there is no other kernel", "[dot]") {
  const auto convolution = [](const char* result, const char* x, const char* y, const char* r,
                              const char* how) {
    return fmt::format(R"(HloModule m
ENTRY e {{
  x = bf16[{}] parameter(0)
  y = bf16[{}] parameter(1)
  ROOT r = {}[{}] convolution(x, y), {}
}}
)",
                       x, y, result, r, how);
  };
  const char* const forms[][4] = {
      {"2,6,5,4", "3,2,4,6", "2,5,6,6",
       "window={size=3x2 pad=1_0x1_1}, dim_labels=b01f_01io->b01f"},
      {"2,4,6,5", "6,4,3,2", "2,6,5,6",
       "window={size=3x2 pad=1_0x1_1}, dim_labels=bf01_oi01->bf01"},
      {"2,6,5,4", "3,2,2,6", "2,5,6,6",
       "window={size=3x2 pad=1_0x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=2"},
      {"2,6,5,4", "3,2,1,4", "2,5,6,4",
       "window={size=3x2 pad=1_0x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=4"},
      {"2,4,6,5", "4,1,3,2", "2,4,5,6",
       "window={size=3x2 pad=1_0x1_1}, dim_labels=bf01_oi01->bf01, feature_group_count=4"},
      {"2,9,6", "4,1,6", "2,9,6",
       "window={size=4 pad=3_0}, dim_labels=b0f_0io->b0f, feature_group_count=6"},
      {"2,6,5,4", "2,6,5,6", "3,3,4,6",
       "window={size=6x5 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf"},
      {"2,3,3,4", "3,3,4,6", "2,7,7,6",
       "window={size=3x3 pad=2_2x2_2 lhs_dilate=2x2 rhs_reversal=1x1}, "
       "dim_labels=b01f_01io->b01f"}};
  for (const char* result : {"bf16", "f32"})
    for (const auto& [x, y, r, how] : forms) {
      const std::string text = convolution(result, x, y, r, how);
      const auto module = parse_module(text);
      const bool has_kernel = has_convolution_kernel(*module->entry()->root());
      const double tolerance = result == std::string("bf16") ? 1e-2 : 1e-5;
      CHECK(widened(text, tolerance) ==
            (has_kernel ? std::nullopt : std::optional<DType>(DType::f32)));
    }
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
  CHECK(widened(product("s16", "s16", "s32")) == DType::f64);  // sums wrap around
  CHECK(widened(product("u16", "u16", "u32", 300)) == DType::f64);
  CHECK(widened(product("u16", "s16", "s32", 300)) == DType::f64);
  CHECK(widened(product("pred", "pred", "pred")) == DType::f32);
  CHECK(widened(product("pred", "pred", "pred", 3)) == DType::f32);
  CHECK(widened(window("pred", "pred", "pred")) == DType::f32);
  CHECK(!widened(product("s32", "s8", "s32")));
  CHECK(!widened(product("s32", "s32", "s32")));
}

namespace {

// The numbers of both; `opcode` is gone from the second or computes in f32.
void expect_form(const std::string& text, Opcode opcode, double tolerance) {
  INFO(text);
  const auto plain = parse_module(text), made = parse_module(text);
  std::vector<Value> arguments;
  for (const Node* parameter : plain->entry()->parameters())
    arguments.push_back(
        {special_values(parameter->shape, unsigned(parameter->attrs.index), false), {}, false});
  REQUIRE(use_run_forms(*made->entry()));
  for (const auto& node : made->entry()->nodes())
    CHECK((!node->is(opcode) || (node->shape.dtype == DType::f32 && node->op().lower(*node).run)));
  const std::vector<Array> want = leaves(evaluate(*plain, arguments)),
                           got = leaves(evaluate(*made, arguments));
  REQUIRE(want.size() == got.size());
  for (size_t r = 0; r < want.size(); ++r)
    for (int64_t i = 0; i < want[r].size(); ++i) {
      const double a = want[r].at(i), b = got[r].at(i);
      CHECK((a == b || (std::isnan(a) && std::isnan(b)) ||
             std::abs(a - b) <= tolerance * std::max(1.0, std::abs(a))));
    }
  CHECK(!use_run_forms(*made->entry()));
}

std::string pool(const std::string& type, const std::string& combiner, const std::string& from) {
  return fmt::format(R"(HloModule m
f {{
  a = {0}[] parameter(0)
  b = {0}[] parameter(1)
  ROOT c = {0}[] {1}(a, b)
}}
ENTRY e {{
  x = {0}[2,9,10,6] parameter(0)
  z = {0}[] constant({2})
  ROOT r = {0}[2,4,5,6] reduce-window(x, z), window={{size=1x3x2x1 stride=1x2x2x1}}, to_apply=f
}}
)",
                     type, combiner, from);
}

std::string pool_gradient(const std::string& type, const std::string& direction) {
  return fmt::format(R"(HloModule m
s {{
  a = {0}[] parameter(0)
  b = {0}[] parameter(1)
  ROOT c = pred[] compare(a, b), direction={1}
}}
f {{
  a = {0}[] parameter(0)
  b = {0}[] parameter(1)
  ROOT c = {0}[] add(a, b)
}}
ENTRY e {{
  x = {0}[2,9,10,6] parameter(0)
  y = {0}[2,4,5,6] parameter(1)
  z = {0}[] constant(0)
  ROOT r = {0}[2,9,10,6] select-and-scatter(x, y, z), window={{size=1x3x2x1 stride=1x2x2x1}}, select=s, scatter=f
}}
)",
                     type, direction);
}

}  // namespace

TEST_CASE("run forms: windows of 16-bit floats", "[window]") {
  for (const char* type : {"bf16", "f16"}) {
    expect_form(pool(type, "maximum", "-inf"), Opcode::reduce_window, 0);
    expect_form(pool(type, "minimum", "inf"), Opcode::reduce_window, 0);
    expect_form(pool(type, "add", "0"), Opcode::reduce_window, 1e-2);
    expect_form(pool_gradient(type, "GE"), Opcode::select_and_scatter, 2e-2);
  }
  const auto alone = parse_module(pool("f32", "maximum", "-inf"));
  CHECK(!use_run_forms(*alone->entry()));
}

TEST_CASE("run forms: windows that take in whole dims are reductions", "[window]") {
  const auto pool = [](const char* type, const char* op, const char* in, const char* out,
                       const char* window) {
    return fmt::format(
        "HloModule m\nc {{\na = {0}[] parameter(0)\nb = {0}[] parameter(1)\nROOT r "
        "= {0}[] {1}(a, b)\n}}\nENTRY e {{\nx = {0}[{2}] parameter(0)\nz = {0}[] "
        "parameter(1)\nROOT r = {0}[{3}] reduce-window(x, z), window={{{4}}}, "
        "to_apply=c\n}}\n",
        type, op, in, out, window);
  };
  const char* const forms[][3] = {
      {"2,5,7,6", "2,5,1,1", "size=1x1x7x6"},
      {"2,17,18,3", "2,1,1,3", "size=1x17x18x1 stride=1x17x18x1"},  // more than may slide
      {"7,6", "7,1", "size=1x6 rhs_reversal=1x1"},
      {"9,4,3", "1,4,1", "size=9x1x3"}};
  const std::pair<const char*, double> types[] = {{"f32", 1e-5}, {"f64", 1e-13}, {"bf16", 1e-2},
                                                  {"f16", 2e-3}, {"s8", 0},      {"u32", 0}};
  for (const auto& [type, tolerance] : types)
    for (const char* op : {"add", "multiply", "maximum", "minimum"})
      for (const auto& [in, out, window] : forms) {
        if (op == std::string("multiply") && tolerance > 0) continue;  // overflows
        expect_form(pool(type, op, in, out, window), Opcode::reduce_window, tolerance);
      }
  for (const char* op : {"and", "or"})
    expect_form(pool("pred", op, "9,4", "9,1", "size=1x4"), Opcode::reduce_window, 0);
  const auto complex = parse_module(pool("c64", "add", "9,4", "9,1", "size=1x4"));
  REQUIRE(use_run_forms(*complex->entry()));
  for (const auto& node : complex->entry()->nodes())
    CHECK((!node->is(Opcode::reduce_window) &&
           !(node->is(Opcode::reduce) && is_complex(node->shape.dtype))));
  // These see less or more than a dim.
  const char* const others[][3] = {{"3,7", "3,2", "size=1x6"},
                                   {"3,7", "3,3", "size=1x7 pad=0_0x1_1"},
                                   {"3,7", "3,7", "size=1x7 pad=0_0x6_0"},
                                   {"3,4", "3,1", "size=1x4 lhs_dilate=1x2 stride=1x9"},
                                   {"3,4", "2,1", "size=2x4"}};
  for (const auto& [in, out, window] : others) {
    const auto module = parse_module(pool("f32", "add", in, out, window));
    CHECK_FALSE(use_run_forms(*module->entry()));
  }
}

namespace {

std::string several_reductions(const char* lines, const char* along, const char* kept) {
  return fmt::format(R"(HloModule m
f {{
  a = f32[] parameter(0)
  b = s16[] parameter(1)
  c = pred[] parameter(2)
  d = f32[] parameter(3)
  e = s16[] parameter(4)
  g = pred[] parameter(5)
{0}
  ROOT r = (f32[], s16[], pred[]) tuple(s, m, n)
}}
ENTRY e {{
  x = f32[7,5,3] parameter(0)
  y = s16[7,5,3] parameter(1)
  z = pred[7,5,3] parameter(2)
  i = f32[] constant(3)
  j = s16[] constant(-9)
  k = pred[] constant(false)
  t = (f32[{2}], s16[{2}], pred[{2}]) reduce(x, y, z, i, j, k), dimensions={{{1}}}, to_apply=f
  u = s16[{2}] get-tuple-element(t), index=1
  ROOT r = ((f32[{2}], s16[{2}], pred[{2}]), s16[{2}]) tuple(t, u)
}}
)",
                     lines, along, kept);
}

}  // namespace

// The sums of small integers, the greatest numbers and the logical results of a plain loop.
TEST_CASE("run forms: reductions of several arrays that are joined each alone are one for each",
          "[reduce]") {
  const char* const each_alone =
      "  s = f32[] add(d, a)\n  m = s16[] maximum(b, e)\n  n = pred[] or(c, g)";
  const Dims dims{7, 5, 3};
  const Array x = filled(Shape(DType::f32, dims), 1), y = filled(Shape(DType::s16, dims), 2);
  Array z(DType::pred, dims), whole(DType::f32, dims);
  for (int64_t i = 0; i < z.size(); ++i) {
    z.set(i, i % 13 == 4 ? 1 : 0);
    whole.set(i, std::floor(x.at(i)));
  }
  const std::pair<const char*, const char*> ways[] = {{"0", "5,3"}, {"1", "7,3"}, {"2,0", "5"}};
  for (const auto& [along, kept] : ways) {
    const std::string is_along = along;
    const auto made = parse_module(several_reductions(each_alone, along, kept));
    INFO(is_along);
    REQUIRE(use_run_forms(*made->entry()));
    int64_t reductions = 0;
    for (const auto& node : made->entry()->nodes()) {
      if (!node->is(Opcode::reduce)) continue;
      ++reductions;
      CHECK(node->operands().size() == 2);
      CHECK(node->op().lower(*node).run);
    }
    CHECK(reductions == 3);
    const std::vector<Value> arguments{{whole, {}, false}, {y, {}, false}, {z, {}, false}};
    const Value value = evaluate(*made, arguments);
    const std::vector<Value>& got = value.elements.at(0).elements;
    const int64_t count = got[0].array.size();
    std::vector<double> sums(size_t(count), 3), most(size_t(count), -9), some(size_t(count), 0);
    for (int64_t i = 0; i < z.size(); ++i) {
      const int64_t at[3] = {i / 15, i / 3 % 5, i % 3};
      int64_t result = 0;
      for (int64_t d = 0; d < 3; ++d)
        if (is_along.find(char('0' + d)) == std::string::npos)
          result = result * dims[size_t(d)] + at[d];
      sums[size_t(result)] += whole.at(i);
      most[size_t(result)] = std::max(most[size_t(result)], y.at(i));
      some[size_t(result)] = std::max(some[size_t(result)], z.at(i));
    }
    for (int64_t i = 0; i < count; ++i) {
      CHECK(got[0].array.at(i) == sums[size_t(i)]);
      CHECK(got[1].array.at(i) == most[size_t(i)]);
      CHECK(got[2].array.at(i) == some[size_t(i)]);
      CHECK(value.elements.at(1).array.at(i) == most[size_t(i)]);
    }
  }
}

TEST_CASE("run forms: reductions of several arrays that are not joined each alone stay",
          "[reduce]") {
  // One value reads another, an op without a name, an op of one side alone.
  for (const char* lines :
       {"  h = f32[] convert(e)\n  s = f32[] add(a, h)\n  m = s16[] maximum(b, e)\n  n = pred[] "
        "or(c, g)",
        "  s = f32[] subtract(a, d)\n  m = s16[] maximum(b, e)\n  n = pred[] or(c, g)",
        "  s = f32[] add(a, d)\n  m = s16[] maximum(b, b)\n  n = pred[] or(c, g)"}) {
    const auto module = parse_module(several_reductions(lines, "0", "5,3"));
    CHECK_FALSE(use_run_forms(*module->entry()));
  }
}

TEST_CASE("run forms: products of complex numbers", "[dot]") {
  for (const std::string& text : {product("c64", "c64", "c64"), window("c64", "c64", "c64"),
                                  product("c128", "c128", "c128")}) {
    INFO(text);
    const auto plain = parse_module(text), made = parse_module(text);
    std::vector<Value> arguments;
    for (const Node* parameter : plain->entry()->parameters()) {
      Array x(parameter->shape);
      const auto number = [](int64_t i, auto zero) {
        using T = decltype(zero);
        return std::complex<T>(T(i * 7 % 13) - 6, T(i * 5 % 11) - 5);
      };
      for (int64_t i = 0; i < x.size(); ++i)
        if (x.dtype() == DType::c64)
          x.data<std::complex<float>>()[size_t(i)] = number(i, 0.0f);
        else
          x.data<std::complex<double>>()[size_t(i)] = number(i, 0.0);
      arguments.push_back({x, {}, false});
    }
    REQUIRE(use_run_forms(*made->entry()));
    const Array want = evaluate(*plain, arguments).array, got = evaluate(*made, arguments).array;
    CHECK(bitwise_equal(want, got));  // whole numbers
    for (const auto& node : made->entry()->nodes())
      if (node->is(Opcode::dot) || node->is(Opcode::convolution))
        CHECK_FALSE(is_complex(node->shape.dtype));
  }
  CHECK(!widened(product("f32", "f32", "f32")));
}

namespace {

// Bit for bit; `opcode` is gone.
void expect_bits(const std::string& text, Opcode opcode) {
  INFO(text);
  const auto plain = parse_module(text), made = parse_module(text);
  std::vector<Value> arguments;
  for (const Node* x : plain->entry()->parameters()) {
    Array array = is_complex(x->shape.dtype)
                      ? special_values(x->shape, unsigned(x->attrs.index) + 1, false)
                      : filled(x->shape, x->attrs.index);
    arguments.push_back({array, {}, false});
  }
  REQUIRE(use_run_forms(*made->entry()));
  CHECK(made->entry()->root()->shape == plain->entry()->root()->shape);
  CHECK(bitwise_equal(evaluate(*plain, arguments).array, evaluate(*made, arguments).array));
  for (const auto& node : made->entry()->nodes())
    CHECK((!node->is(opcode) || (!is_complex(node->shape.dtype) && node->op().lower(*node).run)));
  if (opcode == Opcode::dot)
    for (const auto& node : made->entry()->nodes()) CHECK_FALSE(node->is(Opcode::dot));
}

std::string row_product(const std::string& a, const std::string& b, const std::string& result,
                        const std::string& dims) {
  return fmt::format(
      "HloModule m\nENTRY e {{\nx = {} parameter(0)\ny = {} parameter(1)\nROOT r = {} dot(x, y), "
      "{}\n}}\n",
      a, b, result, dims);
}

}  // namespace

TEST_CASE("run forms: products of narrow integers with one row", "[dot]") {
  const char* const plain = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
  expect_bits(row_product("s8[1,3000]", "s8[3000,7]", "s32[1,7]", plain), Opcode::dot);
  expect_bits(row_product("u8[1,3000]", "s8[3000,7]", "s8[1,7]", plain), Opcode::dot);
  expect_bits(row_product("s16[1,40]", "u16[40,7]", "u32[1,7]", plain), Opcode::dot);
  expect_bits(row_product("u16[1,300000]", "u16[300000,3]", "u64[1,3]", plain), Opcode::dot);
  expect_bits(row_product("s8[7,300]", "s8[300,1]", "s64[7,1]", plain), Opcode::dot);
  expect_bits(row_product("s8[7,300]", "s8[300]", "s16[7]", plain), Opcode::dot);
  expect_bits(row_product("s8[300]", "s8[300]", "s32[]",
                          "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
              Opcode::dot);
  expect_bits(row_product("s8[5,1,3,4]", "s8[3,6,5,4]", "s32[5,1,6]",
                          "lhs_contracting_dims={3,2}, rhs_contracting_dims={3,0}, "
                          "lhs_batch_dims={0}, rhs_batch_dims={2}"),
              Opcode::convolution);  // in another order: stays a product
  expect_bits(row_product("s8[4,1,3,5]", "s8[5,3,6,4]", "s32[5,1,6]",
                          "lhs_contracting_dims={0,2}, rhs_contracting_dims={3,1}, "
                          "lhs_batch_dims={3}, rhs_batch_dims={0}"),
              Opcode::dot);
  expect_bits(row_product("s8[1,0]", "s8[0,7]", "s32[1,7]", plain), Opcode::dot);
}

TEST_CASE("run forms: products of narrow integers in pieces that f32 holds", "[dot]") {
  for (const int64_t k : {2048, 3072, 8192})
    for (const char* result : {"s32", "s8", "u16", "s64"}) {
      CHECK(widened(product("s8", "s8", result, k)) == DType::f32);
      CHECK(widened(product("u8", "s8", result, k)) == DType::f32);
    }
  CHECK(widened(product("s8", "s8", "s32", 2050)) == DType::f32);  // in five
  CHECK(widened(product("s8", "s8", "s32", 2047)) == DType::f64);
  CHECK(widened(product("s16", "s8", "s64", 2048)) == DType::f64);
  CHECK(widened(row_product("s8[4,2048,3,2]", "s8[3,5,2048,2]", "s32[2,3,4,5]",
                            "lhs_contracting_dims={1}, rhs_contracting_dims={2}, "
                            "lhs_batch_dims={3,2}, rhs_batch_dims={3,0}")) == DType::f32);
}

TEST_CASE("run forms: sums of complex numbers", "[reduce]") {
  for (const char* type : {"c64", "c128"})
    for (const char* along : {"0", "2", "0,2", "1", "0,1,2"}) {
      Dims kept;
      for (const int64_t d : {0, 1, 2})
        if (std::string(along).find(char('0' + d)) == std::string::npos) kept.push_back(5 + 2 * d);
      expect_bits(fmt::format("HloModule m\nf {{\na = {0}[] parameter(0)\nb = {0}[] "
                              "parameter(1)\nROOT c = {0}[] add(a, b)\n}}\nENTRY e {{\nx = "
                              "{0}[5,7,9] parameter(0)\nz = {0}[] parameter(1)\nROOT r = "
                              "{0}[{1}] reduce(x, z), dimensions={{{2}}}, to_apply=f\n}}\n",
                              type, fmt::join(kept, ","), along),
                  Opcode::reduce);
    }
}

TEST_CASE("run forms: batch norms and maps", "[batch_norm]") {
  const auto norm = [](const std::string& results, const std::string& op,
                       const std::string& operands) {
    std::string parameters;
    for (const char name : operands)
      if (name >= 'p' && name <= 's')
        parameters += fmt::format("  {0} = f32[6] parameter({1})\n", name, name - 'p' + 1);
    return fmt::format(R"(HloModule m
ENTRY e {{
  x = f32[4,5,6] parameter(0)
{}  ROOT r = {} {}({}), epsilon=0.01, feature_index=2
}}
)",
                       parameters, results, op, operands);
  };
  expect_form(norm("(f32[4,5,6], f32[6], f32[6])", "batch-norm-training", "x, p, q"),
              Opcode::batch_norm_training, 1e-5);
  expect_form(R"(HloModule m
f {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] multiply(a, b)
  two = f32[] constant(2)
  ROOT d = f32[] subtract(c, two)
}
ENTRY e {
  x = f32[7,9] parameter(0)
  y = f32[7,9] parameter(1)
  ROOT r = f32[7,9] map(x, y), dimensions={0,1}, to_apply=f
}
)",
              Opcode::map, 0);
}

// As compilers write them: a product with what follows, several results, fusions in fusions.
TEST_CASE("run forms: fusions that a module came with", "[fusion]") {
  expect_form(R"(HloModule m
inner {
  a = f32[4,5] parameter(0)
  b = f32[5] parameter(1)
  c = f32[4,5] broadcast(b), dimensions={1}
  d = f32[4,5] add(a, c)
  e = f32[4,5] sort(d), dimensions={1}, to_apply=less
  ROOT t = (f32[4,5], f32[4,5]) tuple(e, d)
}
less {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = pred[] compare(x, y), direction=LT
}
outer {
  x = f32[4,3] parameter(0)
  y = f32[3,5] parameter(1)
  z = f32[5] parameter(2)
  p = f32[4,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = (f32[4,5], f32[4,5]) fusion(p, z), kind=kCustom, calls=inner
  g = f32[4,5] get-tuple-element(f), index=0
  h = f32[4,5] get-tuple-element(f), index=1
  ROOT r = f32[4,5] subtract(g, h)
}
ENTRY e {
  x = f32[4,3] parameter(0)
  y = f32[3,5] parameter(1)
  z = f32[5] parameter(2)
  ROOT r = f32[4,5] fusion(x, y, z), kind=kOutput, calls=outer
}
)",
              Opcode::fusion, 1e-6);
}

TEST_CASE("run forms: maps that stay as they are", "[map]") {
  const auto module = parse_module(R"(HloModule m
c {
  ROOT k = f32[] constant(2)
}
f {
  a = f32[] parameter(0)
  k = f32[] fusion(), kind=kLoop, calls=c
  ROOT r = f32[] multiply(a, k)
}
ENTRY e {
  x = f32[8] parameter(0)
  ROOT m = f32[8] map(x), dimensions={0}, to_apply=f
}
)");
  CHECK(!use_run_forms(*module->entry()));
}

}  // namespace gspmd::testing::run_forms_test
