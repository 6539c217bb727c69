#include "gspmd/ops/loop_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
#include "gspmd/ir/place.h"

namespace gspmd {
namespace {

constexpr int64_t kNever = INT64_MAX;
constexpr int64_t kLoopsFirst = 250'000'000;  // ns: what is in a loop leaves it to the loop to say
constexpr int64_t kUnwatched = 1000;          // iterations of ordinary loops
constexpr size_t kMaxSaved = size_t{256} << 20;  // larger states are left to the deadline

std::atomic<int64_t> deadline{kNever};  // nanoseconds of the steady clock

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What one thread is at. Others read it when the time is over.
struct Desk {
  std::mutex mutex;
  const Node* node = nullptr;
};

struct Desks {
  std::mutex mutex;
  std::vector<Desk*> all;
};

Desks& desks() {
  static auto* const all = new Desks;  // threads end after what is static
  return *all;
}

// On the list as long as its thread lives.
class OwnDesk {
 public:
  OwnDesk() {
    const std::lock_guard lock(desks().mutex);
    desks().all.push_back(&desk);
  }
  OwnDesk(const OwnDesk&) = delete;
  OwnDesk& operator=(const OwnDesk&) = delete;
  ~OwnDesk() {
    const std::lock_guard lock(desks().mutex);
    std::erase(desks().all, &desk);
  }

  const Node* put(const Node* node) {
    const std::lock_guard lock(desk.mutex);
    return std::exchange(desk.node, node);
  }

  Desk desk;
};

OwnDesk& own_desk() {
  thread_local OwnDesk desk;
  return desk;
}

std::string text_of_node(const Node& node) {
  return fmt::format("{}: \"{}\"", opcode_name(node.opcode()), node.name());
}

bool is_past(int64_t limit) { return limit != kNever && now() > limit; }

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

bool has_deadline() { return deadline.load(std::memory_order_relaxed) != kNever; }

namespace {

void check_deadline(int64_t limit, const Node* node) {
  if (is_past(limit + kLoopsFirst))
    execution_error("{}the time given is over; give more time, or use smaller shapes",
                    node != nullptr ? text_of_node(*node) + ": " : "");
}

}  // namespace

void give_up_when_late() {
  const int64_t limit = deadline.load(std::memory_order_relaxed);
  if (limit != kNever) check_deadline(limit, own_desk().desk.node);
}

TimedWork::TimedWork(const Node& node, bool says_node) {
  const int64_t limit = deadline.load(std::memory_order_relaxed);
  if (limit == kNever) return;
  check_deadline(limit, says_node ? &node : nullptr);
  around_ = own_desk().put(&node);
  timed_ = true;
}

void TimedWork::leave() const { own_desk().put(around_); }

std::vector<std::string> timed_work() {
  std::vector<std::string> names;
  const std::lock_guard list(desks().mutex);
  for (Desk* desk : desks().all) {
    const std::lock_guard lock(desk->mutex);
    if (desk->node == nullptr) continue;
    ExecutionError at(
        fmt::format("{}: \"{}\"", opcode_name(desk->node->opcode()), desk->node->name()), Site{});
    add_place(at, *desk->node);
    if (std::find(names.begin(), names.end(), at.what()) == names.end())
      names.emplace_back(at.what());
  }
  return names;
}

bool LoopGuard::begin_iteration() {
  ++iteration_;
  if (is_past(deadline.load(std::memory_order_relaxed)))
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
