#include "ops/common/completion.h"

#include <algorithm>

#include "ops/common/completion_rules.h"
#include "ops/sort/sort.h"

namespace gspmd {
namespace {

// Some other dim takes the tiles of `dim` beside its own.
bool can_move_tiles(const Node& node, const Sharding& s, int64_t dim) {
  for (int64_t d = 0; d < node.rank(); ++d)
    if (d != dim && node.dim(d) % (s.tiles(d) * s.tiles(dim)) == 0) return true;
  return false;
}

}  // namespace

// A sharding on the sorted dim goes on only where another dim could take it over.
Proposals sort_forward(const Node& node, CompletionMode) {
  const Node* operand = representative_operand(node);
  const Sharding* s = operand ? tiled_leaf(*operand) : nullptr;
  if (!s) return {};
  const int64_t dim = node.attrs.dimensions.at(0);
  if (s->tiles(dim) > 1 && !can_move_tiles(*operand, *s, dim)) return {};
  int64_t at = 0;
  while (node.operand(at) != operand) ++at;
  return {{*s, at}};
}

}  // namespace gspmd
