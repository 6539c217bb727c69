#include "gspmd/ir/factor_rule.h"

#include <fmt/format.h>

namespace gspmd {
namespace {

// i, j, ..., z, a, ..., h, then f26, f27, ...
std::string factor_name(int64_t factor) {
  if (factor == FactorRule::kNone) return "-";
  if (factor < 26) return std::string(1, static_cast<char>('a' + (8 + factor) % 26));
  return fmt::format("f{}", factor);
}

std::string dims_text(const std::vector<std::vector<int64_t>>& values) {
  std::string text = "(";
  for (size_t v = 0; v < values.size(); ++v) {
    text += v ? ",[" : "[";
    for (size_t d = 0; d < values[v].size(); ++d)
      text += fmt::format("{}{}", d ? "," : "", factor_name(values[v][d]));
    text += "]";
  }
  return text + ")";
}

struct KindName {
  FactorKind kind;
  const char* name;
};
constexpr KindName kListedKinds[] = {{FactorKind::reduction, "reduction"},
                                     {FactorKind::window, "window"},
                                     {FactorKind::blocked, "blocked"}};

}  // namespace

std::string to_string(const FactorRule& rule) {
  std::string text = dims_text(rule.operands) + "->" + dims_text(rule.results);
  for (const KindName& listed : kListedKinds) {
    std::string members;
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      const Factor& factor = rule.factors[f];
      if (factor.kind != listed.kind) continue;
      members +=
          fmt::format("{}{}", members.empty() ? "" : ",", factor_name(static_cast<int64_t>(f)));
      if (factor.kind == FactorKind::reduction && factor.combiner != Combiner::sum)
        members += fmt::format(":{}", combiner_name(factor.combiner));
    }
    if (!members.empty()) text += fmt::format(" {}={{{}}}", listed.name, members);
  }
  return text;
}

}  // namespace gspmd
