#pragma once

// HLO text that is too long to hold.

#include <functional>
#include <string_view>

#include "gspmd/base/export.h"
#include "gspmd/ir/text.h"

namespace gspmd {

// The text of to_text(), handed on piece by piece: a permute between many devices is a long list,
// of which none but the one being printed exists.
GSPMD_API void print_module(const Module& module,
                            const std::function<void(std::string_view)>& write,
                            const PrintOptions& options = {});

}  // namespace gspmd
