#include "models/pipeline_schedule.h"

#include <fmt/format.h>

namespace gspmd::models {

PipelineKind pipeline_kind(const std::string& name, Site site) {
  if (name == "gpipe") return PipelineKind::gpipe;
  if (name == "circular") return PipelineKind::circular;
  user_error(site, "pipeline: there is no \"{}\"; the kinds are gpipe, circular", name);
}

PipelineSchedule::PipelineSchedule(const PipelineSizes& sizes, Site site) : sizes_(sizes) {
  const auto at_least_one = [&](const char* name, int64_t value) {
    if (value < 1) user_error(site, "pipeline: {} is {}; it must be at least 1", name, value);
  };
  at_least_one("stages", sizes.stages);
  at_least_one("microbatches", sizes.microbatches);
  at_least_one("rounds", sizes.rounds);
  if (sizes.rounds == 1) return;
  if (sizes.kind == PipelineKind::gpipe)
    user_error(site, "pipeline: gpipe has one round, not {}; choose circular", sizes.rounds);
  if (sizes.microbatches < sizes.stages)
    user_error(site,
               "pipeline: {} microbatches go round {} stages; give at least as many as there are "
               "stages",
               sizes.microbatches, sizes.stages);
}

int64_t PipelineSchedule::iterations() const {
  return sizes_.rounds * sizes_.microbatches + sizes_.stages - 1;
}

std::optional<PipelineSlot> PipelineSchedule::at(int64_t iteration, int64_t stage) const {
  const int64_t turn = iteration - stage;
  if (turn < 0 || turn >= sizes_.rounds * sizes_.microbatches) return std::nullopt;
  return PipelineSlot{turn % sizes_.microbatches, turn / sizes_.microbatches};
}

int64_t PipelineSchedule::idle_slots() const {
  return slots() - sizes_.stages * sizes_.rounds * sizes_.microbatches;
}

double PipelineSchedule::bubble() const { return double(idle_slots()) / double(slots()); }

std::string to_string(const PipelineSchedule& schedule) {
  std::string text;
  for (int64_t stage = 0; stage < schedule.sizes().stages; ++stage) {
    text += fmt::format("stage {:<3}", stage);
    for (int64_t i = 0; i < schedule.iterations(); ++i) {
      const auto slot = schedule.at(i, stage);
      std::string cell = slot ? std::to_string(slot->microbatch) : ".";
      if (slot && schedule.sizes().rounds > 1) cell += char('a' + slot->round % 26);
      text += fmt::format(" {:>3}", cell);
    }
    text += '\n';
  }
  return text;
}

}  // namespace gspmd::models
