#include <cstring>
#include <type_traits>

#include "gspmd/base/error.h"
#include "kernels/loop_plan.h"
#include "kernels/loop_strides.h"

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
  std::byte* shared;      // sums of blocks
};

constexpr int64_t kLeastStrided = 16;  // elements that are worth a call

template <class T>
void gather_strided(std::byte* out, const std::byte* from, int64_t stride, int64_t n) {
  T* r = reinterpret_cast<T*>(out);
  const T* x = reinterpret_cast<const T*>(from);
  if (stride == 0) {
    for (int64_t i = 0; i < n; ++i) r[i] = *x;
  } else if (stride == 1) {
    std::memcpy(r, x, static_cast<size_t>(n) * sizeof(T));
  } else if (stride == 2 && n >= kLeastStrided) {
    loop_strides(sizeof(T)).every_other(out, from, n);
  } else {
    for (int64_t i = 0; i < n; ++i) r[i] = x[i * stride];
  }
}

template <class T>
void scatter_strided(std::byte* to, const std::byte* from, int64_t stride, int64_t step,
                     int64_t n) {
  T* r = reinterpret_cast<T*>(to);
  const T* x = reinterpret_cast<const T*>(from);
  if (stride == 2 && step == 1) {
    for (int64_t i = 0; i < n; ++i) r[2 * i] = x[i];
    return;
  }
  for (int64_t i = 0; i < n; ++i) r[i * stride] = x[i * step];
}

// f of a number as wide as an element.
template <class F>
auto by_size(int64_t element_size, F&& f) {
  if (element_size == 1) return f(uint8_t{});
  if (element_size == 2) return f(uint16_t{});
  return element_size == 4 ? f(uint32_t{}) : f(uint64_t{});
}

