#pragma once

// Machine code of x86-64 with AVX-512 or AVX2, as bytes. Intel's manual, volume 2: 2.3 (VEX), 2.7
// (EVEX) and the pages of the instructions.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gspmd {

enum class Gpr : uint8_t {
  rax,
  rcx,
  rdx,
  rbx,
  rsp,
  rbp,
  rsi,
  rdi,
  r8,
  r9,
  r10,
  r11,
  r12,
  r13,
  r14,
  r15
};

// A vector register.
struct Vec {
  uint8_t id = 0;  // 0 to 31 of EVEX, to 15 of VEX; of a mask register 0 to 7
};

// How vector instructions are written: zmm of AVX-512 or ymm of AVX2.
enum class VectorForm : uint8_t { evex, vex };

// What stands in memory: base + index * scale + disp, or a place of the constants.
struct MemoryOperand {
  enum Kind : uint8_t { at_base, at_base_and_index, at_constant } kind = at_base;
  Gpr base = Gpr::rsp, index = Gpr::rcx;
  uint8_t scale = 1;       // 1, 2, 4, 8
  int32_t disp = 0;        // bytes; of at_constant: into the constants
  bool broadcast = false;  // one element of 32 bits for all lanes; EVEX only
};

// A vector instruction: prefix, opcode map, opcode, and what of the vector is used.
struct VectorOp {
  uint8_t map, prefix, opcode;  // map 1: 0F, 2: 0F38, 3: 0F3A; prefix 0: none, 1: 66, 2: F3, 3: F2
  bool has_immediate = false;
  bool w = false;
  uint8_t length = 2;  // 0: 128 bits, 1: 256, 2: the whole
};

