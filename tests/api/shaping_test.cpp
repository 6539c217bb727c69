#include <numeric>

#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace shaping_test {
namespace {

Array counting(Dims dims) {
  Array array(DType::s32, std::move(dims));
  for (int64_t i = 0; i < array.size(); ++i) array.set(i, double(i));
  return array;
}

std::vector<double> range(int n) {
  std::vector<double> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0.0);
  return v;
}

}  // namespace

TEST_CASE("reshape keeps the order of elements and completes one size", "[api]") {
  const Array seen = run([](Tensor t) { return reshape(t, {2, -1, 2}); }, counting({3, 4}));
  CHECK(seen.dims() == Dims{2, 3, 2});
  CHECK(values(seen) == range(12));
}

TEST_CASE("transpose permutes dims, by default all of them reversed", "[api]") {
  CHECK(values(run([](Tensor t) { return transpose(t); }, counting({2, 3}))) ==
        std::vector<double>{0, 3, 1, 4, 2, 5});
  const Array seen = run([](Tensor t) { return transpose(t, {2, 0, -2}); }, counting({2, 3, 4}));
  CHECK(seen.dims() == Dims{4, 2, 3});
  CHECK(seen.at(1 * 6 + 1 * 3 + 2) == 1 * 12 + 2 * 4 + 1);
}

TEST_CASE("broadcast_to, expand_dims and squeeze add and drop dims", "[api]") {
  CHECK(values(run(
            [](Tensor t) {
              return broadcast_to(t, {2, 2, 3});
            },
            counting({2, 1}))) == std::vector<double>{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1});
  const auto there = [](Tensor t) { return expand_dims(expand_dims(t, -1), 0); };
  CHECK(run(there, counting({5})).dims() == Dims{1, 5, 1});
  const auto and_back = [&](Tensor t) { return squeeze(squeeze(there(t), 0), -1); };
  CHECK(run(and_back, counting({5})).dims() == Dims{5});
}

TEST_CASE("slice takes strided parts and slice_dim a range of one dim", "[api]") {
  const auto strided = [](Tensor t) { return slice(t, {0, 1}, {3, 4}, {2, 2}); };
  CHECK(values(run(strided, counting({3, 4}))) == std::vector<double>{1, 3, 9, 11});
  const auto range_of = [](Tensor t) { return slice_dim(t, -1, 1, -1); };
  CHECK(values(run(range_of, counting({2, 4}))) == std::vector<double>{1, 2, 5, 6});
  const auto from_the_end = [](Tensor t) { return slice_dim(t, 1, -3, 4); };
  CHECK(values(run(from_the_end, counting({2, 4}))) == std::vector<double>{1, 2, 3, 5, 6, 7});
}

TEST_CASE("concatenate joins along an axis and pad fills around and between", "[api]") {
  const auto join = [](Tensor a, Tensor b) { return concatenate({a, b, a}, -1); };
  CHECK(values(run(join, counting({2, 1}), counting({2, 2}))) ==
        std::vector<double>{0, 0, 1, 0, 1, 2, 3, 1});
  const auto around = [](Tensor t) { return pad(t, {{1, 0, 1}}, 7); };
  CHECK(values(run(around, counting({3}))) == std::vector<double>{7, 0, 7, 1, 7, 2});
}

TEST_CASE("iota, full, zeros and ones make values from nothing", "[api]") {
  CHECK(values(run([] {
          return iota({DType::s32, {2, 3}}, -1);
        })) == std::vector<double>{0, 1, 2, 0, 1, 2});
  CHECK(values(run([] {
          return full({DType::f32, {2}}, 1.5) + ones({DType::f32, {}});
        })) == std::vector<double>{2.5, 2.5});
  CHECK(values(run(
            [](Tensor t) {
              return zeros_like(t) + zeros({DType::s32, {2}});
            },
            counting({2}))) == std::vector<double>{0, 0});
}

TEST_CASE("take reads rows, clamps indices outside, and its gradient adds up rows", "[api]") {
  const Array table = Array::of<double>({3, 2}, {1, 2, 3, 4, 5, 6});
  const Array which = Array::of<int32_t>({2, 2}, {2, 0, 2, 9});
  const Array seen = run([](Tensor t, Tensor i) { return take(t, i); }, table, which);
  CHECK(seen.dims() == Dims{2, 2, 2});
  CHECK(values(seen) == std::vector<double>{5, 6, 1, 2, 5, 6, 5, 6});
  const Array inside = Array::of<int32_t>({3}, {2, 0, 2});
  const auto total = [&](Tensor t) { return sum(take(t, inside) * 10.0); };
  CHECK(values(run(grad(total), table)) == std::vector<double>{10, 10, 0, 0, 20, 20});
}

TEST_CASE("one_hot marks the index, nothing when it is outside", "[api]") {
  const Array which = Array::of<int32_t>({3}, {1, 2, 5});
  CHECK(values(run([](Tensor i) { return one_hot(i, 3); }, which)) ==
        std::vector<double>{0, 1, 0, 0, 0, 1, 0, 0, 0});
}

}  // namespace shaping_test
