#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gspmd/ir/op.h"

namespace gspmd {

// One value of any element type, stored as an array stores it.
struct alignas(16) ScalarSlot {
  std::byte bytes[16] = {};
};

// A called computation on scalars (a comparator, a combiner) as a list of steps over slots, so that
// it can run millions of times without arrays and look-ups, on up to `lanes` sets of arguments at
// once. A computation that has other values than scalars runs through `call` instead: slower, the
// same numbers. Not reentrant: one object per thread. The computation and `call` have to outlive
// it.
class ScalarProgram {
 public:
  ScalarProgram(const Computation& computation, const CallComputation& call, size_t lanes = 1);
  // What `root`, a node of the computation, is; parameters that it does not read need no value.
  ScalarProgram(const Computation& computation, const Node& root, const CallComputation& call,
                size_t lanes = 1);

  size_t results() const { return result_sizes_.size(); }
  bool compiled() const { return callee_ == nullptr; }

  // The element that parameter i is.
  void set(size_t i, const std::byte* element) {
    copy(slots_[i * lanes_].bytes, element, sizes_[i]);
  }
  // The elements that parameter i is in the first `count` lanes, `step` bytes apart.
  void set_lanes(size_t i, const std::byte* first, int64_t step, size_t count);
  // Where they are, one after the other.
  std::byte* lanes(size_t i) { return slots_[i * lanes_].bytes; }
  void run(size_t count = 1);
  // One after the other, in lanes.
  const std::byte* result(size_t i) const { return slots_[result_slots_[i]].bytes; }
  void take(size_t i, std::byte* element) const { copy(element, result(i), result_sizes_[i]); }

  struct Step;
  // A node that runs as the op table evaluates it, on arrays of one element.
  struct TableStep {
    const Node* node;
    std::vector<size_t> operands;
  };
  struct Frame {
    ScalarSlot* slots;
    const TableStep* table;
    const CallComputation* call;
    size_t lanes;
  };
  using Function = void (*)(const Step& step, const Frame& frame);
  struct Step {
    Function run;
    // Slots: of the first lane, the others right behind as in an array; of a table step `a` is its
    // number.
    size_t out = 0, a = 0, b = 0, c = 0;
    double (*function)(double) = nullptr;  // of the ops that are one
  };

 private:
  class Compiler;
  static void copy(std::byte* to, const std::byte* from, size_t size);
  void compile(const Computation& computation, const Node& root);

  size_t lanes_;
  std::vector<ScalarSlot> slots_;  // `lanes_` of each value, parameters first
  std::vector<size_t> sizes_;      // of the parameters
  std::vector<size_t> result_slots_, result_sizes_;
  std::vector<Step> steps_;
  std::vector<TableStep> table_;
  const CallComputation* call_;
  const Computation* callee_ = nullptr;  // set when not compiled
};

inline void ScalarProgram::copy(std::byte* to, const std::byte* from, size_t size) {
  switch (size) {  // constant sizes are single moves
    case 1:
      std::memcpy(to, from, 1);
      break;
    case 2:
      std::memcpy(to, from, 2);
      break;
    case 4:
      std::memcpy(to, from, 4);
      break;
    case 8:
      std::memcpy(to, from, 8);
      break;
    case 16:
      std::memcpy(to, from, 16);
      break;
    default:
      break;
  }
}

// The step that computes a node whose operands are single values in slots; nullptr where there is
// none and the op table has to.
ScalarProgram::Function scalar_function(const Node& node);

}  // namespace gspmd
