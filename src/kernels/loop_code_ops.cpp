// The instructions of each op: lane by lane what the functions of loop_functions_*.cpp give, for
// the functions of mathematics by the same steps.
#include <bit>
#include <limits>

#include "kernels/loop_code_block.h"
#include "kernels/loop_code_math.h"
#include "kernels/loop_widen.h"

namespace gspmd {
namespace {

using namespace vector_op;

constexpr uint32_t kSignBit = 0x80000000u, kEveryBit = 0xffffffffu;

bool is_word(DType dtype) { return dtype == DType::s32 || dtype == DType::u32; }
bool is_short(DType dtype) { return is_narrow_loop_dtype(dtype) && !is_narrow(dtype); }

// a, b or c of compare_ps and compare_d, unsigned where that matters.
int compare_code(LoopOp op, bool is_float) {
  switch (op) {
    case LoopOp::eq:
      return 0;
    case LoopOp::ne:
      return 4;
    case LoopOp::ge:
      return is_float ? 0x1D : 5;
    case LoopOp::gt:
      return is_float ? 0x1E : 6;
    case LoopOp::le:
      return is_float ? 0x12 : 2;
    default:
      return is_float ? 0x11 : 1;
  }
}

bool is_compare(LoopOp op) { return op >= LoopOp::eq && op <= LoopOp::lt; }

const VectorOp* simple_op(LoopOp op, DType dtype) {
  const bool is_float = dtype == DType::f32, is_pred = dtype == DType::pred;
  switch (op) {
    case LoopOp::add:
      return is_float ? &add_ps : is_pred ? &or_d : &add_d;
    case LoopOp::subtract:
      return is_float ? &sub_ps : &sub_d;
    case LoopOp::multiply:
      return is_float ? &mul_ps : is_pred ? &and_d : &mul_d;
    case LoopOp::divide:
      return &div_ps;
    case LoopOp::and_:
      return &and_d;
    case LoopOp::or_:
      return &or_d;
    case LoopOp::xor_:
      return &xor_d;
    case LoopOp::shift_left:
      return &shift_left_vd;
    case LoopOp::shift_right_logical:
      return &shift_right_vd;
    case LoopOp::shift_right_arithmetic:
      return &shift_right_arithmetic_vd;
    case LoopOp::maximum:
      return is_pred               ? &or_d
             : dtype == DType::u32 ? &max_ud
             : dtype == DType::s32 ? &max_sd
                                   : nullptr;
    case LoopOp::minimum:
      return is_pred               ? &and_d
             : dtype == DType::u32 ? &min_ud
             : dtype == DType::s32 ? &min_sd
                                   : nullptr;
    default:
      return nullptr;
  }
}

bool commutes(LoopOp op) {
  switch (op) {
    case LoopOp::add:
    case LoopOp::multiply:
    case LoopOp::and_:
    case LoopOp::or_:
    case LoopOp::xor_:
    case LoopOp::maximum:
    case LoopOp::minimum:
      return true;
    default:
      return false;
  }
}

// NaN where either is NaN, and -0 < +0.
void emit_extreme(BlockEmitter& x, bool maximum, Vec to, Vec a, Vec b) {
  LoopEncoder& code = x.code;
  const Vec other = x.temporary(), one = x.temporary();
  code.vector(maximum ? max_ps : min_ps, one, b, a);
  code.vector(maximum ? max_ps : min_ps, other, a, b);
  // Of zeros each gives another; of numbers both are the same.
  if (!maximum) {  // what is NaN stays so with more bits
    code.vector(or_d, to, one, other);
    return;
  }
  const Vec either_nan = x.mask(0);
  code.vector(compare_ps, either_nan, a, b, 3);
  code.vector(and_d, one, one, other);
  if (!x.target.has_masks) return code.vector(or_d, to, one, either_nan);  // all bits are a NaN
  x.merge(or_d, one, a, b, either_nan);                                    // has the bits of a NaN
  code.vector(move_ps, to, one);
}

void emit_sign(BlockEmitter& x, const LoopInstruction& in) {
  const Vec a = x.in(in.a), to = x.out(in.out);
  LoopEncoder& code = x.code;
  if (in.input == DType::f32) {
    const Vec zero = x.temporary();
    code.vector(xor_d, zero, zero, zero);
    code.vector(compare_ps, x.mask(0), a, zero, 0x1E);
    code.vector(compare_ps, x.mask(1), a, zero, 0x11);
    x.blend(to, a, x.constant(1.0f), x.mask(0));
    x.blend(to, to, x.constant(-1.0f), x.mask(1));
  } else if (in.input == DType::s32) {
    code.vector(max_sd, to, a, x.constant(kEveryBit));
    code.vector(min_sd, to, to, x.constant(1u));
  } else {
    code.vector(min_ud, to, a, x.constant(1u));
  }
}

void emit_unary(BlockEmitter& x, const LoopInstruction& in) {
  LoopEncoder& code = x.code;
  const Vec a = x.in(in.a), to = x.out(in.out);
  const bool is_float = in.input == DType::f32;
  switch (in.op) {
    case LoopOp::negate:
      if (is_float) return code.vector(xor_d, to, a, x.constant(kSignBit));
      code.vector(xor_d, to, a, x.constant(kEveryBit));
      return code.vector(sub_d, to, to, x.constant(kEveryBit));
    case LoopOp::abs:
      if (is_float) return code.vector(and_d, to, a, x.constant(~kSignBit));
      return code.vector(in.input == DType::s32 ? abs_d : move_ps, to, Vec{}, a);
    case LoopOp::not_:
      return code.vector(xor_d, to, a, x.constant(kEveryBit));
    case LoopOp::floor:
      return code.vector(round_ps, to, Vec{}, a, 9);
    case LoopOp::ceil:
      return code.vector(round_ps, to, Vec{}, a, 10);
    case LoopOp::round_nearest_even:
      return code.vector(round_ps, to, Vec{}, a, 8);
    case LoopOp::sqrt:
      return code.vector(sqrt_ps, to, a);
    case LoopOp::is_finite:
      code.vector(and_d, to, a, x.constant(~kSignBit));
      return x.compare(to, to, x.constant(std::numeric_limits<float>::max()), 0x12);
    default:
      return code.vector(move_ps, to, a);
  }
}

// Nearest even, in the high half of the lane; the low half is left as it comes. Steps that wait for
// each other are few, as their time is what loops of 16-bit floats take.
void emit_round_to_bf16(BlockEmitter& x, Vec to, Vec a, const LoopRegister& value) {
  LoopEncoder& code = x.code;
  if (value.is_bf16 && value.short_nan) return code.vector(move_ps, to, a);
  const Vec other = x.temporary();
  const bool masks = x.target.has_masks;
  code.shift(masks ? right_digit : left_digit, to, a, masks ? 16 : 15);  // AVX2: into the sign
  if (masks) {  // less -0x7fff or, where the last digit is 1, -0x8000
    code.vector(broadcast_ss, other, x.constant(1u));
    code.vector(ternary_d, to, other, x.constant(0xffff8001u), 0x2A);
    code.vector(sub_d, to, a, to);
  } else {
    const LoopSource even = x.rounding(BlockEmitter::even_digit);
    if (even.in_memory) code.vector(load_ps, other, even.memory);
    x.blend(to, even.in_memory ? other : even.vec, x.rounding(BlockEmitter::odd_digit), to);
    code.vector(add_d, to, to, a);
  }
  if (value.short_nan) return;
  code.vector(compare_ps, x.mask(0), a, a, 3);
  x.merge(or_d, to, a, x.constant(0x400000u), x.mask(0));
}

// Towards zero: too high gives the highest, below 0 and NaN 0.
void emit_to_unsigned(BlockEmitter& x, Vec to, Vec a, Vec zero) {
  LoopEncoder& code = x.code;
  const Vec positive = x.mask(0), high = zero;
  code.vector(compare_ps, positive, a, zero, 0x1E);
  if (x.target.has_masks) return code.vector(float_to_uint, to, Vec{}, a, 0, {positive.id, true});
  const Vec rest = x.temporary();  // less 2^31 where that leaves a number that fits 31 bits
  code.vector(compare_ps, high, a, x.constant(2147483648.0f), 0x1D);
  code.vector(and_d, rest, high, x.constant(2147483648.0f));
  code.vector(sub_ps, rest, a, rest);
  code.vector(float_to_int, to, rest);
  code.vector(and_d, high, high, x.constant(kSignBit));
  code.vector(xor_d, to, to, high);
  code.vector(compare_ps, high, a, x.constant(4294967296.0f), 0x1D);
  code.vector(or_d, to, to, high);
  code.vector(and_d, to, to, positive);
}

// Rounded once: the upper half of the bits is exact, and so is the lower.
void emit_from_unsigned(BlockEmitter& x, Vec to, Vec a) {
  LoopEncoder& code = x.code;
  if (x.target.has_masks) return code.vector(uint_to_float, to, a);
  const Vec upper = x.temporary();
  code.shift(right_digit, upper, a, 16);
  code.vector(int_to_float, upper, upper);
  code.vector(mul_ps, upper, upper, x.constant(65536.0f));
  code.vector(and_d, to, a, x.constant(0xffffu));
  code.vector(int_to_float, to, to);
  code.vector(add_ps, to, to, upper);
}

void emit_from_float(BlockEmitter& x, const LoopInstruction& in, Vec to, Vec a) {
  LoopEncoder& code = x.code;
  if (in.result == DType::bf16) {
    const LoopRegister& value = x.reg(in.a);
    const bool stays = x.place().half == 1;  // in the upper half
    const bool exact = value.is_bf16 && value.short_nan;
    if (!exact) emit_round_to_bf16(x, to, a, value);
    if (stays) return code.vector(move_ps, to, exact ? a : to);
    return code.shift(right_digit, to, exact ? a : to, 16);
  }
  if (in.result == DType::f16) return x.round_to_halves(to, a);
  const Vec zero = x.temporary();
  code.vector(xor_d, zero, zero, zero);
  switch (in.result) {
    case DType::pred:
      return x.compare(to, a, zero, 4);
    case DType::s32:  // too low: the lowest; NaN: 0
      code.vector(compare_ps, x.mask(0), a, x.constant(2147483648.0f), 0x1D);
      code.vector(compare_ps, x.mask(1), a, a, 3);
      code.vector(float_to_int, to, a);
      x.put(to, x.constant(0x7fffffffu), x.mask(0));
      return x.put(to, zero, x.mask(1));
    case DType::u32:
      return emit_to_unsigned(x, to, a, zero);
    default:
      return code.vector(move_ps, to, a);
  }
}

// Integers of 8 and 16 bits, from and to s32. In lanes zeros stand above them.
void emit_convert_short(BlockEmitter& x, const LoopInstruction& in) {
  const bool reads = is_short(in.input);
  const auto bits = 8 * static_cast<int>(dtype_size(reads ? in.input : in.result));
  const Vec a = x.in(in.a), to = x.out(in.out);
  if (reads && is_signed_integer(in.input)) {
    x.code.shift(left_digit, to, a, 32 - bits);
    return x.code.shift(right_arithmetic_digit, to, to, 32 - bits);
  }
  // Of lanes the low bytes are stored, or, without masks, what fits.
  if (reads || x.target.has_masks) return x.code.vector(move_ps, to, a);
  x.code.vector(and_d, to, a, x.constant((1u << bits) - 1));
}

void emit_convert(BlockEmitter& x, const LoopInstruction& in) {
  if (is_short(in.input) || is_short(in.result)) return emit_convert_short(x, in);
  LoopEncoder& code = x.code;
  if (in.input == DType::pred && in.result != DType::pred) {
    const Vec mask = x.mask_of_value(in.a);
    const uint32_t one = in.result == DType::f32 ? std::bit_cast<uint32_t>(1.0f) : 1u;
    return x.only(x.out(in.out), x.constant(one), mask);
  }
  const Vec a = x.in(in.a), to = x.out(in.out);
  if (in.input == DType::f32) return emit_from_float(x, in, to, a);
  if (in.input == DType::pred) return code.vector(move_ps, to, a);
  if (in.input == DType::f16) return x.read_halves(to, a);
  if (in.input == DType::bf16) {
    if (x.place().half == 1) return x.op(and_d, to, a, x.rounding(BlockEmitter::upper_word));
    return code.shift(left_digit, to, a, 16);
  }
  if (in.result == DType::pred) return x.nonzero(to, a);
  if (in.result == DType::f32 && in.input == DType::u32) return emit_from_unsigned(x, to, a);
  code.vector(in.result == DType::f32 ? int_to_float : move_ps, to, a);
}

// AVX2 has "equal" and, of signed numbers, "greater"; the rest are these turned around.
void emit_compare_whole(BlockEmitter& x, LoopOp op, bool is_signed, Vec to, Vec a, Vec b) {
  LoopEncoder& code = x.code;
  bool inverted = false;
  if (op == LoopOp::eq || op == LoopOp::ne) {
    code.vector(equal_d, to, a, b);
    inverted = op == LoopOp::ne;
  } else if (is_signed) {
    const bool b_is_greater = op == LoopOp::lt || op == LoopOp::ge;
    code.vector(greater_d, to, b_is_greater ? b : a, b_is_greater ? a : b);
    inverted = op == LoopOp::ge || op == LoopOp::le;
  } else {  // a >= b where a is the greater of both
    const bool at_least = op == LoopOp::ge || op == LoopOp::lt;
    code.vector(at_least ? max_ud : min_ud, to, a, b);
    code.vector(equal_d, to, to, a);
    inverted = op == LoopOp::lt || op == LoopOp::gt;
  }
  if (inverted) code.vector(xor_d, to, to, x.constant(kEveryBit));
}

void emit_compare_lanes(BlockEmitter& x, const LoopInstruction& in) {
  const Vec a = x.in(in.a);
  if (in.input == DType::f32) {
    const LoopSource b = x.source(in.b);
    return x.compare(x.out(in.out), a, b, compare_code(in.op, true));
  }
  const Vec b = x.in(in.b);
  emit_compare_whole(x, in.op, in.input == DType::s32, x.out(in.out), a, b);
}

void emit_compare(BlockEmitter& x, const LoopInstruction& in) {
  if (!x.target.has_masks) return emit_compare_lanes(x, in);
  const bool is_float = in.input == DType::f32;
  const Vec a = x.in(in.a);
  const LoopSource b = x.source(in.b);
  const VectorOp& op = is_float ? compare_ps : in.input == DType::s32 ? compare_d : compare_ud;
  const bool stays = x.stays_mask(in.out);
  const Vec mask = stays ? x.held_mask() : x.mask(0);
  x.op(op, mask, a, b, compare_code(in.op, is_float));
  if (stays)
    x.hold_mask(in.out);
  else
    x.code.vector(mask_to_vector, x.out(in.out), mask);
}

void emit_select(BlockEmitter& x, const LoopInstruction& in) {
  // Loaded whole: where a mask leaves out whole vectors nothing is fetched ahead, which takes twice
  // the time.
  const Vec other = x.in(in.c), chosen = x.in(in.b);
  const Vec mask = x.mask_of_value(in.a);
  x.blend(x.out(in.out), other, chosen, mask);
}

void emit_binary(BlockEmitter& x, LoopOp op, DType dtype, const LoopInstruction& in) {
  const VectorOp* simple = simple_op(op, dtype);
  if (simple == nullptr) {
    const Vec a = x.in(in.a), b = x.in(in.b);
    return emit_extreme(x, op == LoopOp::maximum, x.out(in.out), a, b);
  }
  LoopSource first = x.source(in.a);
  if (first.in_memory && commutes(op)) {
    const Vec b = x.in(in.b);
    const LoopSource a = x.source(in.a);
    return x.op(*simple, x.out(in.out), b, a);
  }
  const Vec a = x.in(in.a);
  const LoopSource b = x.source(in.b);
  x.op(*simple, x.out(in.out), a, b);
}

void emit_clamp(BlockEmitter& x, const LoopInstruction& in) {  // of low, x, high
  const Vec low = x.in(in.a), value = x.in(in.b), high = x.in(in.c), to = x.out(in.out);
  emit_combine(x, LoopOp::reduce_max, in.input, to, low, value);
  emit_combine(x, LoopOp::reduce_min, in.input, to, to, high);
}

bool has_convert(DType from, DType to) {
  const auto known = [](DType d) { return is_word(d) || d == DType::f32 || d == DType::pred; };
  if (known(from) && known(to)) return true;
  if (is_short(from) || is_short(to)) return from == DType::s32 || to == DType::s32;
  return (is_half_dtype(from) && to == DType::f32) || (from == DType::f32 && is_half_dtype(to));
}

bool has_float_op(LoopOp op) {
  switch (op) {
    case LoopOp::remainder:
    case LoopOp::power:
    case LoopOp::atan2:
    case LoopOp::sine:
    case LoopOp::cosine:
    case LoopOp::tan:
    case LoopOp::cbrt:
    case LoopOp::round_nearest_afz:
    case LoopOp::not_:
      return false;
    default:
      return op < LoopOp::and_ || is_compare(op);
  }
}

bool has_whole_op(LoopOp op) {
  switch (op) {
    case LoopOp::copy:
    case LoopOp::negate:
    case LoopOp::abs:
    case LoopOp::sign:
    case LoopOp::not_:
    case LoopOp::add:
    case LoopOp::subtract:
    case LoopOp::multiply:
    case LoopOp::maximum:
    case LoopOp::minimum:
      return true;
    default:
      return op >= LoopOp::and_ && op <= LoopOp::lt;
  }
}

bool has_pred_op(LoopOp op) {
  switch (op) {
    case LoopOp::copy:
    case LoopOp::not_:
    case LoopOp::add:
    case LoopOp::multiply:
    case LoopOp::maximum:
    case LoopOp::minimum:
    case LoopOp::and_:
    case LoopOp::or_:
    case LoopOp::xor_:
      return true;
    default:
      return is_compare(op);
  }
}

}  // namespace

bool is_code_dtype(DType dtype) {
  return dtype == DType::f32 || is_word(dtype) || dtype == DType::pred || is_half_dtype(dtype) ||
         is_narrow_loop_dtype(dtype);
}

bool has_code(const LoopInstruction& in) {
  if (in.kind == LoopInstruction::fold || in.kind == LoopInstruction::accumulate) {
    if (in.input == DType::f32) return in.op <= LoopOp::reduce_min;
    return is_word(in.input);
  }
  if (in.kind == LoopInstruction::store) return in.b >= 0 && is_code_dtype(in.result);
  if (in.kind != LoopInstruction::compute) return false;
  if (in.op == LoopOp::convert) return has_convert(in.input, in.result);
  if (in.op == LoopOp::select)
    return is_word(in.input) || in.input == DType::f32 || in.input == DType::pred;
  if (in.op == LoopOp::copy && is_narrow_loop_dtype(in.input)) return true;
  if (in.op == LoopOp::clamp) return is_word(in.input) || in.input == DType::f32;
  if (in.input == DType::f32) return has_float_op(in.op);
  if (is_word(in.input)) return has_whole_op(in.op);
  return in.input == DType::pred && has_pred_op(in.op);
}

void emit_combine(BlockEmitter& x, LoopOp reduce, DType dtype, Vec to, Vec a, Vec b) {
  const LoopOp op = combining_op(reduce);
  if (const VectorOp* simple = simple_op(op, dtype)) return x.code.vector(*simple, to, a, b);
  emit_extreme(x, op == LoopOp::maximum, to, a, b);
}

uint32_t identity_bits(LoopOp reduce, DType dtype) {
  const bool is_float = dtype == DType::f32, is_signed = dtype == DType::s32;
  switch (reduce) {
    case LoopOp::reduce_sum:
      return is_float ? kSignBit : 0;
    case LoopOp::reduce_product:
      return is_float ? std::bit_cast<uint32_t>(1.0f) : 1u;
    case LoopOp::reduce_max:
      return is_float ? 0xff800000u : is_signed ? kSignBit : 0;
    case LoopOp::reduce_min:
      return is_float ? 0x7f800000u : is_signed ? ~kSignBit : kEveryBit;
    case LoopOp::reduce_and:
      return kEveryBit;
    default:
      return 0;
  }
}

void emit_op(BlockEmitter& x, const LoopInstruction& in) {
  switch (in.op) {
    case LoopOp::convert:
      return emit_convert(x, in);
    case LoopOp::select:
      return emit_select(x, in);
    case LoopOp::clamp:
      return emit_clamp(x, in);
    case LoopOp::sign:
      return emit_sign(x, in);
    case LoopOp::round_to_bf16: {
      const Vec a = x.in(in.a), to = x.out(in.out);
      emit_round_to_bf16(x, to, a, x.reg(in.a));
      if (!x.target.has_masks) return x.op(and_d, to, to, x.rounding(BlockEmitter::upper_word));
      // Not "and": before a multiplication that takes up to 4 cycles longer on Zen 5.
      return x.code.vector(move_words, to, Vec{}, to, 0, {x.upper_halves().id, true});
    }
    case LoopOp::round_to_f16: {
      const Vec a = x.in(in.a), to = x.out(in.out);
      x.round_to_halves(to, a);
      return x.read_halves(to, to);
    }
    case LoopOp::exp:
    case LoopOp::expm1:
    case LoopOp::log:
    case LoopOp::log1p:
    case LoopOp::tanh:
    case LoopOp::erf:
    case LoopOp::rsqrt:
    case LoopOp::logistic: {
      const Vec a = x.in(in.a);
      return emit_math(x, in.op, x.out(in.out), a);
    }
    default:
      break;
  }
  if (is_compare(in.op)) return emit_compare(x, in);
  if (in.b >= 0) return emit_binary(x, in.op, in.input, in);
  emit_unary(x, in);
}

}  // namespace gspmd
