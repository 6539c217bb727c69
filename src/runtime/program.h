#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gspmd/ir/opcode.h"
#include "gspmd/kernels/prepared_kernel.h"
#include "gspmd/passes/memory/plan_memory.h"
#include "gspmd/runtime/executor.h"
#include "kernels/rows.h"

namespace gspmd {

// One piece of storage that steps read or write; the same on every device but for its address.
struct Slot {
  BufferPlace::Kind kind = BufferPlace::arena;
  int64_t index = 0;   // parameter, output: flat leaf; constant: index into Program::constants
  int64_t offset = 0;  // arena
  int64_t bytes = 0;
  auto operator<=>(const Slot&) const = default;
};

// Where devices find what a step's CommonStage has made: in the executor's common memory.
struct CommonPlace {
  std::vector<int64_t> holders;  // devices on which the stage runs; empty: it does not
  std::vector<int64_t> offset;   // by device
};

// One kernel on one device. Its buffers are entries of the argument table: operands, then results.
struct Step {
  PreparedKernel kernel;
  int64_t first_argument = 0;
  int64_t operands = 0, results = 0;
  std::string name;  // for messages
  const Node* node = nullptr;
  bool is_copy = false;       // of the node's value to where it is wanted
  bool is_evaluated = false;  // for want of a kernel
  // Of values that devices share: those that run it. Empty: all.
  std::vector<int64_t> devices = {};
  CommonPlace common = {};
};

// A collective over groups of devices; its buffers are entries of each device's argument table.
struct CollectiveStep {
  const Node* node = nullptr;
  Opcode opcode = Opcode::all_reduce;  // of a start, that of the whole
  bool is_split = false;               // it begins before it is done
  std::vector<std::vector<int64_t>> groups;
  std::vector<std::pair<int64_t, int64_t>> pairs;  // of a collective-permute
  std::vector<bool> covered;                       // devices in some group
  // By device: its group and its place there; -1: none.
  std::vector<std::pair<int64_t, int64_t>> member;
  std::vector<bool> receives;  // devices that need the results; empty: all
  int64_t result_bytes = 0;    // of one device
  SumRows sum_rows = nullptr;  // of sums of types that have one
  int64_t first_argument = 0;
  int64_t operands = 0, results = 0;
  bool reference = false;  // by the reference kernel
};

struct LoopStep;
struct BranchStep;

// Segments, collectives, loops and conditionals in order. A segment is a range of steps that each
// device runs by itself.
struct Block {
  struct Item {
    // collective: all of it, or the end of one that has begun; start: its beginning
    enum Kind : uint8_t { segment, collective, loop, branch, start } kind = segment;
    int64_t first = 0, last = 0;  // segment: steps; others: index
    bool met = false;             // segment: all workers meet before and behind it
    bool shared = false;          // segment: of values that devices share
    bool common = false;          // segment: common stages of its steps run before it
  };
  std::vector<Item> items;
};

struct LoopStep {
  Block condition, body;
  int64_t predicate_argument = 0;
  int64_t first_carried = 0;           // arguments: the carried leaves
  std::vector<int64_t> carried_bytes;  // of each
  bool repeatable = false;             // an iteration depends on these only
  bool lockstep = false;               // a collective is inside
  std::optional<int64_t> trips;        // how often the body runs, where that is known
  std::string name;
  const Node* node = nullptr;
};

// A conditional: each device goes through the block that its selector names.
struct BranchStep {
  std::vector<Block> blocks;
  int64_t selector_argument = 0;
  bool is_pred = false;   // true is block 0; else an s32, and block n-1 for numbers outside
  bool lockstep = false;  // a collective is inside
  std::string name;
  const Node* node = nullptr;
};

class Program {
 public:
  std::shared_ptr<const Module> module;  // normalised; nodes are referred to
  ProgramOptions options;
  MemoryPlan plan;
  std::vector<Step> steps;
  std::vector<CollectiveStep> collectives;
  std::vector<std::unique_ptr<LoopStep>> loops;
  std::vector<std::unique_ptr<BranchStep>> branches;
  Block main;
  std::vector<Slot> arguments;  // the argument table: a slot per entry
  std::vector<Array> constants;
  std::vector<Shape> parameter_leaves, result_leaves;
  std::vector<int64_t> donor;  // result leaf -> parameter leaf, or -1
  // Arguments whose values another device keeps, by device which, where devices share memory.
  struct Borrowed {
    int64_t argument = 0;
    std::vector<int64_t> keepers;
  };
  std::vector<Borrowed> borrowed;
  // By result leaf and device, whose storage has the result; empty: each device's own.
  std::vector<std::vector<int64_t>> shared_results;
  int64_t scratch_bytes = 0;  // per worker
  int64_t shared_bytes = 0;   // per worker, or per device where these are fewer
  int64_t common_bytes = 0;   // of all devices
};

}  // namespace gspmd
