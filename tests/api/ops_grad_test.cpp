// Derivatives of what the builders are made of, where the ops have rules.
#include "api/support.h"

using namespace gspmd;
using namespace gspmd::test;

namespace {

const Array kMatrix = random_array({DType::f64, {3, 4}}, 5, 0.2, 0.9);

}  // namespace

#define DERIVATIVES(x, body)                                                            \
  CHECK(derivatives_are_right([](Tensor t) { return sum(square(body)); }, x).message == \
        std::string())

TEST_CASE("indices, turns, joins and triangles have their derivatives", "[api][grad]") {
  const Array rows = Array::of<int32_t>({3}, {2, 0, -1});
  CHECK(
      derivatives_are_right([&](Tensor t) { return sum(square(t(rows, range(0, 3)))); }, kMatrix));
  CHECK(derivatives_are_right([&](Tensor t) { return sum(square(at(t, rows).add(t * 2.))); },
                              kMatrix));
  DERIVATIVES(kMatrix, t(range(0, 2), range({}, {}, 2)));
  DERIVATIVES(kMatrix, at(t, 1).set(2.) * t);
  DERIVATIVES(kMatrix, at(t, all, range(0, 2)).multiply(t(all, range(2, 4))));
  DERIVATIVES(kMatrix, roll(t, 2, 1) * t);
  DERIVATIVES(kMatrix, tile(t, {2, 1}) * 2.);
  DERIVATIVES(kMatrix, repeat(t, 2, 0));
  DERIVATIVES(kMatrix, stack({t, t * t}, 1));
  DERIVATIVES(kMatrix, split(t, 2, 1)[0] * t(all, range(2, {})));
  DERIVATIVES(kMatrix, tril(t) + triu(t, 1) * t);
  DERIVATIVES(kMatrix, diagonal(t));
}

TEST_CASE("products, spreads and norms have their derivatives", "[api][grad]") {
  DERIVATIVES(kMatrix, matmul(t, transpose(t)));
  DERIVATIVES(kMatrix, einsum("ab,cb,ad->cd", t, t, t));
  DERIVATIVES(kMatrix, kron(t, t(0)));
  DERIVATIVES(kMatrix, outer(t, t));
  DERIVATIVES(kMatrix, tensordot(t, t, {0}, {0}));
  DERIVATIVES(kMatrix, var(t, {.axes = 0}));
  DERIVATIVES(kMatrix, norm(t, {.axes = 1}));
  DERIVATIVES(kMatrix, norm(t, {.axes = 1, .ord = 3}));
  DERIVATIVES(kMatrix, clip(t, 0.3, 0.7));
  DERIVATIVES(kMatrix, reciprocal(t) + log2(t));
}
