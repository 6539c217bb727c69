#pragma once

#include <string_view>

#include "gspmd/ir/op.h"

namespace gspmd {

Value evaluate_tuple(const EvalContext& context);
Value evaluate_get_tuple_element(const EvalContext& context);
Value evaluate_while(const EvalContext& context);
Value evaluate_call(const EvalContext& context);  // call and fusion
Value evaluate_operand(const EvalContext& context);
Shape infer_custom_call(const Node& node);  // custom_call.cpp
FactorRule custom_call_factors(const Node& node);
// Whether it is a custom call of this target; of that which says a value's sharding.
bool is_custom_call(const Node& node, std::string_view target);
bool is_annotation(const Node& node);
// Frontend attribute of what annotated_like makes: the name of the annotation that it goes with.
inline constexpr const char* kMirrors = "gspmd.mirrors";
// `value` with what `annotation` says of its own value; both of one shape.
Node* annotated_like(Node* value, const Node& annotation);
bool is_identity_call(const Node& node);     // gives operand 0 as it is
bool is_elementwise_call(const Node& node);  // each element of elements at its place
Value evaluate_custom_call(const EvalContext& context);

Value evaluate_conditional(const EvalContext& context);
// Which branch a selector (pred or s32 scalar) takes of `branches`: true is branch 0; numbers
// outside take the last one.
int64_t chosen_branch(const Array& selector, int64_t branches);
Value zero_value(const Shape& shape);  // zeros in every leaf
// Element `i` of the tuple that the operand of an op that ends something has to be.
const Shape& operand_element(const Node& node, size_t i);
// What async-start gives: (operands), result, and zeros for what else `shape` declares.
Value started_value(const Shape& shape, std::vector<Value> operands, Value result);

// Rows' leaf_gradient (gradient.cpp).
std::vector<Node*> tuple_gradient(Node& node, const std::vector<Node*>& cotangents);
std::vector<Node*> get_tuple_element_gradient(Node& node, const std::vector<Node*>& cotangents);
std::vector<Node*> identity_gradient(Node& node, const std::vector<Node*>& cotangents);
std::vector<Node*> custom_call_gradient(Node& node, const std::vector<Node*>& cotangents);

// Completion (completion.cpp).
std::vector<ShardingProposal> tuple_forward(const Node& node, CompletionMode mode);
std::vector<OperandSuggestion> tuple_suggestions(const Node& reader, int64_t operand,
                                                 CompletionMode mode);
std::vector<ShardingProposal> element_forward(const Node& node, CompletionMode mode);
std::vector<OperandSuggestion> element_suggestions(const Node& reader, int64_t operand,
                                                   CompletionMode mode);
std::vector<ShardingProposal> custom_call_forward(const Node& node, CompletionMode mode);
std::vector<OperandSuggestion> custom_call_suggestions(const Node& reader, int64_t operand,
                                                       CompletionMode mode);
bool custom_call_may_be_tiled(const Node& node, bool spmd);

// Partitioning (partition.cpp).

// The layout, or layouts, of element i of a tuple whose leaves lie as `tuple` says.
Sharding element_sharding(const Sharding& tuple, const Shape& shape, int64_t element);
// The same of the element whose leaves begin at `leaf`, which moves on behind them: for all in
// turn.
Sharding next_element_sharding(const Sharding& tuple, const Shape& element, int64_t& leaf);
// A tuple in the layouts `to`, leaf by leaf; what is in its layout stays as it is.
Node* tuple_in_layout(PartitionContext& context, const Partitioned& value, const Shape& global,
                      const Sharding& to);
std::optional<Partitioned> partition_tuple(PartitionContext& context, Node& node);
std::optional<Partitioned> partition_get_tuple_element(PartitionContext& context, Node& node);
std::optional<Partitioned> partition_opt_barrier(PartitionContext& context, Node& node);
std::optional<Partitioned> partition_while(PartitionContext& context, Node& node);
std::optional<Partitioned> partition_conditional(PartitionContext& context, Node& node);
std::optional<Partitioned> partition_custom_call(PartitionContext& context, Node& node);

}  // namespace gspmd
