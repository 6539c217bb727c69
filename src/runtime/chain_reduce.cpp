#include "runtime/chain_reduce.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "kernels/stream.h"

namespace gspmd {
namespace {

constexpr int64_t kSumBytes = 1 << 16;    // of sums that are handed on at once: in a core's cache
constexpr int64_t kFewBytes = 1 << 14;    // and where there are so few that processes would wait
constexpr int64_t kLeastBytes = 1 << 16;  // below, one exchange is faster than several
constexpr int64_t kBlock = 2048;          // elements that are added at once: in the nearest cache
constexpr int64_t kAlign = 16;            // bytes: of pieces in a chunk
constexpr int64_t kParts = 16;            // chunks of values that are not large
constexpr int64_t kAhead = 96;      // chunks that may be under way: processes that share cores
                                    // do as many at a time
constexpr int64_t kLeastAhead = 8;  // beside those that other processes have
constexpr int64_t kFlights = 4;     // parts of the shared memory
constexpr int64_t kMostRows = 64;   // that are added up at once

int64_t partial_size(DType dtype) { return is_half_dtype(dtype) ? 4 : dtype_size(dtype); }
int64_t aligned(int64_t bytes) { return ceil_div(bytes, kAlign) * kAlign; }

}  // namespace

ChainReduce::ChainReduce(const CollectiveStep& step, const std::vector<int64_t>& process_of,
                         int64_t self)
    : step_(step), self_(self), chained_(step.groups.size(), 0), runs_(step.groups.size()) {
  if (step.reference || step.opcode != Opcode::all_reduce) return;
  for (size_t g = 0; g < step.groups.size(); ++g) {
    runs_[g] = runs_of(step.groups[g], process_of);
    chained_[g] = is_cheaper(runs_[g]) ? 1 : 0;
    if (chained_[g] == 0) runs_[g].clear();
    add_to_chain(g);
  }
  const auto here = std::count(process_of.begin(), process_of.end(), self);
  streamed_ = is_streamed(saturating_multiply(step.result_bytes, here) / 2);
}

std::vector<ChainReduce::Run> ChainReduce::runs_of(const std::vector<int64_t>& group,
                                                   const std::vector<int64_t>& process_of) {
  std::vector<Run> runs;
  for (const int64_t device : group) {
    const int64_t process = process_of[static_cast<size_t>(device)];
    if (runs.empty() || runs.back().process != process) runs.push_back({process, {}});
    runs.back().devices.push_back(device);
  }
  return runs;
}

bool ChainReduce::is_cheaper(const std::vector<Run>& runs) const {
  std::set<int64_t> processes;
  int64_t devices = 0, bytes = 0, most = 0;
  for (const Run& run : runs) {
    processes.insert(run.process);
    devices += std::ssize(run.devices);
  }
  for (int64_t i = 0; i < step_.operands; ++i) {
    const Shape& shape = step_.node->operand(i)->shape;
    bytes += shape.bytes();
    most += shape.elements_count() * partial_size(shape.dtype);
  }
  const int64_t hops = std::ssize(runs) - 1, others = std::ssize(processes) - 1;
  // Each device's value to each other process, against one partial sum and one result a hop.
  return hops > 0 && others == hops && bytes >= kLeastBytes &&
         devices * others * bytes > hops * (most + bytes);
}

int64_t ChainReduce::bytes(size_t group) const {
  int64_t total = 0;
  for (int64_t i = 0; i < step_.operands; ++i) {
    const Shape& shape = step_.node->operand(i)->shape;
    total += shape.elements_count() * partial_size(shape.dtype) + shape.bytes();
  }
  return total * (std::ssize(runs_[group]) - 1);
}

void ChainReduce::add_to_chain(size_t group) {
  Chain chain;
  for (const Run& run : runs_[group]) chain.processes.push_back(run.process);
  const auto own = std::find(chain.processes.begin(), chain.processes.end(), self_);
  if (own == chain.processes.end()) return;
  chain.own = static_cast<size_t>(own - chain.processes.begin());
  auto found = std::find_if(chains_.begin(), chains_.end(),
                            [&](const Chain& other) { return other.processes == chain.processes; });
  if (found == chains_.end()) found = chains_.insert(found, std::move(chain));
  found->groups.push_back(group);
}

void ChainReduce::begin(const std::vector<char>& active,
                        std::vector<std::vector<std::byte*>>& tables, Transport& transport, int tag,
                        std::vector<std::byte>& room, int64_t flight) {
  tables_ = &tables;
  transport_ = &transport;
  tag_ = tag;
  room_ = &room;
  flight_ = flight;
  chunks_.clear();
  slots_.clear();
  begun_ = 0;
  later_.assign(chains_.begin(), chains_.end());
  for (Chain& chain : later_)
    std::erase_if(chain.groups, [&](size_t group) {
      return active[static_cast<size_t>(step_.groups[group][0])] == 0;
    });
}

// All processes take the chains that they share in the same order, so one tag does.
bool ChainReduce::progress(bool waits, const std::string& what) {
  while (true) {
    if (go_on(what)) continue;
    if (!slots_.empty()) {
      if (!waits) return false;
      transport_->wait_any(awaited(), what);
    } else if (later_.empty()) {
      if (streamed_) flush_stream();
      return true;
    } else {
      begin_chain();
    }
  }
}

void ChainReduce::begin_chain() {
  chain_ = std::move(later_.front());
  later_.pop_front();
  cut(chain_);
  begun_ = 0;
  int64_t place_bytes = 0;
  for (const Chunk& chunk : chunks_)
    place_bytes = std::max(place_bytes, ceil_div(chunk.sum_bytes, 64) * 64);
  own_ = {nullptr, places(chain_.own), place_bytes};
  if (!is_last()) own_.data = shared(chain_.own, chain_.own + 1);
  next_touches_ = own_.data != nullptr;
  previous_ = {};
  if (!is_first()) {
    previous_ = {nullptr, places(chain_.own - 1), place_bytes};
    previous_.data = shared(chain_.own - 1, chain_.own);
  }
  if (next_touches_ || (is_last() && previous_.data != nullptr)) return;
  if (const auto bytes = static_cast<size_t>(own_.places * place_bytes); room_->size() < bytes)
    room_->resize(bytes);
  own_.data = room_->data();
}

// Of one of the chain's processes: the later, the sooner its chunks come back.
int64_t ChainReduce::places(size_t position) const {
  const auto behind = static_cast<int64_t>(chain_.processes.size() - 1 - position);
  return std::min(std::ssize(chunks_), std::max(kAhead, kLeastAhead + 2 * behind));
}

// The room of a process where the next one touches it, else nullptr: both come to the same.
std::byte* ChainReduce::shared(size_t of, size_t by) const {
  constexpr int64_t kMost = kSharedBytes / kFlights;
  int64_t bytes = 0;
  for (const Chunk& chunk : chunks_) bytes = std::max(bytes, chunk.sum_bytes + 64);
  const int64_t process = chain_.processes[of];
  const bool fits = flight_ < kFlights && places(of) * bytes <= kMost;
  if (!fits || !transport_->touches(process, chain_.processes[by])) return nullptr;
  return transport_->shared_memory(process).data() + flight_ * kMost;
}

void ChainReduce::cut(const Chain& chain) {
  chunks_.clear();
  int64_t bytes = 0;
  for (int64_t i = 0; i < step_.operands; ++i)
    bytes += shape(i).elements_count() * partial_size(shape(i).dtype);
  bytes *= std::ssize(chain.groups);
  const int64_t most = std::clamp(bytes / kParts, kFewBytes, kSumBytes);
  for (const size_t group : chain.groups)
    for (int64_t i = 0; i < step_.operands; ++i)
      add_pieces({&runs_[group][chain.own].devices, i, 0, shape(i).elements_count()}, most);
}

// Cuts a whole operand into pieces that fit into chunks, the first into the last there is.
void ChainReduce::add_pieces(Piece piece, int64_t most_bytes) {
  const DType dtype = shape(piece.operand).dtype;
  const int64_t end = piece.first + piece.count, size = partial_size(dtype);
  while (piece.first < end) {
    if (chunks_.empty()) chunks_.emplace_back();
    Chunk* chunk = &chunks_.back();
    piece.count = std::min(end - piece.first, (most_bytes - chunk->sum_bytes) / size);
    if (piece.count < std::min(end - piece.first, kBlock)) {
      if (!chunk->pieces.empty()) chunk = &chunks_.emplace_back();
      piece.count = std::min(end - piece.first, std::max(kBlock, most_bytes / size));
    }
    piece.sum_at = chunk->sum_bytes;
    piece.result_at = chunk->result_bytes;
    chunk->pieces.push_back(piece);
    chunk->sum_bytes += aligned(piece.count * size);
    chunk->result_bytes += aligned(piece.count * dtype_size(dtype));
    piece.first += piece.count;
  }
}

// One step of each chunk that need not wait, the oldest first. Whether there was one.
bool ChainReduce::go_on(const std::string& what) {
  bool moved = false;
  Stage before = Stage::free;  // messages keep the order of the chunks
  for (Slot& slot : slots_) {
    while (slot.stage < before && (!slot.begun || transport_->is_done(*slot.begun))) {
      if (slot.begun) transport_->finish(*slot.begun, what);
      slot.begun.reset();
      advance(slot);
      moved = true;
    }
    before = slot.stage;
  }
  while (!slots_.empty() && slots_.front().stage == Stage::free) slots_.pop_front();
  if (begun_ == std::ssize(chunks_) || std::ssize(slots_) == own_.places) return moved;
  Slot& slot = slots_.emplace_back();
  slot.chunk = begun_++;
  if (!is_first())
    exchange(slot, false, chain_.own - 1, chunks_[static_cast<size_t>(slot.chunk)].sum_bytes);
  return true;
}

// What the slot has waited for is there.
void ChainReduce::advance(Slot& slot) {
  const Chunk& chunk = chunks_[static_cast<size_t>(slot.chunk)];
  std::byte* const before = previous_.data == nullptr ? nullptr : previous_.place(slot.chunk);
  std::byte* const data = own_.data == nullptr ? before : own_.place(slot.chunk);
  switch (slot.stage) {
    case Stage::sum:
      for (const Piece& piece : chunk.pieces) fold(piece, before != nullptr ? before : data, data);
      slot.stage = is_last() ? Stage::returned : Stage::handed;
      if (is_last()) return exchange(slot, true, chain_.own - 1, chunk.result_bytes);
      return exchange(slot, true, chain_.own + 1, chunk.sum_bytes);
    case Stage::handed:
      slot.stage = Stage::result;
      return exchange(slot, false, chain_.own + 1, chunk.result_bytes);
    case Stage::result:
      slot.stage = is_first() ? Stage::free : Stage::returned;
      if (before != nullptr) std::memcpy(before, data, static_cast<size_t>(chunk.result_bytes));
      if (!is_first()) exchange(slot, true, chain_.own - 1, chunk.result_bytes);
      for (const Piece& piece : chunk.pieces) give(piece, data);
      return;
    default:
      slot.stage = Stage::free;
  }
}

// The chunk, or where both touch it, the word that it is there.
void ChainReduce::exchange(Slot& slot, bool sends, size_t with, int64_t bytes) {
  const bool touched = with > chain_.own ? next_touches_ : previous_.data != nullptr;
  const Parcel parcel{chain_.processes[with],
                      touched ? std::span(&slot.token, 1)
                              : std::span(own_.place(slot.chunk), static_cast<size_t>(bytes))};
  const std::span<const Parcel> one(&parcel, 1), none;
  slot.begun = transport_->begin(sends ? one : none, sends ? none : one, tag_);
}

// Of the slots that may go on.
std::vector<ExchangeId> ChainReduce::awaited() const {
  std::vector<ExchangeId> ids;
  Stage before = Stage::free;
  for (const Slot& slot : slots_) {
    if (slot.stage < before) ids.push_back(*slot.begun);
    before = slot.stage;
  }
  return ids;
}

std::byte* ChainReduce::entry(int64_t device, int64_t argument, int64_t element) const {
  const DType dtype = shape(argument % step_.operands).dtype;  // results have their operands'
  return (*tables_)[static_cast<size_t>(device)]
                   [static_cast<size_t>(step_.first_argument + argument)] +
         element * dtype_size(dtype);
}

// What came as the piece's sum in the chunk `from`, which may be the same, with the values of this
// process's devices; on the last process the results, which are copied to them.
void ChainReduce::fold(const Piece& piece, const std::byte* from, std::byte* chunk) const {
  const DType dtype = shape(piece.operand).dtype;
  // Sums of 16-bit floats are f32 on their way, which rows are not.
  const bool joins = step_.sum_rows != nullptr && !is_half_dtype(shape(piece.operand).dtype) &&
                     std::ssize(*piece.devices) < kMostRows;
  for (int64_t begin = 0; begin < piece.count; begin += kBlock) {
    const int64_t n = std::min(kBlock, piece.count - begin);
    const int64_t at = piece.sum_at + begin * partial_size(dtype);
    const std::byte* const so_far = is_first() ? nullptr : from + at;
    if (joins)
      join(piece, begin, n, so_far, chunk + at);
    else
      add_in_turn(piece, begin, n, so_far, chunk + at);
    if (is_last()) finish_block(piece, begin, n, chunk);
  }
}

// All devices' rows at once: what is added to is written once.
void ChainReduce::join(const Piece& piece, int64_t begin, int64_t n, const std::byte* so_far,
                       std::byte* sum) const {
  const std::byte* rows[kMostRows];
  size_t count = 0;
  if (so_far != nullptr) rows[count++] = so_far;
  for (const int64_t device : *piece.devices)
    rows[count++] = entry(device, piece.operand, piece.first + begin);
  const int64_t bytes = n * dtype_size(shape(piece.operand).dtype);
  step_.sum_rows({1, bytes}, std::span(&sum, 1), bytes, std::span(rows, count), bytes, false);
}

void ChainReduce::add_in_turn(const Piece& piece, int64_t begin, int64_t n, const std::byte* so_far,
                              std::byte* sum) const {
  const DType dtype = shape(piece.operand).dtype;
  const bool is_half = is_half_dtype(dtype);
  const LoopFunction function = combining_function(*step_.node, dtype);
  const LoopFunction read =
      is_half ? find_loop_function(LoopOp::convert, dtype, DType::f32) : nullptr;
  alignas(64) std::byte wide[kBlock * 4];
  for (const int64_t device : *piece.devices) {
    const std::byte* next = entry(device, piece.operand, piece.first + begin);
    if (is_half) {
      std::byte* const to = so_far == nullptr ? sum : wide;
      read(to, next, nullptr, nullptr, n, 0);
      next = to;
    }
    if (so_far != nullptr) function(sum, so_far, next, nullptr, n, 0);
    so_far = so_far == nullptr ? next : sum;
  }
  if (so_far != sum) std::memcpy(sum, so_far, static_cast<size_t>(n * partial_size(dtype)));
}

// Results of sums, to where the chunk's results are, which may be over sums that were read, and to
// the devices.
void ChainReduce::finish_block(const Piece& piece, int64_t begin, int64_t n,
                               std::byte* chunk) const {
  const DType dtype = shape(piece.operand).dtype;
  const int64_t size = dtype_size(dtype);
  const std::byte* done = chunk + piece.sum_at + begin * partial_size(dtype);
  alignas(64) std::byte narrow[kBlock * 2];
  if (is_half_dtype(dtype)) {
    find_loop_function(LoopOp::convert, DType::f32, dtype)(narrow, done, nullptr, nullptr, n, 0);
    done = narrow;
  }
  give_block(piece, begin, n, done);
  std::byte* const result = chunk + piece.result_at + begin * size;
  if (result != done) std::memmove(result, done, static_cast<size_t>(n * size));
}

// To the devices: past the caches where nobody would find it there.
void ChainReduce::give_block(const Piece& piece, int64_t begin, int64_t n,
                             const std::byte* done) const {
  const int64_t bytes = n * dtype_size(shape(piece.operand).dtype);
  for (const int64_t device : *piece.devices)
    copy_rows({1, bytes}, entry(device, step_.operands + piece.operand, piece.first + begin), 0,
              done, 0, streamed_ && bytes % 64 == 0);
}

void ChainReduce::give(const Piece& piece, const std::byte* chunk) const {
  const int64_t size = dtype_size(shape(piece.operand).dtype);
  for (int64_t begin = 0; begin < piece.count; begin += kBlock)
    give_block(piece, begin, std::min(kBlock, piece.count - begin),
               chunk + piece.result_at + begin * size);
}

}  // namespace gspmd
