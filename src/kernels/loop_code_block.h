#pragma once

// Registers of machine code for one vector of each value.

#include <array>
#include <vector>

#include "kernels/loop_code_passes.h"
#include "kernels/loop_encoder.h"

namespace gspmd {

// Where the second source of an instruction lies.
struct LoopSource {
  bool in_memory = false;
  Zmm zmm;
  MemoryOperand memory;
};

// Writes the instructions of items for one vector. Values are lanes: f32, s32 and u32 as they are,
// pred as all bits or none, 16-bit floats in the low half of 32 bits. Single elements stand in all
// lanes and come from a frame on the stack, 4 bytes each.
class BlockEmitter {
 public:
  // Of single elements, where each register's stands in the frame (-1: nowhere), and free places
  // of the frame for 64-byte lanes.
  struct Frame {
    std::vector<int32_t> single;
    int32_t spill_begin = 0, spill_end = 0;
    int accumulators = 0;  // registers from 31 downwards that belong to the pass
    int streams = 1;       // blocks that run in turn share what is left: registers, masks, places
  };
  // How a wide register is found in memory: by a pointer in a general register or in the table.
  struct Pointers {
    std::vector<int> gpr;  // per register: -1 = load the pointer from the table each time
  };
  BlockEmitter(LoopEncoder& code, const std::vector<LoopRegister>& registers, const Frame& frame,
               const Pointers& pointers)
      : code(code), registers_(registers), frame_(frame), pointers_(pointers) {}

  // `wide`: of the tile, at element rcx + 16 * `vector`, with `tail` the lanes of mask 7 only; else
  // of single elements.
  struct Place {
    bool wide = true, tail = false;
    int vector = 0, stream = 0;
  };
  void begin(const std::vector<LoopItem>& items, Place place);
  void end_item();  // of an item, in order: its temporaries are free, dead values too
  const Place& place() const { return place_; }
  bool failed() const { return failed_; }

  // For the item at hand.
  Zmm in(int value);             // its lanes in a register
  LoopSource source(int value);  // or where one instruction can read them
  Zmm temporary();
  Zmm mask(int which) const { return Zmm{static_cast<uint8_t>(1 + 2 * place_.stream + which)}; }
  // A comparison that selects and conversions alone read stays a mask, until the next one.
  bool stays_mask(int value) const;
  Zmm mask_of_value(int value);  // of a pred, a mask register
  void hold_mask(int value) { masked_ = value; }
  Zmm held_mask() const { return Zmm{static_cast<uint8_t>(5 + place_.stream)}; }
  LaneMasking where(int which, bool zero = false) const { return {mask(which).id, zero}; }
  Gpr pointer() const { return place_.stream == 0 ? Gpr::rax : Gpr::r15; }  // for one access
  Zmm out(int value);  // a new register that holds it from now on
  void store(Zmm lanes, int pointer_register, DType dtype);
  void store_single(Zmm lanes, int value);  // into the frame
  const LoopRegister& reg(int value) const { return registers_[static_cast<size_t>(value)]; }

  void op(const VectorOp& o, Zmm to, Zmm a, const LoopSource& b, int immediate = 0,
          LoopEncoder::Masking masking = {});
  MemoryOperand constant(uint32_t bits) { return code.constant(bits); }
  MemoryOperand constant(float value);

  LoopEncoder& code;

 private:
  struct Held {
    int value = -1;
    bool pinned = false;
  };
  int next_use(int value) const;
  Zmm take(int value);
  void evict(size_t at);
  void load(Zmm to, int value);
  size_t first_register() const;
  size_t register_count() const;
  bool is_in_memory(int value) const;
  MemoryOperand tile(int pointer_register, DType dtype);
  MemoryOperand frame_place(int32_t offset) const;

  const std::vector<LoopRegister>& registers_;
  const Frame& frame_;
  const Pointers& pointers_;
  const std::vector<LoopItem>* items_ = nullptr;
  Place place_;
  int item_ = 0;
  int masked_ = -1;  // whose lanes the held mask has
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
void emit_combine(BlockEmitter& block, LoopOp reduce, DType dtype, Zmm to, Zmm a, Zmm b);
// A lane with which nothing changes.
uint32_t identity_bits(LoopOp reduce, DType dtype);

}  // namespace gspmd
