#include "ops/control_partition.h"
#include "ops/rows.h"
#include "ops/shape_partition.h"

namespace gspmd {

std::span<const PartitionAspect> partition_aspects() {
  static const PartitionAspect aspects[] = {
      {Opcode::constant, partition_constant},
      {Opcode::iota, partition_iota},
      {Opcode::reshape, partition_reshape},
      {Opcode::tuple, partition_tuple},
      {Opcode::get_tuple_element, partition_get_tuple_element},
      {Opcode::optimization_barrier, partition_opt_barrier},
      {Opcode::while_, partition_while},
      {Opcode::conditional, partition_conditional},
      {Opcode::custom_call, partition_custom_call},
      {Opcode::partition_id, partition_partition_id},
      {Opcode::all_reduce, partition_all_reduce},
      {Opcode::all_gather, partition_partition_id},
      {Opcode::reduce_scatter, partition_partition_id},
      {Opcode::all_to_all, partition_partition_id},
      {Opcode::collective_permute, partition_partition_id},
  };
  return aspects;
}

}  // namespace gspmd
