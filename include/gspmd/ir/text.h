#pragma once

// HLO text in and out.

#include <memory>
#include <string>
#include <string_view>

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// Reads XLA HLO text. `file` is only for messages. UserError "file:line:column: ..." with a caret
// line. Checks names, operand counts, and every shape against the op's own rule.
GSPMD_API std::unique_ptr<Module> parse_module(std::string_view text,
                                               std::string_view file = "<hlo>");

// What printing leaves out.
struct PrintOptions {
  bool shardings = true;  // sharding={...}
  bool metadata = true;   // metadata={...}
};
// Canonical HLO text: a fixed point of parse and print; the same in every process.
GSPMD_API std::string to_text(const Module& module, const PrintOptions& options = {});
GSPMD_API std::string to_text(const Computation& computation, const PrintOptions& options = {});
GSPMD_API std::string to_text(const Node& node, const PrintOptions& options = {});  // one line

// UserError (with the node's line of text) where a shape, operand count, attribute, call or edge is
// wrong; runs after parsing and between passes.
GSPMD_API void verify_module(const Module& module);

// Equal up to names of nodes and computations: same graph, attributes, shapes, shardings.
GSPMD_API bool structurally_equal(const Module& a, const Module& b);

}  // namespace gspmd
