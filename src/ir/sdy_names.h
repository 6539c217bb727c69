#pragma once

// The names under which Shardy's dialect, and what StableHLO's text says beyond HLO, travel in a
// module: frontend attributes and targets of custom-calls (docs/spec/completion.md 10.1).
namespace gspmd {

// Attributes of nodes. kSdySharding is on ops that XLA's own reader passes over.
inline constexpr const char* kSdySharding = "sdy.sharding";
inline constexpr const char* kXlaSdySharding = "xla.sdy.sharding";
inline constexpr const char* kSdyRule = "xla.sdy.sharding_rule";
inline constexpr const char* kSdyInShardings = "xla.sdy.in_shardings";
inline constexpr const char* kSdyOutShardings = "xla.sdy.out_shardings";
inline constexpr const char* kSdyManualAxes = "xla.sdy.manual_axes";
inline constexpr const char* kSdyNamed = "sdy.named_computation";
inline constexpr const char* kSdyReshard = "sdy.reshard";
inline constexpr const char* kSdyCollective = "sdy.collective";
inline constexpr const char* kSdyParameters = "sdy.collective_parameters";
inline constexpr const char* kSdyGroup = "xla.sdy.sharding_group_id";
inline constexpr const char* kSdyDirection = "xla.sdy.allowed_direction";

// Attributes of modules.
inline constexpr const char* kSdyMeshes = "xla.sdy.meshes";
inline constexpr const char* kSdyCompleted = "sdy.completed";

// Targets of custom-calls; the first two are the borders of a manual computation.
inline constexpr const char* kToLocalShape = "xla.sdy.GlobalToLocalShape";
inline constexpr const char* kToGlobalShape = "xla.sdy.LocalToGlobalShape";
inline constexpr const char* kSdyGroupTarget = "xla.sdy.ShardingGroup";
inline constexpr const char* kSdyBarrierTarget = "xla.sdy.PropagationBarrier";
inline constexpr const char* kSdyResultTarget = "xla.sdy.FuncResultSharding";
inline constexpr const char* kSdyEdgeTarget = "sdy.DataFlowEdge";
inline constexpr const char* kSdyFunctionEdgeTarget = "sdy.FuncDataFlowEdge";

// Nodes that stand beside the node that is an op of the text: reshapes and transposes around it,
// broadcasts of its scalars.
inline constexpr const char* kImplicit = "mlir.implicit";
// Nodes that stood for an annotation that the program has taken over.
inline constexpr const char* kRemoved = "mlir.removed";
// Of a module with meshes whose text does not say for how many partitions it is: not one that was
// written for XLA.
inline constexpr const char* kUncounted = "mlir.uncounted";
// Of computations: "private" or "public" of functions other than the entry.
inline constexpr const char* kVisibility = "mlir.visibility";
// Of a loop: how many of the last elements of its state are values around it that it only reads.
inline constexpr const char* kCaptures = "mlir.captures";

}  // namespace gspmd
