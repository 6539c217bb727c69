#include "ops/emission/emit_pieces.h"

#include <algorithm>

#include "gspmd/ops/builders.h"
#include "ops/emission/rounds.h"

namespace gspmd {
namespace {

// Each device is a tile of its own.
Rounds between_devices(PartitionContext& spmd, const Dims& result) {
  const int64_t count = spmd.num_devices();
  return {spmd, iota_order(count), {{count, 1}}, result};
}

class PieceEmitter {
 public:
  PieceEmitter(PartitionContext& spmd, const Shape& after, const PieceTransfer& transfer)
      : spmd_(spmd),
        dims_(after.dims),
        transfer_(transfer),
        rounds_(between_devices(spmd, after.dims)),
        have_(starts(transfer.have)),
        want_(starts(transfer.want)) {
    for (size_t d = 0; d < dims_.size(); ++d)
      rounds_.add_dim({static_cast<int64_t>(d), rounds_.look_up(want_[d]), want_[d]});
  }

  Node* run(Node* x) {
    if (transfer_.in_place && x->dims() == dims_) return x;
    if (transfer_.own || transfer_.rounds.empty()) take_own(x);
    for (const PieceRound& round : transfer_.rounds) take_round(x, round);
    return result_;
  }

 private:
  using Tables = std::vector<Table>;  // by dim

  Table table() const { return Table(static_cast<size_t>(spmd_.num_devices()), 0); }
  Tables tables() const { return Tables(dims_.size(), table()); }

  // Where shards begin.
  Tables starts(const std::vector<HeldBox>& boxes) const {
    Tables result = tables();
    for (const HeldBox& b : boxes)
      for (size_t d = 0; d < dims_.size(); ++d)
        result[d][static_cast<size_t>(b.device)] = b.box.start[d];
    return result;
  }

  TakenTables nothing() const { return {dims_.size(), spmd_.num_devices()}; }

  // The device takes `box` of a piece that begins at `begin`.
  static void add(TakenTables& taken, int64_t device, const Dims& begin, const Box& box) {
    const auto i = static_cast<size_t>(device);
    taken.takes[i] = 1;
    for (size_t d = 0; d < begin.size(); ++d) {
      taken.along[d].begins[i] = begin[d];
      taken.along[d].from[i] = box.start[d];
      taken.along[d].to[i] = box.start[d] + box.size[d];
    }
  }

  void take_own(Node* x) {
    TakenTables taken = nothing();
    for (const HeldBox& w : transfer_.want)
      for (const HeldBox& h : transfer_.have)
        if (h.device == w.device) add(taken, w.device, h.box.start, h.box);
    result_ = rounds_.take(x, taken, nullptr, nullptr);
  }

  // A part of the shard `x`, from these positions on.
  Node* part(Node* x, const Tables& from, const Dims& size) {
    if (size == x->dims()) return x;
    std::vector<Node*> at;
    for (const Table& along : from) at.push_back(rounds_.look_up(along));
    return hlo::dynamic_slice(x, std::move(at), size);
  }

  void take_round(Node* x, const PieceRound& round) {
    Tables send = tables(), hand_on = tables();
    Table relayed = table();
    TakenTables taken = nothing();
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const PieceRound::Move& move : round.moves) {
      const auto source = static_cast<size_t>(move.source);
      for (size_t d = 0; d < dims_.size(); ++d)
        (move.relayed ? hand_on : send)[d][source] =
            move.begin[d] - (move.relayed ? want_ : have_)[d][source];
      relayed[source] = move.relayed ? 1 : 0;
      add(taken, move.target, move.begin, move.use);
      pairs.emplace_back(move.source, move.target);
    }
    const auto is_relayed = [](const PieceRound::Move& move) { return move.relayed; };
    const bool any = std::any_of(round.moves.begin(), round.moves.end(), is_relayed);
    const bool all = std::all_of(round.moves.begin(), round.moves.end(), is_relayed);
    Node* sent = all ? nullptr : part(x, send, round.size);
    if (any) {
      Node* again = part(result_, hand_on, round.size);
      sent = all ? again : rounds_.chosen(relayed, again, sent);
    }
    result_ = rounds_.take(rounds_.permuted(sent, pairs), taken, result_, nullptr);
  }

  PartitionContext& spmd_;
  const Dims& dims_;  // of the result
  const PieceTransfer& transfer_;
  Rounds rounds_;
  Tables have_, want_;
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
  attrs.replica_groups.edit().lists = transfer.groups;
  Node* sent = spmd.emit(Opcode::collective_broadcast, x->shape, {x}, std::move(attrs));
  Table reached(static_cast<size_t>(spmd.num_devices()), 0);
  for (const std::vector<int64_t>& group : transfer.groups)
    for (const int64_t device : group) reached[static_cast<size_t>(device)] = 1;
  const bool all = std::all_of(transfer.want.begin(), transfer.want.end(), [&](const HeldBox& w) {
    return reached[static_cast<size_t>(w.device)] != 0;
  });
  return all ? sent : between_devices(spmd, x->dims()).chosen(reached, sent, x);
}

}  // namespace gspmd
