#pragma once

// The op table's type: everything that the library knows of an opcode.

#include <functional>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/factor_rule.h"
#include "gspmd/ir/module.h"

namespace gspmd {

class BatchContext;  // ir/batch_context.h
struct BatchLeaf;
class PartitionContext;
struct PreparedKernel;  // kernels/prepared_kernel.h

// How completion runs: the aggressiveness level 0..3 (docs/spec/completion.md 4) and the rule set.
struct CompletionMode {
  int level = 0;     // 0 to 3
  bool spmd = true;  // false: the rules for modules that are not partitioned
};
// A layout that an operand suggests for the result: `operand` gave it (-1: several), `leaf` of a
// tuple result takes it (-1: all leaves, or the whole tuple).
struct ShardingProposal {
  Sharding sharding;         // the layout suggested
  int64_t operand = 0;       // -1: several operands
  int64_t leaf = -1;         // -1: all leaves
  bool beside_nest = false;  // not what the nest says: the row's policy for that does not hold
};

// What a reader says of an operand, taken apart by who it has it from: its result or another of its
// operands. What is said first counts first.
struct OperandSuggestion {
  Sharding sharding;     // the layout suggested
  int64_t operand = -1;  // -1: the result
  int64_t leaf = 0;      // of the result
};

// The operands of which the loop nest of an op tells the result and that the result tells.
enum class Speakers : uint8_t {
  none,       // the nest says nothing
  first,      // the first one
  first_two,  // the first two
  inputs,     // the first half: of ops that take n inputs and n more operands
  all,        // every one
};

// Completion through one op (docs/spec/completion.md): what its loop nest says, by a policy, and
// functions where the nest does not say it. Forward runs where the op's level allows it, backward
// for a node whose sharding propagates.
struct CompletionRules {
  // What the operands suggest for the result, each tried in turn; nullptr: what the nest says.
  std::vector<ShardingProposal> (*forward)(const Node& node, CompletionMode mode) = nullptr;
  // What a reader says of an operand, by who it has it from; nullptr: what the nest says.
  std::vector<OperandSuggestion> (*suggestions)(const Node& reader, int64_t operand,
                                                CompletionMode mode) = nullptr;
  // Whether completion may give this node a tiled sharding; nullptr = yes.
  bool (*may_be_tiled)(const Node& node, bool spmd) = nullptr;
  // The nest as completion sees it; nullptr: `factors`.
  FactorRule (*nest)(const Node& node, CompletionMode mode) = nullptr;

