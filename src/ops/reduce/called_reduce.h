#pragma once

#include "gspmd/ir/module.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// A reduce by any computation, of any number of inputs, many results at once: each puts its
// elements together one after the other, in the order of the evaluator.
class CalledReduce {
 public:
  explicit CalledReduce(const Node& reduce);

  int64_t results() const { return count_; }  // elements of each result
  // Elements `first` to `last` of all results, from the operands.
  void run(const KernelArgs& args, int64_t first, int64_t last) const;

 private:
  int64_t offset_of(int64_t result) const;  // of the first element that it puts together

  const Node& node_;
  PreparedKernel loop_;  // of the combiner
  int64_t count_ = 1;
  Dims kept_, kept_strides_, reduced_, reduced_strides_;  // in elements of an input
};

// Of what a reduce of any operands runs; `run` is empty where it has no elements.
PreparedKernel prepare_called_reduce(const Node& reduce);

// Of one that looks for the place of an extreme along a dim (argmax and argmin, as frameworks write
// them); `run` is empty where it does not.
PreparedKernel prepare_extreme_place(const Node& reduce);

}  // namespace gspmd
