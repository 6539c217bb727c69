#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

Value evaluate_tuple(const EvalContext& context);
Value evaluate_get_tuple_element(const EvalContext& context);
Value evaluate_while(const EvalContext& context);
Value evaluate_call(const EvalContext& context);  // call and fusion
Value evaluate_operand(const EvalContext& context);
Value evaluate_custom_call(const EvalContext& context);

std::vector<Node*> tuple_gradient(Node& node, Node* cotangent);
std::vector<Node*> get_tuple_element_gradient(Node& node, Node* cotangent);
std::vector<Node*> optimization_barrier_gradient(Node& node, Node* cotangent);
std::vector<Node*> custom_call_gradient(Node& node, Node* cotangent);

}  // namespace gspmd
