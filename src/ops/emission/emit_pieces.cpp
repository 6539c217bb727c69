#include "ops/emission/emit_pieces.h"

#include <algorithm>

#include "gspmd/ops/builders.h"

namespace gspmd {
namespace {

// One number per device of the program.
using Table = std::vector<int64_t>;

class PieceEmitter {
 public:
  PieceEmitter(PartitionContext& spmd, const Shape& after, const PieceTransfer& transfer)
      : spmd_(spmd), after_(after), transfer_(transfer), rank_(after.dims.size()) {
    for (size_t d = 0; d < rank_; ++d) {
      have_.push_back(starts(transfer.have, d));
      want_.push_back(starts(transfer.want, d));
    }
  }

  Node* run(Node* x) {
    if (transfer_.in_place && x->dims() == after_.dims) return x;
    if (transfer_.own || transfer_.rounds.empty()) take(x, have_, own_uses());
    for (const PieceRound& round : transfer_.rounds) take_round(x, round);
    return result_;
  }

 private:
  struct Use {  // what a device takes, by global positions
    int64_t device = 0;
    Box box;
  };

  Table table() const { return Table(static_cast<size_t>(spmd_.num_devices()), 0); }

  Table starts(const std::vector<HeldBox>& boxes, size_t d) const {
    Table result = table();
    for (const HeldBox& b : boxes) result[static_cast<size_t>(b.device)] = b.box.start[d];
    return result;
  }

  std::vector<Use> own_uses() const {
    std::vector<Use> uses;
    for (const HeldBox& w : transfer_.want)
      for (const HeldBox& h : transfer_.have)
        if (h.device == w.device) uses.push_back({w.device, h.box});
    return uses;
  }

  Node* number(int64_t v) { return hlo::scalar(spmd_.local(), DType::s32, static_cast<double>(v)); }

  // The number of this device.
  Node* look_up(const Table& by_device) {
    if (std::all_of(by_device.begin(), by_device.end(),
                    [&](int64_t v) { return v == by_device.front(); }))
      return number(by_device.front());
    std::vector<int32_t> values(by_device.begin(), by_device.end());
    Node* all = hlo::constant(spmd_.local(), Array::of<int32_t>({std::ssize(values)}, values));
    const int64_t count = spmd_.num_devices();
    Node* device = spmd_.digits_index(iota_order(count), canonical({{count, 1}}));
    return hlo::reshape(hlo::dynamic_slice(all, {device}, {1}), {});
  }

  static Table minus(Table a, const Table& b, int64_t plus) {
    for (size_t i = 0; i < a.size(); ++i) a[i] += plus - b[i];
    return a;
  }

  // The elements of `piece`, which begins at `begin` (per dim and device), where the result has
  // them.
  Node* placed(Node* piece, const std::vector<Table>& begin, const std::vector<Use>& uses) {
    std::vector<PaddingDim> padding(rank_);
    std::vector<Node*> at;
    bool moves = piece->dims() != after_.dims;
    for (size_t d = 0; d < rank_; ++d) {
      const int64_t size = after_.dims[d];
      const bool aligned =
          piece->dims()[d] == size && std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
            const auto i = static_cast<size_t>(use.device);
            return begin[d][i] == want_[d][i];
          });
      if (!aligned) padding[d].low = padding[d].high = size;
      moves = moves || !aligned;
      at.push_back(aligned ? number(0) : look_up(minus(want_[d], begin[d], size)));
    }
    if (!moves) return piece;
    Node* padded = hlo::pad(piece, hlo::scalar(spmd_.local(), after_.dtype, 0), std::move(padding));
    return hlo::dynamic_slice(padded, std::move(at), after_.dims);
  }

  // Where the result takes from the piece, pred of its shape.
  Node* taken(const std::vector<Use>& uses) {
    Node* mask = nullptr;
    const auto both = [&](Node* part) {
      mask = mask ? hlo::binary(Opcode::and_, mask, part) : part;
    };
    Table takes = table();
    for (const Use& use : uses) takes[static_cast<size_t>(use.device)] = 1;
    both(hlo::broadcast(hlo::compare(look_up(takes), number(0), Direction::ne), after_.dims, {}));
    for (size_t d = 0; d < rank_; ++d) {
      Table begin = table(), end = table();
      bool all = true;
      for (const Use& use : uses) {
        const auto i = static_cast<size_t>(use.device);
        begin[i] = use.box.start[d] - want_[d][i];
        end[i] = begin[i] + use.box.size[d];
        all = all && begin[i] <= 0 && end[i] >= after_.dims[d];
      }
      if (all) continue;
      Node* at = hlo::iota(spmd_.local(), Shape(DType::s32, after_.dims), static_cast<int64_t>(d));
      both(hlo::compare(at, hlo::broadcast(look_up(begin), after_.dims, {}), Direction::ge));
      both(hlo::compare(at, hlo::broadcast(look_up(end), after_.dims, {}), Direction::lt));
    }
    return mask;
  }

