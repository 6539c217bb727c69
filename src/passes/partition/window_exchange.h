#pragma once

#include <optional>
#include <vector>

#include "gspmd/moves/reshard.h"
#include "ops/emission/exchange.h"
#include "ops/emission/factor_sharding.h"

namespace gspmd {

// Which dims are opened as sums instead of windows: those all of which is one window, and those
// along which a kernel is split as its input is.
enum class WindowSums : uint8_t { of_whole_dims, of_all };

// The dims of one node whose operand and result positions differ (slices, pads, windows, ...),
// split over devices: each shard of an operand is exchanged for what the device's part of the
// result reads, and the node becomes one on such parts.
class WindowExchange {
 public:
  // Opens the window factors of `rule` that exchanges can serve: they become loops to spread.
  WindowExchange(PartitionContext& spmd, Node& node, FactorRule& rule, WindowSums sums);
  // Takes back what is too large to compute positions of. `unreduced`: operands are left as partial
  // sums. Before anything below.
  void spread(DeviceOrder order, FactorDigits& spread, bool unreduced);
  bool any() const { return any_; }
  bool sums_alike() const;  // whether some are opened that a kernel and its input are split along
  // What a part of dim d of operand i is sent of others where the dim is in so many parts: bytes
  // are elements of the dim. nullopt: no exchange serves it. Before anything above.
  std::optional<ReshardCost> fetched(size_t i, int64_t d, int64_t tiles) const;
  const std::vector<bool>& opened() const { return opened_; }  // by factor, of those at the start

  // What operand i is fetched from: the operand, or what it is a slice of where a concatenation
  // puts slices together (rotations, borders that wrap round).
  Node* source(size_t i) const;
  // The layout as which the choice of a spread may count that of operand i: a kernel whose parts
  // stand in the opposite order of those that it meets, last to first.
  std::optional<Sharding> counted_as(size_t i) const;
  // `layout` of operand i, but with all of the dims that every device has anyway and reads from.
  Sharding layout(size_t i, const Sharding& layout) const;
  // Operand i, whose source's shard is `local`, as the device's part of the node reads it.
  Node* fetch(size_t i, Node* local);
  // How the device's part has dim d of operand 0.
  PartDim part_of(int64_t d) const;
  // The node itself on the fetched operands where it is not one node of its kind; else nullptr.
  Node* emit(const std::vector<Node*>& operands);

 private:
  struct Dim {  // of operand i
    bool split = false;
    ExchangedDim from;
    int64_t size = 0;  // elements of the result
    int64_t part = 0;  // and of its shard
    int64_t factor = 0;
  };
  Dim dim(size_t i, int64_t d) const;
  Access access_of(const WindowSum& sum, int64_t tiles) const;
  void find_joined_dim();
  void open_groups();
  void open_sums(WindowSums sums);
  bool meets_turned(const WindowSum& sum) const;
  bool may_open(size_t factor) const;
  bool is_cumulated_whole(size_t factor) const;
  bool serves(size_t i, const Dim& dim) const;
  bool is_whole(size_t i, int64_t d) const;
  void find_whole_operands();
  const WindowStep& step(size_t i, int64_t d) const;
  WindowAccess access(size_t i, const Dim& dim) const;
  int64_t skipped(size_t i) const;  // elements of the source before operand i
  // By how much a concatenation of two parts of one value turns it round; no value: it does not.
  std::optional<int64_t> rotation() const;
  Node* fetch_summed(const WindowSum& sum, Node* local);
  Node* fill(size_t i);
  Node* concatenate(const std::vector<Node*>& operands);
  void plan_joined();
  bool split_inside_groups(FactorDigits& spread);

  PartitionContext& spmd_;
  Node& node_;
  FactorRule& rule_;  // its `sums` are those that are opened
  std::vector<bool> opened_;
  // Along which operands stand one behind the other, and where those that are pieces of another
  // value begin in it.
  std::optional<int64_t> joined_dim_;
  std::vector<std::optional<int64_t>> starts_;
  // The exchange of all such operands at once; `join_of_` is each one's source in it.
  Join join_;
  std::vector<size_t> join_of_;
  std::vector<std::vector<bool>> on_all_;  // by operand and dim: every device has all of it
  std::optional<JoinPlan> joined_;
  int64_t turned_ = -1;  // the dim of operand 1 whose parts stay in the opposite order
  DeviceOrder order_ = nullptr;
  FactorDigits spread_;
  bool unreduced_ = false;
  bool any_ = false;
};

}  // namespace gspmd
