#pragma once

#include "gspmd/gspmd.h"

namespace gspmd::examples {

// GFLOP/s of independent multiply-adds in registers with the widest vectors of this machine: the
// median of several runs of some hundredths of a second each. threads < 1: the machine's cores.
double measure_peak_gflops(int threads, DType dtype = DType::f32);

}  // namespace gspmd::examples