  void take(Node* piece, const std::vector<Table>& begin, const std::vector<Use>& uses) {
    Node* there = placed(piece, begin, uses);
    // Of the first, also what others will replace.
    result_ = result_ ? hlo::select(taken(uses), there, result_) : there;
  }

  // A part of the shard `x`, from the positions by dim and device on.
  Node* part(Node* x, const std::vector<Table>& from, const Dims& size) {
    if (size == x->dims()) return x;
    std::vector<Node*> at;
    for (size_t d = 0; d < rank_; ++d) at.push_back(look_up(from[d]));
    return hlo::dynamic_slice(x, std::move(at), size);
  }

  void take_round(Node* x, const PieceRound& round) {
    std::vector<Table> send(rank_, table()), begin(rank_, table()), hand_on(rank_, table());
    Table relayed = table();
    std::vector<Use> uses;
    Attributes attrs;
    attrs.channel_id = 1;
    for (const PieceRound::Move& move : round.moves) {
      const auto source = static_cast<size_t>(move.source),
                 target = static_cast<size_t>(move.target);
      for (size_t d = 0; d < rank_; ++d) {
        if (move.relayed)
          hand_on[d][source] = move.begin[d] - want_[d][source];
        else
          send[d][source] = move.begin[d] - have_[d][source];
        begin[d][target] = move.begin[d];
      }
      relayed[source] = move.relayed ? 1 : 0;
      uses.push_back({move.target, move.use});
      attrs.permutation->pairs.emplace_back(move.source, move.target);
    }
    const auto is_relayed = [](const PieceRound::Move& move) { return move.relayed; };
    const bool any = std::any_of(round.moves.begin(), round.moves.end(), is_relayed);
    const bool all = std::all_of(round.moves.begin(), round.moves.end(), is_relayed);
    Node* sent = all ? nullptr : part(x, send, round.size);
    if (any) {
      Node* again = part(result_, hand_on, round.size);
      Node* which = hlo::compare(look_up(relayed), number(0), Direction::ne);
      sent = all ? again : hlo::select(hlo::broadcast(which, round.size, {}), again, sent);
    }
    Node* piece = spmd_.emit(Opcode::collective_permute, sent->shape, {sent}, std::move(attrs));
    take(piece, begin, uses);
  }

  PartitionContext& spmd_;
  const Shape& after_;
  const PieceTransfer& transfer_;
  size_t rank_;
  std::vector<Table> have_, want_;  // where shards begin, by dim and device
  Node* result_ = nullptr;
};

}  // namespace

Node* emit_pieces(PartitionContext& spmd, Node* x, const Shape& after,
                  const PieceTransfer& transfer) {
  return PieceEmitter(spmd, after, transfer).run(x);
}

Node* emit_broadcast(PartitionContext& spmd, Node* x, const PieceTransfer& transfer) {
  Attributes attrs;
  attrs.channel_id = 1;
  attrs.replica_groups->lists = transfer.groups;
  Node* sent = spmd.emit(Opcode::collective_broadcast, x->shape, {x}, std::move(attrs));
  std::vector<int32_t> reached(static_cast<size_t>(spmd.num_devices()), 0);
  for (const std::vector<int64_t>& group : transfer.groups)
    for (const int64_t device : group) reached[static_cast<size_t>(device)] = 1;
  const bool all = std::all_of(transfer.want.begin(), transfer.want.end(), [&](const HeldBox& w) {
    return reached[static_cast<size_t>(w.device)] != 0;
  });
  if (all) return sent;
  Computation& c = spmd.local();
  Node* table = hlo::constant(c, Array::of<int32_t>({std::ssize(reached)}, reached));
  const int64_t count = spmd.num_devices();
  Node* device = spmd.digits_index(iota_order(count), {{count, 1}});
  Node* mine = hlo::reshape(hlo::dynamic_slice(table, {device}, {1}), {});
  Node* gets = hlo::compare(mine, hlo::scalar(c, DType::s32, 0), Direction::ne);
  return hlo::select(hlo::broadcast(gets, x->dims(), {}), sent, x);
}

}  // namespace gspmd
