// Calls that take a fraction of a microsecond keep what they used: each gives a fresh array all the
// same.
#include "api/device_storage.h"
#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace small_calls_test {
namespace {

const Shape kFour(DType::f32, {4});

Array four(double value) { return Array::full(kFour, value); }
Array twice(const auto& step, double value) { return step(four(value)); }

}  // namespace

TEST_CASE("a result that somebody has is left alone, one that nobody has is used again",
          "[api][executable]") {
  for (const Mesh& mesh : {Mesh(), Mesh{{"x", 4}}}) {
    const auto step = compile([](Tensor t) { return t * 2; }, {.mesh = mesh}, kFour);
    const Array first = twice(step, 1);
    const Array copy = first;
    const Array second = twice(step, 2), third = twice(step, 3);
    CHECK(values(first) == std::vector<double>(4, 2));
    CHECK(values(second) == std::vector<double>(4, 4));
    CHECK(values(third) == std::vector<double>(4, 6));
    CHECK(copy.storage() == first.storage());
    const ArrayStorage* storage = nullptr;
    {
      const Array dropped = twice(step, 4);
      CHECK(values(dropped) == std::vector<double>(4, 8));  // gathers it on the host
      storage = dropped.storage().get();
    }
    const Array fifth = twice(step, 5);
    CHECK(fifth.storage().get() == storage);
    CHECK(values(fifth) == std::vector<double>(4, 10));
    CHECK(values(first) == std::vector<double>(4, 2));
  }
}

TEST_CASE("an array that shares the storage of a result keeps it", "[api][executable]") {
  const auto step = compile([](Tensor t) { return t * 2; }, {}, kFour);
  Array result = twice(step, 1);
  const Array other(Shape(DType::f32, {2, 2}), result.storage());
  result = Array();
  CHECK(values(twice(step, 3)) == std::vector<double>(4, 6));
  CHECK(values(other) == std::vector<double>(4, 2));
}

TEST_CASE("results go round as arguments, and may be donated", "[api][executable]") {
  const auto kept = compile([](Tensor t) { return t * 2; }, {}, kFour);
  Array x = four(1);
  for (int i = 0; i < 6; ++i) x = kept(x);
  CHECK(values(x) == std::vector<double>(4, 64));
  const auto given = compile([](Tensor t) { return t * 2; }, {.donate = {0}}, kFour);
  Array y = kept(four(1));
  const Array old = y;
  for (int i = 0; i < 6; ++i) y = given(y);
  CHECK(values(y) == std::vector<double>(4, 128));
  CHECK_THROWS_WITH(values(old), Catch::Contains("were donated to argument arg0 of call 1"));
  y = Array();
  CHECK(values(given(kept(four(3)))) == std::vector<double>(4, 12));
  CHECK(values(kept(four(5))) == std::vector<double>(4, 10));
}

TEST_CASE("a call that fails does not spoil those after it", "[api][executable]") {
  const auto step = compile([](Tensor t, Tensor u) { return t * 2 + u; }, {}, kFour, kFour);
  CHECK(values(step(four(1), four(1))) == std::vector<double>(4, 3));
  const Array wrong(DType::f32, {5});
  CHECK_THROWS_WITH(step(four(1), wrong), Catch::Contains("f32[5]"));
  CHECK_THROWS_WITH(step(Array(), four(1)), Catch::Contains("has no value"));
  CHECK(values(step(four(2), four(1))) == std::vector<double>(4, 5));
}

TEST_CASE("large results are not kept beyond their arrays", "[api][executable]") {
  const Shape large(DType::f32, {1 << 15});
  const auto step = compile([](Tensor t) { return t * 2; }, {}, large);
  const Array x = Array::full(large, 1);
  std::weak_ptr<ArrayStorage> storage;
  {
    const Array result = step(x);
    storage = result.storage();
  }
  CHECK(storage.expired());
}

}  // namespace small_calls_test
