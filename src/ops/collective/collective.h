#pragma once

#include "gspmd/ir/op.h"

namespace gspmd {

// One collective over all devices of a lockstep: operands[i] are those of devices[i], and so are
// the results. Every group must lie wholly inside `devices` or outside: ExecutionError. Reductions
// combine in the order of the group. The module's num_partitions does not matter, `num_devices`
// does.
std::vector<Value> evaluate_collective(const Node& node, const std::vector<int64_t>& devices,
                                       const std::vector<std::vector<Value>>& operands,
                                       int64_t num_devices, const CallComputation& call);

// The collective that a -start begins; others are themselves.
Opcode sync_form(Opcode opcode);

// Whether a collective of a module that is not partitioned yet gives its operands (a permute
// without pairs: zeros): one without a channel is over replicas, of which there is one.
bool is_over_one_replica(const Node& node);

// UserError where the shapes were declared for groups of another size than they have among these
// devices: text with replica_groups={} does not say how many they are.
void check_group_size(const Node& node, int64_t num_devices);

// The partitioning of what only a per-device program has: always an error.
std::optional<Partitioned> refuse_per_device(PartitionContext& context, Node& node);

}  // namespace gspmd
