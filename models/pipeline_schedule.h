#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gspmd/gspmd.h"

namespace gspmd::models {

// In which order micro-batches pass the layers (arXiv:2105.04663, 3.3). `gpipe`: a stage has
// consecutive layers, and a micro-batch passes the stages once. `circular`: a stage has several
// blocks of layers, one of each round, and a micro-batch passes all stages once in a round: a
// bubble as long as before, of iterations that are shorter by the number of rounds.
enum class PipelineKind : uint8_t { gpipe, circular };

// By name: gpipe, circular. UserError lists the names.
PipelineKind pipeline_kind(const std::string& name, Site site = Site::here());

// The sizes of a schedule.
struct PipelineSizes {
  PipelineKind kind = PipelineKind::gpipe;
  int64_t stages = 1;
  int64_t microbatches = 1;
  int64_t rounds = 1;  // of gpipe: 1
};

// What a stage computes in an iteration.
struct PipelineSlot {
  int64_t microbatch = 0;
  int64_t round = 0;
  bool operator==(const PipelineSlot&) const = default;
};

// Which stage computes what in which iteration: stage s is s iterations behind stage 0, which takes
// the micro-batches one after the other, round after round.
class PipelineSchedule {
 public:
  // UserError: a size below 1, rounds of gpipe, fewer micro-batches than stages where there are
  // several rounds (a micro-batch would come back too late).
  explicit PipelineSchedule(const PipelineSizes& sizes, Site site = Site::here());

  const PipelineSizes& sizes() const { return sizes_; }
  int64_t iterations() const;  // rounds * microbatches + stages - 1
  // nullopt: the stage is idle. `iteration` below iterations(), `stage` below stages.
  std::optional<PipelineSlot> at(int64_t iteration, int64_t stage) const;
  int64_t slots() const { return iterations() * sizes_.stages; }
  int64_t idle_slots() const;  // stages * (stages - 1)
  // Idle slots of all: (stages - 1) / (rounds * microbatches + stages - 1).
  double bubble() const;

 private:
  PipelineSizes sizes_;
};

// A row for each stage, a column for each iteration: the micro-batch, or a dot; of several rounds
// with a letter for the round, "0a".
std::string to_string(const PipelineSchedule& schedule);

}  // namespace gspmd::models
