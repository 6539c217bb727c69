#include "kernels/loop_encoder.h"

#include <algorithm>

#include "gspmd/base/error.h"

namespace gspmd {
namespace {

unsigned id(Gpr r) { return static_cast<unsigned>(r); }

bool is_same(const VectorOp& a, const VectorOp& b) {
  return a.map == b.map && a.prefix == b.prefix && a.opcode == b.opcode;
}

// Bytes by which a short displacement counts: what the instruction reads or writes.
int32_t unit_of(const VectorOp& op, bool broadcast) {
  if (broadcast) return 4;
  const auto is = [&](const VectorOp& other) { return is_same(op, other); };
  if (is(vector_op::broadcast_ss) || is(vector_op::store_ss)) return 4;
  if (is(vector_op::widen_bytes) || is(vector_op::narrow_to_bytes)) return 16;
  if (is(vector_op::widen_words) || is(vector_op::narrow_to_words) ||
      is(vector_op::half_to_float) || is(vector_op::float_to_half))
    return 32;
  return 64;
}

}  // namespace

void LoopEncoder::word(int64_t value) {
  for (int i = 0; i < 4; ++i) byte(static_cast<unsigned>(value >> (8 * i)) & 0xffu);
}

void LoopEncoder::evex(const VectorOp& op, unsigned reg, unsigned vvvv, unsigned high_x,
                       unsigned high_b, bool broadcast, Masking masking) {
  byte(0x62);
  byte(((~reg >> 3) & 1u) << 7 | (~high_x & 1u) << 6 | (~high_b & 1u) << 5 |
       ((~reg >> 4) & 1u) << 4 | op.map);
  byte((op.w ? 0x80u : 0u) | (~vvvv & 15u) << 3 | 4u | op.prefix);
  byte((masking.zero ? 0x80u : 0u) | unsigned{op.length} << 5 | (broadcast ? 0x10u : 0u) |
       ((~vvvv >> 4) & 1u) << 3 | masking.mask);
  byte(op.opcode);
}

void LoopEncoder::vex(const VectorOp& op, unsigned reg, unsigned vvvv, unsigned high_x,
                      unsigned high_b) {
  const unsigned high_r = (~reg >> 3) & 1u;
  const unsigned rest = (~vvvv & 15u) << 3 | (op.length == 0 ? 0u : 4u) | op.prefix;
  if (op.map == 1 && !op.w && ((high_x | high_b) & 1u) == 0) {
    byte(0xC5);
    byte(high_r << 7 | rest);
  } else {
    byte(0xC4);
    byte(high_r << 7 | (~high_x & 1u) << 6 | (~high_b & 1u) << 5 | op.map);
    byte((op.w ? 0x80u : 0u) | rest);
  }
  byte(op.opcode);
}

// ModRM, SIB and displacement. `after`: bytes of the instruction behind them.
void LoopEncoder::memory(unsigned reg, const MemoryOperand& m, int32_t unit, int after) {
  const unsigned field = (reg & 7u) << 3;
  if (m.kind == MemoryOperand::at_constant) {
    byte(field | 5u);
    constant_uses_.push_back({bytes_.size(), m.disp, after});
    word(0);
    return;
  }
  const bool is_short =
      unit > 0 && m.disp % unit == 0 && m.disp / unit >= -128 && m.disp / unit < 128;
  const unsigned mod = is_short ? 0x40u : 0x80u;
  if (m.kind == MemoryOperand::at_base_and_index) {
    byte(mod | field | 4u);
    const unsigned scale = m.scale == 8 ? 3 : m.scale == 4 ? 2 : m.scale == 2 ? 1 : 0;
    byte(scale << 6 | (id(m.index) & 7u) << 3 | (id(m.base) & 7u));
  } else if ((id(m.base) & 7u) == 4) {
    byte(mod | field | 4u);
    byte(0x24);
  } else {
    byte(mod | field | (id(m.base) & 7u));
  }
  if (is_short)
    byte(static_cast<unsigned>(m.disp / unit) & 0xffu);
  else
    word(m.disp);
}

void LoopEncoder::prefix(const VectorOp& op, Vec to, Vec a, unsigned high_x, unsigned high_b,
                         bool broadcast, Masking masking) {
  starts_.push_back(bytes_.size());
  if (form_ == VectorForm::evex) return evex(op, to.id, a.id, high_x, high_b, broadcast, masking);
  if (masking.mask != 0 || broadcast)
    internal_error("loop encoder: VEX has no masks and broadcasts");
  vex(op, to.id, a.id, high_x, high_b);
}

void LoopEncoder::vector(const VectorOp& op, Vec to, Vec a, Vec b, int immediate, Masking masking) {
  prefix(op, to, a, b.id >> 4, b.id >> 3, false, masking);
  byte(0xC0u | (to.id & 7u) << 3 | (b.id & 7u));
  if (op.has_immediate) byte(static_cast<unsigned>(immediate));
}

void LoopEncoder::vector(const VectorOp& op, Vec to, Vec a, const MemoryOperand& b, int immediate,
                         Masking masking) {
  const bool indexed = b.kind == MemoryOperand::at_base_and_index;
  const unsigned base = b.kind == MemoryOperand::at_constant ? 0 : id(b.base) >> 3;
  const unsigned index = indexed ? id(b.index) >> 3 : 0;
  // broadcast_ss broadcasts by itself.
  const bool broadcast = b.broadcast && !is_same(op, vector_op::broadcast_ss);
  prefix(op, to, a, index, base, broadcast, masking);
  const int32_t unit = form_ == VectorForm::vex ? 1 : unit_of(op, broadcast);
  memory(to.id, b, unit, op.has_immediate ? 1 : 0);
  if (op.has_immediate) byte(static_cast<unsigned>(immediate));
}

void LoopEncoder::shift(uint8_t digit, Vec to, Vec a, int count) {
  vector(vector_op::shift_d, Vec{digit}, to, a, count);
}

void LoopEncoder::rex(bool wide, unsigned reg, unsigned base) {
  const unsigned prefix = 0x40u | (wide ? 8u : 0u) | (reg >> 3) << 2 | base >> 3;
  if (prefix != 0x40u) byte(prefix);
}

void LoopEncoder::plain(unsigned opcode, unsigned reg, Gpr base, int32_t disp, bool wide) {
  starts_.push_back(bytes_.size());
  rex(wide, reg, id(base));
  if (opcode > 0xff) byte(opcode >> 8);
  byte(opcode & 0xffu);
  MemoryOperand m;
  m.base = base;
  m.disp = disp;
  memory(reg, m, 1, 0);
}

void LoopEncoder::prefetch(const MemoryOperand& m) {
  starts_.push_back(bytes_.size());
  const bool indexed = m.kind == MemoryOperand::at_base_and_index;
  const unsigned high = (indexed ? (id(m.index) >> 3) << 1 : 0) | id(m.base) >> 3;
  if (high != 0) byte(0x40u | high);
  byte(0x0F);
  byte(0x18);
  memory(1, m, 1, 0);
}

void LoopEncoder::pair(unsigned opcode, unsigned reg, Gpr rm, bool wide) {
  rex(wide, reg, id(rm));
  byte(opcode);
  byte(0xC0u | (reg & 7u) << 3 | (id(rm) & 7u));
}

void LoopEncoder::load(Gpr to, Gpr base, int32_t disp) { plain(0x8B, id(to), base, disp, true); }
void LoopEncoder::load32(Gpr to, Gpr base, int32_t disp) { plain(0x8B, id(to), base, disp, false); }
void LoopEncoder::load16(Gpr to, Gpr base, int32_t disp) {
  plain(0x0FB7, id(to), base, disp, false);
}
void LoopEncoder::load8(Gpr to, Gpr base, int32_t disp) {
  plain(0x0FB6, id(to), base, disp, false);
}
void LoopEncoder::store(Gpr base, int32_t disp, Gpr a) { plain(0x89, id(a), base, disp, true); }
void LoopEncoder::store32(Gpr base, int32_t disp, Gpr a) { plain(0x89, id(a), base, disp, false); }
void LoopEncoder::store16(Gpr base, int32_t disp, Gpr a) {
  byte(0x66);
  plain(0x89, id(a), base, disp, false);
}
void LoopEncoder::store8(Gpr base, int32_t disp, Gpr a) {
  plain(0x88, id(a), base, disp, false);  // of rax, rcx, rdx, rbx and r8 to r15
}
void LoopEncoder::negate32(Gpr a) { pair(0xF7, 3, a, false); }
void LoopEncoder::spread_carry32(Gpr a) { pair(0x19, id(a), a, false); }
void LoopEncoder::and32(Gpr a, int8_t with) {
  pair(0x83, 4, a, false);
  byte(static_cast<uint8_t>(with));
}
void LoopEncoder::move(Gpr to, Gpr from) { pair(0x89, id(from), to, true); }
void LoopEncoder::move_constant(Gpr to, int32_t value) {
  pair(0xC7, 0, to, true);
  word(value);
}
void LoopEncoder::clear(Gpr a) { pair(0x31, id(a), a, false); }
void LoopEncoder::add(Gpr a, int32_t value) {
  pair(0x81, 0, a, true);
  word(value);
}
void LoopEncoder::add(Gpr a, Gpr b) { pair(0x01, id(b), a, true); }
void LoopEncoder::subtract(Gpr a, Gpr b) { pair(0x29, id(b), a, true); }
void LoopEncoder::compare(Gpr a, Gpr b) { pair(0x39, id(b), a, true); }
void LoopEncoder::compare(Gpr a, int32_t value) {
  pair(0x81, 7, a, true);
  word(value);
}
void LoopEncoder::align_stack() {
  pair(0x83, 4, Gpr::rsp, true);
  byte(0xC0);
}

// VEX.LZ.0F38.W1 F5 /r.
void LoopEncoder::low_bits(Gpr to, Gpr from, Gpr count) {
  byte(0xC4);
  byte(((~id(to) >> 3) & 1u) << 7 | 0x40u | ((~id(from) >> 3) & 1u) << 5 | 2u);
  byte(0x80u | (~id(count) & 15u) << 3);
  byte(0xF5);
  byte(0xC0u | (id(to) & 7u) << 3 | (id(from) & 7u));
}

void LoopEncoder::shift_right(Gpr a, uint8_t count) {
  pair(0xC1, 5, a, true);
  byte(count);
}

// VEX.L0.0F.W0 92 /r.
void LoopEncoder::mask_from(uint8_t mask, Gpr a) {
  byte(0xC4);
  byte(0xC0u | ((~id(a) >> 3) & 1u) << 5 | 1u);
  byte(0x78);
  byte(0x92);
  byte(0xC0u | unsigned{mask} << 3 | (id(a) & 7u));
}

// VEX.L0.F2.0F.W0 92 /r.
void LoopEncoder::word_mask_from(uint8_t mask, Gpr a) {
  byte(0xC4);
  byte(0xC0u | ((~id(a) >> 3) & 1u) << 5 | 1u);
  byte(0x7B);
  byte(0x92);
  byte(0xC0u | unsigned{mask} << 3 | (id(a) & 7u));
}

void LoopEncoder::push(Gpr a) {
  if (id(a) > 7) byte(0x41);
  byte(0x50u | (id(a) & 7u));
}
void LoopEncoder::pop(Gpr a) {
  if (id(a) > 7) byte(0x41);
  byte(0x58u | (id(a) & 7u));
}
void LoopEncoder::zero_upper() {
  for (const unsigned b : {0xC5u, 0xF8u, 0x77u}) byte(b);
}
void LoopEncoder::return_() { byte(0xC3); }

LoopEncoder::Label LoopEncoder::new_label() {
  labels_.push_back(-1);
  return labels_.size() - 1;
}
void LoopEncoder::bind(Label label) { labels_[label] = static_cast<int64_t>(bytes_.size()); }
void LoopEncoder::jump(Label label) {
  byte(0xE9);
  jumps_.push_back({bytes_.size(), static_cast<int64_t>(label), 0});
  word(0);
}
void LoopEncoder::jump(Jump when, Label label) {
  byte(0x0F);
  byte(0x80u | static_cast<unsigned>(when));
  jumps_.push_back({bytes_.size(), static_cast<int64_t>(label), 0});
  word(0);
}

MemoryOperand LoopEncoder::constants(const uint32_t* begin, const uint32_t* end) {
  auto found = std::search(constants_.begin(), constants_.end(), begin, end);
  if (found == constants_.end()) found = constants_.insert(found, begin, end);
  MemoryOperand m;
  m.kind = MemoryOperand::at_constant;
  m.disp = static_cast<int32_t>(found - constants_.begin()) * 4;
  return m;
}

MemoryOperand LoopEncoder::constant(uint32_t bits) {
  std::array<uint32_t, 8> lanes;
  lanes.fill(bits);
  const bool repeats = form_ == VectorForm::vex;
  MemoryOperand m = constants(lanes.data(), lanes.data() + (repeats ? lanes.size() : 1));
  m.broadcast = !repeats;
  return m;
}

MemoryOperand LoopEncoder::constant(const std::array<uint32_t, 16>& bits) {
  return constants(bits.data(), bits.data() + (form_ == VectorForm::vex ? 8 : bits.size()));
}

size_t LoopEncoder::count_from(size_t begin) const {
  return static_cast<size_t>(starts_.end() -
                             std::lower_bound(starts_.begin(), starts_.end(), begin));
}

void LoopEncoder::interleave(const std::vector<size_t>& begins) {
  if (begins.size() < 2) return;
  struct Piece {
    size_t begin, end;
    double turn;  // how far on in its stream
  };
  std::vector<Piece> pieces;
  for (size_t s = 0; s < begins.size(); ++s) {
    const size_t end = s + 1 < begins.size() ? begins[s + 1] : bytes_.size();
    const auto from = std::lower_bound(starts_.begin(), starts_.end(), begins[s]);
    const auto to = std::lower_bound(from, starts_.end(), end);
    for (auto at = from; at != to; ++at)
      pieces.push_back({*at, at + 1 == to ? end : *(at + 1),
                        static_cast<double>(at - from) / static_cast<double>(to - from)});
  }
  std::vector<Piece> order = pieces;
  std::stable_sort(order.begin(), order.end(),
                   [](const Piece& a, const Piece& b) { return a.turn < b.turn; });
  const std::vector<uint8_t> old(bytes_.begin() + static_cast<std::ptrdiff_t>(begins[0]),
                                 bytes_.end());
  std::vector<std::pair<size_t, size_t>> moved;  // begin of a piece, to where
  bytes_.resize(begins[0]);
  starts_.erase(std::lower_bound(starts_.begin(), starts_.end(), begins[0]), starts_.end());
  for (const Piece& piece : order) {
    moved.emplace_back(piece.begin, bytes_.size());
    starts_.push_back(bytes_.size());
    const auto from = old.begin() + static_cast<std::ptrdiff_t>(piece.begin - begins[0]);
    bytes_.insert(bytes_.end(), from, from + static_cast<std::ptrdiff_t>(piece.end - piece.begin));
  }
  std::sort(moved.begin(), moved.end());
  for (size_t i = constant_uses_.size(); i-- > 0 && constant_uses_[i].at >= begins[0];) {
    const auto next = std::upper_bound(moved.begin(), moved.end(),
                                       std::pair{constant_uses_[i].at, bytes_.size()});
    constant_uses_[i].at = constant_uses_[i].at - (next - 1)->first + (next - 1)->second;
  }
}

std::vector<uint8_t> LoopEncoder::finish() {
  const auto fill = [&](size_t at, int64_t value) {
    for (size_t i = 0; i < 4; ++i)
      bytes_[at + i] = static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i));
  };
  for (const Reference& r : jumps_) {
    fill(r.at, labels_[static_cast<size_t>(r.what)] - static_cast<int64_t>(r.at + 4));
  }
  while (bytes_.size() % 64 != 0) byte(0xCC);
  const auto pool = static_cast<int64_t>(bytes_.size());
  for (const uint32_t bits : constants_) word(bits);
  for (const Reference& r : constant_uses_)
    fill(r.at, pool + r.what - static_cast<int64_t>(r.at) - 4 - r.after);
  return std::move(bytes_);
}

}  // namespace gspmd