// Elements in turn of arrays whose own are `a_step` and `b_step` (0 or 1) apart.
template <class T>
void zip_strided(std::byte* to, const std::byte* a, int64_t a_step, const std::byte* b,
                 int64_t b_step, int64_t n) {
  T* r = reinterpret_cast<T*>(to);
  const T* x = reinterpret_cast<const T*>(a);
  const T* y = reinterpret_cast<const T*>(b);
  if (a_step == 1 && b_step == 1 && n >= kLeastStrided)
    return loop_strides(sizeof(T)).in_turn(to, a, b, n);
  for (int64_t i = 0; i < n; ++i) {
    r[2 * i] = x[i * a_step];
    r[2 * i + 1] = y[i * b_step];
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
  by_size(s.element_size, [&]<class T>(T) { gather_strided<T>(out, from, stride, n); });
}

// Elements [start, start + n) of the flattened dims: visit(offset, stride, elements) of each run
// along the last dim.
template <class Visit>
void each_flat_run(const LoopPlan& plan, const LoopStream& s, int64_t start, int64_t n,
                   Visit&& visit) {
  const size_t rank = plan.flat_dims.size();
  const int64_t last = plan.flat_dims[rank - 1];
  while (n > 0) {
    int64_t rest = start / last, offset = s.offset;
    const int64_t column = start % last;
    for (size_t d = rank - 1; d-- > 0;) {
      offset += (rest % plan.flat_dims[d]) * s.kept[d];
      rest /= plan.flat_dims[d];
    }
    const int64_t run = std::min(n, last - column);
    visit(offset + column * s.kept[rank - 1], s.kept[rank - 1], run);
    start += run;
    n -= run;
  }
}

void gather_flat(const LoopPlan& plan, const LoopStream& s, std::byte* out, const std::byte* base,
                 int64_t start, int64_t n) {
  each_flat_run(plan, s, start, n, [&](int64_t offset, int64_t stride, int64_t run) {
    gather_run(s, out, base, offset, stride, run);
    out += run * s.element_size;
  });
}

void fill_elements(std::byte* out, const std::byte* value, int64_t element_size, int64_t n) {
  by_size(element_size, [&]<class T>(T) { gather_strided<T>(out, value, 0, n); });
}

void load(Frame& f, const LoopInstruction& in, int64_t tile_start, int64_t n) {
  const LoopStream& s = f.plan.streams[static_cast<size_t>(in.out)];
  std::byte* out = f.registers[s.value];
  if (f.plan.flat) return gather_flat(f.plan, s, out, f.bases[in.out], tile_start, n);
  int64_t offset = f.offsets[in.out] + tile_start * s.inner, columns = in.wide ? n : 1, rows = 1;
  if (f.plan.by_rows) {
    offset = f.offsets[in.out] + tile_start * s.row;
    columns = in.wide ? f.plan.inner : 1;
    rows = n;
    if (s.kind == LoopStream::operand && s.row == s.inner * columns) {  // as one
      columns *= rows;
      rows = 1;
    }
  }
  for (int64_t row = 0; row < rows; ++row, offset += s.row, out += columns * s.element_size)
    gather_run(s, out, f.bases[in.out], offset, s.inner, columns);
}

// What a register holds, from row to row.
struct Held {
  const std::byte* at = nullptr;
  int64_t step = 1, row_bytes = 0;
};
Held held(const Frame& f, int value, bool is_single) {
  Held held{f.registers[value], is_single ? 0 : 1};
  for (const LoopPlan::RowStep& moved : f.plan.row_steps)
    if (moved.value == value) held.row_bytes = moved.bytes;
  return held;
}

// To elements that do not lie side by side, or by rows.
void scatter(Frame& f, const LoopInstruction& in, int64_t tile_start, int64_t n) {
  const LoopStream& s = f.plan.streams[static_cast<size_t>(in.out)];
  Held a = held(f, in.a, (in.scalars & 1) != 0), b = held(f, in.c, (in.scalars & 2) != 0);
  const auto run = [&](std::byte* out, int64_t stride, int64_t count) {
    by_size(s.element_size, [&]<class T>(T) {
      if (in.c < 0) return scatter_strided<T>(out, a.at, stride, a.step, count);
      zip_strided<T>(out, a.at, a.step, b.at, b.step, count);
    });
  };
  if (f.plan.flat)
    return each_flat_run(f.plan, s, tile_start, n,
                         [&](int64_t offset, int64_t stride, int64_t count) {
                           run(f.bases[in.out] + offset * s.element_size, stride, count);
                           a.at += a.step * count * s.element_size;
                         });
  int64_t rows = f.plan.by_rows ? n : 1, columns = f.plan.by_rows ? f.plan.inner : n;
  const int64_t first = tile_start * (f.plan.by_rows ? s.row : s.inner);
  std::byte* out = f.bases[in.out] + (f.offsets[in.out] + first) * s.element_size;
  const auto is_dense = [&](const Held& h) {
    return h.step == 1 && h.row_bytes == columns * s.element_size;
  };
  if (f.plan.by_rows && s.row == s.inner * columns && is_dense(a) && (in.c < 0 || is_dense(b))) {
    columns *= rows;
    rows = 1;
  }
  for (int64_t row = 0; row < rows; ++row, out += s.row * s.element_size) {
    run(out, s.inner, columns);
    a.at += a.row_bytes;
    b.at += b.row_bytes;
  }
}

void store(Frame& f, const LoopInstruction& in, int64_t tile_start, int64_t n) {
  const LoopStream& s = f.plan.streams[static_cast<size_t>(in.out)];
  if (s.access == LoopStream::gather || f.plan.by_rows) return scatter(f, in, tile_start, n);
  std::byte* out = f.bases[in.out] + (f.offsets[in.out] + tile_start * s.inner) * s.element_size;
  const int64_t count = s.inner == 0 ? 1 : n;
  if (in.scalars != 0) return fill_elements(out, f.registers[in.a], s.element_size, count);
  if (out != f.registers[in.a]) {
    std::memmove(out, f.registers[in.a], static_cast<size_t>(count * s.element_size));
  }
}

void run_code(Frame& f, const LoopInstruction& in, int64_t n) {
  if (!f.plan.by_rows) return in.code_function(f.registers, n);
  f.registers[f.plan.registers] = reinterpret_cast<std::byte*>(n);
  in.code_function(f.registers, f.plan.inner);
  for (const LoopPlan::RowStep& step : f.plan.row_steps) f.registers[step.value] -= n * step.bytes;
}

void run_instructions(Frame& f, const std::vector<LoopInstruction>& list, int64_t tile_start,
                      int64_t n) {
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
        run_code(f, in, n);
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
  fill_elements(sums, static_cast<const std::byte*>(zero), fold.element_size, n);
}

void start_folds(Frame& f, int64_t n) {
  for (const LoopPlan::Fold& fold : f.plan.folds) {
    fill_elements(accumulator(f, fold, 0), f.registers[fold.init], fold.element_size, n);
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

// Steps [first, last) of the reduced outer dims for one tile range.
template <class Body>
void for_each_reduced(Frame& f, int64_t first, int64_t last, Body&& body) {
  const LoopPlan& plan = f.plan;
  const size_t rank = plan.reduced.size();
  const size_t streams = plan.streams.size();
  if (rank == 0) return body();  // `offsets` are the kept ones
  std::copy(f.kept_offsets, f.kept_offsets + streams, f.offsets);
  int64_t rest = first;
  for (size_t d = rank; d-- > 0; rest /= plan.reduced[d]) {
    f.index[d] = rest % plan.reduced[d];
    for (size_t s = 0; s < streams; ++s) f.offsets[s] += f.index[d] * plan.streams[s].reduced[d];
  }
  for (int64_t step = first; step < last; ++step) {
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
  for (size_t s = 0; s < streams; ++s) f.kept_offsets[s] = plan.streams[s].offset;
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

int64_t length(const LoopPlan& plan, int64_t tile) {
  return std::min(plan.tile, plan.tiled() - tile * plan.tile);
}

void run_body(Frame& f, int64_t tile) {
  point(f, tile * f.plan.tile);
  run_instructions(f, f.plan.body, tile * f.plan.tile, length(f.plan, tile));
}

// What follows the reductions of the row at hand.
void run_post(Frame& f, int64_t tile) {
  const LoopPlan& plan = f.plan;
  if (plan.post.empty()) return;
  if (!plan.reduced.empty())
    std::copy(f.kept_offsets, f.kept_offsets + plan.streams.size(), f.offsets);
  const int64_t start = plan.inner_reduced ? 0 : tile * plan.tile;
  point(f, start);
  run_instructions(f, plan.post, start, length(plan, tile));
}

// Of the row at hand.
void run_unit(Frame& f, int64_t tile) {
  const LoopPlan& plan = f.plan;
  const int64_t folded = plan.inner_reduced ? 1 : length(plan, tile);
  int64_t steps = 0;
  const auto step = [&](int64_t t) {
    run_body(f, t);
    if (++steps % kSumBlock == 0) carry_blocks(f, steps, folded);
  };
  start_folds(f, folded);
  for_each_reduced(f, 0, plan.reduced_count, [&] {
    if (!plan.inner_reduced) return step(tile);
    for (int64_t t = 0; t < plan.tiles; ++t) step(t);
  });
  finish_folds(f, folded);
  run_post(f, plan.inner_reduced ? plan.tiles - 1 : tile);
}

// Of the row at hand: the sums of that tile's block.
std::byte* block_sums(const Frame& f, const LoopPlan::Fold& fold, int64_t row, int64_t block,
                      int64_t tile) {
  const int64_t unit = (row * f.plan.blocks + block) * f.plan.tiles + tile;
  return f.shared + fold.shared_offset + unit * fold.level_bytes;
}

void run_block(Frame& f, int64_t row, int64_t block, int64_t tile) {
  const LoopPlan& plan = f.plan;
  const int64_t n = length(plan, tile), first = block * kSumBlock;
  for (const LoopPlan::Fold& fold : plan.folds) {
    if (block == 0)
      fill_elements(accumulator(f, fold, 0), f.registers[fold.init], fold.element_size, n);
    else
      clear(fold, accumulator(f, fold, 0), n);
  }
  for_each_reduced(f, first, std::min(first + kSumBlock, plan.reduced_count),
                   [&] { run_body(f, tile); });
  for (const LoopPlan::Fold& fold : plan.folds)
    std::memcpy(block_sums(f, fold, row, block, tile), accumulator(f, fold, 0),
                static_cast<size_t>(n * fold.element_size));
}

// The sums of all blocks as run_unit adds them.
void join_blocks(Frame& f, int64_t row, int64_t tile) {
  const LoopPlan& plan = f.plan;
  const int64_t n = length(plan, tile);
  start_folds(f, n);
  for (int64_t block = 0; block < plan.blocks; ++block) {
    for (const LoopPlan::Fold& fold : plan.folds)
      std::memcpy(accumulator(f, fold, 0), block_sums(f, fold, row, block, tile),
                  static_cast<size_t>(n * fold.element_size));
    const int64_t steps = (block + 1) * kSumBlock;
    if (steps <= plan.reduced_count) carry_blocks(f, steps, n);
  }
  finish_folds(f, n);
  run_post(f, tile);
}

int64_t table_bytes(const LoopPlan& plan) {
  const int64_t words = plan.registers + 2 + static_cast<int64_t>(plan.row_steps.size()) +
                        3 * static_cast<int64_t>(plan.streams.size()) +
                        static_cast<int64_t>(plan.reduced.size() + plan.kept.size());
  return ceil_div(words * 8, 64) * 64;
}

}  // namespace

int64_t loop_scratch_bytes(const LoopPlan& plan) { return table_bytes(plan) + plan.slot_bytes; }

namespace {

// Tables and registers of a part, its operands and results.
Frame open_frame(const LoopPlan& plan, const KernelArgs& args) {
  std::byte* memory = args.scratch;
  const auto take = [&]<class T>(int64_t count, T*) {
    T* words = reinterpret_cast<T*>(memory);
    memory += count * 8;
    return words;
  };
  const int64_t streams = static_cast<int64_t>(plan.streams.size());
  // Register -1 (an absent input) reads a harmless null pointer at the table's start.
  // Behind them stands what code needs to go from row to row.
  const int64_t steps = static_cast<int64_t>(plan.row_steps.size());
  std::byte** registers = take(plan.registers + 2 + steps, static_cast<std::byte**>(nullptr)) + 1;
  registers[-1] = nullptr;
  for (int64_t i = 0; i < steps; ++i)
    registers[plan.registers + 1 + i] =
        reinterpret_cast<std::byte*>(plan.row_steps[static_cast<size_t>(i)].bytes);
  Frame f{plan,
          registers,
          take(streams, static_cast<std::byte**>(nullptr)),
          take(streams, static_cast<int64_t*>(nullptr)),
          take(streams, static_cast<int64_t*>(nullptr)),
          take(static_cast<int64_t>(plan.reduced.size()), static_cast<int64_t*>(nullptr)),
          take(static_cast<int64_t>(plan.kept.size()), static_cast<int64_t*>(nullptr)),
          args.shared};
  std::byte* slots = args.scratch + table_bytes(plan);
  for (const LoopPlan::Slot& slot : plan.slots) f.registers[slot.value] = slots + slot.offset;
  for (const auto& [value, constant] : plan.constants) f.registers[value] = constant.bytes().data();
  if (plan.reduced.empty()) f.offsets = f.kept_offsets;
  for (size_t i = 0; i < plan.streams.size(); ++i) {
    const LoopStream& s = plan.streams[i];
    f.bases[i] = nullptr;
    if (s.kind == LoopStream::operand) f.bases[i] = const_cast<std::byte*>(args.operands[s.index]);
    if (s.kind == LoopStream::output) f.bases[i] = args.results[s.index];
    f.offsets[i] = s.offset;
  }
  for (const auto& [value, stream] : plan.fixed) {
    const LoopStream& s = plan.streams[static_cast<size_t>(stream)];
    f.registers[value] = f.bases[stream] + s.offset * s.element_size;
  }
  run_instructions(f, plan.prologue, 0, 1);
  return f;
}

// Part `part` of `parts` of `units`, of which each row has `per_row`: visit(row, unit of the row).
template <class Visit>
void for_each_unit(Frame& f, int64_t part, int64_t parts, int64_t units, int64_t per_row,
                   Visit&& visit) {
  const int64_t begin = part * units / parts, end = (part + 1) * units / parts;
  int64_t unit = begin % per_row, row = begin / per_row;
  start_rows(f, row);
  for (int64_t u = begin; u < end; ++u) {
    visit(row, unit);
    if (++unit < per_row) continue;
    unit = 0;
    ++row;
    next_row(f);
  }
}

}  // namespace

void run_loop(const LoopPlan& plan, const KernelArgs& args) {
  if (args.part * plan.units() / plan.parts == (args.part + 1) * plan.units() / plan.parts) return;
  Frame f = open_frame(plan, args);
  const int64_t per_row = plan.inner_reduced ? 1 : plan.tiles;
  for_each_unit(f, args.part, plan.parts, plan.units(), per_row, [&](int64_t row, int64_t tile) {
    plan.blocks > 0 ? join_blocks(f, row, tile) : run_unit(f, tile);
  });
}

void run_loop_blocks(const LoopPlan& plan, const KernelArgs& args, int64_t parts) {
  Frame f = open_frame(plan, args);
  for_each_unit(
      f, args.part, parts, plan.block_units(), plan.blocks * plan.tiles,
      [&](int64_t row, int64_t unit) { run_block(f, row, unit / plan.tiles, unit % plan.tiles); });
}

}  // namespace gspmd
