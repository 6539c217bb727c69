#include "kernels/loop_once.h"

#include <cstring>

namespace gspmd {

bool LoopOnce::add(Register::Kind kind, int value, int64_t index, int64_t bytes) {
  if (count_ == kMostRegisters || value >= kMostRegisters) return false;
  registers_[count_++] = {kind, static_cast<int16_t>(value), static_cast<int32_t>(index), bytes};
  return true;
}

bool LoopOnce::add_stream(const LoopStream& stream, int value) {
  const auto kind = stream.kind == LoopStream::operand  ? Register::operand
                    : stream.kind == LoopStream::output ? Register::result
                                                        : Register::fixed;
  return add(kind, value, stream.index, stream.offset * stream.element_size);
}

// As a frame of the whole loop sets them.
bool LoopOnce::set_registers(const LoopPlan& plan) {
  bool fits = plan.registers <= kMostRegisters;
  for (const LoopPlan::Slot& slot : plan.slots)
    fits = fits && add(Register::scratch, slot.value, 0, slot.offset);
  for (const auto& [value, constant] : plan.constants)
    fits =
        fits && add(Register::fixed, value, 0, reinterpret_cast<int64_t>(constant.bytes().data()));
  for (const auto& [value, stream] : plan.fixed)
    fits = fits && add_stream(plan.streams[static_cast<size_t>(stream)], value);
  for (const LoopPlan::Pointer& p : plan.pointers)
    fits = fits && add_stream(plan.streams[static_cast<size_t>(p.stream)], p.value);
  return fits;
}

bool LoopOnce::add_call(const LoopPlan& plan, const LoopInstruction& in, int64_t n,
                        int& next_register) {
  if (calls_count_ == kMostCalls) return false;
  Call& call = calls_[calls_count_++];
  call.n = in.wide ? n : 1;
  const auto take = [&](int out, int a, int b, int c) {
    call.out = static_cast<int16_t>(out);
    call.a = static_cast<int16_t>(a);
    call.b = static_cast<int16_t>(b);
    call.c = static_cast<int16_t>(c);
  };
  if (in.kind == LoopInstruction::code) {
    call.code = in.code_function;
    call.n = n;
    return true;
  }
  if (in.kind == LoopInstruction::compute) {
    call.function = in.function;
    call.scalars = in.scalars;
    take(in.out, in.a, in.b, in.c);
    return true;
  }
  if (in.kind != LoopInstruction::store) return false;
  const LoopStream& stream = plan.streams[static_cast<size_t>(in.out)];
  const int64_t elements = stream.inner == 0 ? 1 : n;
  if (stream.access == LoopStream::gather || (in.scalars != 0 && elements != 1)) return false;
  call.n = elements * stream.element_size;
  take(next_register, in.a, -1, -1);
  return add_stream(stream, next_register++);
}

std::optional<LoopOnce> LoopOnce::of(const LoopPlan& plan) {
  const bool is_one_tile = plan.kept_count == 1 && plan.reduced_count == 1 && plan.tiles == 1 &&
                           plan.parts == 1 && plan.blocks == 0 && !plan.by_rows &&
                           plan.folds.empty() && plan.post.empty();
  LoopOnce once;
  if (!is_one_tile || !once.set_registers(plan)) return std::nullopt;
  int next_register = static_cast<int>(plan.registers);
  for (const LoopInstruction& in : plan.prologue)
    if (!once.add_call(plan, in, 1, next_register)) return std::nullopt;
  for (const LoopInstruction& in : plan.body)
    if (!once.add_call(plan, in, std::min(plan.tile, plan.inner), next_register))
      return std::nullopt;
  return once;
}

void LoopOnce::run(const KernelArgs& args) const {
  std::byte* room[kMostRegisters + 1];
  room[0] = nullptr;  // of an absent input, register -1
  std::byte** const registers = room + 1;
  for (int i = 0; i < count_; ++i) {
    const Register& r = registers_[i];
    std::byte*& at = registers[r.value];
    if (r.kind == Register::operand)
      at = const_cast<std::byte*>(args.operands[r.index]) + r.bytes;
    else if (r.kind == Register::result)
      at = args.results[r.index] + r.bytes;
    else if (r.kind == Register::scratch)
      at = args.scratch + r.bytes;
    else
      at = reinterpret_cast<std::byte*>(r.bytes);
  }
  for (int i = 0; i < calls_count_; ++i) {
    const Call& call = calls_[i];
    if (call.code != nullptr) {
      call.code(registers, call.n);
      continue;
    }
    std::byte* const out = registers[call.out];
    if (call.function != nullptr)
      call.function(out, registers[call.a], registers[call.b], registers[call.c], call.n,
                    call.scalars);
    else if (out != registers[call.a])
      std::memmove(out, registers[call.a], static_cast<size_t>(call.n));
  }
}

}  // namespace gspmd
