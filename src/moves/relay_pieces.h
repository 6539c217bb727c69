#pragma once

#include <vector>

#include "moves/piece_rounds.h"

namespace gspmd {

// Rounds in which devices also hand on what they were sent before, where that is a part of what
// they are to have: one sender reaches many targets as in a broadcast. Everybody sends and receives
// once per round at most; the largest parts go first, to those that lack the most. Empty: more than
// `most_rounds`, devices beyond 64, or no fewer elements than `below`. Ends early at `least`.
std::vector<PieceRound> relay_pieces(const std::vector<Piece>& pieces, size_t most_rounds,
                                     int64_t least, int64_t below);

}  // namespace gspmd
