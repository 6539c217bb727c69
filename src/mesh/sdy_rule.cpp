#include "gspmd/mesh/sdy_rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "gspmd/base/error.h"
#include "mesh/sdy_parse.h"

namespace gspmd {
namespace {

constexpr int64_t kLetters = 18;  // i to z
constexpr int64_t kMostFactors = 100000;

std::string tensor_text(const SdyRule::Tensor& tensor) {
  std::string text;
  for (const std::vector<int64_t>& dim : tensor) {
    if (!text.empty()) text += ", ";
    for (const int64_t factor : dim) text += sdy_factor_name(factor);
  }
  return fmt::format("[{}]", text);
}

std::string tensors_text(const std::vector<SdyRule::Tensor>& tensors) {
  std::string text;
  for (const SdyRule::Tensor& tensor : tensors)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", tensor_text(tensor));
  return fmt::format("({})", text);
}

template <class Has>
std::string list_text(const SdyRule& rule, const char* key, Has has) {
  std::string names;
  for (size_t f = 0; f < rule.factors.size(); ++f)
    if (has(rule.factors[f]))
      names +=
          fmt::format("{}{}", names.empty() ? "" : ", ", sdy_factor_name(static_cast<int64_t>(f)));
  return names.empty() ? "" : fmt::format(" {}={{{}}}", key, names);
}

// Reads one rule.
class RuleParser {
 public:
  explicit RuleParser(std::string_view text) : parser_(text) {}

