#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gspmd/base/shape.h"
#include "gspmd/mesh/sharding.h"

namespace gspmd {

// What one device has, or is to have, of a value.
struct HeldBox {
  int64_t device = 0;
  Box box;
};

// The boxes of all devices that have some of the value: those of the order, the one of a maximal
// sharding, all `num_devices` of a replicated one. By ascending device.
std::vector<HeldBox> held_boxes(const Shape& global, const Sharding& sharding, int64_t num_devices);

// One collective-permute: who sends to whom, parts of `size` per dim each.
struct PieceRound {
  struct Move {
    int64_t source = 0, target = 0;
    Dims begin;  // global position of what is sent; lies in what the source has with `size`
    Box use;     // global: what the target takes of it
    bool relayed = false;  // of what the source was sent in rounds before
  };
  std::vector<Move> moves;  // by source; no source and no target twice
  Dims size;
};

// Each device is sent what it lacks of its new box, from whoever has it.
struct PieceTransfer {
  std::vector<PieceRound> rounds;
  bool own = false;                 // some device keeps a part of what it has
  bool in_place = true;             // every device that is to have a box has just that box
  int64_t elements = 0;             // sent by one device: the sizes of all rounds
  std::vector<HeldBox> have, want;  // of a transfer to be emitted
  // Of a collective-broadcast instead of rounds: the first of each group sends its whole box.
  std::vector<std::vector<int64_t>> groups;
};
PieceTransfer plan_pieces(std::span<const HeldBox> have, std::span<const HeldBox> want,
                          const Dims& have_shard, const Dims& want_shard);
// As plan_pieces, but devices also hand on what they were sent (relay_pieces.h). nullopt: not with
// fewer than `below` elements.
std::optional<PieceTransfer> plan_relays(std::span<const HeldBox> have,
                                         std::span<const HeldBox> want, const Dims& have_shard,
                                         const Dims& want_shard, int64_t below);

// How many transfers this thread has planned, found or not: what planning costs.
int64_t transfers_planned();

// What the device that is worst off has to be sent, or what holders of a tile have to send at
// least, the more of both: a lower bound on the elements of any way, and one that obeys the
// triangle inequality.
int64_t elements_needed(std::span<const HeldBox> have, std::span<const HeldBox> want);
// Whether no device has to be sent anything.
bool lacks_nothing(std::span<const HeldBox> have, std::span<const HeldBox> want);

}  // namespace gspmd
