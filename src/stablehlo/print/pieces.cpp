// Pieces of text: lists, dictionaries, symbols.
#include <algorithm>

#include "stablehlo/lowering.h"
#include "stablehlo/print/writer.h"

namespace gspmd::stablehlo {

std::string list_text(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

std::string array_text(const Dims& dims) {
  return dims.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(dims, ", "));
}

std::string fields_text(Fields fields) {
  std::sort(fields.begin(), fields.end());
  std::string text;
  for (const auto& [name, value] : fields) {
    text += (text.empty() ? "" : ", ") + key_text(name);
    if (!value.empty()) text += " = " + value;
  }
  return text;
}

std::string symbol_text(const std::string& name) {
  const bool plain =
      !name.empty() && is_letter(name[0]) && std::all_of(name.begin(), name.end(), [](char c) {
        return is_letter(c) || is_digit(c) || c == '.' || c == '$' || c == '-';
      });
  return fmt::format("@{}", plain ? name : quote(name));
}

}  // namespace gspmd::stablehlo
