#pragma once

#include <optional>
#include <vector>

#include "ops/emission/exchange.h"
#include "ops/emission/factor_sharding.h"

namespace gspmd {

// The dims of one node whose operand and result positions differ (slices, pads, windows, ...),
// split over devices: each shard of an operand is exchanged for what the device's part of the
// result reads, and the node becomes one on such parts.
class Windows {
 public:
  // Opens the window factors of `rule` that exchanges can serve: they become loops to spread.
  Windows(PartitionContext& spmd, Node& node, FactorRule& rule);
  // Takes back what is too large to compute positions of. `unreduced`: operands are left as partial
  // sums. Before anything below.
  void spread(DeviceOrder order, FactorDigits& spread, bool unreduced);
  bool any() const { return any_; }
  const std::vector<bool>& opened() const { return opened_; }  // by factor, of those at the start

  // What operand i is fetched from: the operand, or what it is a slice of where a concatenation
  // puts slices together (rotations, borders that wrap round).
  Node* source(size_t i) const;
  // `layout` of operand i, but with all of the dims that every device has anyway and reads from.
  Sharding layout(size_t i, const Sharding& layout) const;
  // Operand i, whose source's shard is `local`, as the device's part of the node reads it.
  Node* fetch(size_t i, Node* local);
  // Those of the node on parts.
  Attributes attributes(Attributes attrs) const;
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
  void open_groups(FactorRule& rule);
  void open_kernel(FactorRule& rule);
  void open_whole(FactorRule& rule);
  bool may_open(size_t factor) const;
  bool is_cumulated_whole(size_t factor) const;
  bool serves(size_t i, int64_t d) const;
  bool is_whole(size_t i, int64_t d) const;
  void find_whole_operands();
  const WindowStep& step(size_t i, int64_t d) const;
  WindowAccess access(size_t i, const Dim& dim) const;
  const WindowDim& window(int64_t d) const;
  size_t window_index(int64_t d) const;
  // By how much a concatenation of two parts of one value turns it round; no value: it does not.
  std::optional<int64_t> rotation() const;
  Node* fetch_summed(int64_t d, Node* local);
  Node* fill(size_t i);
  Node* concatenate(const std::vector<Node*>& operands);
  void plan_joined();
  bool split_inside_groups(FactorDigits& spread);

  PartitionContext& spmd_;
  Node& node_;
  FactorRule& rule_;
  std::vector<bool> opened_;
  bool pools_ = false;  // a reduction by windows
  bool joins_ = false;  // operands stand one behind the other
  // Of a convolution: the factor that feature or batch groups are, -1: none; and by spatial dim
  // whether input and kernel are split alike there, each device doing its part of the sum.
  int64_t groups_ = -1;
  std::vector<bool> summed_;
  std::vector<int64_t> whole_;  // dims of a reduce-window with one window, over all of the dim
  // Of a concatenation: the exchange of all operands at once; `join_of_` is each one's source in
  // it.
  Join join_;
  std::vector<size_t> join_of_;
  std::vector<std::vector<bool>> on_all_;  // by operand and dim: every device has all of it
  std::optional<JoinPlan> joined_;
  DeviceOrder order_ = nullptr;
  FactorDigits spread_;
  bool unreduced_ = false;
  bool any_ = false;
};

}  // namespace gspmd
