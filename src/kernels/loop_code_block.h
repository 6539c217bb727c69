#pragma once

// Registers of machine code for one vector of each value.

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/loop_code_passes.h"
#include "kernels/loop_code_target.h"

namespace gspmd {

// Where the second source of an instruction lies.
struct LoopSource {
  LoopSource() = default;
  LoopSource(Vec v) : vec(v) {}
  LoopSource(const MemoryOperand& m) : in_memory(true), memory(m) {}
  bool in_memory = false;
  Vec vec;
  MemoryOperand memory;
};

// Writes the instructions of items for one vector. Values are lanes: f32, s32 and u32 as they are,
// pred as all bits or none, 16-bit floats in the low half of 32 bits. Single elements stand in all
// lanes and come from a frame on the stack.
class BlockEmitter {
 public:
  // Of single elements, where each register's stands in the frame (-1: nowhere), and free places
  // of the frame for vectors.
  struct Frame {
    std::vector<int32_t> single;
    int32_t spill_begin = 0, spill_end = 0;
    int accumulators = 0;  // registers from the last downwards that belong to the pass
    int streams = 1;       // blocks that run in turn share what is left: registers, masks, places
    bool only_folds = false;  // no pass writes to memory
    bool rounds = false;      // the last registers hold the constants of rounding to bf16
    int32_t pairs = 0;        // places of a vector for each two blocks that are a pair
  };
  // How a wide register is found in memory: by a pointer in a general register or in the table.
  struct Pointers {
    std::vector<int> gpr;  // per register: -1 = load the pointer from the table each time
  };
  BlockEmitter(const LoopCodeTarget& target, LoopEncoder& code,
               const std::vector<LoopRegister>& registers, const Frame& frame,
               const Pointers& pointers)
      : target(target), code(code), registers_(registers), frame_(frame), pointers_(pointers) {}

  // `wide`: of the tile, `vector` vectors behind element rcx, with `tail` the lanes of the tail's
  // mask only, as many elements as are left; else of single elements.
  // Two blocks may share 16-bit elements: with `half` 0 lanes are the even ones of two vectors,
  // with 1 the odd ones. Then lanes of what is read are the words in which the elements lie, and
  // those of what is stored hold it in the half where it goes to.
  struct Place {
    bool wide = true, tail = false;
    int vector = 0, stream = 0;
    int half = -1;
  };
  void begin(const std::vector<LoopItem>& items, Place place);
  void end_item();  // of an item, in order: its temporaries are free, dead values too
  const Place& place() const { return place_; }
  bool failed() const { return failed_; }

  // For the item at hand.
  Vec in(int value);             // its lanes in a register
  LoopSource source(int value);  // or where one instruction can read them
  Vec temporary();
  void release(Vec temporary);  // is done with before its item
  Vec mask(int which);          // 0 or 1: a mask register or, where there are none, a temporary
  // A comparison that selects and conversions alone read stays in a mask register, until the next
  // one.
  bool stays_mask(int value) const;
  Vec mask_of_value(int value);  // of a pred
  void hold_mask(int value) { masked_ = value; }
  Vec held_mask() const { return stream_mask(masks_per_stream() - 1); }
  static constexpr Vec upper_halves() { return Vec{6}; }  // of lanes, a mask of 16-bit words
  Vec tail_mask() const;
  Gpr pointer();       // for one access
  Vec out(int value);  // a new register that holds it from now on
  void store(Vec lanes, int pointer_register, DType dtype);
  void store_single(Vec lanes, int value);  // into the frame
  const LoopRegister& reg(int value) const { return registers_[static_cast<size_t>(value)]; }

  void op(const VectorOp& o, Vec to, Vec a, const LoopSource& b, int immediate = 0,
          LoopEncoder::Masking masking = {});

