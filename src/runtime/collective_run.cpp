#include "runtime/collective_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
#include "gspmd/ops/builders.h"
#include "kernels/loop_functions.h"
#include "kernels/loop_widen.h"
#include "kernels/stream.h"
#include "ops/collective/collective.h"
#include "runtime/reference_kernel.h"

namespace gspmd {
namespace {

constexpr int64_t kChunkBytes = 8192;       // of a reduction: stays in the first-level cache
constexpr int64_t kPieceBytes = 1 << 18;    // of a result that one worker takes at once
constexpr int64_t kFarBytes = 1 << 21;      // of operands: more than second-level caches hold
constexpr int64_t kTurnBytes = 1 << 13;     // of a device's operand, about, in a turn
constexpr int64_t kShortRow = 256;          // bytes: several devices' rows share a line or two
constexpr int64_t kReducedBytes = 1 << 14;  // of an all-reduce: they go to all from that cache

// A piece of what is around a collective's dim: some of the outer steps, or of each row a part.
struct Piece {
  int64_t first = 0, rows = 0;  // outer steps
  int64_t from = 0, bytes = 0;  // of each row
};

Piece piece_of(const Rows& rows, int64_t piece, int64_t pieces) {
  if (rows.outer >= pieces) {
    const int64_t first = piece * rows.outer / pieces;
    return {first, (piece + 1) * rows.outer / pieces - first, 0, rows.row};
  }
  const int64_t lines = ceil_div(rows.row, 64);
  const int64_t from = std::min(rows.row, piece * lines / pieces * 64);
  return {0, rows.outer, from, std::min(rows.row, (piece + 1) * lines / pieces * 64) - from};
}

class Runner {
 public:
  Runner(const CollectiveStep& step, const CollectiveArgs& args, int worker)
      : step_(step), args_(args), worker_(worker) {}

  void run() {
    if (step_.reference) return run_reference();
    streamed_ = is_streamed(saturating_multiply(step_.result_bytes, receivers()) / 2);
    if (step_.opcode == Opcode::all_reduce)
      all_reduce();
    else if (step_.opcode == Opcode::all_gather || splits_dim())
      each_part();
    else if (takes_turns())
      each_turn();
    else
      each_receiver();
    if (streamed_) flush_stream();
  }

 private:
  bool active(int64_t device) const { return (*args_.active)[static_cast<size_t>(device)] != 0; }
  // Whether the device of this process needs results of its own.
  bool receives(int64_t device) const {
    return args_.local.contains(device) &&
           (!args_.shares || step_.receives.empty() || step_.receives[static_cast<size_t>(device)]);
  }
  int64_t receivers() const {
    if (!args_.shares || step_.receives.empty()) return args_.local.count();
    return std::count(step_.receives.begin(), step_.receives.end(), true);
  }
  bool is_done(int64_t group) const {
    return args_.done != nullptr && (*args_.done)[static_cast<size_t>(group)] != 0;
  }
  std::byte* const* table(int64_t device) const {
    return (*args_.tables)[static_cast<size_t>(device)].data() + step_.first_argument;
  }
  const std::byte* in(int64_t device, int64_t i) const { return table(device)[i]; }
  std::byte* out(int64_t device, int64_t i) const { return table(device)[step_.operands + i]; }
  const Shape& operand(int64_t i) const { return step_.node->operand(i)->shape; }
  // Whether rows go past the caches: whole lines only.
  bool streams(int64_t row) const { return streamed_ && row % 64 == 0; }

  // This worker's pieces of n. What stays in caches is dealt out: who helped would take results
  // from where the next step looks for them, which costs more than the help is worth.
  template <class F>
  void each_piece(int64_t n, F&& f) {
    Claims& claims = *args_.claims;
    if (!streamed_) {
      for (int64_t i = claims.begin(worker_, n); i < claims.begin(worker_ + 1, n); ++i) f(i);
      return;
    }
    for (int64_t i = claims.take(args_.round, worker_, n); i >= 0;
         i = claims.take(args_.round, worker_, n))
      f(i);
  }

  static int64_t pieces_of(int64_t bytes, int64_t many) {
    return std::clamp<int64_t>(bytes / kPieceBytes, 1, Claims::kMost / many);
  }

