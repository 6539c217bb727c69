#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"

namespace gspmd {

// The text of a module with a fault; "//here" stands behind the instruction that has it.
constexpr const char* kHere = "//here";

// "(m.hlo:3)": what a message about the marked line of `text` has.
inline std::string marked_place(const std::string& text, const std::string& file = "m.hlo") {
  const auto line =
      1 +
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find(kHere)), '\n');
  return fmt::format("({}:{})", file, line);
}

inline std::unique_ptr<Module> parse_marked(const std::string& text) {
  return parse_module(text, "m.hlo");
}

// What an error that `use` of the module throws says; "" where there is none.
template <class F>
std::string fault_of(const std::string& text, F&& use) {
  const std::unique_ptr<Module> module = parse_marked(text);
  try {
    use(*module);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// How often `part` stands in `text`.
inline int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace gspmd
