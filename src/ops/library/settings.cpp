#include "ops/library/settings.h"

#include <cctype>
#include <charconv>

#include "gspmd/ops/custom_ops.h"

namespace gspmd::library {
namespace {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

std::optional<int64_t> setting(const Node& node, std::string_view name) {
  const std::string config = custom_config(node);
  std::string_view rest = config;
  for (size_t at = 0; (at = rest.find(name, at)) != std::string_view::npos; at += name.size()) {
    if (at > 0 && is_name(rest[at - 1])) continue;
    size_t end = at + name.size();
    if (end < rest.size() && is_name(rest[end])) continue;
    while (end < rest.size() && (rest[end] == ' ' || rest[end] == '"')) ++end;
    if (end == rest.size() || (rest[end] != '=' && rest[end] != ':')) continue;
    ++end;
    while (end < rest.size() && rest[end] == ' ') ++end;
    const std::string_view value = rest.substr(end);
    if (value.starts_with("true")) return 1;
    if (value.starts_with("false")) return 0;
    int64_t number = 0;
    const auto [last, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc()) return number;
  }
  return std::nullopt;
}

}  // namespace gspmd::library
