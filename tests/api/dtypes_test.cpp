// Every row of docs/dtypes.md.
#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace {

const Shape kF32{DType::f32, {2}}, kF64{DType::f64, {2}}, kS8{DType::s8, {2}};
const Shape kS32{DType::s32, {2}}, kS64{DType::s64, {2}}, kU8{DType::u8, {2}};
const Shape kC64{DType::c64, {2}}, kC128{DType::c128, {2}}, kPred{DType::pred, {2}};

// Shape of what f gives of tensors of these shapes.
template <class F, class... Shapes>
Shape shape_of(F f, const Shapes&... shapes) {
  return trace(f, shapes...).results().at(0).shape;
}
template <class F, class... Shapes>
DType dtype_of_result(F f, const Shapes&... shapes) {
  return shape_of(f, shapes...).dtype;
}
// The error that f gives of them.
template <class F, class... Shapes>
std::string refusal(F f, const Shapes&... shapes) {
  return message_of<UserError>([&] { trace(f, shapes...); });
}
bool says(const std::string& message, const char* fact) {
  INFO(message);
  CHECK(message.find(fact) != std::string::npos);
  return message.find(fact) != std::string::npos;
}

const auto plus = [](Tensor a, Tensor b) { return a + b; };

}  // namespace

TEST_CASE("docs/dtypes.md: one dtype goes in and comes out, two are refused", "[api][dtypes]") {
  for (const Shape& s : {kF32, kF64, kS8, kS32, kU8, kC64, kC128}) {
    CHECK(dtype_of_result(plus, s, s) == s.dtype);
    CHECK(dtype_of_result([](Tensor a, Tensor b) { return a * b - a; }, s, s) == s.dtype);
  }
  says(refusal(plus, kF32, kF64), "dtypes f32 and f64 of arg0 f32[2] and arg1 f64[2] differ");
  says(refusal(plus, kS32, kF32), "dtypes s32 and f32");
  says(refusal(plus, kS32, kS64), "dtypes s32 and s64");
  says(refusal([](Tensor a, Tensor b) { return a * b; }, kF32, kC64), "dtypes f32 and c64");
}

TEST_CASE("docs/dtypes.md: numbers take the dtype they meet, where it holds them",
          "[api][dtypes]") {
  CHECK(dtype_of_result([](Tensor a) { return (1 - (a + 1)) * 0.1; }, kF32) == DType::f32);
  CHECK(dtype_of_result([](Tensor a) { return a + 1; }, kS32) == DType::s32);
  says(refusal([](Tensor a) { return a + 0.5; }, kS32), "the number 0.5 is not a s32");
  says(refusal([](Tensor a) { return a + 256; }, kU8), "the number 256 is not a u8");
  says(refusal([](Tensor a) { return a - -1; }, kU8), "the number -1 is not a u8");
  CHECK(dtype_of_result([](Tensor a) { return a * 2; }, kC64) == DType::c64);
  says(refusal([](Tensor a) { return a + 1; }, kPred), "needs numbers, got arg0 pred[2]");
  CHECK(dtype_of_result([](Tensor a) { return a & true; }, kPred) == DType::pred);
}

TEST_CASE("docs/dtypes.md: what functions make of dtypes", "[api][dtypes]") {
  const auto dtype = [](const Shape& s, Tensor (*f)(Tensor)) { return dtype_of_result(f, s); };
  CHECK(dtype(kF32, [](Tensor a) { return a < a; }) == DType::pred);
  CHECK(dtype(kF32, [](Tensor a) { return equal(a, 0); }) == DType::pred);
  CHECK(dtype(kF32, [](Tensor a) { return isnan(a); }) == DType::pred);
  CHECK(dtype(kPred, [](Tensor a) { return logical_not(a); }) == DType::pred);
  const Array n = Array::of<int32_t>({2}, {-7, 7});
  CHECK(values(run([](Tensor a) { return a / 2; }, n)) == std::vector<double>{-3, 3});
  CHECK(values(run([](Tensor a) { return floor_divide(a, 2); }, n)) == std::vector<double>{-4, 3});
  says(refusal([](Tensor a) { return exp(a); }, kS32), "exp: needs floating numbers");
  says(refusal([](Tensor a) { return mean(a); }, kS32), "mean: needs floating numbers");
  CHECK(dtype(kS32, [](Tensor a) { return sum(a); }) == DType::s32);
  CHECK(dtype(kS8, [](Tensor a) { return cumsum(a); }) == DType::s8);
  for (const auto f : {+[](Tensor a) { return abs(a); }, +[](Tensor a) { return real(a); },
                       +[](Tensor a) { return norm(a); }}) {
    CHECK(dtype(kC64, f) == DType::f32);
    CHECK(dtype(kC128, f) == DType::f64);
  }
  says(refusal([](Tensor a) { return convert(a, DType::f32); }, kC64),
       "the imaginary part would be lost; take real(x)");
  for (const auto f : {+[](Tensor a) { return argmax(a); }, +[](Tensor a) { return argsort(a); },
                       +[](Tensor a) { return top_k(a, 1).second; }})
    CHECK(dtype(kF64, f) == DType::s32);
  CHECK(dtype(kF32, [](Tensor a) { return where(a > 0, a, 0); }) == DType::f32);
  CHECK(dtype(kF32, [](Tensor a) { return fft(a); }) == DType::c64);
  CHECK(dtype(kF64, [](Tensor a) { return fft(a); }) == DType::c128);
  says(refusal([](Tensor a) { return max(a); }, kC64), "have no order");
  says(refusal([](Tensor a) { return a < a; }, kC64), "has no order");
  says(refusal([](Tensor a) { return sort(a); }, kC64), "have no order");
}

TEST_CASE("docs/dtypes.md: shapes broadcast from the end", "[api][dtypes]") {
  const auto dims = [](Dims a, Dims b) {
    return shape_of(plus, Shape(DType::f32, a), Shape(DType::f32, b)).dims;
  };
  CHECK(dims({7, 5}, {5}) == Dims{7, 5});
  CHECK(dims({7, 1}, {5}) == Dims{7, 5});
  CHECK(dims({2, 1, 5}, {7, 1}) == Dims{2, 7, 5});
  CHECK(dims({7, 5}, {}) == Dims{7, 5});
  CHECK(shape_of([](Tensor a) { return a + 1; }, Shape(DType::f32, {7, 5})).dims == Dims{7, 5});
  CHECK(dims({0, 5}, {1, 5}) == Dims{0, 5});
  says(refusal(plus, Shape(DType::f32, {7, 5}), Shape(DType::f32, {7})),
       "shapes of arg0 f32[7,5] and arg1 f32[7] do not broadcast: dim 1 from the end is 5 and 7");
  CHECK(shape_of([](Tensor a, Tensor b) { return matmul(a, b); }, Shape(DType::f32, {2, 1, 7, 5}),
                 Shape(DType::f32, {3, 5, 4}))
            .dims == Dims{2, 3, 7, 4});
  CHECK(shape_of([](Tensor a, Tensor b) { return einsum("...a,...a->...", a, b); },
                 Shape(DType::f32, {3, 1, 5}), Shape(DType::f32, {7, 5}))
            .dims == Dims{3, 7});
}
