#include "ops/shape/interleave.h"

#include <algorithm>
#include <cmath>

#include "kernels/interleave.h"
#include "ops/common/loop_lowering.h"

namespace gspmd {
namespace {

// The dim along which a pad puts one element before each but the first (low 0) or before each one
// (low 1); -1: it is no such pad.
int64_t spread_dim(const Node& pad) {
  int64_t found = -1;
  for (size_t d = 0; d < pad.attrs.padding.size(); ++d) {
    const PaddingDim& p = pad.attrs.padding[d];
    if (p == PaddingDim{}) continue;
    if (found >= 0 || p.interior != 1 || p.low < 0 || p.low > 1) return -1;
    found = static_cast<int64_t>(d);
  }
  return found;
}

int64_t low_of(const Node& pad) {
  return pad.attrs.padding[static_cast<size_t>(spread_dim(pad))].low;
}

bool is_number(const Node& constant) {
  return constant.is(Opcode::constant) && constant.rank() == 0 && !constant.attrs.literal.empty() &&
         !std::isnan(constant.attrs.literal.at(0));
}

// The kernel of what `node` is if it is an interleave.
PreparedKernel kernel_of(const Node& node) {
  const Node &x = *node.operand(0), &value = *x.operand(1);
  const auto dim = static_cast<size_t>(spread_dim(x));
  Interleave spec;
  for (size_t d = 0; d < node.dims().size(); ++d)
    (d < dim ? spec.outer : d > dim ? spec.inner : spec.size) *= node.dims()[d];
  spec.op = *loop_op(node);
  spec.other = value.attrs.literal;
  return prepare_interleave(std::move(spec));
}

}  // namespace

bool is_interleave(const Node& node) {
  if (!node.is(Opcode::add) && !node.is(Opcode::or_)) return false;
  const Node &x = *node.operand(0), &y = *node.operand(1);
  if (!x.is(Opcode::pad) || !y.is(Opcode::pad) || node.shape.elements_count() == 0) return false;
  const int64_t dim = spread_dim(x);
  if (dim < 0 || spread_dim(y) != dim || x.operand(1) != y.operand(1) || !is_number(*x.operand(1)))
    return false;
  const int64_t size = node.dim(dim), odds = size / 2;
  const Node &evens_of = low_of(x) == 0 ? x : y, &odds_of = low_of(x) == 0 ? y : x;
  return low_of(x) != low_of(y) && evens_of.operand(0)->dim(dim) == size - odds &&
         odds_of.operand(0)->dim(dim) == odds && kernel_of(node).run;
}

int64_t first_of_interleave(const Node& node) { return low_of(*node.operand(0)) == 0 ? 0 : 1; }

PreparedKernel lower_interleave(const Node& fusion) {
  const Node& root = *fusion.called.at(0)->root();
  return is_interleave(root) ? kernel_of(root) : PreparedKernel{};
}

}  // namespace gspmd
