#pragma once

#include <map>
#include <vector>

#include "gspmd/moves/reshard.h"

namespace gspmd::testing {

// A layout as lists of mesh axes per dim, major first.
using AxisLists = std::vector<std::vector<int64_t>>;

// Every way to put each axis on one of `rank` dims, in any order within a dim, or on none.
std::vector<AxisLists> all_axis_lists(int64_t axes, int64_t rank);
Sharding sharding_of(const Mesh& mesh, const AxisLists& lists);

// The cheapest costs from one layout to all others by brute force: every gather, slice, all-to-all
// and permutation of any axes is tried, whether the target has a use for it or not.
class ReshardReference {
 public:
  ReshardReference(const Mesh& mesh, Shape global);
  const std::vector<AxisLists>& layouts() const { return layouts_; }
  std::vector<ReshardCost> costs_from(size_t layout) const;

 private:
  struct Edge {
    size_t to;
    int64_t bytes;
  };
  int64_t tiles(const std::vector<int64_t>& axes) const;
  int64_t local_bytes(const AxisLists& lists) const;
  bool nests(size_t dim, const std::vector<int64_t>& coarse,
             const std::vector<int64_t>& fine) const;
  std::vector<Edge> edges(size_t layout) const;
  // Runs of axes from several dims to others in one all-to-all; `now` is where they lead, `padded`
  // what is sent, `cut` the dims that lose (1) or gain (2).
  void joint_moves(const AxisLists& lists, const AxisLists& now, const AxisLists& padded,
                   const std::vector<int>& cut, int runs, std::vector<Edge>& out) const;
  void moves_of_dim(const AxisLists& lists, size_t dim, std::vector<Edge>& out) const;
  void slices(const AxisLists& start, AxisLists& now, size_t dim, std::vector<Edge>& out) const;

  Mesh mesh_;
  Shape global_;
  std::vector<AxisLists> layouts_;
  std::map<AxisLists, size_t> index_;
  std::vector<std::vector<Edge>> edges_;
};

}  // namespace gspmd::testing
