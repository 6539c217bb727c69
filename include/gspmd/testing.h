#pragma once

// Expectations about traced and compiled functions, for tests in any framework.

#include <string>
#include <utility>
#include <vector>

#include "gspmd/api/compile.h"
#include "gspmd/api/custom_op.h"
#include "gspmd/base/export.h"

namespace gspmd {

// The answer of an expectation: true, or false with a readable difference. Works with any test
// framework: REQUIRE(expect_...), with `message` for the log.
struct [[nodiscard]] Expectation {
  bool holds = true;                                // true: as expected
  std::string message;                              // the difference; empty where it holds
  explicit operator bool() const { return holds; }  // holds
};

// Collectives of one kind over the same axes.
struct ExpectedCollective {
  std::string kind;   // "all-gather"
  std::string axes;   // "model", "data,model"; "*": any
  int64_t count = 1;  // with loop trip counts
};

// Whether a program's collectives, before combining, are exactly these (counts of equal kind and
// axes added up; order does not matter).
GSPMD_API Expectation expect_collectives(const ExecutableBase& executable,
                                         const std::vector<ExpectedCollective>& expected);
GSPMD_API Expectation expect_collectives(const CompiledModule& module, const Mesh& mesh,
                                         const std::vector<ExpectedCollective>& expected);

// How far numbers may be apart.
struct Tolerance {
  double relative = 1e-5;  // of the expected number
  double absolute = 1e-6;  // in the unit of the numbers
};
// Leaf by leaf, |a - b| <= absolute + relative * |b|; NaN equals NaN. `what` starts the message.
GSPMD_API Expectation expect_close(const std::vector<Array>& actual,
                                   const std::vector<Array>& expected, const Tolerance& tolerance,
                                   const std::string& what = "values");

// The traced program run by the reference interpreter on host arrays; one with manual regions as
// copies of it, a device each, that exchange values in the regions and where these end.
GSPMD_API std::vector<Array> run_reference(const Traced& traced,
                                           const std::vector<Array>& arguments);
// Whether that run is exact: only integer-preserving operations on integers that their dtype holds,
// so that the results are the same bits on every mesh. UserError as run_reference.
GSPMD_API bool is_exact(const Traced& traced, const std::vector<Array>& arguments);

namespace detail {
template <class... Args>
std::vector<Array> argument_leaves(const Args&... args) {
  std::vector<Array> leaves;
  (for_each_leaf(args, [&](const std::string&, const Array& leaf) { leaves.push_back(leaf); }),
   ...);
  return leaves;
}
}  // namespace detail

// Oracle values of fn(args...): the leaves of its result.
template <class Fn, class... Args>
std::vector<Array> reference_results(Fn fn, const Args&... args) {
  return run_reference(trace(fn, args...), detail::argument_leaves(args...));
}

// Compiles `make_fn(mesh)` for every mesh and compares its results on `args` with those of the
// first mesh's function on the reference interpreter. The message names the mesh, the leaf and the
// numbers.
template <class MakeFn, class... Args>
Expectation expect_equal_on_meshes(MakeFn make_fn, const std::vector<Mesh>& meshes,
                                   const Tolerance& tolerance, const Args&... args) {
  std::vector<Array> expected;
  for (const Mesh& mesh : meshes) {
    auto fn = make_fn(mesh);
    if (expected.empty()) expected = reference_results(fn, args...);
    CompileOptions options;
    options.mesh = mesh;
    options.poison = true;
    const auto executable = compile(fn, options, args...);
    const auto result = executable(args...);
    const Expectation same =
        expect_close(detail::argument_leaves(result), expected, tolerance, "on " + to_string(mesh));
    if (!same) return same;
  }
  return {};
}

// How an op is checked.
struct CustomOpCheck {
  std::string config = {};             // of the call
  Tolerance tolerance = {1e-5, 1e-6};  // of kernels and parts against the reference
  // Of gradients against central differences, of operands in f64.
  Tolerance gradient_tolerance = {1e-6, 1e-6};
  int64_t shardings = 200;  // how many ways to split operands and results are tried on each mesh
};
// Whether a registered op is what it says, on these operands: its kernel gives what its reference
// gives; so do its parts under ways to split operands and results over meshes of 2, 3 and (2,2)
// devices, all of them where they are few, with poison on devices that hold nothing; it is printed
// and read back; a batch by vmap is what its elements are one by one; and where it has a gradient,
// and the operands are f64, that is the one of central differences, split too. Sizes that no mesh
// divides see the most.
GSPMD_API Expectation expect_custom_op(const std::string& name, const std::vector<Array>& operands,
                                       const CustomOpCheck& check = {});

}  // namespace gspmd
