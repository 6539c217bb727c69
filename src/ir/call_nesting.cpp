#include "ir/call_nesting.h"

#include <algorithm>
#include <limits>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"

namespace gspmd {
namespace {

// What calls may write out in a module of few instructions.
constexpr int64_t kMostInstructions = int64_t{1} << 20;

// The first of its nodes that has one.
Site place_of(const Computation& computation) {
  for (const std::unique_ptr<Node>& node : computation.nodes())
    if (const Site site = place_of(*node); site.known()) return site;
  return {};
}

// What lies below a computation through the computations that its nodes call.
struct CallNesting {
  int64_t calls = 0;         // the longest chain of calls, of any op
  int64_t loops = 0;         // the same where call, fusion and async-start are written out
  int64_t instructions = 0;  // with each called body counted for each call; saturates
};

// Whose node can be replaced by the computation it calls.
bool is_written_out(const Node& node) {
  return node.is(Opcode::call) || node.is(Opcode::fusion) || node.is(Opcode::async_start);
}

bool has_bodies(const Node& node) {
  return is_written_out(node) || node.is(Opcode::while_) || node.is(Opcode::conditional);
}

using Known = std::unordered_map<const Computation*, CallNesting>;

CallNesting nesting_of(const Computation& computation, const Known& below) {
  CallNesting all;
  all.instructions = static_cast<int64_t>(computation.nodes().size());
  for (const std::unique_ptr<Node>& node : computation.nodes())
    for (const Computation* called : node->called) {
      if (called == nullptr) continue;
      const CallNesting& one = below.at(called);
      all.calls = std::max(all.calls, one.calls + 1);
      all.loops = std::max(all.loops, one.loops + (is_written_out(*node) ? 0 : 1));
      if (!has_bodies(*node)) continue;
      if (__builtin_add_overflow(all.instructions, one.instructions, &all.instructions))
        all.instructions = std::numeric_limits<int64_t>::max();
    }
  return all;
}

std::vector<const Computation*> called_by(const Computation& computation) {
  std::vector<const Computation*> result;
  for (const std::unique_ptr<Node>& node : computation.nodes())
    for (const Computation* called : node->called)
      if (called != nullptr) result.push_back(called);
  return result;
}

struct CallVisit {
  const Computation* computation;
  std::vector<const Computation*> called_by;
  size_t next = 0;
};

// Of the computations that `roots` reach, callees first. UserError where one calls itself.
std::vector<std::pair<const Computation*, CallNesting>> call_nesting(
    std::span<const Computation* const> roots) {
  std::vector<std::pair<const Computation*, CallNesting>> result;
  Known known;
  std::unordered_set<const Computation*> open;
  std::vector<CallVisit> stack;  // no recursion: the depth is what is asked for
  const auto enter = [&](const Computation* computation) {
    if (known.contains(computation)) return;
    if (!open.insert(computation).second)
      user_error(place_of(*computation),
                 "{}: the computation calls itself; HLO has no recursion, write a while loop",
                 computation->name());
    stack.push_back({computation, called_by(*computation)});
  };
  for (const Computation* root : roots) {
    enter(root);
    while (!stack.empty()) {
      CallVisit& visit = stack.back();
      if (visit.next < visit.called_by.size()) {
        enter(visit.called_by[visit.next++]);
        continue;
      }
      result.emplace_back(visit.computation, nesting_of(*visit.computation, known));
      known.insert(result.back());
      open.erase(visit.computation);
      stack.pop_back();
    }
  }
  return result;
}

}  // namespace

std::vector<const Computation*> check_call_depth(const Computation& entry) {
  std::vector<const Computation*> reached;
  const Computation* const roots[] = {&entry};
  for (const auto& [computation, nesting] : call_nesting(roots)) {
    if (nesting.calls > kDeepestCalls)
      user_error(place_of(*computation), "{}: calls nest more than {} deep; inline some of them",
                 computation->name(), kDeepestCalls);
    reached.push_back(computation);
  }
  return reached;
}

void check_nesting(const Module& module) {
  std::vector<const Computation*> roots;
  int64_t given = 0;
  for (const auto& computation : module.computations()) {
    roots.push_back(computation.get());
    given += static_cast<int64_t>(computation->nodes().size());
  }
  const int64_t most = std::max(kMostInstructions, 4 * given);
  for (const auto& [computation, nesting] : call_nesting(roots)) {
    if (nesting.loops > kDeepestCalls)
      user_error(place_of(*computation),
                 "{}: loops and branches nest more than {} deep; inline or unroll some of them",
                 computation->name(), kDeepestCalls);
    if (nesting.instructions > most)
      user_error(
          place_of(*computation),
          "{}: has {} instructions with its calls, loops and branches written out; at most {} are "
          "supported",
          computation->name(), nesting.instructions, most);
  }
}

}  // namespace gspmd
