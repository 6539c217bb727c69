#include "kernels/loop_code_block.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace gspmd {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

}  // namespace

void BlockEmitter::begin(const std::vector<LoopItem>& items, Place place) {
  items_ = &items;
  place_ = place;
  item_ = 0;
  masked_ = -1;
  masks_ = {-1, -1};
  held_ = {};
  uses_.assign(registers_.size(), {});
  register_of_.assign(registers_.size(), -1);
  spilled_.assign(registers_.size(), -1);
  made_.assign(registers_.size(), false);
  free_spills_.clear();
  const int32_t places =
      (frame_.spill_end - frame_.spill_begin) / target.vector_bytes() / frame_.streams;
  spill_top_ = frame_.spill_begin + target.vector_bytes() * places * place.stream;
  spill_end_ = spill_top_ + target.vector_bytes() * places;
  for (size_t i = 0; i < items.size(); ++i) {
    const LoopItem& item = items[i];
    const auto use = [&](int value) {
      if (value >= 0) uses_[static_cast<size_t>(value)].push_back(static_cast<int>(i));
    };
    if (item.kind == LoopItem::keep || item.kind == LoopItem::store) {
      use(item.value);
    } else if (item.kind != LoopItem::iota) {
      for (const int value : {item.in->a, item.in->b, item.in->c}) use(value);
    }
  }
}

int BlockEmitter::next_use(int value) const {
  for (const int at : uses_[static_cast<size_t>(value)])
    if (at > item_) return at;
  return kNever;
}

void BlockEmitter::end_item() {
  for (Held& held : held_) {
    held.pinned = false;
    if (held.value < 0 || next_use(held.value) != kNever) continue;
    register_of_[static_cast<size_t>(held.value)] = -1;
    held.value = -1;
  }
  for (int32_t& at : spilled_) {
    if (at < 0 || next_use(static_cast<int>(&at - spilled_.data())) != kNever) continue;
    free_spills_.push_back(at);
    at = -1;
  }
  masks_ = {-1, -1};
  ++item_;
}

bool BlockEmitter::stays_mask(int value) const {
  const std::vector<int>& uses = uses_[static_cast<size_t>(value)];
  if (masks_per_stream() < 2 || !place_.wide || uses.empty()) return false;
  for (int at = item_ + 1; at <= uses.back(); ++at) {
    const LoopItem& item = (*items_)[static_cast<size_t>(at)];
    const bool reads = std::find(uses.begin(), uses.end(), at) != uses.end();
    if (item.kind == LoopItem::compute && item.in->op >= LoopOp::eq && item.in->op <= LoopOp::lt)
      return false;
    if (!reads) continue;
    const bool as_mask =
        item.kind == LoopItem::compute &&
        ((item.in->op == LoopOp::select && item.in->b != value && item.in->c != value) ||
         (item.in->op == LoopOp::convert && item.in->result != DType::pred));
    if (!as_mask) return false;
  }
  return true;
}

Vec BlockEmitter::mask(int which) {
  if (target.has_masks) {
    failed_ |= which > 0 && masks_per_stream() < 3;
    return stream_mask(which);
  }
  int& at = masks_[static_cast<size_t>(which)];
  if (at < 0) at = temporary().id;
  return Vec{static_cast<uint8_t>(at)};
}

Vec BlockEmitter::tail_mask() const {
  return Vec{
      static_cast<uint8_t>(target.has_masks ? 7 : target.registers - frame_.accumulators - 1)};
}

Vec BlockEmitter::mask_of_value(int value) {
  if (!target.has_masks) return in(value);
  if (masked_ == value) return held_mask();
  const bool in_tile = register_of_[static_cast<size_t>(value)] < 0 && place_.wide &&
                       reg(value).wide && !made_[static_cast<size_t>(value)];
  if (in_tile && next_use(value) == kNever) {  // read once: straight into the mask
    const Vec bytes = temporary();
    load_narrow(bytes, tile(value, DType::pred));
    code.vector(vector_op::test_d, mask(0), bytes, bytes);
  } else {
    code.vector(vector_op::vector_to_mask, mask(0), in(value));
  }
  return mask(0);
}

MemoryOperand BlockEmitter::frame_place(int32_t offset) const {
  MemoryOperand m;
  m.base = Gpr::rsp;
  m.disp = offset;
  return m;
}

bool BlockEmitter::is_in_memory(int value) const {
  return !made_[static_cast<size_t>(value)] || spilled_[static_cast<size_t>(value)] >= 0;
}

void BlockEmitter::evict(size_t at) {
  const int value = held_[at].value;
  if (!is_in_memory(value)) {
    int32_t& place = spilled_[static_cast<size_t>(value)];
    if (!free_spills_.empty()) {
      place = free_spills_.back();
      free_spills_.pop_back();
    } else {
      place = spill_top_;
      spill_top_ += target.vector_bytes();
      failed_ |= spill_top_ > spill_end_;
    }
    code.vector(vector_op::store_ps, Vec{static_cast<uint8_t>(at)}, frame_place(place));
  }
  register_of_[static_cast<size_t>(value)] = -1;
  held_[at].value = -1;
}

size_t BlockEmitter::register_count() const {
  const int of_mask = place_.tail && !target.has_masks ? 1 : 0;
  return static_cast<size_t>((target.registers - frame_.accumulators - of_mask) / frame_.streams);
}
size_t BlockEmitter::first_register() const {
  return register_count() * static_cast<size_t>(place_.stream);
}

