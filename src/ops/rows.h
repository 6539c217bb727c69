#pragma once

#include <span>

#include "gspmd/ir/op.h"

namespace gspmd {

// The op table's rows by family: what one family exports to registry.cpp.
std::span<const OpInfo> source_rows();       // parameter, constant, partition-id
std::span<const OpInfo> elementwise_rows();  // unary, binary, compare, select, clamp, convert, ...
std::span<const OpInfo> shape_rows();        // reshape, broadcast, transpose, ..., iota
std::span<const OpInfo> dot_rows();
std::span<const OpInfo> reduce_rows();
std::span<const OpInfo> index_rows();    // gather, scatter
std::span<const OpInfo> control_rows();  // tuple, while, call, fusion, custom-call, ...
std::span<const OpInfo> window_rows();   // reduce-window, select-and-scatter
std::span<const OpInfo> convolution_rows();
std::span<const OpInfo> sort_rows();  // sort, topk
std::span<const OpInfo> scan_rows();
std::span<const OpInfo> linalg_rows();  // cholesky, triangular-solve
std::span<const OpInfo> fft_rows();
std::span<const OpInfo> ragged_dot_rows();
std::span<const OpInfo> map_rows();
std::span<const OpInfo> batch_norm_rows();
std::span<const OpInfo> random_rows();  // rng, rng-bit-generator, rng-get-and-update-state
std::span<const OpInfo> async_rows();   // after-all, copy-start, async-start, send, domain, ...
std::span<const OpInfo> dimension_size_rows();
std::span<const OpInfo> collective_rows();  // all-reduce, ..., collective-permute

// Aspects that join the rows from files of their own, so that a pass's knowledge of an op can grow
// without touching the row. Each list names an opcode at most once.
struct PartitionAspect {
  Opcode opcode;
  decltype(OpInfo::partition) partition;
};
struct PropagateAspect {
  Opcode opcode;
  decltype(OpInfo::forward_sharding) forward;
  decltype(OpInfo::backward_sharding) backward;
  decltype(OpInfo::may_be_tiled) may_be_tiled = nullptr;
};
struct LowerAspect {
  Opcode opcode;
  decltype(OpInfo::lower) lower;
};
std::span<const PartitionAspect> partition_aspects();  // partition_aspects.cpp
std::span<const PropagateAspect> propagate_aspects();  // propagate_aspects.cpp
std::span<const LowerAspect> lower_aspects();          // lower_aspects.cpp

}  // namespace gspmd
