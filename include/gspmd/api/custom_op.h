#pragma once

// Ops of one's own: what a program registers goes through every pass as the library's ops do, and
// is printed and read as a custom-call.
//
//   register_op({.name = "my.scaled_relu",
//                .infer = [](const auto& operands, const auto&) { return std::vector{operands[0]};
//                }, .loops = [](const auto&, const auto&) { return CustomLoops{"bi,i->bi"}; },
//                .reference = scaled_relu_on_arrays,
//                .gradient = scaled_relu_gradient});
//   Tensor y = custom_call("my.scaled_relu", {x, scale})[0];     // in a traced function
//
// expect_custom_op (gspmd/testing.h) checks what was registered.

#include <functional>
#include <string>
#include <vector>

#include "gspmd/api/operand.h"
#include "gspmd/base/array.h"
#include "gspmd/base/export.h"
#include "gspmd/kernels/prepared_kernel.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

// The loops of an op as letters: one for each dim, operands and results apart by commas:
// "bi,ij->bj". Dims with one letter are split together, over any mesh.
struct CustomLoops {
  std::string nest;        // "bi,i->bi"; the empty string: every dim has to be whole
  std::string whole = {};  // letters of the loops that one device has to run whole: those of a sort
  // How parts join along a loop that no result has: the op on all of it is this of the op on its
  // parts. Parts that are cut unevenly are filled up with what changes nothing: 0 for a sum. A loop
  // of which that is not true has to be whole.
  Combiner combiner = Combiner::sum;
};

// What kernels and counts are asked for: shapes of whole arrays, or of the parts on one device.
struct CustomShapes {
  std::vector<Shape> operands, results;  // in order
  std::string config;                    // of the call
};

// What a gradient is made of.
struct CustomCotangents {
  std::vector<Tensor> operands, results;  // of the call, in order
  std::vector<Tensor> cotangents;         // of its results, of their shapes
  std::string config;                     // of the call
};

// An op. `config` is the call's own text (its backend_config): numbers and flags, no sizes, for an
// op meets the shapes of its parts. Functions are called from any thread.
struct CustomOp {
  std::string name;  // "mine.topk_gate": the custom_call_target
  // The results' shapes. UserError, thrown by user_error(): operands that do not fit.
  std::function<std::vector<Shape>(const std::vector<Shape>& operands, const std::string& config)>
      infer = {};
  // Without: every dim has to be whole.
  std::function<CustomLoops(const std::vector<Shape>& operands, const std::string& config)> loops =
      {};
  // The results on whole arrays, by plain loops: what every program is checked against.
  std::function<std::vector<Array>(const std::vector<Array>& operands, const std::string& config)>
      reference = {};
  // A fast kernel for these shapes, prepared when a program is compiled. Without, or where its
  // `run` is empty: the reference.
  std::function<PreparedKernel(const CustomShapes& shapes)> kernel = {};
  // Cotangents of the operands, of their shapes, by any functions on tensors; Tensor() where none
  // flows. Without: an error where it is differentiated.
  std::function<std::vector<Tensor>(const CustomCotangents& given)> gradient = {};
  std::function<int64_t(const CustomShapes& shapes)> flops = {};  // for costs; without: 0
};

// Makes an op known for the rest of the process, to traces and to modules that are read. UserError:
// no name, no `infer` or `reference`, a name that is taken.
GSPMD_API void register_op(CustomOp op, Site site = Site::here());

// How an op is called.
struct CustomCallOptions {
  std::string config = {};  // what its functions get
};
// A registered op on tensors: its results. UserError: no op of that name; what its `infer` says;
// loops that do not fit the shapes.
GSPMD_API std::vector<Tensor> custom_call(const std::string& name,
                                          const std::vector<Tensor>& operands,
                                          const CustomCallOptions& options = {},
                                          Site site = Site::here());

}  // namespace gspmd
