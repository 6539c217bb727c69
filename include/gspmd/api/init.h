#pragma once

// Initial values of weights: arrays on the host, a pure function of shape and seed.

#include <vector>

#include "gspmd/base/array.h"
#include "gspmd/base/export.h"
#include "gspmd/base/site.h"

namespace gspmd {

// Which dims of a weight count what one output sums over, and what one input reaches. The sizes of
// dims that are neither, as a kernel's spatial dims, multiply both. Negative dims count from the
// end.
struct FanOptions {
  std::vector<int64_t> in_axes = {-2};   // inputs: [in,out], HWIO
  std::vector<int64_t> out_axes = {-1};  // outputs
  std::vector<int64_t> batch_axes = {};  // several weights in one array: of neither
  int64_t stream = 0;                    // independent numbers from one seed: 0 to 2^32 - 1
};
// --- Mean 0, variance scale / fan: Glorot and Bengio 2010 (1 / mean of both fans), He et al. 2015
// (2 / inputs), LeCun et al. 1998 (1 / inputs). Normal numbers are cut at two deviations. As
// jax.nn.initializers. f64, f32, f16 or bf16. UserError: fewer than 2 dims, or a dim twice.
GSPMD_API Array glorot_uniform(const Shape& shape, uint32_t seed, const FanOptions& options = {},
                               Site site = Site::here());
GSPMD_API Array glorot_normal(const Shape& shape, uint32_t seed, const FanOptions& options = {},
                              Site site = Site::here());
GSPMD_API Array he_uniform(const Shape& shape, uint32_t seed, const FanOptions& options = {},
                           Site site = Site::here());
GSPMD_API Array he_normal(const Shape& shape, uint32_t seed, const FanOptions& options = {},
                          Site site = Site::here());
GSPMD_API Array lecun_normal(const Shape& shape, uint32_t seed, const FanOptions& options = {},
                             Site site = Site::here());

// How truncated_normal() draws.
struct TruncatedNormalOptions {
  double stddev = 1;             // before it is cut
  double lower = -2, upper = 2;  // where it is cut, in deviations
  int64_t stream = 0;            // independent numbers from one seed: 0 to 2^32 - 1
};
// Normal numbers between two ends, in the shape that they have there.
GSPMD_API Array truncated_normal(const Shape& shape, uint32_t seed,
                                 const TruncatedNormalOptions& options = {},
                                 Site site = Site::here());

// How orthogonal() draws.
struct OrthogonalOptions {
  double scale = 1;    // the length of each row or column
  int64_t stream = 0;  // independent numbers from one seed: 0 to 2^32 - 1
};
// As a matrix with the last dim as columns: its columns are at right angles, or its rows where
// these are fewer; every such matrix is equally likely (Saxe et al. 2013). As
// jax.nn.initializers.orthogonal. UserError: fewer than 2 dims.
GSPMD_API Array orthogonal(const Shape& shape, uint32_t seed, const OrthogonalOptions& options = {},
                           Site site = Site::here());

}  // namespace gspmd
