#include "gspmd/ops/loop_guard.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <set>

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"

namespace gspmd {
namespace {

constexpr int64_t kNever = INT64_MAX;
constexpr int64_t kUnwatched = 1000;             // iterations of ordinary loops
constexpr size_t kMaxSaved = size_t{256} << 20;  // larger states are left to the deadline

std::atomic<int64_t> deadline{kNever};  // nanoseconds of the steady clock

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool same_bytes(std::span<const std::span<const std::byte>> values,
                std::span<const std::byte> saved) {
  size_t at = 0;
  for (const std::span<const std::byte> value : values) {
    if (value.size() > saved.size() - at) return false;
    if (!value.empty() && std::memcmp(value.data(), saved.data() + at, value.size()) != 0)
      return false;
    at += value.size();
  }
  return at == saved.size();
}

bool is_repeatable(const Computation& computation, std::set<const Computation*>& seen) {
  if (!seen.insert(&computation).second) return true;
  for (const auto& node : computation.nodes()) {
    const bool random = node->is(Opcode::rng) || node->is(Opcode::rng_get_and_update_state);
    const bool outside = node->op().has(kSideEffect) && !node->op().has(kCollective);
    if (random || outside) return false;
    for (const Computation* called : node->called)
      if (!is_repeatable(*called, seen)) return false;
  }
  return true;
}

}  // namespace

LoopDeadline::LoopDeadline(double seconds) : before_(deadline) {
  deadline = seconds < 1e9 ? now() + static_cast<int64_t>(seconds * 1e9) : kNever;
}
LoopDeadline::~LoopDeadline() { deadline = before_; }

bool LoopGuard::begin_iteration() {
  ++iteration_;
  if (const int64_t limit = deadline.load(std::memory_order_relaxed);
      limit != kNever && now() > limit)
    execution_error(
        "while: \"{}\" did not end in the time given, after {} iterations; give more time, or mend "
        "its condition",
        name_, iteration_ - 1);
  return repeatable_ && iteration_ > std::max(kUnwatched, trips_);
}

// Brent's cycle detection: compare with the values of the latest iteration whose number is a power
// of two times the first. Whatever the cycle's length, it is found within three times of it.
void LoopGuard::carried(std::span<const std::span<const std::byte>> values) {
  if (!saved_.empty() && same_bytes(values, saved_))
    execution_error(
        "while: \"{}\" never ends: after {} iterations it carries the same values as after {}; "
        "mend "
        "its condition",
        name_, iteration_ - 1, saved_at_);
  if (!saved_.empty() && iteration_ < save_next_) return;
  size_t bytes = 0;
  for (const std::span<const std::byte> value : values) bytes += value.size();
  if (bytes == 0 || bytes > kMaxSaved) {
    // Nothing carried: the condition can only answer as before.
    if (bytes == 0) execution_error("while: \"{}\" never ends: it carries no values", name_);
    repeatable_ = false;
    return;
  }
  saved_.resize(bytes);
  size_t at = 0;
  for (const std::span<const std::byte> value : values) {
    if (!value.empty()) std::memcpy(saved_.data() + at, value.data(), value.size());
    at += value.size();
  }
  saved_at_ = iteration_ - 1;
  save_next_ = 2 * iteration_;
}

bool is_repeatable(const Node& loop) {
  std::set<const Computation*> seen;
  for (const Computation* called : loop.called)
    if (!is_repeatable(*called, seen)) return false;
  return true;
}

}  // namespace gspmd
