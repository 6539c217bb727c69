#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "gspmd/ir/partition_context.h"
#include "gspmd/moves/reshard.h"
#include "gspmd/passes/partition/partition.h"
#include "mesh/device_terms.h"
#include "passes/partition/factor_sharding_memo.h"

namespace gspmd {

// Builds the per-device module of one completed module. One frame per computation being
// partitioned.
class SpmdPartitioner final : public PartitionContext {
 public:
  SpmdPartitioner(const Module& global, const PartitionOptions& options,
                  std::unordered_set<int64_t> open = {});
  PartitionResult run();

  Computation& local() override { return *frame_->local; }
  const Sharding& sharding(const Node& node) override;
  Partitioned held(Node* global) override;
  Node* reshard(Node* global, const Sharding& to) override;
  Node* reshard(const Partitioned& value, const Shape& global, const Sharding& to) override;
  Node* tile_index(const Sharding& sharding, int64_t dim) override;
  Node* offset(const Sharding& sharding, const Shape& global, int64_t dim) override;
  Node* mask_tail(Node* local, const Shape& global, const Sharding& sharding,
                  const std::vector<int64_t>& dims, Node* value) override;
  Node* emit(Opcode opcode, Shape shape, std::vector<Node*> operands, Attributes attrs = {},
             std::vector<Computation*> called = {}) override;
  Computation* local_computation(const Computation& global) override;
  Computation* partition_called(const Computation& global, const Sharding& parameter,
                                const Sharding& result) override;
  bool keeps_unreduced(const Node& reader, int64_t operand) override;
  int64_t num_devices() const override { return num_devices_; }
  Node* digits_index(DeviceOrder order, const Digits& digits) override;
  ReplicaGroups groups(DeviceOrder order, const Digits& digits) const override;
  Node* reshard_table(Node* global, const Sharding& to) override;
  // Layouts in which the node being partitioned finds a value without moving it again.
  std::vector<Sharding> layouts_of(const Node& global) const;
  // Whether nobody annotated the node: another layout than the completed one will do.
  bool is_open(const Node& node) const { return open_.contains(node.id()); }
  void lay_out(const Node& node, const Sharding& layout);
  FactorShardingMemo& factor_shardings() { return factor_shardings_; }
  void leaves_elements_out(const Node& node) override { incomplete_.insert(node.id()); }
  bool is_at_hand(Node& global);
  bool is_only_cut(const Node& node, const Sharding& made);

 private:
  struct Layout {  // one layout of a value that a reader asked for
    Sharding sharding;
    Node* local = nullptr;
    bool backward = false;
  };
  struct Entry {
    Partitioned held;
    std::vector<Layout> layouts;
  };
  struct Frame {
    Computation* local = nullptr;
    std::unordered_map<int64_t, Entry> values;                // by global node id
    std::map<std::pair<DeviceOrder, Digits>, Node*> indices;  // digits_index
    std::map<DeviceOrder, Node*> ranks;  // rank_node of orders that list their devices
    Node* partition_id = nullptr;
  };

  // What a layout of a value is made from: a layout of it, one element of each dim along which all
  // are alike, or what the value is a rearrangement of.
  enum class Source : uint8_t { layout, one_of_alike, origin };
  struct Way {
    int64_t bytes = 0;
    Source source = Source::layout;
    Partitioned value;
  };
  Way cheapest_way(Node& global, const Sharding& to, bool backward, int origins);
  Node* by_cheapest_way(Node& global, const Sharding& to, bool backward);
  Node* from_one_of_alike(const Node& global, const Partitioned& value, const Sharding& to);
  Node* from_origin(Node& global, const Sharding& to);
  std::vector<bool> uniform_dims(const Node& node, int operands_back);
  std::vector<bool> narrowed_dims(const Node& node, const Sharding& from);

  void partition_computation(const Computation& global, Computation& local);
  void partition_node(Node& node);
  Partitioned make_parameter(Node& node);
  Partitioned partition_op(Node& node);
  void finish_root(const Computation& global, const Sharding& wanted);
  void keep_layouts();
  Partitioned settle(const Node& node, const Partitioned& value);
  Node* recompute_in(Node& global, const Sharding& to);
  Node* rank_node(DeviceOrder order);
  Node* tile_number(const DeviceFunction& tile);
  void check_placement(const Node& node, const Shape& shape, const Sharding& given) const;
  std::optional<Sharding>& placement(const Node& node);
  const Sharding& placed(const Node& node);
  const Node& maker_of_sum(const Node& value) const;
  Metadata cause_of(const Node& moved, bool sums) const;
  void report(const Shape& shape, const Sharding& from, const Sharding& to);

  const Module& global_;
  int64_t num_devices_;
  const bool poisons_;                     // PartitionOptions::poison_absent
  std::vector<PartitionedValue> layouts_;  // all that values have, where devices are poisoned
  PartitionResult result_;
  std::unique_ptr<Frame> frame_;
  std::deque<std::optional<Sharding>> shardings_;  // by global node id, what is known of them
  std::unordered_map<int64_t, Sharding>
      lifted_;  // the same, of values on some of the devices on all
  // By global node id: dims of elements alike.
  std::unordered_map<int64_t, std::vector<bool>> uniform_;
  std::set<int64_t> incomplete_;  // global nodes that leaves_elements_out has named
  bool widens_layouts_ = false;   // whether the node being partitioned sees the latter
  std::map<const Computation*, Computation*> computations_;
  const std::unordered_set<int64_t> open_;
  FactorShardingMemo factor_shardings_;
  bool moves_table_ = false;      // whether what is resharded is a table
  const Node* moved_ = nullptr;   // the value being resharded
  const Node* reader_ = nullptr;  // the node being partitioned: cause of what is emitted
};

// The plain case: spread the op's loop nest over devices by its factor rule, reshard operands to
// that, run the op on the shards. Sums over devices stay unreduced (docs/spec/partitioning.md 5.1).
Partitioned partition_by_factors(SpmdPartitioner& spmd, Node& node);

}  // namespace gspmd
