#pragma once

// Reading modules without their constants.

#include <memory>
#include <string_view>

#include "gspmd/base/export.h"
#include "gspmd/ir/module.h"

namespace gspmd {

// As parse_module (ir/text.h), also of text whose long constants were left out: `constant({...})`
// reads as zeros. For what looks at shapes and shardings only.
GSPMD_API std::unique_ptr<Module> parse_outline(std::string_view text,
                                                std::string_view file = "<hlo>");

}  // namespace gspmd
