#include "kernels/loop_widen.h"

namespace gspmd {
namespace {

LoopOp rounding_of(DType dtype) {
  return dtype == DType::bf16 ? LoopOp::round_to_bf16 : LoopOp::round_to_f16;
}

// Whether the result of an op on numbers of a 16-bit type is always one of them.
bool keeps_precision(LoopOp op) {
  switch (op) {
    case LoopOp::copy:
    case LoopOp::negate:
    case LoopOp::abs:
    case LoopOp::sign:
    case LoopOp::floor:
    case LoopOp::ceil:
    case LoopOp::round_nearest_afz:
    case LoopOp::round_nearest_even:
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
      if (is_output[v] && is_half_dtype(dtype))
        stored[v] = push_unary(LoopOp::convert, dtype, stored[v]);
      else if (is_output[v] && stored[v] + 1 != std::ssize(to_.values))
        stored[v] = push_unary(LoopOp::copy, dtype, stored[v]);
    }
    to_.outputs = from_.outputs;
    for (LoopOutput& output : to_.outputs) output.value = stored[static_cast<size_t>(output.value)];
    return std::move(to_);
  }

 private:
  // A value as f32 before it is rounded, and rounded: what the ops after it read.
  struct Wide {
    int exact, rounded;
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

  void add(LoopValue value) {
    const DType dtype = value.dtype;
    if (!is_half_dtype(dtype) && value.op != LoopOp::convert) {
      for (int* input : {&value.a, &value.b, &value.c}) *input = rounded(*input);
      const int index = push(std::move(value));
      wide_.push_back({index, index});
    } else if (value.op == LoopOp::convert) {
      add_convert(value);
    } else if (value.op == LoopOp::operand) {
      const int index = push_unary(LoopOp::convert, DType::f32, push(std::move(value)));
      wide_.push_back({index, index});
    } else {
      const bool exact = keeps_precision(value.op);
      for (int* input : {&value.a, &value.b, &value.c}) *input = rounded(*input);
      value.dtype = DType::f32;
      if (value.op == LoopOp::constant)
        value.constant = Array::full(Shape(DType::f32, {}), value.constant.at(0));
      const bool stays = exact || value.op == LoopOp::constant;
      add_rounded(push(std::move(value)), dtype, stays);
    }
  }

  void add_convert(const LoopValue& value) {
    const DType before = source(value.a).dtype;
    const DType operand = is_half_dtype(before) ? DType::f32 : before;
    const DType result = is_half_dtype(value.dtype) ? DType::f32 : value.dtype;
    int index = rounded(value.a);
    if (operand != result)
      index = push_unary(LoopOp::convert, result, index);
    else if (before == result && value.dtype == result)
      // What reads this may come behind a result that takes the place of an operand read here.
      index = push_unary(LoopOp::copy, result, index);
    const bool stays = !is_half_dtype(value.dtype) || before == value.dtype;
    add_rounded(index, value.dtype, stays);
  }

  void add_rounded(int index, DType dtype, bool stays) {
    wide_.push_back({index, stays ? index : push_unary(rounding_of(dtype), DType::f32, index)});
  }

  const LoopProgram& from_;
  LoopProgram to_;
  std::vector<Wide> wide_;  // of the values of `from_`
};

}  // namespace

bool is_half_dtype(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

std::optional<LoopProgram> widened(const LoopProgram& program) {
  for (const LoopValue& value : program.values)
    if (is_half_dtype(value.dtype)) return Widening(program).run();
  return std::nullopt;
}

}  // namespace gspmd
