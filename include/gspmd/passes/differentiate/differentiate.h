#pragma once

// Differentiation of the graph, in reverse and forward mode.

#include <span>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// A copy with this frontend attribute lets no cotangent through.
inline constexpr const char* kStopGradient = "gspmd.stop_gradient";
// A copy with this one is where a function of the user's reads an argument that it is
// differentiated by; it stands in the way of nothing else and is taken out of finished programs.
inline constexpr const char* kDifferentiableInput = "gspmd.differentiable_input";

// --- Custom-calls that say how what they call is differentiated; open_markers() takes them out

// called: {f}. The backward part makes f's values again but those that its policy saves.
inline constexpr const char* kCheckpointCall = "gspmd.checkpoint";
// called: {f, forward, backward}: (arguments) -> (results, residuals); (residuals, cotangents) ->
// (cotangents of the arguments).
inline constexpr const char* kCustomVjpCall = "gspmd.custom_vjp";
// called: {f, jvp}: (arguments, tangents) -> (results, tangents of the results).
inline constexpr const char* kCustomJvpCall = "gspmd.custom_jvp";
// --- Their frontend attributes
inline constexpr const char* kArguments = "gspmd.arguments";     // of f; what is captured follows
inline constexpr const char* kResiduals = "gspmd.residuals";     // how many, of custom_vjp
inline constexpr const char* kSaves = "gspmd.saves";             // nothing, dots, everything
inline constexpr const char* kSavedNames = "gspmd.saved_names";  // "attention,mlp"

// Puts what such calls call in their place. Whether there were any.
GSPMD_API bool open_markers(Computation& computation);

// The cotangents of `inputs`, arrays of one computation, given those of `results`: the transpose of
// the derivative. Emits nodes marked backward after the existing ones, whose order is that of
// operands before users afterwards; loops and conditionals between are replaced by ones that keep
// what the derivatives read. Inputs that do not reach a result get zeros. The cotangent of an
// annotated node (Sharding op) carries the same annotation. Complex numbers: the cotangent of x +
// iy under a real loss is dloss/dx - i dloss/dy. UserError: an op on the way has no gradient (names
// op, reason, line).
GSPMD_API std::vector<Node*> pull_back(std::span<Node* const> results,
                                       std::span<Node* const> cotangents,
                                       std::span<Node* const> inputs);

// pull_back of the scalar `loss`, whose cotangent is 1: its gradients. UserError also: the loss is
// not a floating scalar.
GSPMD_API std::vector<Node*> differentiate(Node* loss, std::span<Node* const> inputs);

// The tangents of `results` given those of `inputs`, arrays of one computation: the derivative.
// Emits as pull_back, marked as what they belong to; zeros where no input reaches a result.
// UserError: as pull_back.
GSPMD_API std::vector<Node*> push_forward(std::span<Node* const> results,
                                          std::span<Node* const> inputs,
                                          std::span<Node* const> tangents);

}  // namespace gspmd
