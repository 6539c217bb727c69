#pragma once

#include <string>

#include "gspmd/ir/text.h"

namespace gspmd {

// A module for `devices` partitions whose entry is `body`; %sum and %max combine f32 scalars.
inline std::unique_ptr<Module> module_of(const std::string& body, int devices = 4) {
  return parse_module(fmt::format(R"(HloModule m, num_partitions={}
%sum {{
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}}
ENTRY %main {{
{}
}}
)",
                                  devices, body));
}

// The entry's instructions, one per line.
inline std::string body_text(const Module& module) {
  std::string text;
  for (const auto& node : module.entry()->nodes()) text += "  " + to_text(*node) + "\n";
  return text;
}

}  // namespace gspmd