namespace vector_op {
inline constexpr VectorOp add_ps{1, 0, 0x58}, mul_ps{1, 0, 0x59}, sub_ps{1, 0, 0x5C},
    min_ps{1, 0, 0x5D}, div_ps{1, 0, 0x5E}, max_ps{1, 0, 0x5F}, sqrt_ps{1, 0, 0x51};
inline constexpr VectorOp and_d{1, 1, 0xDB}, andnot_d{1, 1, 0xDF}, or_d{1, 1, 0xEB},
    xor_d{1, 1, 0xEF}, add_d{1, 1, 0xFE}, sub_d{1, 1, 0xFA}, mul_d{2, 1, 0x40};
inline constexpr VectorOp min_sd{2, 1, 0x39}, max_sd{2, 1, 0x3D}, min_ud{2, 1, 0x3B},
    max_ud{2, 1, 0x3F}, abs_d{2, 1, 0x1E};
inline constexpr VectorOp shift_left_vd{2, 1, 0x47}, shift_right_vd{2, 1, 0x45},
    shift_right_arithmetic_vd{2, 1, 0x46};
// a = a * b + c and so on, where a is the first operand, b the second, c the last.
inline constexpr VectorOp fmadd213_ps{2, 1, 0xA8}, fmadd231_ps{2, 1, 0xB8}, fmsub213_ps{2, 1, 0xAA},
    fmsub231_ps{2, 1, 0xBA}, fnmadd213_ps{2, 1, 0xAC}, fnmadd231_ps{2, 1, 0xBC};
inline constexpr VectorOp scalef_ps{2, 1, 0x2C}, round_ps{3, 1, 0x08, true};
inline constexpr VectorOp compare_ps{1, 0, 0xC2, true}, compare_d{3, 1, 0x1F, true},
    compare_ud{3, 1, 0x1E, true}, test_d{2, 1, 0x27};
inline constexpr VectorOp blend_ps{2, 1, 0x65}, ternary_d{3, 1, 0x25, true};
inline constexpr VectorOp mask_to_vector{2, 2, 0x38}, vector_to_mask{2, 2, 0x39};
inline constexpr VectorOp int_to_float{1, 0, 0x5B}, float_to_int{1, 2, 0x5B},
    uint_to_float{1, 3, 0x7A}, float_to_uint{1, 0, 0x78};
inline constexpr VectorOp shuffle_quarters{3, 1, 0x23, true}, permute_ps{3, 1, 0x04, true};
inline constexpr VectorOp load_ps{1, 0, 0x10}, store_ps{1, 0, 0x11}, stream_ps{1, 0, 0x2B},
    move_ps{1, 0, 0x28};
inline constexpr VectorOp broadcast_ss{2, 1, 0x18}, broadcast_gpr{2, 1, 0x7C};
inline constexpr VectorOp store_ss{1, 2, 0x11, false, false, 0};
inline constexpr VectorOp widen_bytes{2, 1, 0x31}, narrow_to_bytes{2, 2, 0x31},
    widen_words{2, 1, 0x33}, narrow_to_words{2, 2, 0x33};
inline constexpr VectorOp move_words{1, 3, 0x6F, false, true};
inline constexpr VectorOp half_to_float{2, 1, 0x13}, float_to_half{3, 1, 0x1D, true};
// By a count in the instruction: `digit` is a part of the opcode.
inline constexpr VectorOp shift_d{1, 1, 0x72, true};
inline constexpr uint8_t left_digit = 6, right_digit = 2, right_arithmetic_digit = 4;

// Of VEX only. Masks are vectors of all bits or none; of blend_mask the immediate is one << 4.
inline constexpr VectorOp blend_mask{3, 1, 0x4A, true}, load_where{2, 1, 0x2C},
    store_where{2, 1, 0x2E}, blend_words{3, 1, 0x0E, true}, equal_d{1, 1, 0x76},
    greater_d{1, 1, 0x66};
inline constexpr VectorOp swap_halves{3, 1, 0x06, true}, upper_half{3, 1, 0x19, true};
inline constexpr VectorOp broadcast_d{2, 1, 0x58}, from_gpr{1, 1, 0x6E, false, false, 0};
// Of 128 bits: what is narrower than a lane, packed.
inline constexpr VectorOp pack_words{2, 1, 0x2B, false, false, 0},
    pack_bytes{1, 1, 0x67, false, false, 0}, store_128{1, 0, 0x11, false, false, 0},
    store_64{1, 1, 0xD6, false, false, 0}, clear_128{1, 1, 0xEF, false, false, 0};
inline constexpr VectorOp insert_byte{3, 1, 0x20, true, false, 0},
    insert_word{1, 1, 0xC4, true, false, 0}, extract_byte{3, 1, 0x14, true, false, 0},
    extract_word{3, 1, 0x15, true, false, 0}, shift_bytes{1, 1, 0x73, true, false, 0};
inline constexpr uint8_t bytes_left_digit = 7, bytes_right_digit = 3;
}  // namespace vector_op

enum class Jump : uint8_t {
  below = 2,
  above_or_equal = 3,
  equal = 4,
  not_equal = 5,
  above = 7,
  less = 12,
  greater_or_equal = 13,
  less_or_equal = 14,
  greater = 15
};

// Lanes of that mask register only; others stay or, with `zero`, become 0. Mask 0: all lanes.
struct LaneMasking {
  uint8_t mask = 0;
  bool zero = false;
};

// Writes instructions one after another, then the constants behind them.
class LoopEncoder {
 public:
  using Masking = LaneMasking;
  explicit LoopEncoder(VectorForm form = VectorForm::evex) : form_(form) {}

  // Vector instructions: result, first source, second source.
  void vector(const VectorOp& op, Vec to, Vec a, Vec b, int immediate = 0, Masking masking = {});
  void vector(const VectorOp& op, Vec to, Vec a, const MemoryOperand& b, int immediate = 0,
              Masking masking = {});
  // With one source: `to` is the register operand, also of a store.
  void vector(const VectorOp& op, Vec to, Vec a) { vector(op, to, Vec{}, a); }
  void vector(const VectorOp& op, Vec to, const MemoryOperand& b, Masking masking = {}) {
    vector(op, to, Vec{}, b, 0, masking);
  }
  void shift(uint8_t digit, Vec to, Vec a, int count);

