#include "gspmd/passes/fuse/fuse.h"

#include <set>

#include "passes/fuse/fuse_steps.h"

namespace gspmd {
namespace {

// The computations that run step by step: the entry, loops, branches and calls below it.
void collect(Computation* computation, std::set<Computation*>& seen,
             std::vector<Computation*>& out) {
  if (!seen.insert(computation).second) return;
  out.push_back(computation);
  for (const auto& node : computation->nodes()) {
    if (!node->is(Opcode::while_) && !node->is(Opcode::call) && !node->is(Opcode::conditional))
      continue;
    for (Computation* called : node->called) collect(called, seen, out);
  }
}

}  // namespace

bool fuse(Module& local) {
  std::set<Computation*> seen;
  std::vector<Computation*> running;
  if (local.entry() != nullptr) collect(local.entry(), seen, running);
  bool changed = false;
  for (Computation* computation : running) {
    changed |= fuse_dots(*computation);
    changed |= fuse_loops(*computation);
  }
  if (changed) local.sort_computations();  // the new ones stand behind the entry
  return changed;
}

}  // namespace gspmd
