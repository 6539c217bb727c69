#pragma once

#include <optional>
#include <vector>

#include "gspmd/passes/reshard.h"

namespace gspmd {

// A layout in terms of atoms (indices into a common refinement): per dim major first, and the atoms
// along which the value is still a partial result, ascending.
struct AtomLayout {
  std::vector<std::vector<int>> dims;
  std::vector<int> unreduced;
  auto operator<=>(const AtomLayout&) const = default;
};

// Dijkstra over atom layouts of one device order.
class ReshardSearch {
 public:
  ReshardSearch(const Shape& global, DeviceOrder order, Digits atoms, AtomLayout from, AtomLayout to,
                Combiner combiner);
  ReshardPlan run();

 private:
  struct Move {
    ReshardKind kind;
    int64_t dim = -1, dim_to = -1;
    std::vector<int> atoms;
    AtomLayout after;
    int64_t bytes = 0;
  };
  struct Reached {
    ReshardCost cost;
    AtomLayout before;
    Move move;
    bool done = false;
    bool start = false;
  };

  void moves(const AtomLayout& s, std::vector<Move>& out) const;
  void gathers(const AtomLayout& s, std::vector<Move>& out) const;
  void slices(const AtomLayout& s, std::vector<Move>& out) const;
  void exchanges(const AtomLayout& s, std::vector<Move>& out) const;
  void permutes(const AtomLayout& s, std::vector<Move>& out) const;
  void reductions(const AtomLayout& s, std::vector<Move>& out) const;

  int64_t tiles(const std::vector<int>& atoms) const;
  int64_t local_bytes(const AtomLayout& s) const;
  // Whether shards over `fine` tiles of dim d lie inside shards over `coarse` tiles, or the dim is whole.
  bool nests(int64_t d, int64_t coarse, int64_t fine) const;
  bool wanted_on(int64_t d, int atom) const;
  bool is_free(const AtomLayout& s, int atom) const;
  Digits digits(const std::vector<int>& atoms) const;
  Sharding sharding(const AtomLayout& s) const;
  ReshardPlan plan_of(const std::vector<const Reached*>& path) const;

  const Shape& global_;
  DeviceOrder order_;
  Digits atoms_;
  AtomLayout from_, to_;
  Combiner combiner_;
};

}  // namespace gspmd
