#pragma once

// The three kinds of error that the library throws.

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "gspmd/base/export.h"
#include "gspmd/base/site.h"

namespace gspmd {

// Base of everything the library throws. The message reads: op first, the fact with the numbers,
// the way out, and the user's line in parentheses when it is known.
class GSPMD_API Error : public std::runtime_error {
 public:
  // The message, with the line in parentheses where it is known.
  Error(std::string message, Site site);
  // The user's line; site().known() is false where there is none.
  const Site& site() const { return site_; }
  // Puts `more` and the line, where it is known, behind the message. For an error without a line.
  void locate(std::string_view more, Site site);

 private:
  Site site_;
};

// The user's model, arguments, sharding or file is wrong.
class GSPMD_API UserError : public Error {
 public:
  using Error::Error;  // as Error
};

// A defect of this library; the message prints the node concerned.
class GSPMD_API InternalError : public Error {
 public:
  using Error::Error;  // as Error
};

// A correct program failed while it ran (for example a collective inside a divergent branch).
class GSPMD_API ExecutionError : public Error {
 public:
  using Error::Error;  // as Error
};

// --- Throw with a formatted message
template <class... Args>
[[noreturn]] void user_error(Site site, fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(fmt::format(format, std::forward<Args>(args)...), site);
}

// Throws without a line.
template <class... Args>
[[noreturn]] void user_error(fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(fmt::format(format, std::forward<Args>(args)...), Site{});
}

// Throws InternalError with a formatted message.
template <class... Args>
[[noreturn]] void internal_error(fmt::format_string<Args...> format, Args&&... args) {
  throw InternalError(fmt::format(format, std::forward<Args>(args)...), Site{});
}

// Throws ExecutionError with a formatted message.
template <class... Args>
[[noreturn]] void execution_error(fmt::format_string<Args...> format, Args&&... args) {
  throw ExecutionError(fmt::format(format, std::forward<Args>(args)...), Site{});
}

}  // namespace gspmd
