// How lanes are chosen, read and written: with mask registers each in one instruction, else with
// masks that are vectors.
#include "kernels/loop_code_block.h"

namespace gspmd {

using namespace vector_op;

namespace {

constexpr uint32_t kAllBits = 0xffffffffu;

}  // namespace

void BlockEmitter::blend(Vec to, Vec a, const LoopSource& b, Vec mask) {
  if (target.has_masks) return op(blend_ps, to, a, b, 0, {mask.id, false});
  op(blend_mask, to, a, b, mask.id << 4);
}

void BlockEmitter::only(Vec to, const LoopSource& a, Vec mask) {
  if (!target.has_masks) return op(and_d, to, mask, a);
  op(a.in_memory ? broadcast_ss : move_ps, to, Vec{}, a, 0, {mask.id, true});
}

void BlockEmitter::put(Vec to, const LoopSource& a, Vec mask) {
  if (!target.has_masks) return blend(to, to, a, mask);
  op(a.in_memory ? broadcast_ss : move_ps, to, Vec{}, a, 0, {mask.id, false});
}

void BlockEmitter::merge(const VectorOp& o, Vec to, Vec a, const LoopSource& b, Vec mask) {
  if (target.has_masks) return op(o, to, a, b, 0, {mask.id, false});
  const Vec result = temporary();
  op(o, result, a, b);
  blend(to, to, result, mask);
}

LoopSource BlockEmitter::rounding(Rounding which) {
  if (frame_.rounds && place_.wide) return rounding_register(which);
  return constant(kRounding[which]);
}

void BlockEmitter::compare(Vec to, Vec a, const LoopSource& b, int predicate) {
  if (!target.has_masks) return op(compare_ps, to, a, b, predicate);
  op(compare_ps, mask(0), a, b, predicate);
  code.vector(mask_to_vector, to, mask(0));
}

void BlockEmitter::nonzero(Vec to, Vec a) {
  if (target.has_masks) {
    code.vector(test_d, mask(0), a, a);
    return code.vector(mask_to_vector, to, mask(0));
  }
  code.vector(equal_d, to, a, constant(0u));
  code.vector(xor_d, to, to, constant(kAllBits));
}

void BlockEmitter::load_lanes(Vec to, const MemoryOperand& from) {
  if (!place_.tail) return code.vector(load_ps, to, from);
  if (target.has_masks) return code.vector(load_ps, to, from, LaneMasking{tail_mask().id, true});
  code.vector(load_where, to, tail_mask(), from);
}

// The tail's elements one by one where no instruction takes a mask: none behind them is touched.
void BlockEmitter::load_narrow(Vec to, const MemoryOperand& from) {
  const VectorOp& widen = from.scale == 2 ? widen_words : widen_bytes;
  if (target.has_masks)
    return code.vector(
        widen, to, from,
        LaneMasking{static_cast<uint8_t>(place_.tail ? tail_mask().id : 0), place_.tail});
  if (!place_.tail) return code.vector(widen, to, from);
  MemoryOperand element = from;
  element.index = Gpr::rdx;
  element.disp -= from.scale;
  const auto next = code.new_label();
  code.vector(clear_128, to, to, to);
  code.move(Gpr::rdx, Gpr::rsi);
  code.bind(next);
  code.vector(shift_bytes, Vec{bytes_left_digit}, to, to, from.scale);
  code.vector(from.scale == 2 ? insert_word : insert_byte, to, to, element, 0);
  code.add(Gpr::rdx, -1);
  code.compare(Gpr::rdx, Gpr::rcx);
  code.jump(Jump::greater, next);
  code.vector(widen, to, to);
}

// The low bytes of lanes side by side; of eight lanes.
Vec BlockEmitter::packed(Vec lanes, int64_t size) {
  const Vec result = temporary();
  code.vector(upper_half, lanes, Vec{}, result, 1);
  code.vector(pack_words, result, lanes, result);
  if (size == 1) code.vector(pack_bytes, result, result, result);
  return result;
}

void BlockEmitter::read_halves(Vec to, Vec halves) {
  if (!target.has_masks) return code.vector(vector_op::half_to_float, to, packed(halves, 2));
  const Vec side_by_side = temporary();
  code.vector(narrow_to_words, halves, side_by_side);
  code.vector(vector_op::half_to_float, to, side_by_side);
}

void BlockEmitter::round_to_halves(Vec to, Vec floats) {
  constexpr int kNearestEven = 0;
  const Vec side_by_side = temporary();
  code.vector(vector_op::float_to_half, floats, Vec{}, side_by_side, kNearestEven);
  code.vector(widen_words, to, side_by_side);
}

void BlockEmitter::store_narrow(Vec lanes, const MemoryOperand& to) {
  if (target.has_masks)
    return code.vector(to.scale == 2 ? narrow_to_words : narrow_to_bytes, lanes, to,
                       LaneMasking{static_cast<uint8_t>(place_.tail ? tail_mask().id : 0), false});
  const Vec from = packed(lanes, to.scale);
  if (!place_.tail) return code.vector(to.scale == 2 ? store_128 : store_64, from, to);
  MemoryOperand element = to;
  element.index = Gpr::rdx;
  const auto next = code.new_label();
  code.move(Gpr::rdx, Gpr::rcx);
  code.bind(next);
  code.vector(to.scale == 2 ? extract_word : extract_byte, from, Vec{}, element, 0);
  code.vector(shift_bytes, Vec{bytes_right_digit}, from, from, to.scale);
  code.add(Gpr::rdx, 1);
  code.compare(Gpr::rdx, Gpr::rsi);
  code.jump(Jump::less, next);
}

// The even elements wait for the odd ones. Both halves have as many instructions, as they stand in
// turn, and an odd one comes behind the even one of its place.
void BlockEmitter::store_half(Vec lanes, const MemoryOperand& to) {
  const MemoryOperand even =
      frame_place(frame_.pairs + target.vector_bytes() * (place_.vector / 2));
  const Vec both = temporary();
  if (place_.half == 0) {
    code.vector(store_ps, lanes, even);
    return code.vector(move_ps, both, lanes);
  }
  constexpr int kEvenWords = 0x55;
  code.vector(blend_words, both, lanes, even, kEvenWords);
  code.vector(store_ps, both, to);
}

void BlockEmitter::store(Vec lanes, int pointer_register, DType dtype) {
  Vec from = lanes;
  if (dtype == DType::pred) {
    from = temporary();
    code.shift(right_digit, from, lanes, 31);
  }
  const MemoryOperand to = tile(pointer_register, dtype);
  if (place_.half >= 0) return store_half(from, to);
  if (dtype_size(dtype) != 4) return store_narrow(from, to);
  if (place_.tail && !target.has_masks) return code.vector(store_where, from, tail_mask(), to);
  code.vector(store_ps, from, to,
              LaneMasking{static_cast<uint8_t>(place_.tail ? tail_mask().id : 0), false});
}

void BlockEmitter::store_single(Vec lanes, int value) {
  const int32_t at = frame_.single[static_cast<size_t>(value)];
  failed_ |= at < 0;
  code.vector(target.single_bytes == 4 ? store_ss : store_ps, lanes, frame_place(at));
}

}  // namespace gspmd
