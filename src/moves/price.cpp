#include "moves/price.h"

#include <limits>

#include "gspmd/base/shape.h"

namespace gspmd {
namespace {

// How often each byte is sent, by all but one of the group's shares or whole.
struct Price {
  bool of_after = false;  // of what is there after, else before
  int64_t times = 1;
  bool by_shares = false;
};

Price price_of(ReshardKind kind) {
  switch (kind) {
    case ReshardKind::dynamic_slice:
      return {.times = 0};
    case ReshardKind::all_gather:
      return {.of_after = true, .by_shares = true};
    case ReshardKind::all_reduce:  // reduce-scatter, then all-gather
      return {.times = 2, .by_shares = true};
    case ReshardKind::reduce_scatter:
    case ReshardKind::all_to_all:
      return {.by_shares = true};
    case ReshardKind::collective_permute:
    case ReshardKind::piecewise_permutes:
    case ReshardKind::collective_broadcast:
      break;
  }
  return {};
}

}  // namespace

int64_t sent_bytes(ReshardKind kind, int64_t before, int64_t after, int64_t group) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const Price price = price_of(kind);
  const int64_t bytes = price.of_after ? after : before;
  if (price.times == 0) return 0;
  if (bytes == kMost) return kMost;
  if (!price.by_shares) return saturating_multiply(bytes, price.times);
  const auto sent = static_cast<__int128>(bytes) * price.times * (group - 1);
  const __int128 rounded = (sent + group - 1) / group;
  return rounded > kMost ? kMost : static_cast<int64_t>(rounded);
}

double sent_bytes(ReshardKind kind, double before, double after, double group) {
  const Price price = price_of(kind);
  const double bytes = (price.of_after ? after : before) * static_cast<double>(price.times);
  return price.by_shares ? bytes * (1 - 1 / group) : bytes;
}

}  // namespace gspmd
