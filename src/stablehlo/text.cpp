#include "gspmd/stablehlo/text.h"

#include <algorithm>
#include <cstring>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "stablehlo/lowering.h"

namespace gspmd {
namespace {

using stablehlo::Cursor;

constexpr std::string_view kSplit = "// -----";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // of UTF-8

// Without the mark that some editors put before a text. Programs are also kept in forms that are
// none.
std::string_view without_mark(std::string_view text, std::string_view file) {
  if (text.starts_with("ML\xEFR"))
    user_error(
        "{} is MLIR bytecode; give the program's text: exported.mlir_module() or "
        "jax.jit(f).lower(..).as_text() in JAX, stablehlo-translate --deserialize of the file",
        file);
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

// Where the modules of a text begin and end: those without a word are none.
std::vector<std::pair<size_t, size_t>> module_ranges(std::string_view text, std::string_view file) {
  std::vector<std::pair<size_t, size_t>> ranges;
  size_t begin = 0, line = 0;
  const auto add = [&](size_t end) {
    Cursor cursor(text, file, begin, end);
    if (!cursor.at_end()) ranges.emplace_back(begin, end);
  };
  while (line < text.size()) {
    const void* const found = std::memchr(text.data() + line, '\n', text.size() - line);
    const size_t end = found == nullptr
                           ? text.size()
                           : static_cast<size_t>(static_cast<const char*>(found) - text.data()) + 1;
    if (text.substr(line, kSplit.size()) == kSplit) {
      add(line);
      begin = end;
    }
    line = end;
  }
  add(text.size());
  return ranges;
}

std::unique_ptr<Module> read_range(std::string_view text, std::string_view file, size_t begin,
                                   size_t end, const ReadOptions& options,
                                   stablehlo::Reading reading) {
  stablehlo::Arena arena;
  const stablehlo::ArenaScope scope(arena);
  const auto syntax = stablehlo::read_syntax(text, file, begin, end, reading);
  auto module = std::make_unique<Module>();
  stablehlo::ModuleLowering(*syntax, *module, options).run();
  return module;
}

// Op by op where that can be. A text that is wrong, or in a form of which it cannot be known before
// where its functions end and what they call, is read again as a whole: errors are those of its
// order.
std::unique_ptr<Module> parse_range(std::string_view text, std::string_view file, size_t begin,
                                    size_t end, const ReadOptions& options) {
  try {
    return read_range(text, file, begin, end, options, stablehlo::Reading::main_later);
  } catch (const UserError&) {
  } catch (const stablehlo::ReadWhole&) {
  }
  return read_range(text, file, begin, end, options, stablehlo::Reading::whole);
}

}  // namespace

// HLO begins with HloModule, or with computations; MLIR with one of few words, an alias or an op
// between quotes.
Language language_of(std::string_view text) {
  Cursor cursor(text, "", text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0,
                text.size());
  const char c = cursor.peek();
  if (c == '#' || c == '!' || c == '"') return Language::stablehlo;
  if (c == '{' && cursor.sees("{-#")) return Language::stablehlo;
  const std::string_view word = cursor.peek_word();
  for (const std::string_view known : {"module", "builtin.module", "func.func", "func", "sdy.mesh",
                                       "vhlo.module", "vhlo.func_v1"}) {
    if (word != known) continue;
    // A computation or instruction of HLO may have such a name.
    cursor.word("");
    const char next = cursor.peek();
    return next == '{' && word != "module" && word != "builtin.module" ? Language::hlo
           : next == '(' || next == '='                                ? Language::hlo
                                                                       : Language::stablehlo;
  }
  return Language::hlo;
}

std::vector<std::unique_ptr<Module>> parse_stablehlo_modules(std::string_view text,
                                                             std::string_view file,
                                                             const ReadOptions& options) {
  std::vector<std::unique_ptr<Module>> modules;
  for (const auto& [begin, end] : module_ranges(text, file))
    modules.push_back(parse_range(text, file, begin, end, options));
  if (modules.empty())
    Cursor(text, file, 0, text.size())
        .fail(0, "the text has no module; it begins with module or func.func");
  return modules;
}

std::unique_ptr<Module> parse_stablehlo(std::string_view text, std::string_view file,
                                        const ReadOptions& options) {
  const auto ranges = module_ranges(text, file);
  if (ranges.size() > 1)
    Cursor(text, file, 0, text.size())
        .fail(ranges[1].first, "{} modules in one file; print shows all, else give each a file",
              ranges.size());
  if (ranges.empty())
    Cursor(text, file, 0, text.size())
        .fail(0, "the text has no module; it begins with module or func.func");
  return parse_range(text, file, ranges[0].first, ranges[0].second, options);
}

std::vector<std::unique_ptr<Module>> read_modules(std::string_view text, std::string_view file,
                                                  const ReadOptions& options) {
  text = without_mark(text, file);
  std::vector<std::unique_ptr<Module>> modules;
  if (text.find(kSplit) == std::string_view::npos) {
    modules.push_back(read_module(text, file, options));
    return modules;
  }
  for (const auto& [begin, end] : module_ranges(text, file)) {
    const std::string_view part = text.substr(begin, end - begin);
    if (language_of(part) == Language::stablehlo) {
      modules.push_back(parse_range(text, file, begin, end, options));
      continue;
    }
    // On the lines of the file.
    std::string alone(static_cast<size_t>(std::count(text.begin(), text.begin() + begin, '\n')),
                      '\n');
    alone += part;
    modules.push_back(parse_module(alone, file));
  }
  if (modules.empty()) modules.push_back(parse_module(text, file));  // says that there is none
  return modules;
}

std::unique_ptr<Module> read_module(std::string_view text, std::string_view file,
                                    const ReadOptions& options) {
  text = without_mark(text, file);
  if (language_of(text) == Language::stablehlo) return parse_stablehlo(text, file, options);
  if (text.find(kSplit) != std::string_view::npos)
    if (const auto ranges = module_ranges(text, file); ranges.size() > 1)
      Cursor(text, file, 0, text.size())
          .fail(ranges[1].first, "{} modules in one file; print shows all, else give each a file",
                ranges.size());
  return parse_module(text, file);
}

}  // namespace gspmd
