#include "kernels/loop_code_rounding.h"

#include <bit>

#include "kernels/loop_code_passes.h"

namespace gspmd {
namespace {

constexpr uint32_t kExponent = 0x7f800000u, kFraction = 0x007fffffu;

class Marking {
 public:
  Marking(const LoopCodeTarget& target, const LoopPlan& plan, std::vector<LoopRegister>& registers)
      : target_(target), plan_(plan), registers_(registers) {}

  void run() {
    for (LoopRegister& r : registers_)
      if (r.kind == LoopRegister::constant && r.dtype == DType::f32)
        r.is_bf16 = r.short_nan = (r.bits & 0xffffu) == 0;
    for (const LoopInstruction& in : plan_.prologue)
      if (in.kind == LoopInstruction::compute && is_rounded(in)) mark(in);
    for (const auto* list : {&plan_.body, &plan_.post})
      for (const LoopInstruction& in : *list)
        if (in.kind != LoopInstruction::store && has_code(in)) mark(in);
  }

 private:
  LoopRegister& reg(int v) { return registers_[static_cast<size_t>(v)]; }

  // What functions of the interpreter give too.
  static bool is_rounded(const LoopInstruction& in) {
    return in.op == LoopOp::round_to_bf16 || (in.op == LoopOp::convert && in.input == DType::bf16);
  }

  // Lanes are as they are, or a choice among them.
  struct Facts {
    bool is_bf16, short_nan;
  };
  Facts all_of(std::initializer_list<int> values) {
    Facts f{true, true};
    for (const int v : values) {
      if (v < 0) continue;
      f.is_bf16 &= reg(v).is_bf16;
      f.short_nan &= reg(v).short_nan;
    }
    return f;
  }
  // NaN is made of the bits of both; of AVX2, for a maximum, of all bits.
  Facts extreme(std::initializer_list<int> values, bool has_maximum) {
    const Facts f = all_of(values);
    return {f.is_bf16, f.is_bf16 && f.short_nan && (target_.has_masks || !has_maximum)};
  }
  // Twice, four times, ... as much; a smaller factor may give a subnormal number with too many
  // bits.
  bool is_scale(int v) {
    const LoopRegister& r = reg(v);
    return r.kind == LoopRegister::constant && (r.bits & kFraction) == 0 &&
           (r.bits & kExponent) >= std::bit_cast<uint32_t>(1.0f) &&
           (r.bits & kExponent) != kExponent;
  }

  Facts facts_of(const LoopInstruction& in) {
    const Facts f = all_of({in.a, in.b, in.c});
    switch (in.op) {
      case LoopOp::round_to_bf16:
        return {true, true};
      case LoopOp::convert:
        if (in.input == DType::bf16 || in.input == DType::pred) return {true, true};
        if (in.input == DType::f16) return {false, false};  // its NaNs have more bits
        return in.input == DType::f32 ? f : Facts{false, true};
      case LoopOp::copy:
      case LoopOp::negate:
      case LoopOp::abs:
      case LoopOp::floor:
      case LoopOp::ceil:
      case LoopOp::round_nearest_even:
        return f;
      case LoopOp::select:
        return all_of({in.b, in.c});
      case LoopOp::sign:
        return {true, f.short_nan};
      case LoopOp::maximum:
      case LoopOp::minimum:
      case LoopOp::clamp:
        return extreme({in.a, in.b, in.c}, in.op != LoopOp::minimum);
      case LoopOp::multiply:
        return {f.is_bf16 && (is_scale(in.a) || is_scale(in.b)), f.short_nan};
      default:  // a NaN is that of an operand or the one of the processor, whose low bits are 0
        return {false, f.short_nan};
    }
  }

  Facts fold_facts(const LoopInstruction& in) {
    int init = -1;
    for (const LoopPlan::Fold& fold : plan_.folds)
      if (fold.value == in.out) init = fold.init;
    if (in.op == LoopOp::reduce_max || in.op == LoopOp::reduce_min)
      return extreme({in.a, init}, in.op == LoopOp::reduce_max);
    return {false, all_of({in.a, init}).short_nan};
  }

  void mark(const LoopInstruction& in) {
    LoopRegister& out = reg(in.out);
    if (out.dtype != DType::f32) return;
    const Facts f = in.kind == LoopInstruction::compute ? facts_of(in) : fold_facts(in);
    out.is_bf16 = f.is_bf16;
    out.short_nan = f.short_nan;
  }

  const LoopCodeTarget& target_;
  const LoopPlan& plan_;
  std::vector<LoopRegister>& registers_;
};

}  // namespace

void mark_bf16(const LoopCodeTarget& target, const LoopPlan& plan,
               std::vector<LoopRegister>& registers) {
  Marking(target, plan, registers).run();
}

}  // namespace gspmd
