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
std::span<const OpInfo> gather_scatter_rows();
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

}  // namespace gspmd
