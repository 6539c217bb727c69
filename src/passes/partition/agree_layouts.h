#pragma once

#include <unordered_set>

#include "gspmd/ir/module.h"
#include "gspmd/passes/partition/partition.h"

namespace gspmd {

class SpmdPartitioner;

// As partition(), where the nodes with these ids have the layouts that completion gave them and
// nobody else: they may get others.
PartitionResult partition(const Module& module, const PartitionOptions& options,
                          std::unordered_set<int64_t> open);

// Lays values that nobody annotated out as their makers and readers agree best: those between
// products, with what is computed of them element by element. Completion carried a layout there
// without looking at what moving it sends. Before any node of the computation is partitioned.
void agree_layouts(SpmdPartitioner& spmd, const Computation& computation);

}  // namespace gspmd
