#pragma once

// Looking at values while a program runs.

#include <concepts>
#include <functional>
#include <string>
#include <vector>

#include "gspmd/api/operand.h"
#include "gspmd/base/export.h"

namespace gspmd {

// A text with a field for each value, as fmt's: "x {}", "loss {:.3f} at step {}". What stands in a
// field behind the colon is for each element. Made implicitly at the call, so it knows the user's
// line.
struct DebugFormat {
  // --- Implicit, at the call
  DebugFormat(const char* format, Site line = Site::here())
      : text(format == nullptr ? "" : format), site(line) {}
  DebugFormat(std::string format, Site line = Site::here()) : text(std::move(format)), site(line) {}

  // --- What it holds
  std::string text;  // with its fields
  Site site;         // the user's line
};

// How debug_print() prints.
struct DebugPrintOptions {
  bool every_device = false;  // each device its part, behind its number and coordinates
};

namespace detail {
GSPMD_API void debug_print(const DebugFormat& format, const DebugPrintOptions& options,
                           const std::vector<Operand>& values);
GSPMD_API void debug_check(const Operand& holds, const DebugFormat& format,
                           const std::vector<Operand>& values);

template <class... Values>
constexpr bool check_values() {
  constexpr bool right = (std::convertible_to<const Values&, Operand> && ...);
  static_assert(right,
                "debug_print, debug_check: the values are tensors, arrays or numbers; give the "
                "leaves of a tree one by one, and write text into the format");
  return right;
}
}  // namespace detail

// Prints a line whenever the program comes there: once, with whole values, or on every device its
// part of them. In a function given to shard_map: on every device. In a loop in each step, in a
// branch where it is taken; in a function that is differentiated with the values of the function,
// once; in vmap once, with the values of the whole batch. Layouts, values and gradients stay as
// they are without it; a whole value is gathered first, which takes time and memory. Never in a
// function given to reduce() and the like. UserError: a text that does not fit the number of
// values. As jax.debug.print.
template <class... Values>
void debug_print(const DebugFormat& format, const Values&... values) {
  if constexpr (detail::check_values<Values...>())
    detail::debug_print(format, {}, {Operand(values, format.site)...});
}
// The same with options: debug_print({.every_device = true}, "x {}", x).
template <class... Values>
void debug_print(const DebugPrintOptions& options, const DebugFormat& format,
                 const Values&... values) {
  if constexpr (detail::check_values<Values...>())
    detail::debug_print(format, options, {Operand(values, format.site)...});
}

// Ends the run with an ExecutionError where an element of `holds`, pred of any shape, is false: it
// names this line, the device and the text, with that device's parts of the values. UserError:
// `holds` is not pred, a text that does not fit. As jax.experimental.checkify.check.
template <class... Values>
void debug_check(const Operand& holds, const DebugFormat& format, const Values&... values) {
  if constexpr (detail::check_values<Values...>())
    detail::debug_check(holds, format, {Operand(values, format.site)...});
}

// Where the lines of debug_print() go, from any thread, no two at once; an empty function: to the
// standard output. Returns the one before.
GSPMD_API std::function<void(const std::string& line)> debug_output(
    std::function<void(const std::string& line)> output);

}  // namespace gspmd
