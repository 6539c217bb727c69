#include <algorithm>

#include "api/executable_impl.h"
#include "gspmd/base/error.h"
#include "gspmd/ir/module.h"

namespace gspmd::detail {
namespace {

std::vector<size_t> leaves_of(const std::vector<TracedLeaf>& leaves, int64_t element) {
  std::vector<size_t> result;
  for (size_t i = 0; i < leaves.size(); ++i)
    if (leaves[i].element == element) result.push_back(i);
  return result;
}

std::string argument_name(const CompileOptions& options, int64_t argument) {
  const auto i = static_cast<size_t>(argument);
  return i < options.argument_names.size() ? options.argument_names[i]
                                           : fmt::format("arg{}", argument);
}

bool same_leaves(const Traced& traced, const std::vector<size_t>& arguments,
                 const std::vector<size_t>& results) {
  if (arguments.size() != results.size()) return false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const TracedLeaf& given = traced.arguments()[arguments[i]];
    const TracedLeaf& returned = traced.results()[results[i]];
    if (given.inner != returned.inner || !(given.shape == returned.shape)) return false;
  }
  return true;
}

// The first unused element of the result with the argument's type and leaves; -1 when there is
// none.
int64_t find_element(const Traced& traced, int64_t argument, const std::vector<bool>& used) {
  const std::vector<size_t> leaves = leaves_of(traced.arguments(), argument);
  for (size_t e = 0; e < traced.result_types().size(); ++e) {
    if (used[e] ||
        traced.result_types()[e] != traced.argument_types()[static_cast<size_t>(argument)])
      continue;
    if (same_leaves(traced, leaves, leaves_of(traced.results(), static_cast<int64_t>(e))))
      return static_cast<int64_t>(e);
  }
  return -1;
}

}  // namespace

std::vector<Alias> pair_donated_leaves(const Traced& traced, const CompileOptions& options) {
  std::vector<int64_t> donate = options.donate;
  std::sort(donate.begin(), donate.end());
  const auto count = static_cast<int64_t>(traced.argument_types().size());
  std::vector<bool> used(traced.result_types().size(), false);
  std::vector<Alias> aliases;
  for (size_t i = 0; i < donate.size(); ++i) {
    const int64_t argument = donate[i];
    if (argument < 0 || argument >= count)
      user_error(options.site,
                 "compile: donate names argument {}, but {} has {} arguments; count from 0",
                 argument, options.name, count);
    if (i > 0 && donate[i - 1] == argument)
      user_error(options.site, "compile: donate names argument {} twice", argument);
    const int64_t element = find_element(traced, argument, used);
    if (element < 0)
      user_error(
          options.site,
          "compile: argument {} ({}) is donated, but no result has its type and leaves; return its "
          "new value, or do not donate it",
          argument, argument_name(options, argument));
    used[static_cast<size_t>(element)] = true;
    const std::vector<size_t> parameters = leaves_of(traced.arguments(), argument);
    const std::vector<size_t> results = leaves_of(traced.results(), element);
    for (size_t leaf = 0; leaf < parameters.size(); ++leaf) {
      Alias alias;
      alias.output = {static_cast<int64_t>(results[leaf])};
      alias.parameter = static_cast<int64_t>(parameters[leaf]);
      aliases.push_back(std::move(alias));
    }
  }
  return aliases;
}

std::vector<StatePair> pair_state_leaves(const Traced& traced, const CompileOptions& options) {
  std::vector<StatePair> pairs;
  if (!options.donate.empty()) {
    for (const Alias& alias : pair_donated_leaves(traced, options))
      pairs.push_back({alias.parameter, alias.output.at(0)});
    return pairs;
  }
  std::vector<bool> used(traced.result_types().size(), false);
  for (size_t argument = 0; argument < traced.argument_types().size(); ++argument) {
    const auto number = static_cast<int64_t>(argument);
    const int64_t element = find_element(traced, number, used);
    if (element < 0) continue;
    used[static_cast<size_t>(element)] = true;
    const std::vector<size_t> parameters = leaves_of(traced.arguments(), number);
    const std::vector<size_t> results = leaves_of(traced.results(), element);
    for (size_t leaf = 0; leaf < parameters.size(); ++leaf)
      pairs.push_back(
          {static_cast<int64_t>(parameters[leaf]), static_cast<int64_t>(results[leaf])});
  }
  return pairs;
}

}  // namespace gspmd::detail