  // Each of this process's devices by itself, in pieces of its result.
  void each_receiver() {
    const int64_t devices = args_.local.count();
    if (devices > Claims::kMost) {  // too many to share
      for (int64_t d = args_.local.first; d < args_.local.last && worker_ == 0; ++d)
        make_result(d, 0, 1);
      return;
    }
    const int64_t pieces = pieces_of(step_.result_bytes, devices);
    each_piece(devices * pieces,
               [&](int64_t i) { make_result(args_.local.first + i / pieces, i % pieces, pieces); });
  }

  // Parts of this process's devices: those of a worker, so that it finds their results in its
  // caches; all of them where results go past these, or where the same part of many rows for all
  // of a worker's devices would fill some places of these caches only.
  int64_t parts() const {
    if (streamed_ || (splits_dim() && is_far())) return 1;
    return std::min(args_.claims->workers(), args_.local.count());
  }
  DeviceRange part(int64_t i, int64_t parts) const {
    const auto begin = [&](int64_t p) {
      return args_.local.first + ceil_div(p * args_.local.count(), parts);
    };
    return {begin(i), begin(i + 1)};
  }

  // An all-to-all of parts of one operand, not of operands.
  bool splits_dim() const {
    return step_.opcode == Opcode::all_to_all && !step_.node->attrs.dimensions.empty();
  }

  // Pieces of the results of each part's devices; of few, of all.
  void each_part() {
    const int64_t many = receivers() < args_.local.count() ? 1 : parts();
    const int64_t pieces =
        streamed_ ? pieces_of(step_.result_bytes, many) : ceil_div(args_.claims->workers(), many);
    each_piece(many * pieces, [&](int64_t i) { join(part(i / pieces, many), i % pieces, pieces); });
  }

  // Whether devices sum parts of rows that are too many for a cache.
  bool takes_turns() const {
    if (step_.opcode != Opcode::reduce_scatter || step_.groups.empty()) return false;
    const int64_t dim = step_.node->attrs.dimensions[0];
    const Rows rows = rows_of(operand(0), dim, std::ssize(step_.groups[0]));
    return rows.outer > 1 && (streamed_ || rows.row < kShortRow) && is_far();
  }
  // Whether operands are too many for a cache.
  bool is_far() const {
    return saturating_multiply(operand(0).bytes(), args_.local.count()) > kFarBytes;
  }

  // All devices of a part one after the other with a few outer steps: what one reads of a row
  // brings near what the next reads.
  void each_turn() {
    const int64_t outer = rows_of(operand(0), step_.node->attrs.dimensions[0], 1).outer;
    const int64_t turns = std::clamp<int64_t>(operand(0).bytes() / kTurnBytes, 1, outer);
    const int64_t many = parts(), devices = ceil_div(args_.local.count(), many);
    const int64_t pieces =
        std::min(turns, pieces_of(saturating_multiply(operand(0).bytes(), devices), many));
    each_piece(many * pieces, [&](int64_t i) {
      const DeviceRange here = part(i / pieces, many);
      const int64_t p = i % pieces;
      for (int64_t turn = p * turns / pieces; turn < (p + 1) * turns / pieces; ++turn)
        for (int64_t device = here.first; device < here.last; ++device)
          make_result(device, turn, turns);
    });
  }

  void make_result(int64_t device, int64_t piece, int64_t pieces) {
    if (!active(device)) return;
    if (step_.opcode == Opcode::collective_permute) return permute(device, piece, pieces);
    const auto [index, self] = step_.member[static_cast<size_t>(device)];
    if (index < 0 || is_done(index)) return;
    const std::vector<int64_t>& group = step_.groups[static_cast<size_t>(index)];
    if (step_.opcode == Opcode::reduce_scatter)
      reduce_scatter(group, device, self, piece, pieces);
    else
      all_to_all(group, device, self, piece, pieces);
  }

  static constexpr size_t kMostSummed = 64;
  bool sums_rows(const std::vector<int64_t>& group) const {
    return step_.sum_rows != nullptr && group.size() <= kMostSummed;
  }
  void sum(const std::vector<int64_t>& group, int64_t i, int64_t from, const RowBlock& block,
           std::span<std::byte* const> targets, int64_t target_step, int64_t source_step,
           bool streamed) const {
    const std::byte* sources[kMostSummed];
    for (size_t m = 0; m < group.size(); ++m) sources[m] = in(group[m], i) + from;
    step_.sum_rows(block, targets, target_step, std::span(sources, group.size()), source_step,
                   streamed);
  }

