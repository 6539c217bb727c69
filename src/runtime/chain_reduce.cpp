#include "runtime/chain_reduce.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace gspmd {
namespace {

constexpr int64_t kChunk = 1 << 16;       // elements that are handed on at once
constexpr int64_t kLeastBytes = 1 << 16;  // below, one exchange is faster than several

int64_t partial_size(DType dtype) { return is_half_dtype(dtype) ? 4 : dtype_size(dtype); }

}  // namespace

ChainReduce::ChainReduce(const CollectiveStep& step, const std::vector<int64_t>& process_of,
                         int64_t self)
    : step_(step), self_(self), chained_(step.groups.size(), 0), runs_(step.groups.size()) {
  if (step.reference || step.opcode != Opcode::all_reduce) return;
  for (size_t g = 0; g < step.groups.size(); ++g) {
    runs_[g] = runs_of(step.groups[g], process_of);
    chained_[g] = is_cheaper(runs_[g]) ? 1 : 0;
    if (chained_[g] == 0) runs_[g].clear();
  }
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

void ChainReduce::begin(const std::vector<char>& active,
                        std::vector<std::vector<std::byte*>>& tables, Transport& transport,
                        int tag) {
  tables_ = &tables;
  transport_ = &transport;
  tag_ = tag;
  at_ = 0;
  jobs_.clear();
  begun_.reset();
  for (const std::vector<Run>& runs : runs_) {
    const auto own = std::find_if(runs.begin(), runs.end(),
                                  [&](const Run& run) { return run.process == self_; });
    if (own == runs.end() || active[static_cast<size_t>(runs[0].devices[0])] == 0) continue;
    for (int64_t i = 0; i < step_.operands; ++i) jobs_.push_back({&runs, i, own - runs.begin()});
  }
}

// Run r has the partial sum of chunk c at step c + r, and the result of it at step c + 2(R-1) - r.
bool ChainReduce::progress(bool waits, const std::string& what) {
  while (!jobs_.empty()) {
    if (!begun_) exchange();
    if (!waits && !transport_->is_done(*begun_)) return false;
    transport_->finish(*begun_, what);
    begun_.reset();
    compute();
    if (++at_ < chunks() + 2 * (std::ssize(*jobs_.front().runs) - 1)) continue;
    jobs_.pop_front();
    at_ = 0;
  }
  return true;
}

int64_t ChainReduce::elements() const {
  return step_.node->operand(jobs_.front().operand)->shape.elements_count();
}

int64_t ChainReduce::chunks() const { return ceil_div(elements(), kChunk); }

int64_t ChainReduce::count(int64_t chunk) const {
  return std::min(kChunk, elements() - chunk * kChunk);
}

// Of one of the process's own devices in the group.
std::byte* ChainReduce::result(size_t device, int64_t chunk) const {
  const Job& job = jobs_.front();
  const auto argument = static_cast<size_t>(step_.first_argument + step_.operands + job.operand);
  const int64_t of = (*job.runs)[static_cast<size_t>(job.own)].devices[device];
  return (*tables_)[static_cast<size_t>(of)][argument] +
         chunk * kChunk * dtype_size(step_.node->operand(job.operand)->shape.dtype);
}

// Partial sums go on to the next run, results back to the one before.
void ChainReduce::exchange() {
  const Job& job = jobs_.front();
  const std::vector<Run>& runs = *job.runs;
  const DType dtype = step_.node->operand(job.operand)->shape.dtype;
  const int64_t size = dtype_size(dtype), wide = partial_size(dtype);
  const int64_t r = job.own, last = std::ssize(runs) - 1;
  const int64_t chunk = at_ - r, done = at_ - 2 * last + r;  // of the sums, of the results
  handed_.resize(static_cast<size_t>(kChunk * wide));
  partial_.resize(handed_.size());
  std::vector<Parcel> out, in;
  const auto add = [&](std::vector<Parcel>& to, int64_t run, std::byte* data, int64_t bytes) {
    to.push_back({runs[static_cast<size_t>(run)].process, {data, static_cast<size_t>(bytes)}});
  };
  if (r > 0 && is_chunk(chunk)) add(in, r - 1, partial_.data(), count(chunk) * wide);
  if (r > 0 && is_chunk(done - 1)) add(out, r - 1, result(0, done - 1), count(done - 1) * size);
  if (r < last && is_chunk(chunk - 1)) add(out, r + 1, handed_.data(), count(chunk - 1) * wide);
  if (r < last && is_chunk(done)) add(in, r + 1, result(0, done), count(done) * size);
  begun_ = transport_->begin(out, in, tag_);
}

// What the exchange brought: a partial sum to add to, a result to copy.
void ChainReduce::compute() {
  const Job& job = jobs_.front();
  const Run& own = (*job.runs)[static_cast<size_t>(job.own)];
  const DType dtype = step_.node->operand(job.operand)->shape.dtype;
  const int64_t size = dtype_size(dtype), last = std::ssize(*job.runs) - 1;
  const int64_t chunk = at_ - job.own, done = at_ - 2 * last + job.own;
  const bool rounds = partial_size(dtype) != size, ends = job.own == last && is_chunk(chunk);
  if (is_chunk(chunk)) fold(chunk, ends && !rounds ? result(0, chunk) : partial_.data());
  if (ends && rounds)
    find_loop_function(LoopOp::convert, DType::f32, dtype)(result(0, chunk), partial_.data(),
                                                           nullptr, nullptr, count(chunk), 0);
  if (is_chunk(done))
    for (size_t d = 1; d < own.devices.size(); ++d)
      std::memcpy(result(d, done), result(0, done), static_cast<size_t>(count(done) * size));
  std::swap(handed_, partial_);
}

// What came as the chunk's partial sum, with the values of the run's devices. `target` may be where
// the first device's values are.
void ChainReduce::fold(int64_t chunk, std::byte* target) {
  constexpr int64_t kBlock = 2048;
  const Job& job = jobs_.front();
  const DType dtype = step_.node->operand(job.operand)->shape.dtype;
  const auto argument = static_cast<size_t>(step_.first_argument + job.operand);
  const bool is_half = is_half_dtype(dtype);
  const LoopFunction function = combining_function(*step_.node, dtype);
  const LoopFunction read =
      is_half ? find_loop_function(LoopOp::convert, dtype, DType::f32) : nullptr;
  alignas(64) std::byte wide[kBlock * 4];
  for (int64_t begin = 0; begin < count(chunk); begin += kBlock) {
    const int64_t n = std::min(kBlock, count(chunk) - begin);
    const int64_t at = begin * partial_size(dtype);
    std::byte* const sum = target + at;
    const std::byte* so_far = job.own > 0 ? partial_.data() + at : nullptr;
    for (const int64_t device : (*job.runs)[static_cast<size_t>(job.own)].devices) {
      const std::byte* next = (*tables_)[static_cast<size_t>(device)][argument] +
                              (chunk * kChunk + begin) * dtype_size(dtype);
      if (is_half) {
        read(wide, next, nullptr, nullptr, n, 0);
        next = wide;
      }
      if (so_far != nullptr)
        function(sum, so_far, next, nullptr, n, 0);
      else
        std::memcpy(sum, next, static_cast<size_t>(n * partial_size(dtype)));
      so_far = sum;
    }
  }
}

}  // namespace gspmd
