#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
#include "ops/rows.h"

namespace gspmd {
namespace {

constexpr std::span<const OpInfo> (*kFamilies[])() = {
    source_rows, elementwise_rows, shape_rows,   dot_rows,
    reduce_rows, index_rows,       control_rows, collective_rows,
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
  for (const PartitionAspect& aspect : partition_aspects())
    row(aspect.opcode).partition = aspect.partition;
  for (const PropagateAspect& aspect : propagate_aspects()) {
    row(aspect.opcode).forward_sharding = aspect.forward;
    row(aspect.opcode).backward_sharding = aspect.backward;
    row(aspect.opcode).may_be_tiled = aspect.may_be_tiled;
  }
  for (const LowerAspect& aspect : lower_aspects()) row(aspect.opcode).lower = aspect.lower;
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i].infer == nullptr)
      internal_error("op table: no row for {}", opcode_name(static_cast<Opcode>(i)));
  return table;
}

}  // namespace

const OpInfo& op_info(Opcode opcode) {
  static const std::vector<OpInfo> table = build_table();
  return table[static_cast<size_t>(opcode)];
}

}  // namespace gspmd
