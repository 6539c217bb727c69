#pragma once

// Ops that programs add to the table: rows of custom-calls, by their target. What users write is
// gspmd/api/custom_op.h.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/op.h"
#include "gspmd/kernels/prepared_kernel.h"

namespace gspmd {

// The aspects of OpInfo that such an op has, each called with a node of its target. All but `lower`
// and `flops` are there.
struct CustomOpRow {
  std::string target;                                 // custom_call_target
  std::function<Shape(const Node&)> infer;            // UserError as OpInfo::infer
  std::function<FactorRule(const Node&)> factors;     // its scalars start no sums
  std::function<Value(const EvalContext&)> evaluate;  // the reference kernel
  // By leaves, as OpInfo::leaf_gradient.
  std::function<std::vector<Node*>(Node&, const std::vector<Node*>&)> gradient;
  std::function<PreparedKernel(const Node&)> lower;  // empty: the reference kernel runs
  std::function<int64_t(const Node&)> flops;         // empty: 0
};

// Adds a row, for the rest of the process; from any thread. UserError: the target is taken, by an
// op of the library or another row.
GSPMD_API void add_custom_op(CustomOpRow row);
// nullptr: no row has the target.
GSPMD_API const CustomOpRow* find_custom_op(std::string_view target);
GSPMD_API std::vector<std::string> custom_op_names();  // sorted

// The text of a custom-call's backend_config, as it is printed and read; empty where it has none.
GSPMD_API std::string custom_config(const Node& custom_call);
// The inverse, for attributes of a call.
GSPMD_API void set_custom_config(Attributes& attrs, const std::string& text);

}  // namespace gspmd