Vec BlockEmitter::take(int value) {
  const size_t end = first_register() + register_count();
  size_t best = end;
  int latest = -1;
  for (size_t i = first_register(); i < end; ++i) {
    if (held_[i].pinned) continue;
    if (held_[i].value < 0) {
      best = i;
      break;
    }
    const int next = next_use(held_[i].value);
    if (next > latest) {
      latest = next;
      best = i;
    }
  }
  if (best == end) {
    failed_ = true;
    return Vec{0};
  }
  if (held_[best].value >= 0) evict(best);
  held_[best] = {value, true};
  if (value >= 0) register_of_[static_cast<size_t>(value)] = static_cast<int>(best);
  return Vec{static_cast<uint8_t>(best)};
}

Gpr BlockEmitter::pointer() {
  constexpr std::array free = {Gpr::rax, Gpr::r15};
  failed_ |= place_.stream >= std::ssize(free);
  return free[static_cast<size_t>(place_.stream) % free.size()];
}

Vec BlockEmitter::temporary() { return take(-1); }

void BlockEmitter::release(Vec temporary) {
  if (held_[temporary.id].value >= 0) return;
  held_[temporary.id].pinned = false;
}
Vec BlockEmitter::out(int value) {
  made_[static_cast<size_t>(value)] = true;
  return take(value);
}

MemoryOperand BlockEmitter::constant(float value) {
  return code.constant(std::bit_cast<uint32_t>(value));
}

MemoryOperand BlockEmitter::tile(int pointer_register, DType dtype) {
  MemoryOperand m;
  m.kind = MemoryOperand::at_base_and_index;
  const int gpr = pointers_.gpr[static_cast<size_t>(pointer_register)];
  m.base = gpr >= 0 ? static_cast<Gpr>(gpr) : pointer();
  if (gpr < 0) code.load(m.base, Gpr::rdi, 8 * pointer_register);
  const auto size = static_cast<int32_t>(dtype_size(dtype));
  m.scale = static_cast<uint8_t>(size);
  m.disp = target.lanes * size * (place_.half < 0 ? place_.vector : place_.vector & ~1);
  return m;
}

// Where nothing is written the processor's own fetching ahead, which ends with every page, is what
// a pass over more than the caches hold waits for.
MemoryOperand BlockEmitter::read_tile(int pointer_register, DType dtype) {
  constexpr int32_t kLine = 64, kAhead = 4096;
  const MemoryOperand m = tile(pointer_register, dtype);
  if (frame_.only_folds && !place_.tail && m.disp % kLine == 0) {
    MemoryOperand later = m;
    later.disp += kAhead;
    code.prefetch(later);
  }
  return m;
}

void BlockEmitter::load(Vec to, int value) {
  const LoopRegister& r = reg(value);
  if (spilled_[static_cast<size_t>(value)] >= 0) {
    code.vector(vector_op::load_ps, to, frame_place(spilled_[static_cast<size_t>(value)]));
  } else if (r.kind == LoopRegister::constant) {
    code.vector(vector_op::broadcast_ss, to, code.constant(r.bits));
  } else if (!r.wide || !place_.wide) {
    const int32_t at = frame_.single[static_cast<size_t>(value)];
    failed_ |= at < 0;
    code.vector(vector_op::broadcast_ss, to, frame_place(at));
  } else {
    const MemoryOperand from = read_tile(value, r.dtype);
    if (dtype_size(r.dtype) == 4 || place_.half >= 0)
      load_lanes(to, from);
    else
      load_narrow(to, from);
    if (r.dtype == DType::pred) nonzero(to, to);
  }
}

Vec BlockEmitter::in(int value) {
  const int at = register_of_[static_cast<size_t>(value)];
  if (at >= 0) {
    held_[static_cast<size_t>(at)].pinned = true;
    return Vec{static_cast<uint8_t>(at)};
  }
  const Vec to = take(value);
  load(to, value);
  return to;
}

LoopSource BlockEmitter::source(int value) {
  const LoopRegister& r = reg(value);
  LoopSource s;
  s.in_memory = register_of_[static_cast<size_t>(value)] < 0;
  const bool once = next_use(value) == kNever;
  if (!s.in_memory) {
    s.vec = in(value);
  } else if (spilled_[static_cast<size_t>(value)] >= 0) {
    s.memory = frame_place(spilled_[static_cast<size_t>(value)]);
  } else if (r.kind == LoopRegister::constant) {
    s.memory = code.constant(r.bits);
  } else if (!r.wide || !place_.wide) {
    const int32_t at = frame_.single[static_cast<size_t>(value)];
    failed_ |= at < 0;
    s.memory = frame_place(at);
    s.memory.broadcast = target.single_bytes == 4;
  } else if (once && !place_.tail && dtype_size(r.dtype) == 4) {
    s.memory = read_tile(value, r.dtype);
  } else {
    s.in_memory = false;
    s.vec = in(value);
  }
  return s;
}

void BlockEmitter::op(const VectorOp& o, Vec to, Vec a, const LoopSource& b, int immediate,
                      LoopEncoder::Masking masking) {
  if (b.in_memory)
    code.vector(o, to, a, b.memory, immediate, masking);
  else
    code.vector(o, to, a, b.vec, immediate, masking);
}

}  // namespace gspmd
