#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gspmd::tools {

// Numbers of the command line, which are all of a text or an error: none is cut to the nearest that
// fits, as the library of the options would.

// "12", "+12", "-12", "0x1f"; nullopt where the text is no such number or is outside of T.
template <class T>
std::optional<T> to_integer(std::string_view text);
extern template std::optional<int64_t> to_integer(std::string_view text);
extern template std::optional<uint64_t> to_integer(std::string_view text);

// UserError "OPTION TEXT: ..." unless the text is an integer of that range.
int64_t parse_integer(const std::string& option, std::string_view text, int64_t least,
                      int64_t most);
// UserError unless the text is a number that is not NaN and that a double can be close to: not
// 1e400, not 1e-400. "inf" is one.
double parse_number(const std::string& option, std::string_view text);
// "512MiB", "1.5 GB", "4096"; decimal and binary units. UserError.
int64_t parse_bytes(const std::string& option, std::string_view text);

}  // namespace gspmd::tools
