#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "gspmd/base/inline_vector.h"
#include "gspmd/moves/reshard.h"
#include "moves/halo.h"
#include "moves/pieces.h"

namespace gspmd {

// Indices into a common refinement of the digits of two layouts.
using Atoms = InlineVector<int, 6>;

// A layout in terms of atoms (indices into a common refinement): per dim major first, and the atoms
// along which the value is still a partial result, ascending. `ordered` says which device order the
// atoms count in: 0 that of the source, 1 that of the target.
struct AtomLayout {
  std::vector<Atoms> dims;
  Atoms unreduced;
  int ordered = 0;
  auto operator<=>(const AtomLayout&) const = default;
};

struct ReshardProblem {
  const Shape& global;
  DeviceOrder orders[2];  // of the source and of the target; equal in most cases
  Digits atoms[2];        // the refinements that layouts use in either; the same list in one order
  AtomLayout from, to;
  Combiner combiner = Combiner::sum;  // of what is unreduced
  Digits manual;                      // kept as they are
  int64_t num_devices = 1;            // of the program; the orders may have fewer
  bool in_pieces = false;             // whether parts of shards may be sent by permutes
  bool has_empty = false;             // whether shards may be empty, of few devices
  bool two_orders() const { return to.ordered == 1; }
  // Whether groups of an order's devices can be completed to groups of all devices.
  bool has_groups(int ordered) const { return num_devices % orders[ordered]->count == 0; }
  bool needs_pieces() const { return in_pieces || !has_groups(0); }
};

// Of all searches of the process so far, for tests.
int64_t reshard_moves_looked_at();

// Shortest paths over atom layouts.
class ReshardSearch {
 public:
  static constexpr int64_t kFewDevices = 64;  // for which tables of devices are looked at
  explicit ReshardSearch(ReshardProblem problem);
  ReshardPlan run() const;
  // A path that sends fewer bytes, where there is one.
  std::optional<ReshardPlan> run_below(int64_t bytes) const;
  // Straight to the target piece by piece, where devices are few and that sends fewer bytes.
  std::optional<ReshardPlan> pieces_below(int64_t bytes) const;

 private:
  struct MovedAtoms {
    int64_t dim = -1, dim_to = -1;
    Atoms atoms;
  };
  struct Move {
    ReshardKind kind;
    int64_t dim = -1, dim_to = -1;
    Atoms atoms;
    AtomLayout after;
    int64_t bytes = 0;
    bool realigned = false;
    bool counted = true;  // else bytes and steps are to be found by planning pieces
    int64_t steps = 1;    // 0: the same under another name
    std::shared_ptr<const PieceTransfer> pieces = nullptr;
    std::vector<MovedAtoms> also = {};  // all_to_all
  };
  static constexpr int kCornerAtoms = 6;
  static constexpr int64_t kManyDevices = 4096;
  static constexpr int64_t kMostListed = int64_t(1) << 17;  // devices of a program with tables
  static constexpr int64_t kMostRounds = 16;                // of pieces, where there is another way
  class Run;
  struct Reached {
    ReshardCost cost;
    const AtomLayout* before = nullptr;  // nullptr: the start
    Move move;
  };
  // Everything gathered, then sliced: always a way.
  ReshardPlan through_whole() const;
  // The way where groups of devices cannot be formed: piece by piece, to another set of devices
  // through the whole.
  ReshardPlan without_groups() const;
  // The path that is found with `moves`, where it costs less than `limit`.
  using Moves = void (ReshardSearch::*)(const AtomLayout&, bool permuted, std::vector<Move>&) const;
  std::optional<ReshardPlan> search(Moves moves, ReshardCost limit) const;

