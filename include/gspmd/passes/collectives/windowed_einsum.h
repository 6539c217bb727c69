#pragma once

// Products whose operands go round a ring.

#include <cstdint>
#include <optional>

#include "gspmd/base/export.h"
#include "gspmd/ir/module_fwd.h"

namespace gspmd {

// When a product that needs a gathered operand, or whose sum is scattered, becomes a loop that
// passes slices round a ring of devices (docs/spec/partitioning.md 9.2). Names as in HLO's
// partitioner options.
struct WindowedEinsumOptions {
  int64_t threshold_mib = 256;  // of the gathered operand, or of the result before the scatter
  int64_t max_iterations = 32;  // devices in a ring
  bool all_gather = true;       // loop over slices of a gathered operand
  bool reduce_scatter = true;   // loop over slices of a scattered result
  bool bidirectional = false;   // both ways round the ring at once: half as many iterations
  bool unroll = false;          // two slices per iteration
  bool skip_checking_users =
      false;  // also operands that have other readers: they are gathered as well
  // Where given, instead of `threshold_mib`: products whose operands have more bytes together.
  std::optional<int64_t> total_bytes = std::nullopt;
};

// Rewrites dot(all-gather(x), y) and reduce-scatter(dot(x, y)) of a per-device module. At most two
// slices of the moving value are alive at once, four where it moves both ways. Ops with the
// frontend attribute _xla_collective_matmul="none" stay. Returns whether anything changed.
GSPMD_API bool loop_windowed_einsums(Module& module, const WindowedEinsumOptions& options);

}  // namespace gspmd
