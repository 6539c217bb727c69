// One mistake per check: the message names the function, the numbers and this file's line.
#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace errors_math_test {
namespace {

const Shape kF{DType::f32, {2, 3}};
const Shape kS{DType::s32, {2, 3}};
const Shape kP{DType::pred, {2, 3}};

}  // namespace

TEST_CASE("functions of floating numbers refuse integers", "[api][errors]") {
  using Unary = Tensor (*)(Operand);
  const std::pair<const char*, Unary> cases[] = {
      {"exp", exp},
      {"expm1", expm1},
      {"log", log},
      {"log1p", log1p},
      {"tanh", tanh},
      {"sigmoid", sigmoid},
      {"sqrt", sqrt},
      {"rsqrt", rsqrt},
      {"sin", sin},
      {"cos", cos},
      {"floor", floor},
      {"ceil", ceil},
      {"is_finite", is_finite},
      {"gelu", gelu},
      {"silu", silu},
  };
  for (const auto& [name, fn] : cases) {
    const int line = __LINE__ + 1;
    const auto body = [fn = fn](Tensor x) { return fn(x); };
    const std::string fact = fmt::format("{}: needs floating numbers, got arg0 s32[2,3]", name);
    const std::string seen = message_of<UserError>([&] { trace(body, kS); });
    CHECK(seen.find(fact) == 0);
    CHECK(seen.find(at_line(__FILE__, line)) != std::string::npos);
  }
}

TEST_CASE("functions of numbers refuse pred and logic refuses numbers", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("abs: needs numbers, got arg0 pred[2,3]",
                      trace([](Tensor x) { return abs(x); }, kP));
  GSPMD_REQUIRE_ERROR("relu: needs numbers", trace([](Tensor x) { return relu(x); }, kP));
  GSPMD_REQUIRE_ERROR("sign: needs numbers", trace([](Tensor x) { return sign(x); }, kP));
  GSPMD_REQUIRE_ERROR("square: needs numbers", trace([](Tensor x) { return square(x); }, kP));
  GSPMD_REQUIRE_ERROR("negate: needs numbers", trace([](Tensor x) { return -x; }, kP));
  GSPMD_REQUIRE_ERROR("sum: needs numbers", trace([](Tensor x) { return sum(x); }, kP));
  GSPMD_REQUIRE_ERROR("max: needs numbers", trace([](Tensor x) { return max(x); }, kP));
  GSPMD_REQUIRE_ERROR("min: needs numbers", trace([](Tensor x) { return min(x); }, kP));
  GSPMD_REQUIRE_ERROR("mean: needs floating", trace([](Tensor x) { return mean(x); }, kS));
  GSPMD_REQUIRE_ERROR("logical_not: needs pred values",
                      trace([](Tensor x) { return logical_not(x); }, kF));
  GSPMD_REQUIRE_ERROR("logical_and: needs pred values",
                      trace([](Tensor x) { return logical_and(x, x); }, kF));
  GSPMD_REQUIRE_ERROR("logical_or: needs pred values",
                      trace([](Tensor x) { return logical_or(x, x); }, kF));
  GSPMD_REQUIRE_ERROR("pow: needs floating", trace([](Tensor x) { return pow(x, 2); }, kS));
}

TEST_CASE("dtypes are never promoted silently", "[api][errors]") {
  const Shape d{DType::f64, {3}};
  const char* fact =
      ": dtypes f32 and f64 of arg0 f32[2,3] and arg1 f64[3] differ; convert(x, DType::f32)";
  const auto with = [&](const char* name) { return std::string(name) + fact; };
  GSPMD_REQUIRE_ERROR(with("add"), trace([](Tensor a, Tensor b) { return a + b; }, kF, d));
  GSPMD_REQUIRE_ERROR(with("subtract"), trace([](Tensor a, Tensor b) { return a - b; }, kF, d));
  GSPMD_REQUIRE_ERROR(with("multiply"), trace([](Tensor a, Tensor b) { return a * b; }, kF, d));
  GSPMD_REQUIRE_ERROR(with("divide"), trace([](Tensor a, Tensor b) { return a / b; }, kF, d));
  GSPMD_REQUIRE_ERROR(with("maximum"),
                      trace([](Tensor a, Tensor b) { return maximum(a, b); }, kF, d));
  GSPMD_REQUIRE_ERROR(with("minimum"),
                      trace([](Tensor a, Tensor b) { return minimum(a, b); }, kF, d));
  GSPMD_REQUIRE_ERROR(with("remainder"),
                      trace([](Tensor a, Tensor b) { return remainder(a, b); }, kF, d));
  GSPMD_REQUIRE_ERROR(with("pow"), trace([](Tensor a, Tensor b) { return pow(a, b); }, kF, d));
  GSPMD_REQUIRE_ERROR(with("less"), trace([](Tensor a, Tensor b) { return a < b; }, kF, d));
  GSPMD_REQUIRE_ERROR(with("less_equal"), trace([](Tensor a, Tensor b) { return a <= b; }, kF, d));
  GSPMD_REQUIRE_ERROR(with("greater"), trace([](Tensor a, Tensor b) { return a > b; }, kF, d));
  GSPMD_REQUIRE_ERROR(with("greater_equal"),
                      trace([](Tensor a, Tensor b) { return a >= b; }, kF, d));
  GSPMD_REQUIRE_ERROR(with("equal"), trace([](Tensor a, Tensor b) { return equal(a, b); }, kF, d));
  GSPMD_REQUIRE_ERROR(with("not_equal"),
                      trace([](Tensor a, Tensor b) { return not_equal(a, b); }, kF, d));
  GSPMD_REQUIRE_ERROR("add: dtypes", trace([](Tensor a, Tensor b) { return a += b; }, kF, d));
  GSPMD_REQUIRE_ERROR("subtract: dtypes", trace([](Tensor a, Tensor b) { return a -= b; }, kF, d));
  GSPMD_REQUIRE_ERROR("multiply: dtypes", trace([](Tensor a, Tensor b) { return a *= b; }, kF, d));
  GSPMD_REQUIRE_ERROR("divide: dtypes", trace([](Tensor a, Tensor b) { return a /= b; }, kF, d));
  GSPMD_REQUIRE_ERROR("where: dtypes",
                      trace([](Tensor a, Tensor b) { return where(a > 0, a, b); }, kF, d));
  GSPMD_REQUIRE_ERROR("clamp: dtypes",
                      trace([](Tensor a, Tensor b) { return clamp(b, a, 1); }, kF, d));
}

