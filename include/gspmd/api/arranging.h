#pragma once

// Arrays counted up, turned, repeated, joined and cut apart; diagonals and triangles.

#include <optional>
#include <vector>

#include "gspmd/api/math.h"
#include "gspmd/base/export.h"

namespace gspmd {

// start, start + step, ... before stop. As NumPy's.
GSPMD_API Tensor arange(double start, double stop, double step = 1, DType dtype = DType::s32,
                        Site site = Site::here());
GSPMD_API Tensor arange(int64_t stop, Site site = Site::here());  // s32 0, 1, ... stop - 1

// How linspace() counts.
struct LinspaceOptions {
  bool endpoint = true;      // the last number is `stop`
  DType dtype = DType::f32;  // floating
};
// `num` numbers from start to stop, equally far apart.
GSPMD_API Tensor linspace(double start, double stop, int64_t num = 50,
                          const LinspaceOptions& options = {}, Site site = Site::here());

// Elements moved by `shift` places along the dims, round the end; by default as one vector.
GSPMD_API Tensor roll(Operand x, int64_t shift, const Axes& axes = {});
GSPMD_API Tensor flip(Operand x, const Axes& axes = {});  // reversed along the dims; default: all
// The whole array repetitions[i] times along dim i; a shorter list is for the last dims.
GSPMD_API Tensor tile(Operand x, Dims repetitions);
// Each element `count` times, one behind the other, along a dim; by default of the array as a
// vector.
GSPMD_API Tensor repeat(Operand x, int64_t count, std::optional<int64_t> axis = {});

// The parts, of equal dims, along a new dim before `axis`.
GSPMD_API Tensor stack(std::vector<Tensor> parts, int64_t axis = 0, Site site = Site::here());
// `sections` equal parts along a dim.
GSPMD_API std::vector<Tensor> split(Operand x, int64_t sections, int64_t axis = 0);
// Parts that begin at 0 and at `places`, which count from the end where negative.
GSPMD_API std::vector<Tensor> split(Operand x, std::vector<int64_t> places, int64_t axis = 0);

// --- Matrices in the last two dims; diagonal k lies k columns to the right of the main one
GSPMD_API Tensor tril(Operand x, int64_t k = 0);  // what lies above diagonal k is 0
GSPMD_API Tensor triu(Operand x, int64_t k = 0);  // what lies below diagonal k is 0

// Sizes and dtype of eye() and tri().
struct MatrixOptions {
  std::optional<int64_t> columns = {};  // default: as many as rows
  int64_t k = 0;                        // which diagonal
  DType dtype = DType::f32;             // of the elements
};
// --- A matrix of `rows` rows: 1 on diagonal k, or on it and below; else 0
GSPMD_API Tensor eye(int64_t rows, const MatrixOptions& options = {}, Site site = Site::here());
GSPMD_API Tensor tri(int64_t rows, const MatrixOptions& options = {}, Site site = Site::here());

// Which diagonal, between which dims.
struct DiagonalOptions {
  int64_t offset = 0;            // columns to the right of the main diagonal
  int64_t axis1 = 0, axis2 = 1;  // rows and columns
};
// The diagonal, as the last dim of what is left without the two dims.
GSPMD_API Tensor diagonal(Operand x, const DiagonalOptions& options = {});
// The sum of the diagonal: NumPy's trace, which here runs a function.
GSPMD_API Tensor matrix_trace(Operand x, const DiagonalOptions& options = {});
// A vector as the k-th diagonal of a square matrix; of a matrix its k-th diagonal.
GSPMD_API Tensor diag(Operand x, int64_t k = 0);

}  // namespace gspmd