  // target = rows of the members, combined in the group's order. Each begins at `from` of operand
  // i.
  void combine(const std::vector<int64_t>& group, int64_t i, int64_t from, const RowBlock& block,
               std::byte* target, int64_t target_step, int64_t source_step, bool streamed) const {
    if (block.bytes == 0) return;
    if (group.size() == 1)
      return copy_rows(block, target, target_step, in(group[0], i) + from, source_step, streamed);
    if (sums_rows(group))
      return sum(group, i, from, block, std::span(&target, 1), target_step, source_step, streamed);
    for (int64_t r = 0; r < block.rows; ++r)
      for (int64_t at = 0; at < block.bytes; at += kChunkBytes)
        combine_chunk(group, i, from + r * source_step + at,
                      std::min(kChunkBytes, block.bytes - at), target + r * target_step + at);
  }

  void combine_chunk(const std::vector<int64_t>& group, int64_t i, int64_t from, int64_t bytes,
                     std::byte* acc) const {
    const int64_t size = dtype_size(operand(i).dtype);
    const LoopFunction function = combining_function_of(i);
    if (is_half_dtype(operand(i).dtype)) return combine_halves(group, i, from, bytes / 2, acc);
    function(acc, in(group[0], i) + from, in(group[1], i) + from, nullptr, bytes / size, 0);
    for (size_t m = 2; m < group.size(); ++m)
      function(acc, acc, in(group[m], i) + from, nullptr, bytes / size, 0);
  }

  // As combine, of n 16-bit floats: the partial results stay f32.
  void combine_halves(const std::vector<int64_t>& group, int64_t i, int64_t from, int64_t n,
                      std::byte* acc) const {
    alignas(64) std::byte sum[2 * kChunkBytes], next[2 * kChunkBytes];
    const DType dtype = operand(i).dtype;
    const LoopFunction read = find_loop_function(LoopOp::convert, dtype, DType::f32);
    const LoopFunction round = find_loop_function(LoopOp::convert, DType::f32, dtype);
    const LoopFunction function = combining_function_of(i);
    read(sum, in(group[0], i) + from, nullptr, nullptr, n, 0);
    for (size_t m = 1; m < group.size(); ++m) {
      read(next, in(group[m], i) + from, nullptr, nullptr, n, 0);
      function(sum, sum, next, nullptr, n, 0);
    }
    round(acc, sum, nullptr, nullptr, n, 0);
  }

  LoopFunction combining_function_of(int64_t i) const {
    return combining_function(*step_.node, operand(i).dtype);
  }

  // Lines of all operands of all groups, one behind the other, in pieces: a piece is summed over
  // the members and goes to all that are here.
  void all_reduce() {
    if (step_.groups.empty()) return;
    int64_t lines = 0;
    for (int64_t i = 0; i < step_.operands; ++i) lines += ceil_div(operand(i).bytes(), 64);
    const int64_t groups = std::ssize(step_.groups);
    const int64_t pieces = std::clamp<int64_t>(lines * 64 / kReducedBytes, 1,
                                               std::max<int64_t>(Claims::kMost / groups, 1));
    const auto run = [&](int64_t g, int64_t piece) {
      const std::vector<int64_t>& group = step_.groups[static_cast<size_t>(g)];
      if (active(group[0]) && !is_done(g))
        reduce_lines(group, piece * lines / pieces, (piece + 1) * lines / pieces);
    };
    if (groups > Claims::kMost) {
      for (int64_t g = 0; g < groups && worker_ == 0; ++g) run(g, 0);
      return;
    }
    each_piece(groups * pieces, [&](int64_t i) { run(i / pieces, i % pieces); });
  }

