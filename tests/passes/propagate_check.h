#pragma once

#include <string>

#include "gspmd/ir/text.h"
#include "gspmd/passes/complete/propagate.h"

namespace gspmd::testing {

// In the entry first.
inline const Node* find_node(const Module& module, const std::string& name) {
  for (auto it = module.computations().rbegin(); it != module.computations().rend(); ++it)
    for (const auto& node : (*it)->nodes())
      if (node->name() == name) return node.get();
  FAIL("no instruction " + name);
  return nullptr;
}

// The sharding of an instruction in HLO's V1 or V2 text; "none".
inline std::string sharding_text(const Module& module, const std::string& name) {
  const Node* node = find_node(module, name);
  return node->sharding ? to_string_v2(*node->sharding) : "none";
}

// Completes a module and checks that a second run finds nothing to do. The entry is `body`; %sum
// combines f32 scalars; `more` holds other computations.
inline std::unique_ptr<Module> completed(const std::string& body,
                                         const PropagateOptions& options = {},
                                         const std::string& more = {}) {
  auto module = parse_module(
      "HloModule m\nsum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n "
      "ROOT s = f32[] add(x, y) }\n" +
      more + "\nENTRY main {\n" + body + "\n}\n");
  propagate(*module, options);
  verify_module(*module);
  const auto again = module->clone();
  CHECK_FALSE(propagate(*again, options));
  CHECK(to_text(*again) == to_text(*module));
  return module;
}

// The completed sharding of `name`. Entry bodies end in an instruction "out" of their own, since
// the root itself takes part only where the options say so.
inline std::string completes(const std::string& body, const std::string& name,
                             const PropagateOptions& options = {}) {
  return sharding_text(*completed(body, options), name);
}

inline PropagateOptions without_spmd() {
  PropagateOptions options;
  options.spmd = false;
  return options;
}

inline PropagateOptions open_boundary() {
  PropagateOptions options;
  options.allow_output = options.allow_parameters = {true};
  return options;
}

}  // namespace gspmd::testing