  SdyRule rule() {
    parser_.accept("#sdy.op_sharding_rule");
    parser_.expect('<', "before a rule");
    rule_.operands = tensors();
    parser_.expect('-', "before '>' of \"->\"");
    parser_.expect('>', "after '-' of \"->\"");
    rule_.results = tensors();
    if (parser_.peek() == '{') sizes();
    lists();
    if (parser_.accept(",")) {
      if (parser_.symbol("custom") != "custom") fail("only `custom` may stand here");
      rule_.custom = true;
    }
    parser_.expect('>', "after a rule");
    parser_.end();
    check();
    return std::move(rule_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) {
    parser_.fail_at(parser_.column(), fmt::format("sdy.sharding_rule: {}", what));
  }

  std::vector<int64_t> names(const std::string& word) {
    std::vector<int64_t> factors;
    for (size_t i = 0; i < word.size();) {
      if (word[i] < 'i' || word[i] > 'z')
        fail(fmt::format("\"{}\" is no factor; i to z are", word));
      int64_t factor = word[i] - 'i';
      if (word[i++] == 'z' && i < word.size() && word[i] == '_') {
        int64_t number = 0;
        size_t digits = 0;
        for (++i; i < word.size() && std::isdigit(static_cast<unsigned char>(word[i])) != 0; ++i) {
          number = std::min(number * 10 + (word[i] - '0'), kMostFactors);
          ++digits;
        }
        if (digits == 0 || number == 0) fail("z_ is followed by a number from 1 on");
        factor += number;
      }
      factors.push_back(factor);
    }
    return factors;
  }

  std::vector<SdyRule::Tensor> tensors() {
    std::vector<SdyRule::Tensor> list;
    parser_.expect('(', "before the tensors of a rule");
    while (!parser_.accept(")")) {
      if (!list.empty()) parser_.expect(',', "between tensors");
      SdyRule::Tensor& tensor = list.emplace_back();
      parser_.expect('[', "before the dims of a tensor");
      while (!parser_.accept("]")) {
        if (!tensor.empty()) parser_.expect(',', "between dims");
        tensor.push_back(names(parser_.symbol("a factor")));
      }
    }
    return list;
  }

  void sizes() {
    parser_.expect('{', "before the sizes");
    while (!parser_.accept("}")) {
      if (!rule_.factors.empty()) parser_.expect(',', "between sizes");
      const std::string name = parser_.symbol("a factor");
      if (name != sdy_factor_name(std::ssize(rule_.factors)))
        fail(fmt::format("size of {} where that of {} should stand; list them in order", name,
                         sdy_factor_name(std::ssize(rule_.factors))));
      parser_.expect('=', "after the name of a factor");
      rule_.factors.push_back({parser_.integer("size of a factor")});
      if (rule_.factors.back().size < 0)
        fail(fmt::format("factor {} has fewer than no iterations", name));
    }
  }

  void lists() {
    while (parser_.peek() != ',' && parser_.peek() != '>') {
      const std::string key = parser_.symbol("a list of factors");
      const bool blocked = key == "blocked_propagation";
      const SdyFactorKind kind = key == "reduction"          ? SdyFactorKind::reduction
                                 : key == "need_replication" ? SdyFactorKind::need_replication
                                                             : SdyFactorKind::permutation;
      if (!blocked && kind == SdyFactorKind::permutation && key != "permutation")
        fail(
            fmt::format("\"{}\" is no list of factors; reduction, need_replication, permutation "
                        "and blocked_propagation are",
                        key));
      parser_.expect('=', "after the name of a list");
      parser_.expect('{', "before a list");
      int64_t last = -1;
      for (bool first = true; !parser_.accept("}"); first = false) {
        if (!first) parser_.expect(',', "between factors");
        for (const int64_t factor : names(parser_.symbol("a factor"))) {
          if (factor >= std::ssize(rule_.factors) || factor <= last)
            fail(fmt::format("{}={{..}} lists factors that have a size, in order, each once", key));
          last = factor;
          SdyFactor& f = rule_.factors[static_cast<size_t>(factor)];
          if (!blocked && f.kind != SdyFactorKind::pass_through)
            fail(fmt::format("factor {} is in two lists", sdy_factor_name(factor)));
          if (blocked)
            f.blocked = true;
          else
            f.kind = kind;
        }
      }
    }
  }

  void check_tensor(const SdyRule::Tensor& tensor, bool is_result, std::vector<bool>& used) {
    std::vector<bool> here(rule_.factors.size());
    for (const std::vector<int64_t>& dim : tensor)
      for (const int64_t factor : dim) {
        const std::string name = sdy_factor_name(factor);
        if (factor >= std::ssize(rule_.factors))
          fail(fmt::format("factor {} has no size; list it in {{{}=..}}", name, name));
        const auto f = static_cast<size_t>(factor);
        if (here[f]) fail(fmt::format("factor {} is twice in one tensor", name));
        if (rule_.factors[f].size == 1 && dim.size() > 1)
          fail(fmt::format("factor {} of size 1 shares a dim with others; drop it", name));
        if (is_result && rule_.factors[f].kind == SdyFactorKind::reduction)
          fail(fmt::format("reduction factor {} is in a result", name));
        here[f] = used[f] = true;
      }
  }

  void check() {
    std::vector<bool> used(rule_.factors.size());
    for (const SdyRule::Tensor& tensor : rule_.operands) check_tensor(tensor, false, used);
    for (const SdyRule::Tensor& tensor : rule_.results) check_tensor(tensor, true, used);
    for (size_t f = 0; f < used.size(); ++f)
      if (!used[f])
        fail(fmt::format("factor {} has a size and no dim",
                         sdy_factor_name(static_cast<int64_t>(f))));
  }

  SdyParser parser_;
  SdyRule rule_;
};

void check_tensors(std::span<const SdyRule::Tensor> tensors, std::span<const Shape> shapes,
                   const char* what) {
  if (tensors.size() != shapes.size())
    user_error("sdy.sharding_rule: {} {} for an op of {}; give one entry for each", tensors.size(),
               what, shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i)
    if (std::ssize(tensors[i]) != shapes[i].rank())
      user_error("sdy.sharding_rule: {} dims for {} {}, which is {}; give one entry for each dim",
                 tensors[i].size(), what, i, to_string(shapes[i]));
}

}  // namespace

std::string sdy_factor_name(int64_t factor) {
  if (factor < kLetters) return std::string(1, static_cast<char>('i' + factor));
  return fmt::format("z_{}", factor - kLetters + 1);
}

SdyRule parse_sdy_rule(std::string_view text) { return RuleParser(text).rule(); }

std::string to_string(const SdyRule& rule) {
  std::string text = fmt::format("#sdy.op_sharding_rule<{}->{}", tensors_text(rule.operands),
                                 tensors_text(rule.results));
  std::string sizes;
  for (size_t f = 0; f < rule.factors.size(); ++f)
    sizes += fmt::format("{}{}={}", sizes.empty() ? "" : ", ",
                         sdy_factor_name(static_cast<int64_t>(f)), rule.factors[f].size);
  if (!sizes.empty()) text += fmt::format(" {{{}}}", sizes);
  const auto of_kind = [](SdyFactorKind kind) {
    return [kind](const SdyFactor& factor) { return factor.kind == kind; };
  };
  text += list_text(rule, "reduction", of_kind(SdyFactorKind::reduction));
  text += list_text(rule, "need_replication", of_kind(SdyFactorKind::need_replication));
  text += list_text(rule, "permutation", of_kind(SdyFactorKind::permutation));
  text += list_text(rule, "blocked_propagation", [](const SdyFactor& f) { return f.blocked; });
  return text + (rule.custom ? ", custom>" : ">");
}

void check_rule(const SdyRule& rule, std::span<const Shape> operands,
                std::span<const Shape> results) {
  check_tensors(rule.operands, operands, "operands");
  check_tensors(rule.results, results, "results");
}

}  // namespace gspmd