  Speakers speakers = Speakers::none;  // whom the nest lets speak
  bool operands_confer = false;        // operands tell each other of the loops that they share
  // Of two operands that disagree the one that the readers ahead agree with goes first, then the
  // larger; else the first.
  bool weighed = false;
  int level = 1;           // the aggressiveness from which on completion passes; pointwise: 0
  int forward_level = 0;   // and the nest forward
  int backward_level = 0;  // and backward
};

// The result of evaluating a node: an array, or a tuple of values.
struct GSPMD_API Value {
  Array array;                                      // of a value that is no tuple
  std::vector<Value> elements;                      // of a tuple
  bool is_tuple = false;                            // whether `elements` counts
  static Value tuple(std::vector<Value> elements);  // A tuple of these.
};
GSPMD_API std::vector<Array> leaves(const Value& value);                       // in order
GSPMD_API Value pack(const Shape& shape, std::span<const Array> leaf_arrays);  // inverse of leaves

// Runs a called computation on arguments.
using CallComputation = std::function<Value(const Computation&, std::span<const Value>)>;

// What a reference kernel sees.
struct EvalContext {
  const Node& node;                 // the instruction, with its attributes
  std::span<const Value> operands;  // values of its operands
  const CallComputation& call;      // runs called computations
};

// A value of the per-device program: the local node and how it is laid out. The sharding may hold
// unreduced digits that the completed sharding does not have (docs/spec/partitioning.md 5.1).
struct Partitioned {
  Node* local = nullptr;
  Sharding sharding;  // how `local` is laid out
};

// Properties that passes ask for instead of listing ops.
enum Trait : uint32_t {
  kElementwise =
      1u << 0,  // same dims for all operands (scalars apart) and result, element by element
  kCommutative = 1u << 1,
  kSideEffect = 1u << 2,
  kCollective = 1u << 3,
  kDataMovement = 1u << 4,  // result elements are operand elements (or fill values)
  kLinear = 1u << 5,        // linear in every operand at once: add, subtract, negate, reshape, ...
  kLinearInEach = 1u << 6,  // linear in each operand with the others fixed: multiply, dot
  kIntegerPreserving = 1u << 7,  // exact on integers within the bound of docs/spec/running.md 3.1
  kConstantLike = 1u << 8,       // constant, iota, partition-id: no operands, no state
  kPointwise = 1u << 9,          // takes element by element, whatever else it does: map, all-reduce
  kFirstLeads = 1u << 10,        // the first operand decides the layout of the result
  kFixedLayout = 1u << 11,       // its result does not take a layout that needs a reshard
  kMadeAsOne = 1u << 12,         // its results are made together: all are manual or none is
  kPlacedAnywhere = 1u << 13,    // partitioned as well where its values lie on some of the devices
  kPlacedOnAll = 1u << 14,       // its way of partitioning needs its values on all devices
  kAlias = 1u << 15,             // its result is the storage of its operand, where sizes agree
  kWritesFirst = 1u << 16,  // its result is its first operand with other elements here and there
  kTakesViews = 1u << 17,   // its kernel reads and writes any strides: views become those
};

// How the part of a node on one device has a dim of the first operand.
enum class PartDim : uint8_t {
  whole,    // all of it
  cut,      // a shard
  fetched,  // the elements that the part of the result reads, and what stands outside of them
};

// The part of a node on one device.
struct NodePart {
  std::vector<PartDim> dims;    // of the first operand
  std::vector<Shape> operands;  // shapes there
  std::vector<Shape> results;   // and of the result's leaves
};

// How many operands an op takes.
struct OperandCount {
  int least = 0;  // at least this many
  int most = 0;   // -1: any
};

// One row of the op table: what the library knows of an opcode. A null aspect is a located error
// where it is needed. Rows are defined beside their op family in src/ops and never in a header.
struct OpInfo {
  Opcode opcode = Opcode::parameter;  // which opcode the row is of
  uint32_t traits = 0;                // Trait bits
  OperandCount operands = {};         // how many it takes
  // The result shape. node.shape holds the declared one, which ops whose result is not implied
  // (parameter, reshape, broadcast, convert, iota ...) check and return. UserError: op first,
  // numbers.
  Shape (*infer)(const Node& node) = nullptr;
  // The loop nest, for completion, partitioning and cost.
  FactorRule (*factors)(const Node& node) = nullptr;
  // The reference kernel: plain loops on whole arrays.
  Value (*evaluate)(const EvalContext& context) = nullptr;
  // Cotangents of the operands given that of the result; nullptr entries where none flows. Emits
  // nodes into node.parent() with the builders of ops/builders.h. UserError when not
  // differentiable.
  std::vector<Node*> (*gradient)(Node& node, Node* cotangent) = nullptr;
  // The same of ops whose result or operands may be tuples, leaf by leaf: `cotangents` has one
  // entry for each leaf of the result (nullptr where none flows), what comes back one for each leaf
  // of the operands, in order.
  std::vector<Node*> (*leaf_gradient)(Node& node, const std::vector<Node*>& cotangents) = nullptr;
  // The same value by ops that have gradients, for derivatives of nodes that `gradient` does not
  // cover, emitted into node.parent(); a result of nullptr: the node's own rule says it.
  Node* (*differentiable_form)(Node& node) = nullptr;
  // The same value by simpler ops that shardings pass through, emitted into node.parent(); a result
  // of nullptr keeps the node. Runs before completion (passes/prepare/expand_ops.h).
  Node* (*expand)(Node& node) = nullptr;
  CompletionRules completion = {};  // how completion passes through it
  // Partitioning where the factor rule does not say enough; nullopt: here the rule serves better.
  // UserError: a sharding it does not support.
  std::optional<Partitioned> (*partition)(PartitionContext& context, Node& node) = nullptr;
  // The attributes of the node's part, where they repeat sizes or places; nullptr: as they are.
  Attributes (*on_part)(const Node& node, const NodePart& part) = nullptr;
  // The computations that the node's part calls; nullptr: the same, for they are of scalars.
  std::vector<Computation*> (*called_on_part)(PartitionContext& context, const Node& node,
                                              const NodePart& part) = nullptr;
  // A fast kernel for these (local) shapes; nullptr aspect = the reference kernel runs.
  PreparedKernel (*lower)(const Node& node) = nullptr;
  int64_t (*flops)(const Node& node) =
      nullptr;  // nullptr: elements of the result (elementwise), else 0
  // What one element of an elementwise op costs, in additions: whether to compute it again.
  int additions = 1;
  // The op on a batch of operands, all at once: the leaves of its result. nullptr: what its traits
  // and its nest say, with the dims in attributes moved behind the batch's. UserError: it cannot be
  // batched.
  std::vector<BatchLeaf> (*batch)(BatchContext& context, const Node& node) = nullptr;

  // Whether all bits of `trait` are set.
  bool has(Trait trait) const { return (traits & trait) != 0; }
};

// The row of an opcode; defined by ops/registry.cpp.
GSPMD_API const OpInfo& op_info(Opcode opcode);
// The row of a custom-call: that of its target where a program has added one (ops/custom_ops.h).
GSPMD_API const OpInfo& custom_call_info(const Node& custom_call);

}  // namespace gspmd
