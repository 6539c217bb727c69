#include "gspmd/passes/simplify/simplify.h"

namespace gspmd {

bool eliminate_dead_code(Module& module) {
  int64_t removed = 0;
  for (const std::unique_ptr<Computation>& computation : module.computations())
    removed += computation->remove_dead();
  return removed + module.remove_unreachable() > 0;
}

}  // namespace gspmd
