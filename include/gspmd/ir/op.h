#pragma once

// The op table's type: everything that the library knows of an opcode.

#include <functional>
#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/factor_rule.h"
#include "gspmd/ir/module.h"

namespace gspmd {

class PartitionContext;
struct PreparedKernel;  // kernels/prepared_kernel.h

// How completion runs: the aggressiveness level 0..3 (semantics.md 2.4) and the rule set.
struct CompletionMode {
  int level = 0;     // 0 to 3
  bool spmd = true;  // false: the rules for modules that are not partitioned
};
// A layout that an operand suggests for the result: `operand` gave it (-1: several), `leaf` of a
// tuple result takes it (-1: all leaves, or the whole tuple).
struct ShardingProposal {
  Sharding sharding;    // the layout suggested
  int64_t operand = 0;  // -1: several operands
  int64_t leaf = -1;    // -1: all leaves
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
// unreduced digits that the completed sharding does not have (design.md 2.14).
struct Partitioned {
  Node* local = nullptr;
  Sharding sharding;  // how `local` is laid out
};

// What an op's `partition` may ask; implemented by passes.
class GSPMD_API PartitionContext {
 public:
  virtual ~PartitionContext() = default;
  virtual Computation& local() = 0;                        // the program being built
  virtual const Sharding& sharding(const Node& node) = 0;  // completed
  virtual Partitioned held(Node* global) = 0;              // as it is held, maybe unreduced
  virtual Node* reshard(Node* global,
                        const Sharding& to) = 0;  // local value in that layout, cached
  // As above, of a value that is not in the module.
  virtual Node* reshard(const Partitioned& value, const Shape& global, const Sharding& to) = 0;
  virtual Node* tile_index(const Sharding& sharding, int64_t dim) = 0;  // s32[] of this device
  virtual Node* offset(const Sharding& sharding, const Shape& global, int64_t dim) = 0;  // s32[]
  // Tail of uneven dims (those in `dims`) replaced by `value`, a scalar node.
  virtual Node* mask_tail(Node* local, const Shape& global, const Sharding& sharding,
                          const std::vector<int64_t>& dims, Node* value) = 0;
  // Appends a node to the program being built; `shape` is checked by the op's rule.
  virtual Node* emit(Opcode opcode, Shape shape, std::vector<Node*> operands, Attributes attrs = {},
                     std::vector<Computation*> called = {}) = 0;
  virtual Computation* local_computation(const Computation& global) = 0;  // to_apply and the like
  // A called computation of one parameter (bodies of while), partitioned with these layouts.
  virtual Computation* partition_called(const Computation& global, const Sharding& parameter,
                                        const Sharding& result) = 0;
  // Whether `reader` should read its operand as it is held, unreduced: it is the only reader.
  virtual bool keeps_unreduced(const Node& reader, int64_t operand) = 0;
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
  kIntegerPreserving = 1u << 7,  // exact on integers within the bound of design.md 6
  kConstantLike = 1u << 8,       // constant, iota, partition-id: no operands, no state
};

// One row of the op table: what the library knows of an opcode. A null aspect is a located error
// where it is needed. Rows are defined beside their op family in src/ops and never in a header.
struct OpInfo {
  Opcode opcode = Opcode::parameter;  // which opcode the row is of
  uint32_t traits = 0;                // Trait bits
  int min_operands = 0;               // at least this many
  int max_operands = 0;               // -1: any
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
  // The same value by simpler ops that shardings pass through, emitted into node.parent(); a result
  // of nullptr keeps the node. Runs before completion (passes/expand_ops.h).
  Node* (*expand)(Node& node) = nullptr;
  // Completion beyond factors: what the operands suggest for the result, each tried in turn. See
  // passes/propagate.h.
  std::vector<ShardingProposal> (*forward_sharding)(const Node& node,
                                                    CompletionMode mode) = nullptr;
  // What the result suggests for an operand; nullopt: nothing.
  std::optional<Sharding> (*backward_sharding)(const Node& node, int64_t operand,
                                               CompletionMode mode) = nullptr;
  // Whether completion may give this node a tiled sharding; nullptr = yes.
  bool (*may_be_tiled)(const Node& node, bool spmd) = nullptr;
  // Partitioning where the factor rule does not say enough. UserError: a sharding it does not
  // support.
  Partitioned (*partition)(PartitionContext& context, Node& node) = nullptr;
  // A fast kernel for these (local) shapes; nullptr aspect = the reference kernel runs.
  PreparedKernel (*lower)(const Node& node) = nullptr;
  int64_t (*flops)(const Node& node) =
      nullptr;  // nullptr: elements of the result (elementwise), else 0

  // Whether all bits of `trait` are set.
  bool has(Trait trait) const { return (traits & trait) != 0; }
};

// The row of an opcode; defined by ops/registry.cpp.
GSPMD_API const OpInfo& op_info(Opcode opcode);

}  // namespace gspmd
