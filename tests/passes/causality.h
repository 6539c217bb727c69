#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gspmd/base/error.h"
#include "gspmd/ir/module.h"
#include "gspmd/mesh/sharding.h"
#include "gspmd/passes/complete/propagate.h"
#include "gspmd/passes/explain/sharding_sources.h"

namespace gspmd::testing {

using Names = std::set<std::string>;

// Names of what carries a sharding.
inline Names annotations_of(const Module& given) {
  Names names;
  for (const auto& computation : given.computations())
    for (const auto& node : computation->nodes())
      if (node->sharding) names.insert(node->name());
  return names;
}

// `count` of them, or all.
inline Names drawn_annotations(const Module& given, size_t count, std::mt19937& random) {
  const Names all = annotations_of(given);
  std::vector<std::string> names(all.begin(), all.end());
  std::shuffle(names.begin(), names.end(), random);
  names.resize(std::min(names.size(), count));
  return {names.begin(), names.end()};
}

// What some digit hangs on; one annotation where there are no digits.
inline Names drawn_set(const Module& given, const Module& with, const ShardingSources& sources,
                       std::mt19937& random) {
  std::vector<std::pair<const Node*, size_t>> digits;
  for (const auto& computation : with.computations())
    for (const auto& node : computation->nodes())
      for (size_t i = 0; i < node->origins.size(); ++i) digits.emplace_back(node.get(), i);
  if (digits.empty()) return {*annotations_of(given).begin()};
  const auto& [node, origin] = digits[random() % digits.size()];
  const std::vector<std::string> set = sources.annotations(*node, origin);
  return {set.begin(), set.end()};
}

inline std::unique_ptr<Module> completed_without(const Module& given, const Names& names,
                                                 const PropagateOptions& options) {
  auto module = given.clone();
  for (const auto& computation : module->computations())
    for (const auto& node : computation->nodes())
      if (names.contains(node->name())) node->sharding.reset();
  propagate(*module, options);
  return module;
}

// What removals of annotations did to digits, against what was said.
struct RemovalCount {
  int64_t removals = 0;
  int64_t gone = 0;        // said to go, and gone
  int64_t stay = 0;        // said to stay, and there
  int64_t kept = 0;        // said to go, and there
  int64_t restored = 0;    // said to go without fewer, and there: another annotation won meanwhile
  int64_t unforeseen = 0;  // said to stay, and gone
  std::string first;       // of those kept or unforeseen
};

inline std::string to_string(const RemovalCount& c) {
  return fmt::format("{} removals, {} gone, {} stay, {} kept, {} restored, {} unforeseen: {}",
                     c.removals, c.gone, c.stay, c.kept, c.restored, c.unforeseen, c.first);
}

// Whether the digit of an origin is where it was: by counting, device by device, which part of the
// dim it holds.
inline bool is_there(const Node& now, const Node& before, const Origin& origin) {
  if (!now.sharding) return false;
  const auto leaf = [&](const Node& node) -> const Sharding& {
    return node.sharding->is_tuple() ? node.sharding->elements().at(size_t(origin.leaf))
                                     : *node.sharding;
  };
  const Sharding &a = leaf(now), &b = leaf(before);
  if (!a.is_tiled() || !b.is_tiled() || a.order() != b.order()) return a == b;
  if (origin.dim < 0) return a == b;
  if (origin.dim >= a.rank()) return false;
  // Two devices that differ in the digit alone hold different parts of the dim.
  const auto part = [&](int64_t rank) {
    int64_t tile = 0;
    for (const Digit& digit : a.dim(origin.dim))
      tile = tile * digit.size + rank / digit.stride % digit.size;
    return tile;
  };
  const Digit& digit = origin.digit;
  for (int64_t step = 1; step < digit.size; ++step)
    if (part(step * digit.stride) == part((step - 1) * digit.stride)) return false;
  std::set<int64_t> parts;
  for (int64_t step = 0; step < digit.size; ++step) parts.insert(part(step * digit.stride));
  return static_cast<int64_t>(parts.size()) == digit.size;
}

// Takes `names` away and counts. Removals that cannot be completed are left out.
inline void count_removal(const Module& given, const Module& with, const ShardingSources& sources,
                          const Names& names, const PropagateOptions& options,
                          RemovalCount& count) {
  std::unique_ptr<Module> without;
  try {
    without = completed_without(given, names, options);
  } catch (const Error&) {
    return;
  }
  ++count.removals;
  std::map<std::string, const Node*> after;
  for (const auto& computation : without->computations())
    for (const auto& node : computation->nodes())
      after[computation->name() + "/" + node->name()] = node.get();
  const auto removed = [&](const std::vector<std::string>& set) {
    return std::all_of(set.begin(), set.end(),
                       [&](const std::string& name) { return names.contains(name); });
  };
  for (const auto& computation : with.computations())
    for (const auto& node : computation->nodes()) {
      const auto found = after.find(computation->name() + "/" + node->name());
      if (found == after.end()) continue;
      for (size_t i = 0; i < node->origins.size(); ++i) {
        std::vector<std::vector<std::string>> sets = sources.others(*node, i);
        sets.push_back(sources.annotations(*node, i));
        std::erase_if(sets, [&](const auto& set) { return !removed(set); });
        const bool all = std::any_of(sets.begin(), sets.end(), [&](const auto& set) {
          return Names(set.begin(), set.end()) == names;
        });
        const bool goes = !sets.empty();
        const bool there = is_there(*found->second, *node, node->origins[i]);
        if (goes)
          (!there ? count.gone : all ? count.kept : count.restored) += 1;
        else
          (there ? count.stay : count.unforeseen) += 1;
        if ((goes ? !there || !all : there) || !count.first.empty()) continue;
        count.first = fmt::format(
            "{} {}, dim {} digit ({},{}), without {}: {} -> {}", given.name, found->first,
            node->origins[i].dim, node->origins[i].digit.size, node->origins[i].digit.stride,
            fmt::join(names, ", "), gspmd::to_string(*node->sharding),
            found->second->sharding ? gspmd::to_string(*found->second->sharding) : "none");
      }
    }
}

}  // namespace gspmd::testing
