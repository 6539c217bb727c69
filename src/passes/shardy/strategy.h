#pragma once

#include <cstdint>
#include <vector>

#include "passes/shardy/projection.h"

namespace gspmd {

// Where axes may go along a factor: from operands to results, back, both, or nowhere.
enum class SdyDirection : uint8_t { none = 0, forward = 1, backward = 2, both = 3 };
inline SdyDirection operator|(SdyDirection a, SdyDirection b) {
  return static_cast<SdyDirection>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}

// One step of propagation through one op.
struct SdyStep {
  const SdyRule& rule;
  std::vector<SdyDirection> directions;  // by factor
  bool elementwise = false;              // operands take no more than results have
  bool conservative = false;             // axes are not split
};

// The longest list of axes that no tensor contradicts along a factor.
SdyAxes compatible_axes(const Projection& projection, int64_t factor, SdyDirection direction);

// Factor by factor: a conflict anywhere in the op stops the factor in all tensors. Returns which
// tensors got more axes.
std::vector<bool> propagate_basic(Projection& projection, const SdyStep& step);
// Tensor by tensor: a conflict stops a factor only in the tensor that has it; larger tensors are
// heard first.
std::vector<bool> propagate_aggressive(Projection& projection, const SdyStep& step);

}  // namespace gspmd
