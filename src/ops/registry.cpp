#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
#include "ops/common/completion_rules.h"
#include "ops/custom/custom.h"
#include "ops/library/library.h"
#include "ops/rows.h"
#include "ops/sort/sort.h"

namespace gspmd {
namespace {

constexpr std::span<const OpInfo> (*kFamilies[])() = {
    source_rows,     elementwise_rows,
    shape_rows,      dot_rows,
    reduce_rows,     gather_scatter_rows,
    control_rows,    collective_rows,
    window_rows,     convolution_rows,
    sort_rows,       scan_rows,
    linalg_rows,     fft_rows,
    ragged_dot_rows, map_rows,
    batch_norm_rows, random_rows,
    async_rows,      dimension_size_rows,
};

std::vector<OpInfo> build_table() {
  std::vector<OpInfo> table(static_cast<size_t>(opcode_count()));
  const auto row = [&](Opcode opcode) -> OpInfo& { return table[static_cast<size_t>(opcode)]; };
  for (const auto family : kFamilies)
    for (const OpInfo& info : family()) {
      if (row(info.opcode).infer != nullptr)
        internal_error("op table: two rows for {}", opcode_name(info.opcode));
      row(info.opcode) = info;
    }
  // Read and printed only: the declared shape stands, every other aspect is missing.
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i].infer == nullptr) {
      table[i].opcode = static_cast<Opcode>(i);
      table[i].operands = {0, -1};
      table[i].infer = [](const Node& node) { return node.shape; };
      table[i].completion = kPointwiseCompletion;
    }
  return table;
}

}  // namespace

const OpInfo& op_info(Opcode opcode) {
  static const std::vector<OpInfo> table = build_table();
  return table[static_cast<size_t>(opcode)];
}

const OpInfo& custom_call_info(const Node& custom_call) {
  const OpInfo* const added = custom_op_info(custom_call);
  if (added != nullptr) return *added;
  const OpInfo* const library = library_call_info(custom_call);
  if (library != nullptr) return *library;
  const OpInfo* const top_k = top_k_call_info(custom_call);
  if (top_k != nullptr) return *top_k;
  const OpInfo* const approximate = approximate_top_k_info(custom_call);
  return approximate != nullptr ? *approximate : op_info(Opcode::custom_call);
}

}  // namespace gspmd
