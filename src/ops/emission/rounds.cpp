#include "ops/emission/rounds.h"

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "ops/emission/collectives.h"

namespace gspmd {

TakenTables::TakenTables(size_t dims, int64_t tiles)
    : takes(static_cast<size_t>(tiles)), along(dims, {takes, takes, takes}) {}

Rounds::Rounds(PartitionContext& spmd, DeviceOrder order, Digits digits, Dims result)
    : spmd_(spmd), order_(order), digits_(std::move(digits)), dims_(std::move(result)) {}

IndexNode Rounds::look_up(const Table& table) {
  const int64_t step = table.size() > 1 ? table[1] - table[0] : 0;
  for (size_t t = 1; t < table.size(); ++t)
    if (table[t] - table[t - 1] != step) return gspmd::look_up(table, tile());
  return step == 0 ? IndexNode(spmd_.local(), table[0]) : tile() * step + table[0];
}

Node* Rounds::chosen(const Table& table, Node* one, Node* other) {
  const IndexNode zero(spmd_.local(), 0);
  Node* const set = compare(look_up(table), zero, Direction::ne);
  return hlo::select(hlo::broadcast(set, one->dims(), {}), one, other);
}

Node* Rounds::permuted(Node* sent, const std::vector<std::pair<int64_t, int64_t>>& pairs) {
  return permute(spmd_, sent, tiles_along(order_, digits_, pairs));
}

Node* Rounds::aligned(Node* piece, const std::vector<TakenPart>& parts, Node* outside) {
  std::vector<PaddingDim> padding(dims_.size());
  std::vector<Node*> starts(dims_.size(), nullptr);
  bool moves = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].begin) continue;
    const auto d = static_cast<size_t>(result_[i].dim);
    const int64_t size = dims_[d];  // no more than that is outside of the piece
    int64_t low = size, high = size;
    if (parts[i].ahead) {
      low = std::clamp<int64_t>(-parts[i].ahead->first, 0, size);
      high =
          std::clamp<int64_t>(parts[i].ahead->second + size - piece->dim(result_[i].dim), 0, size);
    }
    starts[d] = result_[i].first - *parts[i].begin + low;
    padding[d] = {low, high, 0};
    moves = true;
  }
  if (!moves) return piece;
  Node* const padded = pad(piece, std::move(padding), outside);
  Node* const zero = IndexNode(spmd_.local(), 0);
  for (Node*& start : starts)
    if (!start) start = zero;
  return hlo::dynamic_slice(padded, std::move(starts), dims_);
}

Node* Rounds::take(Node* piece, const std::vector<TakenPart>& parts, Node* result, Node* outside) {
  Node* const there = aligned(piece, parts, outside);
  Node* where = nullptr;
  for (size_t i = 0; i < parts.size() && result; ++i) {
    if (!parts[i].from) continue;
    const IndexNode at = positions(dims_, result_[i].dim, result_[i].first);
    Node* const inside = within(at, *parts[i].from, *parts[i].to);
    where = where ? hlo::binary(Opcode::and_, where, inside) : inside;
  }
  return where ? hlo::select(where, there, result) : there;
}

bool Rounds::stands_inside(const Node* piece, const TakenTables& tables) const {
  for (size_t i = 0; i < result_.size(); ++i) {
    const TakenTables::Along& along = tables.along[i];
    const int64_t own = piece->dim(result_[i].dim);
    for (size_t t = 0; t < tables.takes.size(); ++t) {
      const int64_t begin = along.begins[t];
      const bool all = along.from[t] <= begin && along.to[t] >= begin + own;
      if (tables.takes[t] != 0 && !all) return false;
    }
  }
  return true;
}

Node* Rounds::put(Node* piece, const TakenTables& tables, Node* result) {
  std::vector<Node*> starts(dims_.size(), IndexNode(spmd_.local(), 0));
  for (size_t i = 0; i < result_.size(); ++i)
    starts[static_cast<size_t>(result_[i].dim)] =
        look_up(tables.along[i].begins) - result_[i].first;
  Node* const there = hlo::dynamic_update_slice(result, piece, std::move(starts));
  const bool all_take =
      std::find(tables.takes.begin(), tables.takes.end(), 0) == tables.takes.end();
  return all_take ? there : chosen(tables.takes, there, result);
}

Node* Rounds::take(Node* piece, const TakenTables& tables, Node* result, Node* outside) {
  if (result && piece->dims() != dims_ && stands_inside(piece, tables))
    return put(piece, tables, result);
  std::vector<TakenPart> parts(result_.size());
  bool masked = false, all_take = true;
  for (const int64_t takes : tables.takes) all_take = all_take && takes == 1;
  for (size_t i = 0; i < result_.size(); ++i) {
    const TakenTables::Along& along = tables.along[i];
    const int64_t size = dims_[static_cast<size_t>(result_[i].dim)];
    bool lies = piece->dim(result_[i].dim) == size, whole = true;
    std::optional<std::pair<int64_t, int64_t>> ahead;
    for (size_t t = 0; t < tables.takes.size(); ++t) {
      if (tables.takes[t] == 0) continue;
      const int64_t first = result_[i].firsts[t], by = first - along.begins[t];
      ahead = {ahead ? std::min(ahead->first, by) : by, ahead ? std::max(ahead->second, by) : by};
      lies = lies && along.begins[t] == first;
      whole = whole && along.from[t] <= first && along.to[t] >= first + size;
    }
    if (!lies) parts[i].begin = look_up(along.begins);
    parts[i].ahead = ahead;
    if (whole || !result) continue;
    parts[i].from = look_up(along.from);
    parts[i].to = look_up(along.to);
    masked = true;
  }
  if (!result || masked || all_take) return take(piece, parts, result, outside);
  return chosen(tables.takes, take(piece, parts, nullptr, outside), result);
}

}  // namespace gspmd