  void reduce_lines(const std::vector<int64_t>& group, int64_t first, int64_t last) {
    const auto is_local = [&](int64_t device) { return receives(device); };
    if (std::none_of(group.begin(), group.end(), is_local)) return;
    alignas(64) std::byte acc[kReducedBytes];
    int64_t before = 0;  // lines of operands so far
    for (int64_t i = 0; i < step_.operands && before < last; ++i) {
      const int64_t all = operand(i).bytes(), lines = ceil_div(all, 64);
      const int64_t begin = std::max<int64_t>(first - before, 0) * 64;
      const int64_t end = std::min(all, (last - before) * 64);
      for (int64_t from = begin; from < end; from += kReducedBytes) {
        const int64_t bytes = std::min(kReducedBytes, end - from);
        if (streamed_ && sums_rows(group)) {  // straight past the caches
          targets_.clear();
          for (const int64_t device : group)
            if (is_local(device)) targets_.push_back(out(device, i) + from);
          sum(group, i, from, {1, bytes}, targets_, bytes, bytes, true);
          continue;
        }
        combine(group, i, from, {1, bytes}, acc, bytes, bytes, false);
        for (const int64_t device : group)
          if (is_local(device))
            copy_rows({1, bytes}, out(device, i) + from, 0, acc, 0, streams(bytes));
      }
      before += lines;
    }
  }

  // A piece of the results on some devices: rows of all members side by side, of an all-gather all
  // their rows, of an all-to-all those that are for the device.
  void join(const DeviceRange& devices, int64_t piece, int64_t pieces) {
    const bool gathers = step_.opcode == Opcode::all_gather;
    for (size_t g = 0; g < step_.groups.size(); ++g) {
      const std::vector<int64_t>& group = step_.groups[g];
      const auto is_here = [&](int64_t device) {
        return devices.contains(device) && receives(device);
      };
      if (!active(group[0]) || is_done(static_cast<int64_t>(g)) ||
          std::none_of(group.begin(), group.end(), is_here))
        continue;
      const auto members = std::ssize(group);
      for (int64_t i = 0; i < step_.operands; ++i) {
        const Rows rows =
            rows_of(operand(i), step_.node->attrs.dimensions[0], gathers ? 1 : members);
        const Piece at = piece_of(rows, piece, pieces);
        const int64_t row = members * rows.row, source_step = gathers ? rows.row : row;
        for_members(members);
        for (int64_t m = 0; m < members; ++m) {
          const int64_t device = group[static_cast<size_t>(m)];
          sources_.push_back(in(device, i) + at.first * source_step + at.from);
          if (!is_here(device)) continue;
          targets_.push_back(out(device, i) + at.first * row + at.from);
          if (!gathers) offsets_.push_back(m * rows.row);
        }
        join_rows({at.rows, at.bytes, source_step, row, rows.row, is_far()}, targets_, offsets_,
                  sources_, streamed_);
      }
    }
  }

  void for_members(int64_t members) {
    const auto room = [&](auto& list) {
      list.clear();
      list.reserve(static_cast<size_t>(members));
    };
    room(sources_);
    room(targets_);
    room(offsets_);
  }

  void reduce_scatter(const std::vector<int64_t>& group, int64_t device, int64_t self,
                      int64_t piece, int64_t pieces) {
    const auto members = static_cast<int64_t>(group.size());
    for (int64_t i = 0; i < step_.operands; ++i) {
      const Rows rows = rows_of(operand(i), step_.node->attrs.dimensions[0], members);
      const Piece part = piece_of(rows, piece, pieces);
      combine(group, i, (part.first * members + self) * rows.row + part.from,
              {part.rows, part.bytes}, out(device, i) + part.first * rows.row + part.from, rows.row,
              members * rows.row, streams(rows.row));
    }
  }

  // Operand `self` of every member.
  void all_to_all(const std::vector<int64_t>& group, int64_t device, int64_t self, int64_t piece,
                  int64_t pieces) {
    const Piece part = piece_of({1, operand(self).bytes()}, piece, pieces);
    for (int64_t m = 0; m < std::ssize(group); ++m)
      copy_rows({1, part.bytes}, out(device, m) + part.from, 0,
                in(group[static_cast<size_t>(m)], self) + part.from, 0, streams(part.bytes));
  }

