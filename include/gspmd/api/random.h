#pragma once

// Random numbers that do not depend on mesh or sharding.

#include "gspmd/api/operand.h"
#include "gspmd/base/export.h"

namespace gspmd {

// Counter-based random numbers: element i of the *global* array is a pure function of (seed,
// stream, i), so the numbers do not depend on mesh or sharding. Threefry-2x32, 20 rounds (Salmon et
// al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
struct RandomOptions {
  DType dtype = DType::f32;  // f32 or f64; ignored by random_bits
  int64_t stream = 0;        // independent numbers from one seed: 0 <= stream < 2^32
};
// `seed`: a C++ integer, or an integer tensor without dims.
GSPMD_API Tensor random_bits(Operand seed, Dims dims, const RandomOptions& options = {});  // u32
GSPMD_API Tensor random_uniform(Operand seed, Dims dims,
                                const RandomOptions& options = {});  // [0, 1)
// Mean 0, variance 1.
GSPMD_API Tensor random_normal(Operand seed, Dims dims, const RandomOptions& options = {});
// Normal numbers between `lower` and `upper`, in the shape that they have there.
GSPMD_API Tensor random_truncated_normal(Operand seed, double lower, double upper, Dims dims,
                                         const RandomOptions& options = {});
GSPMD_API Tensor random_exponential(Operand seed, Dims dims,
                                    const RandomOptions& options = {});  // mean 1
// -log(-log(u)): the greatest of logits with these added is a draw by softmax.
GSPMD_API Tensor random_gumbel(Operand seed, Dims dims, const RandomOptions& options = {});
// True with probability p, a number or floating values that broadcast to the dims. The dtype of the
// options is that of the uniform numbers compared with p.
GSPMD_API Tensor random_bernoulli(Operand seed, Operand p, Dims dims,
                                  const RandomOptions& options = {});

// How random_randint() and random_permutation() draw.
struct RandomIntegerOptions {
  DType dtype = DType::s32;  // an integer type; of permutations s32
  int64_t stream = 0;        // as RandomOptions'
};
// Integers low, ..., high - 1, equally likely.
GSPMD_API Tensor random_randint(Operand seed, Dims dims, int64_t low, int64_t high,
                                const RandomIntegerOptions& options = {});
// The numbers 0, ..., n - 1 in a random order.
GSPMD_API Tensor random_permutation(Operand seed, int64_t n,
                                    const RandomIntegerOptions& options = {});

// How random_categorical() and dropout() draw.
struct RandomDrawOptions {
  int64_t axis = -1;   // random_categorical: the dim of the categories, which goes
  int64_t stream = 0;  // as RandomOptions'
};
// Places, s32, along a dim of logits, each with probability softmax(logits).
GSPMD_API Tensor random_categorical(Operand seed, Operand logits,
                                    const RandomDrawOptions& options = {});
// Each element 0 with probability `rate`, else x / (1 - rate).
GSPMD_API Tensor dropout(Operand seed, Operand x, double rate,
                         const RandomDrawOptions& options = {});

// The same numbers on the host, without a trace: for initial values. f32, f64, f16 or bf16.
GSPMD_API Array random_uniform_array(const Shape& shape, uint32_t seed, int64_t stream = 0);
// Mean 0, variance 1.
GSPMD_API Array random_normal_array(const Shape& shape, uint32_t seed, int64_t stream = 0);

}  // namespace gspmd