  // What the target has a use for, of permutes one swap at a time.
  void likely_moves(const AtomLayout& s, bool, std::vector<Move>& out) const;
  void wanted_slices(const AtomLayout& s, std::vector<Move>& out) const;
  void wanted_permutes(const AtomLayout& s, std::vector<Move>& out) const;
  void reductions(const AtomLayout& s, std::vector<Move>& out) const;
  // Everything that a step can do; `permuted`: but permutes.
  void all_moves(const AtomLayout& s, bool permuted, std::vector<Move>& out) const;
  void add_slice(const AtomLayout& s, const Move& run, std::vector<Move>& out) const;
  void slices(const AtomLayout& s, Move& run, std::vector<Move>& out) const;
  void permutes(const AtomLayout& s, AtomLayout& after, size_t dim, std::vector<Move>& out) const;
  // From one order to the other, or from one set of devices to another.
  void crossings(const AtomLayout& s, std::vector<Move>& out) const;
  std::optional<Move> crossing(const AtomLayout& s, const AtomLayout& after) const;
  Move whole_crossing(const AtomLayout& s, const AtomLayout& after) const;
  Move broadcast(const AtomLayout& s, const AtomLayout& after,
                 std::vector<std::vector<int64_t>> groups) const;
  void piecewise(const AtomLayout& s, std::vector<Move>& out) const;
  void cuts(const AtomLayout& s, std::vector<Move>& out) const;
  bool refines_source(const AtomLayout& s) const;
  void place(AtomLayout& layout, std::vector<AtomLayout>& out) const;
  std::vector<AtomLayout> all_layouts(int ordered) const;
  void count_pieces(const AtomLayout& before, Move& move) const;
  // As count_pieces, which has gone before, with what devices hand on: where that sends less, and
  // less than `below` bytes.
  void relay_pieces(const AtomLayout& before, Move& move, int64_t below) const;
  void set_pieces(const AtomLayout& before, Move& move,
                  std::shared_ptr<const PieceTransfer> transfer) const;
  std::shared_ptr<const PieceTransfer> pieces(const AtomLayout& before,
                                              const AtomLayout& after) const;
  int64_t bytes_needed(const AtomLayout& before, const AtomLayout& after) const;
  // Of which at least so many rounds are made: each sends no more than a shard.
  int64_t rounds_needed(const AtomLayout& before, const AtomLayout& after, int64_t bytes) const;
  // Who has what; kept where devices are few.
  using Boxes = std::shared_ptr<const std::vector<HeldBox>>;
  Boxes boxes(const AtomLayout& s) const;
  Dims local_dims(const AtomLayout& s) const;
  bool is_few() const { return std::max(p_.orders[0]->count, p_.orders[1]->count) <= kFewDevices; }
  // The likely ones only to dims that want what is moved.
  void gathers(const AtomLayout& s, std::vector<Move>& out) const;
  Move gather(const AtomLayout& s, size_t d, size_t count) const;
  Move permute(const AtomLayout& s, AtomLayout after) const;
  void exchanges(const AtomLayout& s, bool wanted_only, std::vector<Move>& out) const;
  // Several of them in one all-to-all; `runs` so far lead to `after`.
  void joint_exchanges(const AtomLayout& s, bool wanted_only, std::vector<Move>& out) const;
  void joint_exchanges(const AtomLayout& s, bool wanted_only, AtomLayout& after,
                       std::vector<MovedAtoms>& runs, std::vector<Move>& out) const;
  void add_joint(const AtomLayout& s, const AtomLayout& after, const std::vector<MovedAtoms>& runs,
                 std::vector<Move>& out) const;

  const Digits& atoms_of(const AtomLayout& s) const { return p_.atoms[s.ordered]; }
  int64_t tiles(const Atoms& atoms, int ordered) const;
  int64_t local_bytes(const AtomLayout& s) const;
  bool is_whole(const AtomLayout& s) const;
  // The part of a dim that a device holds; bit i of `corner`: its coordinate along atom i is the
  // last one, else the first.
  Interval held(const AtomLayout& s, size_t dim, uint32_t corner) const;
  // A lower bound on the bytes still to be sent: what the device that is worst off lacks.
  int64_t bytes_missing(const AtomLayout& s) const;
  // Whether shards over `fine` tiles of dim d lie inside shards over `coarse` tiles, or the dim is
  // whole.
  bool nests(int64_t d, int64_t coarse, int64_t fine) const;
  // Bytes that one device is sent beside when dim d, held as in `from`, is split or joined as in
  // `to`: the shards of the finer one, side by side, are none of the coarser one where the dim is
  // uneven. The other dims as in s. Too many where positions do not fit.
  int64_t realign_bytes(const AtomLayout& s, size_t d, const Atoms& from, const Atoms& to) const;
  bool wanted_on(int64_t d, int atom) const;
  bool is_free(const AtomLayout& s, int atom) const;
  Digits digits(const Atoms& atoms, int ordered) const;
  Sharding sharding(const AtomLayout& s) const;
  ReshardPlan plan_of(const std::vector<const Move*>& path) const;
  ReshardPlan plan_of(const std::vector<Move>& moves) const;
  void slice_whole(AtomLayout here, std::vector<Move>& moves) const;

  uint32_t corners() const { return 1u << std::min<size_t>(kCornerAtoms, p_.atoms[0].size()); }

  ReshardProblem p_;
  std::vector<Interval> wanted_;  // what the target holds, by corner and dim
  mutable std::map<AtomLayout, Boxes> boxes_;
  // All layouts, and who has what in each; filled where values may be cut in place.
  mutable std::vector<std::pair<AtomLayout, Boxes>> cuttable_;
  mutable std::map<Dims, int64_t> realigned_;  // elements by dim, tiles and shards
};

}  // namespace gspmd