  // Devices that nobody sends to get zeros.
  void permute(int64_t device, int64_t piece, int64_t pieces) {
    const auto found =
        std::lower_bound(step_.pairs.begin(), step_.pairs.end(), std::pair(device, int64_t{0}));
    const bool receives = found != step_.pairs.end() && found->first == device;
    for (int64_t i = 0; i < step_.operands; ++i) {
      const Piece part = piece_of({1, operand(i).bytes()}, piece, pieces);
      if (receives)
        copy_rows({1, part.bytes}, out(device, i) + part.from, 0, in(found->second, i) + part.from,
                  0, streams(part.bytes));
      else if (part.bytes > 0)
        std::memset(out(device, i) + part.from, 0, static_cast<size_t>(part.bytes));
    }
  }

  void run_reference() {
    if (worker_ != 0) return;
    std::vector<int64_t> devices;
    std::vector<const std::byte* const*> operands;
    std::vector<std::byte* const*> results;
    for (int64_t device = 0; device < args_.num_devices; ++device) {
      if (!active(device)) continue;
      devices.push_back(device);
      operands.push_back(table(device));
      results.push_back(args_.local.contains(device) ? table(device) + step_.operands : nullptr);
    }
    if (std::all_of(results.begin(), results.end(), [](auto x) { return x == nullptr; })) return;
    reference_collective(*step_.node, devices, args_.num_devices, operands, results);
  }

