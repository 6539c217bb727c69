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

void add_attribute(std::string_view own, const std::string& name, const std::string& value,
                   Fields& fields, Fields& frontend) {
  if (own.empty())
    frontend.emplace_back(name, quote(value));
  else if (value == "unit")
    fields.emplace_back(own, "");
  else if (std::optional<std::string> text = whole_attribute_text(value))
    fields.emplace_back(own, std::move(*text));
  else
    frontend.emplace_back(name, quote(value));
}

}  // namespace gspmd::stablehlo
