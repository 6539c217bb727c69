#include "kernels/loop_widen.h"

#include "base/narrow.h"

namespace gspmd {
namespace {

LoopOp rounding_of(DType dtype) {
  return dtype == DType::bf16 ? LoopOp::round_to_bf16 : LoopOp::round_to_f16;
}

bool is_widened(DType dtype) { return is_half_dtype(dtype) || is_narrow_loop_dtype(dtype); }

DType computed_in(DType dtype) {
  if (!is_widened(dtype)) return dtype;
  return is_floating(dtype) ? DType::f32 : DType::s32;
}

int bits_of(DType dtype) {
  return is_narrow(dtype) ? narrow_bits(dtype) : 8 * static_cast<int>(dtype_size(dtype));
}
int32_t lowest(DType dtype) { return is_signed_integer(dtype) ? -(1 << (bits_of(dtype) - 1)) : 0; }
int32_t largest(DType dtype) {
  return (1 << (bits_of(dtype) - (is_signed_integer(dtype) ? 1 : 0))) - 1;
}

bool chooses(LoopOp op) {
  switch (op) {
    case LoopOp::copy:
    case LoopOp::maximum:
    case LoopOp::minimum:
    case LoopOp::select:
    case LoopOp::clamp:
    case LoopOp::reduce_max:
    case LoopOp::reduce_min:
      return true;
    default:
      return false;
  }
}

// Whether the result of an op on numbers of a widened type is always one of them.
bool keeps_precision(LoopOp op, DType dtype) {
  if (chooses(op)) return true;
  switch (op) {
    case LoopOp::abs:
      return is_floating(dtype) || is_unsigned_integer(dtype);
    case LoopOp::negate:
    case LoopOp::sign:
    case LoopOp::floor:
    case LoopOp::ceil:
    case LoopOp::round_nearest_afz:
    case LoopOp::round_nearest_even:
      return is_half_dtype(dtype);
    case LoopOp::and_:
    case LoopOp::or_:
    case LoopOp::xor_:
    case LoopOp::reduce_and:
    case LoopOp::reduce_or:
    case LoopOp::reduce_xor:
      return true;
    default:
      return false;
  }
}

class Widening {
 public:
  explicit Widening(const LoopProgram& from) : from_(from) {
    to_.dims = from.dims;
    to_.reduced = from.reduced;
  }

  LoopProgram run() {
    std::vector<bool> is_output(from_.values.size()), is_read(from_.values.size());
    for (const LoopOutput& output : from_.outputs)
      is_output[static_cast<size_t>(output.value)] = true;
    for (const LoopValue& value : from_.values)
      for (const int input : {value.a, value.b, value.c})
        if (input >= 0) is_read[static_cast<size_t>(input)] = true;
    std::vector<int> stored;  // of the values of `from_`: what outputs of them store
    for (size_t v = 0; v < from_.values.size(); ++v) {
      const DType dtype = from_.values[v].dtype;
      add(from_.values[v]);
      // What is rounded for others need not be rounded again.
      stored.push_back(is_read[v] ? wide_[v].rounded : wide_[v].exact);
      // At once: an output behind it may take the place of what it reads. And not before: this one
      // may take the place of what is read before it.
      if (is_output[v] && wide_[v].narrow >= 0)
        stored[v] = push_unary(LoopOp::copy, dtype, wide_[v].narrow);
      else if (is_output[v] && is_widened(dtype))
        stored[v] = push_unary(LoopOp::convert, dtype, stored[v]);
      else if (is_output[v] && stored[v] + 1 != std::ssize(to_.values))
        stored[v] = push_unary(LoopOp::copy, dtype, stored[v]);
    }
    to_.outputs = from_.outputs;
    for (LoopOutput& output : to_.outputs) output.value = stored[static_cast<size_t>(output.value)];
    return std::move(to_);
  }

 private:
  // A value before it is rounded, and rounded: what the ops after it read. Of a narrow type also as
  // it is stored, where it has been read so.
  struct Wide {
    int exact, rounded, narrow = -1;
  };

