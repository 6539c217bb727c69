#pragma once

#include <vector>

#include "moves/pieces.h"

namespace gspmd {

// A part of the value that `target` lacks, and who could send it.
struct Piece {
  Box part;
  int64_t target = 0;
  const std::vector<int64_t>* holders = nullptr;
  int64_t volume = 0;
  int64_t source = -1;  // of the holders; assign_sources() chooses
  int64_t shift = 0;    // from the first holder on, so that pieces in turn make regular permutes
};

// The elements of a box of that size; saturates.
int64_t volume(const Dims& size);
// What one device sends in all rounds; saturates.
int64_t elements_of(const std::vector<PieceRound>& rounds);

// Chooses senders so that the one that sends the most elements sends as few as can be found.
// Returns how many.
int64_t assign_sources(std::vector<Piece>& pieces);

// Rounds in which nobody sends or receives twice, by the largest pieces first: an edge colouring
// in which the sizes of the rounds add up to as few elements as can be found, pieces of one size to
// as many rounds as the device with the most of them sends or receives. Empty: more than
// `most_rounds`.
std::vector<PieceRound> colour_pieces(std::vector<Piece> pieces, size_t most_rounds);

}  // namespace gspmd
