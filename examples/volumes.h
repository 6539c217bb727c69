#pragma once

#include <cstdint>

#include "gspmd/gspmd.h"

namespace gspmd::examples {

// How volumes are generated.
struct VolumeOptions {
  int64_t depth = 32, height = 16, width = 16;
  double noise =
      0.3;  // deviation of the noise of each voxel; a body is 1 brighter than what is around
};

// Volumes and what is where in them: {f32[n,d,h,w,1], s32[n,d,h,w]}. A volume has two to four
// bodies of the same brightness, ellipsoids (1) and boxes (2), at least one of each, later ones
// before earlier, before (0) a brightness that changes along a line. Numbers first, ..., first + n
// - 1 of the volumes of a seed, each a pure function of both and the options.
struct VolumeBatch {
  Array volumes, masks;
};
VolumeBatch generated_volumes(const VolumeOptions& options, int64_t first, int64_t n,
                              uint32_t seed);

}  // namespace gspmd::examples
