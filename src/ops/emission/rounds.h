#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "gspmd/ir/partition_context.h"
#include "ops/emission/index.h"

namespace gspmd {

// By tile, one number each.
using Table = std::vector<int64_t>;

// Where a device's part of the result begins along one dim, in the whole; the same by tile.
struct ResultDim {
  int64_t dim = 0;
  IndexNode first;
  Table firsts;
};

// What a device takes of a piece along a dim of the result, by positions in the whole.
struct TakenPart {
  std::optional<IndexNode> begin;     // of the piece; nullopt: it lies as the result does
  std::optional<IndexNode> from, to;  // [from, to) is taken; nullopt: all that the result has
  // Least and greatest of where the result begins less `begin`, over the devices that take
  // anything; nullopt: not known, and the piece is padded by the result's size on both sides.
  std::optional<std::pair<int64_t, int64_t>> ahead = std::nullopt;
};

// The same by tile, for each of these dims, and the tiles that take anything. What is taken lies in
// the piece and in the tile's part of the result.
struct TakenTables {
  struct Along {
    Table begins, from, to;
  };
  TakenTables(size_t dims, int64_t tiles);

  Table takes;  // 1 for tiles that do
  std::vector<Along> along;
};

// The emission of rounds in which tiles of `digits` send each other pieces: a piece is cut from
// what a tile has, permuted, aligned with the result, and selected where the result takes it. What
// differs from tile to tile is looked up in tables.
class Rounds {
 public:
  // For a result of these dims. Pieces have its size along those that are not added.
  Rounds(PartitionContext& spmd, DeviceOrder order, Digits digits, Dims result);
  void add_dim(ResultDim dim) { result_.push_back(std::move(dim)); }

  // The number of this device's tile; no table where all are the same or stand in a line.
  IndexNode look_up(const Table& table);
  // `one` where the table has 1, `other` where it has 0.
  Node* chosen(const Table& table, Node* one, Node* other);
  // What each tile is sent by the pairs {source, target}, alike for every choice of other digits.
  Node* permuted(Node* sent, const std::vector<std::pair<int64_t, int64_t>>& pairs);

  // --- The result with what is taken of the piece, which stands among elements `outside` (nullptr:
  // --- 0) that nobody takes. A result of nullptr: there is none yet, what is not taken is anything
  Node* take(Node* piece, const std::vector<TakenPart>& parts, Node* result, Node* outside);
  Node* take(Node* piece, const TakenTables& tables, Node* result, Node* outside);

 private:
  IndexNode tile() { return IndexNode(spmd_.digits_index(order_, digits_)); }
  // Whether all of the piece is taken, into the middle of the result, by whoever takes anything.
  bool stands_inside(const Node* piece, const TakenTables& tables) const;
  Node* put(Node* piece, const TakenTables& tables, Node* result);  // one that does
  Node* aligned(Node* piece, const std::vector<TakenPart>& parts, Node* outside);

  PartitionContext& spmd_;
  DeviceOrder order_;
  Digits digits_;
  Dims dims_;
  std::vector<ResultDim> result_;
};

}  // namespace gspmd
