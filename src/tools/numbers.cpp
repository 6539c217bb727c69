#include "tools/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>

#include "gspmd/base/error.h"

namespace gspmd::tools {
namespace {

// from_chars, of the whole text.
template <class T, class Format>
std::optional<T> whole(std::string_view text, Format format) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [behind, error] = std::from_chars(text.data(), end, value, format);
  if (error != std::errc{} || behind != end) return std::nullopt;
  return value;
}

std::string_view without_plus(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return text;
}

}  // namespace

template <class T>
std::optional<T> to_integer(std::string_view text) {
  text = without_plus(text);
  if (!text.starts_with("0x") && !text.starts_with("0X")) return whole<T>(text, 10);
  text.remove_prefix(2);
  return text.starts_with('-') ? std::nullopt : whole<T>(text, 16);
}
template std::optional<int64_t> to_integer(std::string_view text);
template std::optional<uint64_t> to_integer(std::string_view text);

int64_t parse_integer(const std::string& option, std::string_view text, int64_t least,
                      int64_t most) {
  const std::optional<int64_t> value = to_integer<int64_t>(text);
  if (!value || *value < least || *value > most)
    user_error("{} {}: give an integer of {} to {}", option, text, least, most);
  return *value;
}

double parse_number(const std::string& option, std::string_view text) {
  const std::optional<double> value = whole<double>(without_plus(text), std::chars_format::general);
  if (!value || std::isnan(*value))
    user_error("{} {}: give a number between the smallest and the largest double", option, text);
  return *value;
}

int64_t parse_bytes(const std::string& option, std::string_view text) {
  constexpr std::pair<const char*, int64_t> kUnits[] = {{"", 1},
                                                        {"B", 1},
                                                        {"kB", 1000},
                                                        {"KB", 1000},
                                                        {"MB", 1'000'000},
                                                        {"GB", 1'000'000'000},
                                                        {"TB", 1'000'000'000'000},
                                                        {"KiB", int64_t{1} << 10},
                                                        {"MiB", int64_t{1} << 20},
                                                        {"GiB", int64_t{1} << 30},
                                                        {"TiB", int64_t{1} << 40}};
  constexpr int64_t kMost = int64_t{1} << 62;
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, digits);
  const std::string_view unit =
      text.substr(std::min(text.find_first_not_of(' ', digits), text.size()));
  for (const auto& [name, scale] : kUnits) {
    if (unit != name) continue;
    int64_t bytes = 0;
    if (const auto count = to_integer<int64_t>(number)) {
      if (!__builtin_mul_overflow(*count, scale, &bytes) && bytes < kMost) return bytes;
    } else if (number.find('.') != std::string_view::npos) {
      const auto part = whole<double>(number, std::chars_format::fixed);
      const double product = part.value_or(kMost) * static_cast<double>(scale);
      if (product < static_cast<double>(kMost)) return static_cast<int64_t>(product);
    }
  }
  user_error("{} {}: give bytes below 2^62, as 512MiB, 40GB or 4096", option, text);
}

}  // namespace gspmd::tools
