#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "gspmd/ir/module.h"
#include "gspmd/mesh/sdy.h"
#include "gspmd/ops/sdy_rules.h"
#include "passes/shardy/strategy.h"

namespace gspmd {

// Axes of a dim of a slot that came from another slot.
struct SdyTaken {
  int64_t dim = 0;
  SdyAxis axis;
  int64_t source = -1;  // slot
};

// One sharding that values share: a value of its own, or the target of a data-flow edge, which is a
// loop's result and the argument of its body and condition at once.
struct SdySlot {
  Shape shape;
  std::optional<SdySharding> sharding = {};
  // The slot that is this one seen from the other side of the border of a manual computation, -1:
  // none. `inside` has local sizes and no manual axes; the other has them first in each dim.
  int64_t border = -1;
  bool inside = false;
  SdyAxes manual = {};  // of the border
  // Of the manual computation that the value is in: the mesh, and the axes that are manual there.
  int64_t region_mesh = -1;
  SdyAxes region = {};
  int64_t group = -1;                // sharding group
  int64_t definer = -1;              // the op that makes it
  std::vector<int64_t> users = {};   // ops that read it, in program order
  std::vector<int64_t> edges = {};   // edges that it is a source or the target of
  std::vector<SdyTaken> taken = {};  // where origins are recorded: in order
};

// One op as propagation sees it; its operands and results are slots.
struct SdyOp {
  const Node* node = nullptr;  // nullptr: the results of a function
  SdyRule rule = {};
  SdyTraits traits = {};
  bool single_use = true;  // no operand that has dims has another use
  bool is_edge = false;
  std::optional<SdyDirection> barrier = {};  // the direction of a barrier
  std::vector<int64_t> operands = {}, results = {};
  std::vector<int64_t> operand_values = {};  // of SdyProgram::values
};

// One leaf of a node's value.
struct SdyLeaf {
  int64_t value = -1;           // of SdyProgram::values
  Node* result_call = nullptr;  // the xla.sdy.FuncResultSharding that it came through
};

// What a value is in the text: it has uses of its own, and shares its slot.
struct SdyValue {
  int64_t slot = 0;
  int64_t uses = 0;
};

// The result of a function: what it returns, and what it says of it.
struct SdyResult {
  SdyLeaf leaf;          // what is returned
  int64_t returned = 0;  // its slot
  int64_t result = 0;    // slot
  Node* call = nullptr;  // its xla.sdy.FuncResultSharding; nullptr: none yet
};

struct SdyFunction {
  Computation* computation = nullptr;
  bool is_main = false;
  bool is_named = false;           // a named computation's, whose results say nothing themselves
  std::vector<int64_t> arguments;  // slots of the leaves
  std::vector<SdyResult> results;
};

// The border of a manual computation on one side.
struct SdyBorder {
  Node* node = nullptr;          // the GlobalToLocalShape or LocalToGlobalShape call
  std::vector<int64_t> outside;  // slots
  SdyAxes outer = {};            // manual around it
};

// A module as propagation sees it (docs/spec/completion.md 10.1): tuples and their elements are
// looked through, regions are flat, ops stand in the order of the text.
struct SdyProgram {
  SdyMeshes meshes;
  std::vector<SdySlot> slots;
  std::vector<SdyValue> values;
  std::vector<SdyOp> ops;
  std::vector<SdyOp> function_results;  // of main: exchanged before and after each fixed point
  std::vector<SdyFunction> functions;
  std::vector<SdyBorder> in_borders, out_borders;
  std::vector<int64_t> call_results;                             // slots
  std::unordered_map<const Node*, std::vector<SdyLeaf>> leaves;  // of every node
  // Nodes whose leaves are values that they define or name, in order: what is written back.
  std::vector<Node*> written;
};

struct SdyProgramOptions {
  bool pipeline = true;       // calls are part of their callers; edges are made
  bool conservative = false;  // rules drop what would move
};

// UserError, with the node's place, where an attribute of the dialect does not fit.
SdyProgram build_sdy_program(Module& module, const SdyProgramOptions& options);

// The same sharding seen from outside or inside of a manual computation.
SdySharding without_manual(const SdySharding& outside, const SdyAxes& manual);
SdySharding with_manual(const SdySharding& inside, const SdySharding& outside,
                        const SdyAxes& manual);

// Notes what `slot` has in `next` and not yet in its sharding as taken from `source`.
void note_taken(SdySlot& slot, const SdySharding& next,
                const std::function<int64_t(size_t dim, const SdyAxis& axis)>& source);

// Whether all dims are open without axes, and no axis is replicated or unreduced.
bool says_nothing(const SdySharding& sharding);

// Whether the computation is the body of a manual computation.
bool is_manual_body(const Node& call);

}  // namespace gspmd
