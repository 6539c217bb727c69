#include <algorithm>

#include "gspmd/ops/builders.h"
#include "ops/common/gradient.h"

namespace gspmd {
namespace {

using Nodes = std::vector<Node*>;

bool is_zero(const Node& x) {
  if (x.is(Opcode::broadcast)) return is_zero(*x.operand(0));
  if (!x.is(Opcode::constant)) return false;
  const auto bytes = x.attrs.literal.bytes();
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// A piece between zeros along one dim.
struct Piece {
  Node* whole = nullptr;  // the pad
  int64_t dim = 0, first = 0, limit = 0;
};

std::optional<Piece> piece_of(Node* x) {
  if (!x->is(Opcode::pad) || !is_zero(*x->operand(1))) return std::nullopt;
  std::optional<Piece> piece;
  for (size_t d = 0; d < x->attrs.padding.size(); ++d) {
    const PaddingDim& padding = x->attrs.padding[d];
    if (padding == PaddingDim{}) continue;
    if (piece || padding.low < 0 || padding.high < 0 || padding.interior != 0) return std::nullopt;
    piece = {x, static_cast<int64_t>(d), padding.low, padding.low + x->operand(0)->dims()[d]};
  }
  return piece;
}

bool is_update_of_zeros(const Node& x) {
  return x.is(Opcode::dynamic_update_slice) && is_zero(*x.operand(0));
}

// Pieces that lie side by side along a dim, zeros in the gaps: one array instead of a sum.
Node* joined(const std::vector<Piece>& pieces) {
  Node* const like = pieces[0].whole;
  const int64_t dim = pieces[0].dim;
  Nodes parts;
  int64_t end = 0;
  const auto fill = [&](int64_t limit) {
    if (limit == end) return;
    Shape gap = like->shape;
    gap.dims[static_cast<size_t>(dim)] = limit - end;
    parts.push_back(hlo::splat(like->parent(), gap, 0));
  };
  for (const Piece& piece : pieces) {
    fill(piece.first);
    parts.push_back(piece.whole->operand(0));
    end = piece.limit;
  }
  fill(like->dim(dim));
  return hlo::concatenate(std::move(parts), dim);
}

// More pieces than this that overlap others are added in place.
constexpr size_t kMostPads = 2;

// Takes pads that do not overlap out of `given` and puts one array for each such set in; where
// there would be many sets, the pieces of all but one are returned.
std::vector<Piece> join_pieces(Nodes& given) {
  std::vector<Piece> pieces;
  Nodes rest;
  for (Node* value : given) {
    if (const auto piece = piece_of(value))
      pieces.push_back(*piece);
    else
      rest.push_back(value);
  }
  if (pieces.size() < 2) return {};
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::pair(a.dim, a.first) < std::pair(b.dim, b.first);
  });
  std::vector<std::vector<Piece>> sets;
  while (!pieces.empty()) {
    std::vector<Piece> set, left;
    for (const Piece& piece : pieces) {
      const bool fits =
          set.empty() || (piece.dim == set.back().dim && piece.first >= set.back().limit);
      (fits ? set : left).push_back(piece);
    }
    sets.push_back(std::move(set));
    pieces = std::move(left);
  }
  for (size_t i = 0; i < sets.size(); ++i) {
    if (i > 0 && sets.size() > kMostPads)
      pieces.insert(pieces.end(), sets[i].begin(), sets[i].end());
    else
      rest.push_back(sets[i].size() == 1 ? sets[i][0].whole : joined(sets[i]));
  }
  given = std::move(rest);
  return pieces;
}

// `sum` with the piece added at its place.
Node* added_in_place(Node* sum, const Piece& piece) {
  Computation& c = sum->parent();
  Node* const part = piece.whole->operand(0);
  Nodes starts(part->dims().size(), hlo::scalar(c, DType::s64, 0));
  starts[static_cast<size_t>(piece.dim)] =
      hlo::scalar(c, DType::s64, static_cast<double>(piece.first));
  Node* const old = hlo::dynamic_slice(sum, starts, part->dims());
  return hlo::dynamic_update_slice(sum, hlo::add(old, part), starts);
}

// `sum` with the update added at its place.
Node* added_in_place(Node* sum, Node* update) {
  const Nodes starts(update->operands().begin() + 2, update->operands().end());
  Node* const piece = update->operand(1);
  Node* const old = hlo::dynamic_slice(sum, starts, piece->dims());
  return hlo::dynamic_update_slice(sum, hlo::add(old, piece), starts);
}

}  // namespace

Node* sum_of_cotangents(const Nodes& given) {
  if (given.size() == 1) return given[0];
  Nodes terms, updates;
  for (Node* value : given) (is_update_of_zeros(*value) ? updates : terms).push_back(value);
  const std::vector<Piece> overlapping = join_pieces(terms);
  if (terms.empty()) {
    terms.push_back(updates[0]);
    updates.erase(updates.begin());
  }
  Node* sum = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) sum = hlo::add(sum, terms[i]);
  for (const Piece& piece : overlapping) sum = added_in_place(sum, piece);
  for (Node* update : updates) sum = added_in_place(sum, update);
  return sum;
}

}  // namespace gspmd