  const CollectiveStep& step_;
  const CollectiveArgs& args_;
  int worker_;
  bool streamed_ = false;
  // Of one group at a time.
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
  std::vector<int64_t> offsets_;
};

}  // namespace

namespace {

// The kinds that Runner knows; others run by their reference kernels.
bool has_fast_form(const Node& node, Opcode opcode) {
  switch (opcode) {
    case Opcode::all_reduce:
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::collective_permute:
      return true;
    case Opcode::all_to_all:
      return node.attrs.dimensions.empty() || node.operands().size() == 1;
    default:
      return false;
  }
}

}  // namespace

LoopFunction combining_function(const Node& node, DType stored) {
  const std::optional<Combiner> combiner = recognize_combiner(*node.called.at(0));
  if (!combiner || !has_loop_functions(stored)) return nullptr;
  const DType dtype = is_half_dtype(stored) ? DType::f32 : stored;
  switch (*combiner) {
    case Combiner::sum:
      return find_loop_function(LoopOp::add, dtype, dtype);
    case Combiner::product:
      return find_loop_function(LoopOp::multiply, dtype, dtype);
    case Combiner::max:
      return find_loop_function(LoopOp::maximum, dtype, dtype);
    case Combiner::min:
      return find_loop_function(LoopOp::minimum, dtype, dtype);
    case Combiner::logical_and:
      return find_loop_function(LoopOp::and_, dtype, dtype);
    case Combiner::logical_or:
      return find_loop_function(LoopOp::or_, dtype, dtype);
  }
  return nullptr;
}

namespace {

// What adds up rows of all operands; nullptr: they are not all of one type, or not added up.
SumRows sum_rows_of(const Node& node) {
  const DType dtype = node.operand(0)->shape.dtype;
  for (const Node* operand : node.operands())
    if (operand->shape.dtype != dtype) return nullptr;
  return recognize_combiner(*node.called.at(0)) == Combiner::sum ? find_sum_rows(dtype) : nullptr;
}

}  // namespace

Rows rows_of(const Shape& shape, int64_t dim, int64_t pieces) {
  Rows rows;
  rows.row = dtype_size(shape.dtype);
  for (int64_t d = 0; d < shape.rank(); ++d)
    (d < dim ? rows.outer : rows.row) *= shape.dims[static_cast<size_t>(d)];
  rows.row /= pieces;
  return rows;
}

CollectiveStep prepare_collective(const Node& node, int64_t num_devices, bool reference) {
  check_group_size(node, num_devices);
  CollectiveStep step;
  step.node = &node;
  step.opcode = sync_form(node.opcode());
  step.is_split = step.opcode != node.opcode();
  step.reference = reference || !has_fast_form(node, step.opcode);
  step.covered.assign(static_cast<size_t>(num_devices), false);
  for (const Shape& leaf : leaf_shapes(node.shape)) step.result_bytes += leaf.bytes();
  const auto check = [&](int64_t device) {
    if (device >= 0 && device < num_devices) return;
    user_error("{}: \"{}\" names device {}, there are {}", opcode_name(node.opcode()), node.name(),
               device, num_devices);
  };
  if (step.opcode == Opcode::collective_permute) {
    if (!step.is_split && static_cast<int64_t>(node.operands().size()) != leaf_count(node.shape))
      user_error(
          "collective-permute: \"{}\" writes into a buffer (slice_sizes), which is read and "
          "printed only",
          node.name());
    for (const auto& [source, target] : materialize(node.attrs.permutation)) {
      check(source);
      check(target);
      step.pairs.emplace_back(target, source);
    }
    std::sort(step.pairs.begin(), step.pairs.end());
    return step;
  }
  step.member.assign(static_cast<size_t>(num_devices), {-1, -1});
  step.groups = materialize(node.attrs.replica_groups, num_devices);
  for (const std::vector<int64_t>& group : step.groups) {
    for (const int64_t device : group) {
      check(device);
      step.covered[static_cast<size_t>(device)] = true;
    }
  }
  std::erase_if(step.groups, [](const auto& group) { return group.empty(); });
  for (size_t g = 0; g < step.groups.size(); ++g)
    for (size_t i = 0; i < step.groups[g].size(); ++i)
      step.member[static_cast<size_t>(step.groups[g][i])] = {static_cast<int64_t>(g),
                                                             static_cast<int64_t>(i)};
  const bool combines = step.opcode == Opcode::all_reduce || step.opcode == Opcode::reduce_scatter;
  for (const Node* operand : node.operands()) {
    step.reference |= combines && combining_function(node, operand->shape.dtype) == nullptr;
  }
  if (combines && !step.reference) step.sum_rows = sum_rows_of(node);
  return step;
}

void check_active(const CollectiveStep& step, const CollectiveArgs& args) {
  const auto is_active = [&](int64_t device) {
    return (*args.active)[static_cast<size_t>(device)] != 0;
  };
  const auto op = opcode_name(step.node->opcode());
  for (const auto& [target, source] : step.pairs) {
    if (is_active(target) == is_active(source)) continue;
    execution_error("{}: \"{}\" is reached by one of devices {} and {} only", op, step.node->name(),
                    source, target);
  }
  if (step.opcode == Opcode::collective_permute) return;
  for (const std::vector<int64_t>& group : step.groups) {
    const auto reached = std::count_if(group.begin(), group.end(), is_active);
    if (reached == 0 || reached == static_cast<std::ptrdiff_t>(group.size())) continue;
    execution_error(
        "{}: \"{}\" is reached by {} of the {} devices of its group {{{}}} only: a branch or loop "
        "around it went different ways",
        op, step.node->name(), reached, group.size(), fmt::join(group, ","));
  }
  if (step.node->is(Opcode::collective_broadcast)) return;  // zeros for devices in no group
  for (int64_t device = 0; device < args.num_devices; ++device) {
    if (is_active(device) && !step.covered[static_cast<size_t>(device)]) {
      execution_error("{}: device {} is in no group of \"{}\"", op, device, step.node->name());
    }
  }
}

void run_collective(const CollectiveStep& step, const CollectiveArgs& args, int worker) {
  Runner(step, args, worker).run();
}

int64_t bytes_received(const CollectiveStep& step, const CollectiveArgs& args) {
  const auto is_active = [&](int64_t device) {
    return (*args.active)[static_cast<size_t>(device)] != 0;
  };
  int64_t operand_bytes = 0;
  for (const Node* operand : step.node->operands()) operand_bytes += operand->shape.bytes();
  int64_t total = 0;
  for (const auto& [target, source] : step.pairs) {
    if (target != source && is_active(target)) total += operand_bytes;
  }
  for (const std::vector<int64_t>& group : step.groups) {
    if (!is_active(group[0])) continue;
    const auto others = static_cast<int64_t>(group.size()) - 1;
    switch (step.opcode) {
      // Every element is summed in one place, which reads the others', and read from there by the
      // others.
      case Opcode::all_reduce:
        total += 2 * others * operand_bytes;
        break;
      case Opcode::all_gather:
        total += (others + 1) * others * operand_bytes;
        break;
      default:
        total += others * operand_bytes;
        break;  // a piece of each other member
    }
  }
  return total;
}

}  // namespace gspmd
