#include "derivatives/cases.h"

namespace gspmd::test {
namespace {

const Array kArrangingAt = f64({3, 5}, 5);
const Array kSquare = f64({2, 3, 3}, 6);

}  // namespace

std::vector<Case> arranging_cases() {
  return {
      GSPMD_CASE("roll", kArrangingAt, roll(t, 2, 1) * t),
      GSPMD_CASE("roll: of all", kArrangingAt, roll(t, -4) * t),
      GSPMD_CASE("flip", kArrangingAt, flip(t, 1) * t),
      GSPMD_CASE("tile", kArrangingAt, tile(t * t, {2, 3})),
      GSPMD_CASE("repeat", kArrangingAt, repeat(t * t, 2, 0)),
      GSPMD_CASE("repeat: of all", kArrangingAt, repeat(t * t, 3)),
      GSPMD_CASE("stack", kArrangingAt, stack({t, t * t}, 1)),
      GSPMD_CASE("split", kArrangingAt, split(t, {1, 3}, 1)[1] * split(t, {2, 4}, 1)[1]),
      GSPMD_CASE("split: in equal parts", kArrangingAt, split(t, 3)[0] * split(t, 3)[2]),
      GSPMD_CASE("tril", kArrangingAt, tril(t * t, 1)),
      GSPMD_CASE("triu", kArrangingAt, triu(t * t, 1)),
      GSPMD_CASE("diagonal", kSquare,
                 diagonal(t, {.offset = 1, .axis1 = 1, .axis2 = 2}) * t(0, 0, 0)),
      GSPMD_CASE("matrix_trace", kArrangingAt, matrix_trace(t, {.offset = 1}) * t),
      GSPMD_CASE("diag", f64({5}, 7), diag(t * t, 1)),
      GSPMD_CASE("diag: of a matrix", kArrangingAt, diag(t * t, -1)),
      GSPMD_CASE("reshape", kArrangingAt, reshape(t, {5, -1}) * transpose(t)),
      GSPMD_CASE("transpose", kSquare, transpose(t, {2, 0, 1}) * t(0, 1, 2)),
      GSPMD_CASE("broadcast_to", kArrangingAt, broadcast_to(t(all, range(1, 2)), {3, 4}) * t(0, 0)),
      GSPMD_CASE("expand_dims", kArrangingAt, expand_dims(t * t, 1)),
      GSPMD_CASE("squeeze", kArrangingAt, squeeze(t(all, range(1, 2)), 1) * t(all, 0)),
      GSPMD_CASE("slice", kArrangingAt, slice(t, {0, 1}, {3, 5}, {2, 3}) * t(1, 1)),
      GSPMD_CASE("slice_dim", kArrangingAt, slice_dim(t, 1, 1, 4) * slice_dim(t, 1, 2, 5)),
      GSPMD_CASE("concatenate", kArrangingAt, concatenate({t, t * t}, 1)),
      GSPMD_CASE("pad", kArrangingAt, pad(t * t, {{1, -1, 1}, {0, 2, 0}}, 2.)),
      GSPMD_CASE("named", kArrangingAt, named(t * t, "squares") * t),
      GSPMD_CASE("operator()", kArrangingAt, t(ellipsis, newaxis, 2) * t(1, 1)),
  };
}

}  // namespace gspmd::test
