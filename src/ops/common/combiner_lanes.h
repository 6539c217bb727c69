#pragma once

#include <memory>
#include <vector>

#include "gspmd/ir/module.h"
#include "gspmd/kernels/prepared_kernel.h"
#include "ops/common/scalar_program.h"
#include "ops/evaluate/interpreter.h"

namespace gspmd {

// (sums..., values...) -> sums, a computation on scalars, as one loop over `lanes` of each:
// operands and results are its parameters and results. `run` is empty where loops lack one of its
// ops or types, or it calls others.
PreparedKernel prepare_combiner_loop(const Computation& combiner, int64_t lanes);

// Combines values with the sums of many results at once, lane by lane. Lanes begin as zeros.
class CombinerLanes {
 public:
  // `loop` of as many lanes or, where it is empty, the scalar program. Both have to outlive it.
  CombinerLanes(const Computation& combiner, const PreparedKernel& loop, size_t lanes);

  size_t inputs() const { return inputs_.size(); }         // arrays that are combined
  size_t size(size_t i) const { return inputs_[i].size; }  // bytes of an element of an input
  // --- Those of an input, one lane behind the other; sums move with every combine().
  std::byte* sums(size_t i) { return inputs_[i].sums.data(); }
  std::byte* values(size_t i) { return inputs_[i].values.data(); }
  // The sums of `count` lanes: one element for all.
  void fill(size_t i, const std::byte* element, size_t count);
  // The values of `count` lanes, each at its offset, in elements.
  void gather(size_t i, const std::byte* from, const std::vector<int64_t>& offsets, size_t count);

  void combine(size_t count);  // in the first lanes
  // Leaves the sums of `count` lanes as they were before combine().
  void take_back(size_t lane, size_t count);

 private:
  struct Input {
    size_t size = 0;
    std::vector<std::byte> sums, values, before;  // the last: sums before combine()
  };
  std::vector<Input> inputs_;
  const PreparedKernel& loop_;
  std::vector<std::byte> scratch_;
  Interpreter interpreter_;
  std::unique_ptr<ScalarProgram> program_;
};

}  // namespace gspmd