  int push(LoopValue value) {
    to_.values.push_back(std::move(value));
    return static_cast<int>(to_.values.size()) - 1;
  }
  int push_unary(LoopOp op, DType dtype, int a) {
    LoopValue value;
    value.op = op;
    value.dtype = dtype;
    value.a = a;
    return push(std::move(value));
  }
  const LoopValue& source(int value) const { return from_.values[static_cast<size_t>(value)]; }
  int rounded(int value) const {
    return value < 0 ? value : wide_[static_cast<size_t>(value)].rounded;
  }

  int push_binary(LoopOp op, int a, int b) {
    LoopValue value;
    value.op = op;
    value.dtype = source_of(a);
    value.a = a;
    value.b = b;
    return push(std::move(value));
  }
  DType source_of(int index) const { return to_.values[static_cast<size_t>(index)].dtype; }
  int push_number(DType dtype, int64_t number) {
    LoopValue value;
    value.op = LoopOp::constant;
    value.dtype = dtype;
    value.constant = Array::full(Shape(dtype, {}), static_cast<double>(number));
    return push(std::move(value));
  }
  int push_whole(int32_t number) { return push_number(DType::s32, number); }

  void add(LoopValue value) {
    const DType dtype = value.dtype;
    if (!is_widened(dtype) && value.op != LoopOp::convert) {
      read_rounded(value);
      const int index = push(std::move(value));
      wide_.push_back({index, index});
    } else if (value.op == LoopOp::convert) {
      add_convert(value);
    } else if (value.op == LoopOp::operand) {
      const int narrow = push(std::move(value));
      const int index = push_unary(LoopOp::convert, computed_in(dtype), narrow);
      wide_.push_back({index, index, is_half_dtype(dtype) ? -1 : narrow});
    } else {
      const bool is_copy = value.op == LoopOp::copy;
      // Of an operand alone: what a copy of one reads may lie there no more.
      const int narrow = is_copy && source(value.a).op == LoopOp::operand
                             ? wide_[static_cast<size_t>(value.a)].narrow
                             : -1;
      const bool exact = keeps_precision(value.op, dtype) || value.op == LoopOp::constant;
      read_rounded(value);
      value.dtype = computed_in(dtype);
      if (value.op == LoopOp::constant)
        value.constant = Array::full(Shape(value.dtype, {}), value.constant.at(0));
      if (reads_zeros_above(value.op)) value.a = extended(value.a, dtype, false);
      if (value.op == LoopOp::shift_right_arithmetic) value.a = extended(value.a, dtype, true);
      const bool counts_zeros = value.op == LoopOp::count_leading_zeros;
      int index = push(std::move(value));
      if (counts_zeros)
        index = push_binary(LoopOp::subtract, index, push_whole(32 - bits_of(dtype)));
      add_rounded(index, dtype, exact);
      wide_.back().narrow = narrow;
    }
  }

  static bool reads_zeros_above(LoopOp op) {
    return op == LoopOp::shift_right_logical || op == LoopOp::popcnt ||
           op == LoopOp::count_leading_zeros;
  }

  void read_rounded(LoopValue& value) const {
    for (int* input : {&value.a, &value.b, &value.c}) *input = rounded(*input);
  }

  void add_convert(const LoopValue& value) {
    const DType before = source(value.a).dtype;
    const DType operand = computed_in(before), result = computed_in(value.dtype);
    const bool is_narrow_integer = is_narrow_loop_dtype(value.dtype) && result == DType::s32;
    int index = rounded(value.a);
    if (operand != result) {
      const bool shortens = needs_shortening(operand, value.dtype);
      if (value.dtype == DType::bf16 && is_word(before)) index = shortened(index);
      index = push_unary(shortens ? LoopOp::shorten : LoopOp::convert, result, index);
    } else if (before == result && value.dtype == result) {
      // What reads this may come behind a result that takes the place of an operand read here.
      index = push_unary(LoopOp::copy, result, index);
    }
    if (is_narrow_integer && is_floating(operand)) {  // saturates
      index = push_binary(LoopOp::maximum, index, push_whole(lowest(value.dtype)));
      index = push_binary(LoopOp::minimum, index, push_whole(largest(value.dtype)));
      wide_.push_back({index, index});
      return;
    }
    add_rounded(index, value.dtype, !is_widened(value.dtype) || holds(value.dtype, before));
    if (before == value.dtype && is_integer(before))
      wide_.back().narrow = wide_[static_cast<size_t>(value.a)].narrow;
  }

