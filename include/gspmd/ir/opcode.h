#pragma once

// The list of opcodes.

#include <cstdint>
#include <optional>
#include <string_view>

#include "gspmd/base/export.h"

namespace gspmd {

// HLO opcodes this library knows. The one list: enumerator, HLO name.
// clang-format off
#define GSPMD_OPCODES(V)                                                                          \
  V(parameter, "parameter") V(constant, "constant") V(iota, "iota") V(tuple, "tuple")             \
  V(get_tuple_element, "get-tuple-element") V(copy, "copy") V(copy_start, "copy-start")           \
  V(copy_done, "copy-done") V(convert, "convert") V(bitcast, "bitcast")                           \
  V(bitcast_convert, "bitcast-convert") V(reduce_precision, "reduce-precision")                   \
  V(stochastic_convert, "stochastic-convert") V(reshape, "reshape")                               \
  V(dynamic_reshape, "dynamic-reshape") V(broadcast, "broadcast") V(transpose, "transpose")       \
  V(reverse, "reverse") V(concatenate, "concatenate") V(pad, "pad") V(slice, "slice")             \
  V(dynamic_slice, "dynamic-slice") V(dynamic_update_slice, "dynamic-update-slice")               \
  V(gather, "gather") V(scatter, "scatter") V(select, "select") V(clamp, "clamp")                 \
  V(compare, "compare") V(map, "map") V(abs, "abs") V(acos, "acos") V(acosh, "acosh")             \
  V(add, "add") V(and_, "and") V(asin, "asin") V(asinh, "asinh") V(atan2, "atan2")                \
  V(atanh, "atanh") V(cbrt, "cbrt") V(ceil, "ceil")                                               \
  V(count_leading_zeros, "count-leading-zeros") V(complex, "complex") V(cosine, "cosine")         \
  V(cosh, "cosh") V(divide, "divide") V(erf, "erf") V(exponential, "exponential")                 \
  V(exponential_minus_one, "exponential-minus-one") V(floor, "floor") V(imag, "imag")             \
  V(is_finite, "is-finite") V(log, "log") V(log_plus_one, "log-plus-one")                         \
  V(logistic, "logistic") V(maximum, "maximum") V(minimum, "minimum") V(mulhi, "mulhi")           \
  V(multiply, "multiply") V(negate, "negate") V(not_, "not") V(or_, "or") V(popcnt, "popcnt")     \
  V(power, "power") V(real, "real") V(remainder, "remainder")                                     \
  V(round_nearest_afz, "round-nearest-afz") V(round_nearest_even, "round-nearest-even")           \
  V(rsqrt, "rsqrt") V(shift_left, "shift-left")                                                   \
  V(shift_right_arithmetic, "shift-right-arithmetic")                                             \
  V(shift_right_logical, "shift-right-logical") V(sign, "sign") V(sine, "sine") V(sinh, "sinh")   \
  V(sqrt, "sqrt") V(subtract, "subtract") V(tan, "tan") V(tanh, "tanh") V(xor_, "xor")            \
  V(dot, "dot") V(ragged_dot, "ragged-dot") V(scaled_dot, "scaled-dot")                           \
  V(convolution, "convolution") V(reduce, "reduce") V(reduce_window, "reduce-window")             \
  V(select_and_scatter, "select-and-scatter") V(sort, "sort") V(topk, "topk") V(scan, "scan")     \
  V(batch_norm_training, "batch-norm-training") V(batch_norm_inference, "batch-norm-inference")   \
  V(batch_norm_grad, "batch-norm-grad") V(cholesky, "cholesky")                                   \
  V(triangular_solve, "triangular-solve") V(fft, "fft") V(rng, "rng")                             \
  V(rng_bit_generator, "rng-bit-generator")                                                       \
  V(rng_get_and_update_state, "rng-get-and-update-state") V(while_, "while")                      \
  V(conditional, "conditional") V(call, "call") V(fusion, "fusion")                               \
  V(optimization_barrier, "opt-barrier") V(domain, "domain") V(custom_call, "custom-call")        \
  V(get_dimension_size, "get-dimension-size") V(set_dimension_size, "set-dimension-size")         \
  V(after_all, "after-all") V(add_dependency, "add-dependency") V(async_start, "async-start")     \
  V(async_update, "async-update") V(async_done, "async-done") V(infeed, "infeed")                 \
  V(outfeed, "outfeed") V(send, "send") V(send_done, "send-done") V(recv, "recv")                 \
  V(recv_done, "recv-done") V(all_reduce, "all-reduce") V(all_reduce_start, "all-reduce-start")   \
  V(all_reduce_done, "all-reduce-done") V(all_gather, "all-gather")                               \
  V(all_gather_start, "all-gather-start") V(all_gather_done, "all-gather-done")                   \
  V(reduce_scatter, "reduce-scatter") V(all_to_all, "all-to-all")                                 \
  V(ragged_all_to_all, "ragged-all-to-all") V(collective_permute, "collective-permute")           \
  V(collective_permute_start, "collective-permute-start")                                         \
  V(collective_permute_done, "collective-permute-done")                                           \
  V(collective_broadcast, "collective-broadcast") V(partition_id, "partition-id")                 \
  V(replica_id, "replica-id")
// clang-format on

// HLO's opcodes; `_` behind those that are words of C++.
enum class Opcode : uint8_t {
#define V(name, text) name,
  GSPMD_OPCODES(V)
#undef V
};

GSPMD_API std::string_view opcode_name(Opcode opcode);  // "get-tuple-element"
// Nullopt: none has the name.
GSPMD_API std::optional<Opcode> opcode_from_name(std::string_view name);
GSPMD_API int64_t opcode_count();  // number of opcodes

}  // namespace gspmd
