#pragma once

#include "stablehlo/lowering.h"

namespace gspmd::stablehlo {

// What an op's discardable attributes say, onto its node: shardings, frontend attributes, what is
// only kept.
void annotate(OpLowering& op, Node& node);

// UserError: an attribute of the op itself that nothing has read.
void refuse_unread(OpLowering& op);

// The HLO sharding that `mhlo.sharding = "..."` says.
Sharding sharding_of_text(const ModuleLowering& lowering, const Attribute& attribute,
                          const Shape& shape);

// How many of the last values of a loop's state are values around it that it only reads.
size_t captures_of(const Node& loop);
// A node's sharding as `mhlo.sharding` says it: of a loop without what it only reads.
std::string sharding_text_of(const Node& node);

// `mhlo.frontend_attributes = {k = "v"}` into a map.
void add_frontend_attributes(ModuleLowering& lowering, const Attribute& attribute,
                             std::map<std::string, std::string>& into);

// "#sdy.sharding<..>" as the list of one result, and back: "#sdy.sharding_per_value<[<..>]>".
std::string per_value(const std::string& sharding);
std::string of_one_value(const std::string& per_value);

// Whether a node says its sharding in `sdy`: it is not said in HLO's form beside that.
bool says_in_sdy(const Node& node);

// The attribute of the text that is read as the node's frontend attribute of this name and value,
// if it is one; "": there is none, and it stands among the frontend attributes.
std::string_view name_in_text(const Node& node, const std::string& name, const std::string& value);

// Frontend attributes of this prefix are discardable attributes of the text, as text.
inline constexpr std::string_view kKept = "mlir.";

// Custom-calls of this prefix are instructions of HLO that StableHLO has no op for; their attribute
// `mhlo.attributes = {text = ".."}` has them as HLO text, operands as %p0, %p1, ...
inline constexpr std::string_view kInstruction = "hlo.";

}  // namespace gspmd::stablehlo