TEST_CASE("shapes that do not broadcast name the dim and both sizes", "[api][errors]") {
  const Shape other{DType::f32, {4, 1}};
  GSPMD_REQUIRE_ERROR(
      "add: shapes of arg0 f32[2,3] and arg1 f32[4,1] do not broadcast: dim 2 from the end is 2 "
      "and 4",
      trace([](Tensor a, Tensor b) { return a + b; }, kF, other));
  GSPMD_REQUIRE_ERROR("where: shapes of",
                      trace([](Tensor a, Tensor b) { return where(a > 0, b, b); }, kF, other));
  GSPMD_REQUIRE_ERROR("select: the condition must be pred, got arg0 f32[2,3]",
                      trace([](Tensor a) { return select(a, a, a); }, kF));
  GSPMD_REQUIRE_ERROR("broadcast_to: arg0 f32[2,3] does not broadcast to [3,3]",
                      trace(
                          [](Tensor a) {
                            return broadcast_to(a, {3, 3});
                          },
                          kF));
}

TEST_CASE("numbers must fit the dtype they take", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("add: the number 0.5 is not a s32",
                      trace([](Tensor x) { return x + 0.5; }, kS));
  GSPMD_REQUIRE_ERROR("multiply: the number 3000000000 is not a s32",
                      trace([](Tensor x) { return x * 3e9; }, kS));
  GSPMD_REQUIRE_ERROR(
      "add: both operands are C++ numbers (1 and 2); one must be a tensor, as full({dtype, {}}, 2)",
      trace([](Tensor) { return operator+(Operand(1), Operand(2)); }, kS));
  GSPMD_REQUIRE_ERROR("exp: the number 2 has no dtype of its own",
                      trace([](Tensor) { return gspmd::exp(2); }, kS));
}

TEST_CASE("axes outside the rank or repeated are errors", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("softmax: axis -1 of arg0 f32[], which has no dims",
                      trace([](Tensor x) { return softmax(x); }, Shape(DType::f32, {})));
  GSPMD_REQUIRE_ERROR("sum: axis 2 is outside arg0 f32[2,3], which has rank 2; give -2 to 1",
                      trace([](Tensor x) { return sum(x, {.axes = 2}); }, kF));
  GSPMD_REQUIRE_ERROR("mean: axis -3 is outside",
                      trace([](Tensor x) { return mean(x, {.axes = -3}); }, kF));
  GSPMD_REQUIRE_ERROR("max: axis -1 of arg0 f32[2,3] is given twice",
                      trace(
                          [](Tensor x) {
                            return max(x, {.axes = {1, -1}});
                          },
                          kF));
  GSPMD_REQUIRE_ERROR("softmax: axis 5 is outside",
                      trace([](Tensor x) { return softmax(x, {.axis = 5}); }, kF));
  GSPMD_REQUIRE_ERROR("log_softmax: axis 5 is outside",
                      trace([](Tensor x) { return log_softmax(x, {.axis = 5}); }, kF));
  GSPMD_REQUIRE_ERROR("logsumexp: needs floating",
                      trace([](Tensor x) { return logsumexp(x); }, kS));
  GSPMD_REQUIRE_ERROR("dim: dim 2 of arg0 f32[2,3], which has rank 2; give -2 to 1",
                      trace([](Tensor x) { return x * double(x.dim(2)); }, kF));
}

TEST_CASE("convert refuses types that cannot be computed with", "[api][errors]") {
  GSPMD_REQUIRE_ERROR("convert: arg0 f32[2,3] to token: this type is not supported",
                      trace([](Tensor x) { return convert(x, DType::token); }, kF));
  GSPMD_REQUIRE_ERROR("relu: a tensor has no value yet",
                      trace([](Tensor) { return relu(Tensor()); }, kF));
  GSPMD_REQUIRE_ERROR("stop_gradient: a tensor has no value yet",
                      trace([](Tensor) { return stop_gradient(Tensor()); }, kF));
}

}  // namespace errors_math_test