  void prefetch(const MemoryOperand& m);        // into the nearest cache
  void load(Gpr to, Gpr base, int32_t disp);    // 64 bits
  void store(Gpr base, int32_t disp, Gpr a);    // 64 bits
  void store32(Gpr base, int32_t disp, Gpr a);  // 32 bits
  void load32(Gpr to, Gpr base, int32_t disp);
  void load16(Gpr to, Gpr base, int32_t disp);  // with zeros above
  void load8(Gpr to, Gpr base, int32_t disp);
  void store16(Gpr base, int32_t disp, Gpr a);
  void store8(Gpr base, int32_t disp, Gpr a);
  void negate32(Gpr a);        // carry: whether it was not 0
  void spread_carry32(Gpr a);  // -1 with carry, else 0
  void and32(Gpr a, int8_t with);
  void move(Gpr to, Gpr from);
  void move_constant(Gpr to, int32_t value);
  void clear(Gpr a);
  void add(Gpr a, int32_t value);
  void add(Gpr a, Gpr b);
  void subtract(Gpr a, Gpr b);
  void compare(Gpr a, Gpr b);
  void compare(Gpr a, int32_t value);
  void align_stack();                          // to 64 bytes, downwards
  void low_bits(Gpr to, Gpr from, Gpr count);  // the lowest `count` bits
  void shift_right(Gpr a, uint8_t count);
  void mask_from(uint8_t mask, Gpr a);       // 16 lanes
  void word_mask_from(uint8_t mask, Gpr a);  // 32 words
  void push(Gpr a);
  void pop(Gpr a);
  void zero_upper();
  void return_();

  using Label = size_t;
  Label new_label();
  void bind(Label label);
  void jump(Label label);
  void jump(Jump when, Label label);

  // Places of constants, equal ones once: one element for all lanes, which of VEX stands there as
  // often as there are lanes, and lanes of which VEX takes the first eight.
  MemoryOperand constant(uint32_t bits);
  MemoryOperand constant(const std::array<uint32_t, 16>& bits);

  size_t size() const { return bytes_.size(); }
  // Vector instructions and loads from `begin` on.
  size_t count_from(size_t begin) const;

  // Streams of vector instructions (and loads of pointers) without jumps that do not depend on each
  // other, one behind the other from `begins` on to the end: puts them in turn, instruction by
  // instruction, so that the processor has work while one of them waits.
  void interleave(const std::vector<size_t>& begins);
  // Jumps and constants put in; nothing may be written after it.
  std::vector<uint8_t> finish();

 private:
  void byte(unsigned value) { bytes_.push_back(static_cast<uint8_t>(value)); }
  void word(int64_t value);
  void prefix(const VectorOp& op, Vec to, Vec a, unsigned high_x, unsigned high_b, bool broadcast,
              Masking masking);
  void evex(const VectorOp& op, unsigned reg, unsigned vvvv, unsigned high_x, unsigned high_b,
            bool broadcast, Masking masking);
  void vex(const VectorOp& op, unsigned reg, unsigned vvvv, unsigned high_x, unsigned high_b);
  MemoryOperand constants(const uint32_t* begin, const uint32_t* end);
  void memory(unsigned reg, const MemoryOperand& m, int32_t unit, int after);
  void rex(bool wide, unsigned reg, unsigned base);
  void plain(unsigned opcode, unsigned reg, Gpr base, int32_t disp, bool wide);
  void pair(unsigned opcode, unsigned reg, Gpr rm, bool wide);

  const VectorForm form_;
  std::vector<uint8_t> bytes_;
  std::vector<size_t> starts_;   // of vector instructions and loads
  std::vector<int64_t> labels_;  // -1: not bound
  struct Reference {
    size_t at;     // of the 32 bits
    int64_t what;  // label, or offset into the constants
    int after;     // bytes of the instruction behind the 32 bits
  };
  std::vector<Reference> jumps_, constant_uses_;
  std::vector<uint32_t> constants_;
};

}  // namespace gspmd
