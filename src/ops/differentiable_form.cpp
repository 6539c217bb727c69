#include "ops/common/differentiable_form.h"

#include <algorithm>

#include "ops/batch_norm/form.h"
#include "ops/dot/form.h"
#include "ops/elementwise/map.h"
#include "ops/gather_scatter/form.h"
#include "ops/linalg/gradient.h"
#include "ops/reduce/form.h"
#include "ops/scan/form.h"
#include "ops/window/gradient.h"

namespace gspmd {
namespace {

struct Row {
  Opcode opcode;
  Node* (*form)(Node& node);
};
constexpr Row kRows[] = {
    {Opcode::batch_norm_inference, batch_norm_inference_form},
    {Opcode::cholesky, cholesky_form},
    {Opcode::map, map_form},
    {Opcode::ragged_dot, ragged_dot_form},
    {Opcode::reduce, reduce_form},
    {Opcode::reduce_window, reduce_window_form},
    {Opcode::scaled_dot, scaled_dot_form},
    {Opcode::scan, scan_form},
    {Opcode::scatter, scatter_form},
};

const Row* row_of(Opcode opcode) {
  const auto* const found = std::find_if(std::begin(kRows), std::end(kRows),
                                         [&](const Row& row) { return row.opcode == opcode; });
  return found == std::end(kRows) ? nullptr : found;
}

}  // namespace

bool has_differentiable_form(Opcode opcode) { return row_of(opcode) != nullptr; }

Node* differentiable_form(Node& node) {
  const Row* const row = row_of(node.opcode());
  return row == nullptr ? nullptr : row->form(node);
}

}  // namespace gspmd
