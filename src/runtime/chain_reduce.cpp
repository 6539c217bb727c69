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
  if (step.reference || !step.node->is(Opcode::all_reduce)) return;
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

void ChainReduce::run(const std::vector<char>& active, std::vector<std::vector<std::byte*>>& tables,
                      Transport& transport, const std::string& what) {
  for (const std::vector<Run>& runs : runs_) {
    const bool takes_part =
        std::any_of(runs.begin(), runs.end(), [&](const Run& run) { return run.process == self_; });
    if (!takes_part || active[static_cast<size_t>(runs[0].devices[0])] == 0) continue;
    for (int64_t i = 0; i < step_.operands; ++i) reduce(runs, i, tables, transport, what);
  }
}

// The chunk's partial sum, in `partial_`, with the values of a run's devices.
void ChainReduce::fold(const Run& run, bool is_first, int64_t operand, int64_t from,
                       int64_t elements, const std::vector<std::vector<std::byte*>>& tables) {
  constexpr int64_t kBlock = 2048;
  const DType dtype = step_.node->operand(operand)->shape.dtype;
  const bool is_half = is_half_dtype(dtype);
  const LoopFunction function = combining_function(*step_.node, dtype);
  const LoopFunction read =
      is_half ? find_loop_function(LoopOp::convert, dtype, DType::f32) : nullptr;
  alignas(64) std::byte wide[kBlock * 4];
  for (int64_t begin = 0; begin < elements; begin += kBlock) {
    const int64_t n = std::min(kBlock, elements - begin);
    std::byte* const sum = partial_.data() + begin * partial_size(dtype);
    bool is_sum = !is_first;
    for (const int64_t device : run.devices) {
      const std::byte* next =
          tables[static_cast<size_t>(device)][static_cast<size_t>(step_.first_argument + operand)] +
          (from + begin) * dtype_size(dtype);
      if (is_half) {
        read(wide, next, nullptr, nullptr, n, 0);
        next = wide;
      }
      if (is_sum)
        function(sum, sum, next, nullptr, n, 0);
      else
        std::memcpy(sum, next, static_cast<size_t>(n * partial_size(dtype)));
      is_sum = true;
    }
  }
}

// Run r has the partial sum of chunk c at step c + r, and the result of it at step c + 2(R-1) - r.
void ChainReduce::reduce(const std::vector<Run>& runs, int64_t operand,
                         std::vector<std::vector<std::byte*>>& tables, Transport& transport,
                         const std::string& what) {
  const Shape& shape = step_.node->operand(operand)->shape;
  const int64_t size = dtype_size(shape.dtype), wide = partial_size(shape.dtype);
  const int64_t elements = shape.elements_count(), chunks = ceil_div(elements, kChunk);
  const int64_t last = std::ssize(runs) - 1;
  const int64_t r =
      std::find_if(runs.begin(), runs.end(), [&](const Run& run) { return run.process == self_; }) -
      runs.begin();
  const Run& own = runs[static_cast<size_t>(r)];
  handed_.resize(static_cast<size_t>(kChunk * wide));
  partial_.resize(handed_.size());
  const auto count = [&](int64_t chunk) { return std::min(kChunk, elements - chunk * kChunk); };
  const auto is_chunk = [&](int64_t chunk) { return chunk >= 0 && chunk < chunks; };
  const auto result = [&](size_t device, int64_t chunk) {
    const auto argument = static_cast<size_t>(step_.first_argument + step_.operands + operand);
    return tables[static_cast<size_t>(own.devices[device])][argument] + chunk * kChunk * size;
  };
  const auto bytes_at = [](std::byte* data, int64_t bytes) {
    return std::span(data, static_cast<size_t>(bytes));
  };
  for (int64_t step = 0; step < chunks + 2 * last; ++step) {
    const int64_t chunk = step - r, done = step - 2 * last + r;  // of the sums, of the results
    const int64_t before = r - 1, after = r + 1;
    std::vector<Parcel> out, in;
    if (r > 0 && is_chunk(chunk))
      in.push_back({runs[size_t(before)].process, bytes_at(partial_.data(), count(chunk) * wide)});
    if (r > 0 && is_chunk(done - 1))
      out.push_back(
          {runs[size_t(before)].process, bytes_at(result(0, done - 1), count(done - 1) * size)});
    if (r < last && is_chunk(chunk - 1))
      out.push_back(
          {runs[size_t(after)].process, bytes_at(handed_.data(), count(chunk - 1) * wide)});
    if (r < last && is_chunk(done))
      in.push_back({runs[size_t(after)].process, bytes_at(result(0, done), count(done) * size)});
    transport.exchange(out, in, what);
    if (is_chunk(chunk)) fold(own, r == 0, operand, chunk * kChunk, count(chunk), tables);
    if (r == last && is_chunk(chunk)) {
      if (wide != size)
        find_loop_function(LoopOp::convert, DType::f32, shape.dtype)(
            result(0, chunk), partial_.data(), nullptr, nullptr, count(chunk), 0);
      else
        std::memcpy(result(0, chunk), partial_.data(), static_cast<size_t>(count(chunk) * size));
    }
    if (is_chunk(done))
      for (size_t d = 1; d < own.devices.size(); ++d)
        std::memcpy(result(d, done), result(0, done), static_cast<size_t>(count(done) * size));
    std::swap(handed_, partial_);
  }
}

}  // namespace gspmd
