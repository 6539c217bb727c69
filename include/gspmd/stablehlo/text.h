#pragma once

// StableHLO text in and out, and text of either language.

#include <functional>
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

// How text is read.
struct ReadOptions {
  // Of several public functions, none of them @main, the first is the entry; else they are an
  // error.
  bool any_entry = false;
};

// Reads StableHLO text, with Shardy's or HLO's shardings, of one module (docs/spec/stablehlo.md).
// `file` is only for messages. UserError "file:line:column: ..." with a caret line.
GSPMD_API std::unique_ptr<Module> parse_stablehlo(std::string_view text,
                                                  std::string_view file = "<stablehlo>",
                                                  const ReadOptions& options = {});
// The modules of a text, which lines "// -----" split.
GSPMD_API std::vector<std::unique_ptr<Module>> parse_stablehlo_modules(
    std::string_view text, std::string_view file = "<stablehlo>", const ReadOptions& options = {});

// Reads text of either language. UserError: as their readers, and where there is more than one
// module.
GSPMD_API std::unique_ptr<Module> read_module(std::string_view text, std::string_view file,
                                              const ReadOptions& options = {});

// The modules of a text of either language, which lines "// -----" split; each may be of its own.
GSPMD_API std::vector<std::unique_ptr<Module>> read_modules(std::string_view text,
                                                            std::string_view file,
                                                            const ReadOptions& options = {});

// What printing adds.
struct StableHloOptions {
  bool locations = false;  // loc(...) behind ops, from their metadata
};
// StableHLO text of a module, with Shardy's shardings where the module carries them, else HLO's as
// `mhlo.sharding`: a fixed point of parse and print. Instructions of HLO that StableHLO has no op
// for are custom calls `hlo.<opcode>`. UserError: an element type that StableHLO has no word for.
GSPMD_API std::string to_stablehlo(const Module& module, const StableHloOptions& options = {});
// The same handed on piece by piece: of large literals no text but the piece being printed exists.
GSPMD_API void print_stablehlo(const Module& module,
                               const std::function<void(std::string_view)>& write,
                               const StableHloOptions& options = {});

}  // namespace gspmd
