#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace gspmd::tools {

// Gives the numbers of standard streams that are closed to files that fail (standard error: that
// swallow), so that no file opened later gets such a number and the output or messages meant for
// the stream. From here on a pipe without a reader is an error of write, not the process's end.
void guard_standard_streams();

// Writes on standard output. UserError "standard output: cannot be written: ..." where that fails.
void write_output(std::string_view text);
// The same of a format.
template <class... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  write_output(fmt::format(format, std::forward<Args>(args)...));
}
// Writes what is still buffered and closes standard output: the last step of every verb. UserError.
void finish_output();

// Writes on standard error, from the first process of a job; there is nowhere to say that this
// fails.
void write_message(std::string_view text);

}  // namespace gspmd::tools