  static bool is_word(DType dtype) { return dtype == DType::s32 || dtype == DType::u32; }

  // Whether f32 may round a number of type `from` before it is rounded to `to`; those of words that
  // become bf16 are shortened() instead. Whole numbers above f32's digits are infinite in f16.
  static bool needs_shortening(DType from, DType to) {
    if (to == DType::f16) return from == DType::f64;
    if (!is_widened(to) || !is_floating(to)) return false;
    return dtype_size(from) == 8 || (is_word(from) && to == DType::f8e8m0fnu);
  }

  // A word of at most 24 digits that rounds to bf16 as this one: the last is odd where one behind
  // it was. By whole numbers, since loops of words and f32 are machine code.
  int shortened(int index) {
    const DType dtype = source_of(index);
    const auto number = [&](int64_t n) { return push_number(dtype, n); };
    constexpr int64_t kCut = 255;
    const int low = push_binary(LoopOp::and_, index, number(kCut));
    const int carried = push_binary(LoopOp::add, low, number(kCut));
    const int odd = push_binary(LoopOp::and_, carried, number(kCut + 1));
    const int high = push_binary(LoopOp::subtract, index, low);
    const int cut = push_binary(LoopOp::or_, high, odd);
    const int size = dtype == DType::s32 ? push_unary(LoopOp::abs, dtype, index) : index;
    LoopValue chosen;
    chosen.a = push_binary(LoopOp::gt, size, number(1 << 24));
    to_.values.back().dtype = DType::pred;
    chosen.op = LoopOp::select;
    chosen.dtype = dtype;
    chosen.b = cut;
    chosen.c = index;
    return push(std::move(chosen));
  }

  // Whether all numbers of type `from` are numbers of `to`.
  static bool holds(DType to, DType from) {
    if (to == from) return !is_narrow(to) || is_integer(to);
    if (is_floating(to))
      return to == DType::bf16 && is_narrow_loop_dtype(from) && bits_of(from) <= 8;
    if (from == DType::pred) return bits_of(to) > 1 || is_unsigned_integer(to);
    return is_narrow_loop_dtype(from) && is_integer(from) && lowest(to) <= lowest(from) &&
           largest(to) >= largest(from);
  }

  // The low bits of a number of a narrow type, with the highest of them or zeros above.
  int extended(int index, DType dtype, bool is_signed) {
    if (!is_signed) return push_binary(LoopOp::and_, index, push_whole(mask_of(dtype)));
    const int distance = push_whole(32 - bits_of(dtype));
    index = push_binary(LoopOp::shift_left, index, distance);
    return push_binary(LoopOp::shift_right_arithmetic, index, distance);
  }
  static int32_t mask_of(DType dtype) { return (1 << bits_of(dtype)) - 1; }

  void add_rounded(int index, DType dtype, bool stays) {
    wide_.push_back({index, stays ? index : rounded_to(index, dtype)});
  }
  int rounded_to(int index, DType dtype) {
    if (is_half_dtype(dtype)) return push_unary(rounding_of(dtype), DType::f32, index);
    if (is_integer(dtype)) return extended(index, dtype, is_signed_integer(dtype));
    return push_unary(LoopOp::convert, DType::f32, push_unary(LoopOp::convert, dtype, index));
  }

  const LoopProgram& from_;
  LoopProgram to_;
  std::vector<Wide> wide_;  // of the values of `from_`
};

}  // namespace

bool is_half_dtype(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

bool is_narrow_loop_dtype(DType dtype) {
  return is_narrow(dtype) || (is_integer(dtype) && dtype_size(dtype) < 4);
}

std::optional<LoopProgram> widened(const LoopProgram& program) {
  for (const LoopValue& value : program.values)
    if (is_widened(value.dtype)) return Widening(program).run();
  return std::nullopt;
}

}  // namespace gspmd
