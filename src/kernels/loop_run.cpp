#include <cstring>
#include <type_traits>

#include "gspmd/base/error.h"
#include "kernels/loop_plan.h"

namespace gspmd {
namespace {

// One run of one part: the pointer tables in scratch and the loop state.
struct Frame {
  const LoopPlan& plan;
  std::byte** registers;  // value -> memory
  std::byte** bases;      // stream -> memory of the whole operand or result
  int64_t* kept_offsets;  // stream -> elements
  int64_t* offsets;       // stream -> elements, with the reduced dims
  int64_t* index;         // counters of the reduced outer dims
  int64_t* row_index;     // counters of the kept outer dims
};

template <class T>
void gather_strided(std::byte* out, const std::byte* from, int64_t stride, int64_t n) {
  T* r = reinterpret_cast<T*>(out);
  const T* x = reinterpret_cast<const T*>(from);
  if (stride == 0) {
    for (int64_t i = 0; i < n; ++i) r[i] = *x;
  } else if (stride == 1) {
    std::memcpy(r, x, static_cast<size_t>(n) * sizeof(T));
  } else {
    for (int64_t i = 0; i < n; ++i) r[i] = x[i * stride];
  }
}

template <class T>
void count_up(T* r, int64_t offset, int64_t stride, int64_t n) {
  if constexpr (std::is_same_v<T, int32_t> || std::is_same_v<T, float>) {  // loops that vectorise
    if (offset + n * stride < INT32_MAX) {
      const auto first = static_cast<int32_t>(offset), step = static_cast<int32_t>(stride);
      for (int32_t i = 0; i < static_cast<int32_t>(n); ++i) r[i] = static_cast<T>(first + i * step);
      return;
    }
  }
  for (int64_t i = 0; i < n; ++i) r[i] = static_cast<T>(offset + i * stride);
}

void gather_run(const LoopStream& s, std::byte* out, const std::byte* base, int64_t offset,
                int64_t stride, int64_t n) {
  if (s.kind == LoopStream::iota) {
    return visit_dtype(s.dtype, [&]<class T>(TypeTag<T>) {
      count_up(reinterpret_cast<T*>(out), offset, stride, n);
    });
  }
  const std::byte* from = base + offset * s.element_size;
  switch (s.element_size) {
    case 1:
      return gather_strided<uint8_t>(out, from, stride, n);
    case 2:
      return gather_strided<uint16_t>(out, from, stride, n);
    case 4:
      return gather_strided<uint32_t>(out, from, stride, n);
    default:
      return gather_strided<uint64_t>(out, from, stride, n);
  }
}

// Elements [start, start + n) of the flattened dims, runs along the last dim.
void gather_flat(const LoopPlan& plan, const LoopStream& s, std::byte* out, const std::byte* base,
                 int64_t start, int64_t n) {
  const size_t rank = plan.flat_dims.size();
  const int64_t last = plan.flat_dims[rank - 1];
  while (n > 0) {
    int64_t rest = start / last, offset = 0;
    const int64_t column = start % last;
    for (size_t d = rank - 1; d-- > 0;) {
      offset += (rest % plan.flat_dims[d]) * s.kept[d];
      rest /= plan.flat_dims[d];
    }
    const int64_t run = std::min(n, last - column);
    gather_run(s, out, base, offset + column * s.kept[rank - 1], s.kept[rank - 1], run);
    out += run * s.element_size;
    start += run;
    n -= run;
  }
}

void fill(std::byte* out, const std::byte* value, int64_t element_size, int64_t n) {
  switch (element_size) {
    case 1:
      return gather_strided<uint8_t>(out, value, 0, n);
    case 2:
      return gather_strided<uint16_t>(out, value, 0, n);
    case 4:
      return gather_strided<uint32_t>(out, value, 0, n);
    default:
      return gather_strided<uint64_t>(out, value, 0, n);
  }
}

void load(Frame& f, const LoopInstruction& in, int64_t tile_start, int64_t n) {
  const LoopStream& s = f.plan.streams[static_cast<size_t>(in.out)];
  std::byte* out = f.registers[s.value];
  if (f.plan.flat) return gather_flat(f.plan, s, out, f.bases[in.out], tile_start, n);
  gather_run(s, out, f.bases[in.out], f.offsets[in.out] + tile_start * s.inner, s.inner,
             in.wide ? n : 1);
}

void store(Frame& f, const LoopInstruction& in, int64_t tile_start, int64_t n) {
  const LoopStream& s = f.plan.streams[static_cast<size_t>(in.out)];
  std::byte* out = f.bases[in.out] + (f.offsets[in.out] + tile_start * s.inner) * s.element_size;
  const int64_t count = s.inner == 0 ? 1 : n;
  if (in.scalars != 0) return fill(out, f.registers[in.a], s.element_size, count);
  if (out != f.registers[in.a]) {
    std::memmove(out, f.registers[in.a], static_cast<size_t>(count * s.element_size));
  }
}

void execute(Frame& f, const std::vector<LoopInstruction>& list, int64_t tile_start, int64_t n) {
  std::byte** r = f.registers;
  for (const LoopInstruction& in : list) {
    switch (in.kind) {
      case LoopInstruction::compute:
        in.function(r[in.out], r[in.a], r[in.b], r[in.c], in.wide ? n : 1, in.scalars);
        break;
      case LoopInstruction::load:
        load(f, in, tile_start, n);
        break;
      case LoopInstruction::store:
        store(f, in, tile_start, n);
        break;
      case LoopInstruction::fold: {
        alignas(16) std::byte partial[16];
        if (in.scalars != 0) {
          internal_error("loop program: fold of a value that does not vary");
        }
        in.function(partial, r[in.a], nullptr, nullptr, n, 0);
        in.combine(r[in.out], r[in.out], partial, nullptr, 1, 0);
        break;
      }
      case LoopInstruction::accumulate:
        in.combine(r[in.out], r[in.out], r[in.a], nullptr, n, in.scalars);
        break;
      case LoopInstruction::code:
        in.code_function(r, n);
        break;
    }
  }
}

// Points the registers of directly read operands and directly written outputs at this tile.
void point(Frame& f, int64_t tile_start) {
  for (const LoopPlan::Pointer& p : f.plan.pointers) {
    f.registers[p.value] =
        f.bases[p.stream] + f.offsets[p.stream] * p.element_size + tile_start * p.inner_bytes;
  }
}

std::byte* accumulator(const Frame& f, const LoopPlan::Fold& fold, int level) {
  return f.registers[fold.value] + level * fold.level_bytes;
}

// -0.0, which added to anything changes nothing.
void clear(const LoopPlan::Fold& fold, std::byte* sums, int64_t n) {
  const float narrow = -0.0F;
  const double wide = -0.0;
  const void* zero = &wide;
  if (fold.element_size == 4) zero = &narrow;
  fill(sums, static_cast<const std::byte*>(zero), fold.element_size, n);
}

void start_folds(Frame& f, int64_t n) {
  for (const LoopPlan::Fold& fold : f.plan.folds) {
    fill(accumulator(f, fold, 0), f.registers[fold.init], fold.element_size, n);
    for (int level = 1; level < fold.levels; ++level) clear(fold, accumulator(f, fold, level), n);
  }
}

// Adds an accumulator to the next one.
void carry(Frame& f, const LoopPlan::Fold& fold, int level, int64_t n) {
  std::byte* next = accumulator(f, fold, level + 1);
  fold.combine(next, next, accumulator(f, fold, level), nullptr, n, 0);
}

// After so many steps.
void carry_blocks(Frame& f, int64_t steps, int64_t n) {
  for (const LoopPlan::Fold& fold : f.plan.folds) {
    int64_t blocks = steps;
    for (int level = 0; level + 1 < fold.levels && blocks % kSumBlock == 0; ++level) {
      carry(f, fold, level, n);
      clear(fold, accumulator(f, fold, level), n);
      blocks /= kSumBlock;
    }
  }
}

void finish_folds(Frame& f, int64_t n) {
  for (const LoopPlan::Fold& fold : f.plan.folds) {
    for (int level = 0; level + 1 < fold.levels; ++level) carry(f, fold, level, n);
    if (fold.levels > 1)
      std::memcpy(accumulator(f, fold, 0), accumulator(f, fold, fold.levels - 1),
                  static_cast<size_t>(n * fold.element_size));
  }
}

// All steps of the reduced outer dims for one tile range.
template <class Body>
void for_each_reduced(Frame& f, Body&& body) {
  const LoopPlan& plan = f.plan;
  const size_t rank = plan.reduced.size();
  const size_t streams = plan.streams.size();
  if (rank == 0) return body();  // `offsets` are the kept ones
  std::copy(f.kept_offsets, f.kept_offsets + streams, f.offsets);
  std::fill(f.index, f.index + rank, 0);
  for (int64_t step = 0; step < plan.reduced_count; ++step) {
    body();
    for (size_t d = rank; d-- > 0;) {
      const bool carry = ++f.index[d] == plan.reduced[d];
      const int64_t steps = carry ? 1 - plan.reduced[d] : 1;
      for (size_t s = 0; s < streams; ++s) f.offsets[s] += steps * plan.streams[s].reduced[d];
      if (!carry) break;
      f.index[d] = 0;
    }
  }
}

void start_rows(Frame& f, int64_t row) {
  const LoopPlan& plan = f.plan;
  const size_t streams = plan.streams.size();
  for (size_t s = 0; s < streams; ++s) f.kept_offsets[s] = 0;
  for (size_t d = plan.kept.size(); d-- > 0;) {
    const int64_t i = row % plan.kept[d];
    row /= plan.kept[d];
    f.row_index[d] = i;
    for (size_t s = 0; s < streams; ++s) f.kept_offsets[s] += i * plan.streams[s].kept[d];
  }
}

void next_row(Frame& f) {
  const LoopPlan& plan = f.plan;
  const size_t streams = plan.streams.size();
  for (size_t d = plan.kept.size(); d-- > 0;) {
    const bool carry = ++f.row_index[d] == plan.kept[d];
    const int64_t steps = carry ? 1 - plan.kept[d] : 1;
    for (size_t s = 0; s < streams; ++s) f.kept_offsets[s] += steps * plan.streams[s].kept[d];
    if (!carry) break;
    f.row_index[d] = 0;
  }
}

// Of the row at hand.
void run_unit(Frame& f, int64_t tile) {
  const LoopPlan& plan = f.plan;
  const size_t streams = plan.streams.size();
  const auto length = [&](int64_t t) { return std::min(plan.tile, plan.inner - t * plan.tile); };
  const int64_t folded = plan.inner_reduced ? 1 : length(tile);
  int64_t last_start = 0, last_n = 1, steps = 0;
  const auto step = [&](int64_t t) {
    last_start = t * plan.tile;
    last_n = length(t);
    point(f, last_start);
    execute(f, plan.body, last_start, last_n);
    if (++steps % kSumBlock == 0) carry_blocks(f, steps, folded);
  };
  start_folds(f, folded);
  if (plan.inner_reduced) {
    for_each_reduced(f, [&] {
      for (int64_t t = 0; t < plan.tiles; ++t) step(t);
    });
  } else {
    for_each_reduced(f, [&] { step(tile); });
  }
  finish_folds(f, folded);
  if (plan.post.empty()) return;
  if (!plan.reduced.empty()) std::copy(f.kept_offsets, f.kept_offsets + streams, f.offsets);
  if (plan.inner_reduced && plan.tiles > 1) last_start = 0;
  point(f, last_start);
  execute(f, plan.post, last_start, last_n);
}

int64_t table_bytes(const LoopPlan& plan) {
  const int64_t words = plan.registers + 1 + 3 * static_cast<int64_t>(plan.streams.size()) +
                        static_cast<int64_t>(plan.reduced.size() + plan.kept.size());
  return ceil_div(words * 8, 64) * 64;
}

}  // namespace

int64_t loop_scratch_bytes(const LoopPlan& plan) { return table_bytes(plan) + plan.slot_bytes; }

void run_loop(const LoopPlan& plan, const KernelArgs& args) {
  std::byte* memory = args.scratch;
  const auto take = [&]<class T>(int64_t count, T*) {
    T* words = reinterpret_cast<T*>(memory);
    memory += count * 8;
    return words;
  };
  const int64_t streams = static_cast<int64_t>(plan.streams.size());
  // Register -1 (an absent input) reads a harmless null pointer at the table's start.
  std::byte** registers = take(plan.registers + 1, static_cast<std::byte**>(nullptr)) + 1;
  registers[-1] = nullptr;
  Frame f{plan,
          registers,
          take(streams, static_cast<std::byte**>(nullptr)),
          take(streams, static_cast<int64_t*>(nullptr)),
          take(streams, static_cast<int64_t*>(nullptr)),
          take(static_cast<int64_t>(plan.reduced.size()), static_cast<int64_t*>(nullptr)),
          take(static_cast<int64_t>(plan.kept.size()), static_cast<int64_t*>(nullptr))};
  std::byte* slots = args.scratch + table_bytes(plan);
  for (const LoopPlan::Slot& slot : plan.slots) f.registers[slot.value] = slots + slot.offset;
  for (const auto& [value, constant] : plan.constants) f.registers[value] = constant.bytes().data();
  if (plan.reduced.empty()) f.offsets = f.kept_offsets;
  for (size_t i = 0; i < plan.streams.size(); ++i) {
    const LoopStream& s = plan.streams[i];
    f.bases[i] = nullptr;
    if (s.kind == LoopStream::operand) f.bases[i] = const_cast<std::byte*>(args.operands[s.index]);
    if (s.kind == LoopStream::output) f.bases[i] = args.results[s.index];
    f.offsets[i] = 0;
  }
  for (const auto& [value, stream] : plan.fixed) f.registers[value] = f.bases[stream];
  execute(f, plan.prologue, 0, 1);
  const int64_t units = plan.units();
  const int64_t per_row = plan.inner_reduced ? 1 : plan.tiles;
  const int64_t begin = args.part * units / plan.parts;
  const int64_t end = (args.part + 1) * units / plan.parts;
  int64_t tile = begin % per_row;
  start_rows(f, begin / per_row);
  for (int64_t u = begin; u < end; ++u) {
    run_unit(f, tile);
    if (++tile < per_row) continue;
    tile = 0;
    next_row(f);
  }
}

}  // namespace gspmd
