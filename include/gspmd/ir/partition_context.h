#pragma once

// What the partitioning of one op may ask and emit.

#include <optional>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/op.h"

namespace gspmd {

// What an op's `partition` may ask; implemented by passes.
class GSPMD_API PartitionContext {
 public:
  virtual ~PartitionContext() = default;
  virtual Computation& local() = 0;                        // the program being built
  virtual const Sharding& sharding(const Node& node) = 0;  // completed
  virtual Partitioned held(Node* global) = 0;              // as it is held, maybe unreduced
  virtual Node* reshard(Node* global,
                        const Sharding& to) = 0;  // local value in that layout, cached
  // As above, of a value that is not in the module.
  virtual Node* reshard(const Partitioned& value, const Shape& global, const Sharding& to) = 0;
  virtual Node* tile_index(const Sharding& sharding, int64_t dim) = 0;  // s32[] of this device
  virtual Node* offset(const Sharding& sharding, const Shape& global, int64_t dim) = 0;  // s32[]
  // Tail of uneven dims (those in `dims`) replaced by `value`, a scalar node.
  virtual Node* mask_tail(Node* local, const Shape& global, const Sharding& sharding,
                          const std::vector<int64_t>& dims, Node* value) = 0;
  // Appends a node to the program being built; `shape` is checked by the op's rule.
  virtual Node* emit(Opcode opcode, Shape shape, std::vector<Node*> operands, Attributes attrs = {},
                     std::vector<Computation*> called = {}) = 0;
  virtual Computation* local_computation(const Computation& global) = 0;  // to_apply and the like
  // A called computation of one parameter (bodies of while), partitioned with these layouts.
  virtual Computation* partition_called(const Computation& global, const Sharding& parameter,
                                        const Sharding& result) = 0;
  // Whether `reader` should read its operand as it is held, unreduced: it is the only reader.
  virtual bool keeps_unreduced(const Node& reader, int64_t operand) = 0;

  virtual int64_t num_devices() const = 0;  // of the program
  // The index of this device in the group that `digits` span, s32[]. Devices that are not in the
  // order count as if they were others again.
  virtual Node* digits_index(DeviceOrder order, const Digits& digits) = 0;
  // The groups of devices that `digits` span. Devices that are not in the order form groups as
  // well, for nothing: a collective names all devices.
  virtual ReplicaGroups groups(DeviceOrder order, const Digits& digits) const = 0;
  // As reshard, of a table that is looked up: moves/table_reshard.h.
  virtual Node* reshard_table(Node* global, const Sharding& to) = 0;
  // That the value of `node` has elements in the program which nobody reads and which are not those
  // of the node: it is no value to compare.
  virtual void leaves_elements_out(const Node& node) = 0;
};

}  // namespace gspmd