  // What depends on how masks live, in loop_code_lanes.cpp. Of `only` and `put` memory is a
  // constant.
  void blend(Vec to, Vec a, const LoopSource& b, Vec mask);  // b where the mask is set, else a
  void only(Vec to, const LoopSource& a, Vec mask);          // else 0
  void put(Vec to, const LoopSource& a, Vec mask);           // else `to` stays
  void merge(const VectorOp& o, Vec to, Vec a, const LoopSource& b, Vec mask);  // else `to` stays
  // Lanes of a pred: of a comparison of floats, and whether a whole number is not 0.
  void compare(Vec to, Vec a, const LoopSource& b, int predicate);
  void nonzero(Vec to, Vec a);
  // Lanes of f32 of f16 in their low halves, and the nearest f16 of f32.
  void read_halves(Vec to, Vec halves);
  void round_to_halves(Vec to, Vec floats);
  // Of 4-byte elements; of a tail only its own.
  void load_lanes(Vec to, const MemoryOperand& from);
  MemoryOperand constant(uint32_t bits) { return code.constant(bits); }
  // Of rounding to bf16, in registers where a pass has them: two loads in a cycle are too few for
  // what rounding reads.
  enum Rounding : uint8_t { even_digit, odd_digit, upper_word };
  static constexpr std::array kRounding = {0x7fffu, 0x8000u, 0xffff0000u};
  LoopSource rounding(Rounding which);
  Vec rounding_register(Rounding which) const {
    return Vec{static_cast<uint8_t>(target.registers - 1 - which)};
  }
  MemoryOperand constant(float value);

  const LoopCodeTarget& target;
  LoopEncoder& code;

 private:
  struct Held {
    int value = -1;
    bool pinned = false;
  };
  int next_use(int value) const;
  // Of 1 to 5 and 7, which of a tail is the tail's, but then there is one stream, which uses three.
  // One is for the item at hand, of three two; the last is held.
  int masks_per_stream() const { return target.has_masks ? std::min(6 / frame_.streams, 3) : 0; }
  Vec stream_mask(int which) const {
    const int at = 1 + masks_per_stream() * place_.stream + which;
    return Vec{static_cast<uint8_t>(at == upper_halves().id ? 7 : at)};
  }
  Vec take(int value);
  void evict(size_t at);
  void load(Vec to, int value);
  size_t first_register() const;
  size_t register_count() const;
  bool is_in_memory(int value) const;
  MemoryOperand tile(int pointer_register, DType dtype);
  MemoryOperand read_tile(int pointer_register, DType dtype);  // what comes later is asked for
  void load_narrow(Vec to, const MemoryOperand& from);         // of 1 or 2 bytes, widened
  void store_narrow(Vec lanes, const MemoryOperand& to);
  void store_half(Vec lanes, const MemoryOperand& to);
  Vec packed(Vec lanes, int64_t size);
  MemoryOperand frame_place(int32_t offset) const;

  const std::vector<LoopRegister>& registers_;
  const Frame& frame_;
  const Pointers& pointers_;
  const std::vector<LoopItem>* items_ = nullptr;
  Place place_;
  int item_ = 0;
  int masked_ = -1;                      // whose lanes the held mask has
  std::array<int, 2> masks_ = {-1, -1};  // of the item at hand, without mask registers
  std::array<Held, 32> held_;
  std::vector<std::vector<int>> uses_;  // per register: items that read it
  std::vector<int> register_of_;        // -1: none
  std::vector<int32_t> spilled_;        // -1: not
  std::vector<bool> made_;              // computed in this block
  std::vector<int32_t> free_spills_;
  int32_t spill_top_ = 0, spill_end_ = 0;
  bool failed_ = false;
};

// The instructions of one op, in loop_code_ops.cpp.
void emit_op(BlockEmitter& block, const LoopInstruction& in);
// acc = acc op x, both of `dtype`.
void emit_combine(BlockEmitter& block, LoopOp reduce, DType dtype, Vec to, Vec a, Vec b);
// A lane with which nothing changes.
uint32_t identity_bits(LoopOp reduce, DType dtype);

}  // namespace gspmd
