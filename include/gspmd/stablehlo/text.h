#pragma once

// StableHLO text in and out, and text of either language.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module_fwd.h"

namespace gspmd {

// The languages of programs.
enum class Language : uint8_t { hlo, stablehlo };

// The language of a text, found from its first words.
GSPMD_API Language language_of(std::string_view text);

// Reads StableHLO text, with Shardy's or HLO's shardings, of one module (docs/spec/stablehlo.md).
// `file` is only for messages. UserError "file:line:column: ..." with a caret line.
GSPMD_API std::unique_ptr<Module> parse_stablehlo(std::string_view text,
                                                  std::string_view file = "<stablehlo>");
// The modules of a text, which lines "// -----" split.
GSPMD_API std::vector<std::unique_ptr<Module>> parse_stablehlo_modules(
    std::string_view text, std::string_view file = "<stablehlo>");

// Reads text of either language. UserError: as their readers, and where there is more than one
// module.
GSPMD_API std::unique_ptr<Module> read_module(std::string_view text, std::string_view file);

}  // namespace gspmd
