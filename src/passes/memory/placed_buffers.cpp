#include "passes/memory/placed_buffers.h"

namespace gspmd {
namespace {

bool is_lower(const PlacedBuffers::Placed& a, const PlacedBuffers::Placed& b) {
  return a.offset < b.offset;
}

// Looks at buffers by ascending offset.
struct Gap {
  int64_t bytes = 0, best = -1, best_size = INT64_MAX, end = 0;
  void pass(const PlacedBuffers::Placed& x) {
    const int64_t gap = x.offset - end;
    if (gap >= bytes && gap < best_size) {
      best = end;
      best_size = gap;
    }
    end = std::max(end, x.end);
  }
  // Whether no other gap is better.
  bool is_exact() const { return best_size == bytes; }
  int64_t found() const { return best >= 0 ? best : end; }
};

}  // namespace

PlacedBuffers::PlacedBuffers(int64_t positions)
    : buckets_(static_cast<size_t>(positions / kSpan + 1)) {}

void PlacedBuffers::Chunk::count_in(const Placed& x) {
  last_first = std::max(last_first, x.first);
  first_last = std::min(first_last, x.last);
  has_gaps = has_gaps || x.offset > end;
  end = std::max(end, x.end);
}

void PlacedBuffers::Chunk::sum_up() {
  last_first = 0;
  first_last = INT64_MAX;
  end = buffers.front().end;
  has_gaps = false;
  for (const Placed& x : buffers) count_in(x);
}

void PlacedBuffers::insert(std::vector<Chunk>& chunks, const Placed& buffer) {
  auto chunk = std::lower_bound(
      chunks.begin(), chunks.end(), buffer,
      [](const Chunk& c, const Placed& b) { return c.buffers.back().offset <= b.offset; });
  if (chunk == chunks.end()) {
    if (chunks.empty() || chunks.back().buffers.size() >= kChunk) chunks.emplace_back();
    chunk = chunks.end() - 1;
  }
  std::vector<Placed>& buffers = chunk->buffers;
  const auto at = std::upper_bound(buffers.begin(), buffers.end(), buffer, is_lower);
  const bool is_lowest = at == buffers.begin();
  buffers.insert(at, buffer);
  if (is_lowest)
    chunk->sum_up();
  else
    chunk->count_in(buffer);
  if (buffers.size() >= 2 * kChunk) {
    Chunk rest;
    rest.buffers.assign(buffers.begin() + kChunk, buffers.end());
    rest.sum_up();
    buffers.resize(kChunk);
    chunk->sum_up();
    chunks.insert(chunk + 1, std::move(rest));
  }
}

void PlacedBuffers::add(const Placed& buffer) {
  insert(all_, buffer);
  if (is_long(buffer.first, buffer.last)) {
    insert(long_, buffer);
    return;
  }
  for (int64_t span = buffer.first / kSpan; span <= buffer.last / kSpan; ++span) {
    std::vector<Placed>& bucket = buckets_[static_cast<size_t>(span)];
    bucket.insert(std::upper_bound(bucket.begin(), bucket.end(), buffer, is_lower), buffer);
  }
}

// Whether the spans hold so many that looking at all there are, chunk by chunk, is faster.
bool PlacedBuffers::has_most(int64_t first, int64_t last) const {
  size_t near = 0;
  for (int64_t span = first / kSpan; span <= last / kSpan; ++span)
    near += buckets_[static_cast<size_t>(span)].size();
  return near > kChunk && 4 * near > kChunk * all_.size();
}

int64_t PlacedBuffers::best_gap(int64_t first, int64_t last, int64_t bytes) {
  Gap gap{bytes};
  const auto lives = [&](const Placed& x) { return x.first <= last && first <= x.last; };
  if (is_long(first, last) || has_most(first, last)) {
    for (const Chunk& chunk : all_) {
      if (bytes > 0 && chunk.is_solid(first, last)) {
        gap.pass(chunk.buffers.front());
        gap.end = std::max(gap.end, chunk.end);
        if (gap.is_exact()) return gap.found();
        continue;
      }
      for (const Placed& x : chunk.buffers) {
        if (lives(x)) gap.pass(x);
        if (gap.is_exact()) return gap.found();
      }
    }
    return gap.found();
  }
  near_.clear();
  for (int64_t span = first / kSpan; span <= last / kSpan; ++span) {
    const std::vector<Placed>& bucket = buckets_[static_cast<size_t>(span)];
    // It stands in every span that it lives in.
    const auto is_new = [&](const Placed& x) {
      return lives(x) && span == std::max(first, x.first) / kSpan;
    };
    merged_.clear();
    auto from = near_.begin();
    for (const Placed& x : bucket) {
      if (!is_new(x)) continue;
      for (; from != near_.end() && !is_lower(x, *from); ++from) merged_.push_back(*from);
      merged_.push_back(x);
    }
    merged_.insert(merged_.end(), from, near_.end());
    near_.swap(merged_);
  }
  auto next = near_.begin();
  for (const Chunk& chunk : long_) {
    const bool is_solid = bytes > 0 && chunk.is_solid(first, last);
    for (const Placed& x : chunk.buffers) {
      if (!lives(x)) continue;
      for (; next != near_.end() && is_lower(*next, x); ++next) gap.pass(*next);
      gap.pass(x);
      if (gap.is_exact()) return gap.found();
      if (is_solid) break;
    }
    if (is_solid) gap.end = std::max(gap.end, chunk.end);
  }
  for (; next != near_.end(); ++next) gap.pass(*next);
  return gap.found();
}

}  // namespace gspmd
