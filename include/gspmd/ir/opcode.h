#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gspmd {

// HLO opcodes this library knows. The one list: enumerator, HLO name.
#define GSPMD_OPCODES(V)                                                                        \
  V(parameter, "parameter") V(constant, "constant") V(iota, "iota") V(tuple, "tuple")           \
  V(get_tuple_element, "get-tuple-element") V(copy, "copy") V(convert, "convert")               \
  V(reshape, "reshape") V(broadcast, "broadcast") V(transpose, "transpose")                     \
  V(reverse, "reverse") V(concatenate, "concatenate") V(pad, "pad") V(slice, "slice")           \
  V(dynamic_slice, "dynamic-slice") V(dynamic_update_slice, "dynamic-update-slice")             \
  V(gather, "gather") V(scatter, "scatter") V(select, "select") V(clamp, "clamp")               \
  V(compare, "compare") V(abs, "abs") V(add, "add") V(and_, "and") V(ceil, "ceil")              \
  V(cosine, "cosine") V(divide, "divide") V(exponential, "exponential")                         \
  V(exponential_minus_one, "exponential-minus-one") V(floor, "floor") V(log, "log")             \
  V(log_plus_one, "log-plus-one") V(logistic, "logistic") V(maximum, "maximum")                 \
  V(minimum, "minimum") V(multiply, "multiply") V(negate, "negate") V(not_, "not")              \
  V(or_, "or") V(power, "power") V(remainder, "remainder") V(rsqrt, "rsqrt")                    \
  V(shift_left, "shift-left") V(shift_right_arithmetic, "shift-right-arithmetic")               \
  V(shift_right_logical, "shift-right-logical") V(sign, "sign") V(sine, "sine")                 \
  V(sqrt, "sqrt") V(subtract, "subtract") V(tanh, "tanh") V(xor_, "xor")                        \
  V(is_finite, "is-finite") V(bitcast_convert, "bitcast-convert")                               \
  V(dot, "dot") V(reduce, "reduce") V(while_, "while") V(call, "call") V(fusion, "fusion")      \
  V(optimization_barrier, "opt-barrier") V(custom_call, "custom-call")                          \
  V(all_reduce, "all-reduce") V(all_gather, "all-gather") V(reduce_scatter, "reduce-scatter")   \
  V(all_to_all, "all-to-all") V(collective_permute, "collective-permute")                       \
  V(partition_id, "partition-id")

enum class Opcode : uint8_t {
#define V(name, text) name,
  GSPMD_OPCODES(V)
#undef V
};

std::string_view opcode_name(Opcode opcode);                          // "get-tuple-element"
std::optional<Opcode> opcode_from_name(std::string_view name);
int64_t opcode_count();

}  // namespace gspmd
