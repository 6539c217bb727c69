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

// The same numbers on the host, without a trace: for initial values. f32, f64, f16 or bf16.
GSPMD_API Array random_uniform_array(const Shape& shape, uint32_t seed, int64_t stream = 0);
// Mean 0, variance 1.
GSPMD_API Array random_normal_array(const Shape& shape, uint32_t seed, int64_t stream = 0);

}  // namespace gspmd
