#include "runtime/collective_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "gspmd/base/error.h"
#include "gspmd/ir/op.h"
#include "gspmd/ops/builders.h"
#include "kernels/loop_functions.h"
#include "kernels/loop_widen.h"
#include "ops/collective/collective.h"
#include "runtime/reference_kernel.h"

namespace gspmd {
namespace {

constexpr int64_t kChunkBytes = 8192;  // of a reduction: stays in the first-level cache

// The worker that a device's results are made by; -1: none of this process.
int owner(const CollectiveArgs& args, int64_t device) {
  if (!args.local.contains(device)) return -1;
  return static_cast<int>((device - args.local.first) * args.workers / args.local.count());
}

// Values without elements have no address.
void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

class Runner {
 public:
  Runner(const CollectiveStep& step, const CollectiveArgs& args, int worker)
      : step_(step), args_(args), worker_(worker) {}

  void run() {
    if (step_.reference) return run_reference();
    if (step_.opcode == Opcode::collective_permute) return permute();
    for (size_t g = 0; g < step_.groups.size(); ++g) {
      const std::vector<int64_t>& group = step_.groups[g];
      if (!active(group[0]) || (args_.done != nullptr && (*args_.done)[g] != 0)) continue;
      switch (step_.opcode) {
        case Opcode::all_reduce:
          all_reduce(group);
          break;
        case Opcode::all_gather:
          each_receiver(group, [&](int64_t self) { all_gather(group, self); });
          break;
        case Opcode::reduce_scatter:
          each_receiver(group, [&](int64_t self) { reduce_scatter(group, self); });
          break;
        default:
          each_receiver(group, [&](int64_t self) { all_to_all(group, self); });
          break;
      }
    }
  }

 private:
  bool active(int64_t device) const { return (*args_.active)[static_cast<size_t>(device)] != 0; }
  std::byte* const* table(int64_t device) const {
    return (*args_.tables)[static_cast<size_t>(device)].data() + step_.first_argument;
  }
  const std::byte* in(int64_t device, int64_t i) const { return table(device)[i]; }
  std::byte* out(int64_t device, int64_t i) const { return table(device)[step_.operands + i]; }
  const Shape& operand(int64_t i) const { return step_.node->operand(i)->shape; }

  template <class F>
  void each_receiver(const std::vector<int64_t>& group, F&& f) {
    for (size_t self = 0; self < group.size(); ++self) {
      if (owner(args_, group[self]) == worker_) f(static_cast<int64_t>(self));
    }
  }

  // acc = the members' bytes [from, from + bytes) combined in the group's order.
  void combine(const std::vector<int64_t>& group, int64_t i, int64_t from, int64_t bytes,
               std::byte* acc) const {
    const int64_t size = dtype_size(operand(i).dtype);
    const LoopFunction function = combining_function_of(i);
    const std::byte* first = in(group[0], i) + from;
    if (group.size() == 1) {
      if (acc != first) copy_bytes(acc, first, bytes);
      return;
    }
    if (is_half_dtype(operand(i).dtype)) return combine_halves(group, i, from, bytes / 2, acc);
    function(acc, first, in(group[1], i) + from, nullptr, bytes / size, 0);
    for (size_t m = 2; m < group.size(); ++m) {
      function(acc, acc, in(group[m], i) + from, nullptr, bytes / size, 0);
    }
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

  // Each worker takes a range of elements, sums all members' and writes to all.
  void all_reduce(const std::vector<int64_t>& group) {
    const auto is_local = [&](int64_t device) { return args_.local.contains(device); };
    if (std::none_of(group.begin(), group.end(), is_local)) return;
    alignas(64) std::byte acc[kChunkBytes];
    for (int64_t i = 0; i < step_.operands; ++i) {
      const int64_t lines = ceil_div(operand(i).bytes(), 64);
      const int64_t begin = worker_ * lines / args_.workers * 64;
      const int64_t end = std::min(operand(i).bytes(), (worker_ + 1) * lines / args_.workers * 64);
      for (int64_t from = begin; from < end; from += kChunkBytes) {
        const int64_t bytes = std::min(kChunkBytes, end - from);
        combine(group, i, from, bytes, acc);
        for (const int64_t device : group)
          if (is_local(device)) copy_bytes(out(device, i) + from, acc, bytes);
      }
    }
  }

  void all_gather(const std::vector<int64_t>& group, int64_t self) {
    const auto members = static_cast<int64_t>(group.size());
    for (int64_t i = 0; i < step_.operands; ++i) {
      const Rows rows = rows_of(operand(i), step_.node->attrs.dimensions[0], 1);
      std::byte* target = out(group[static_cast<size_t>(self)], i);
      for (int64_t m = 0; m < members; ++m) {
        const std::byte* source = in(group[static_cast<size_t>(m)], i);
        for (int64_t o = 0; o < rows.outer; ++o)
          copy_bytes(target + (o * members + m) * rows.row, source + o * rows.row, rows.row);
      }
    }
  }

  void reduce_scatter(const std::vector<int64_t>& group, int64_t self) {
    const auto members = static_cast<int64_t>(group.size());
    for (int64_t i = 0; i < step_.operands; ++i) {
      const Rows rows = rows_of(operand(i), step_.node->attrs.dimensions[0], members);
      std::byte* target = out(group[static_cast<size_t>(self)], i);
      for (int64_t o = 0; o < rows.outer; ++o) {
        for (int64_t from = 0; from < rows.row; from += kChunkBytes) {
          const int64_t bytes = std::min(kChunkBytes, rows.row - from);
          combine(group, i, (o * members + self) * rows.row + from, bytes,
                  target + o * rows.row + from);
        }
      }
    }
  }

  void all_to_all(const std::vector<int64_t>& group, int64_t self) {
    const auto members = static_cast<int64_t>(group.size());
    const int64_t receiver = group[static_cast<size_t>(self)];
    if (step_.node->attrs.dimensions.empty()) {  // operand `self` of every member
      for (int64_t m = 0; m < members; ++m)
        copy_bytes(out(receiver, m), in(group[static_cast<size_t>(m)], self),
                   operand(self).bytes());
      return;
    }
    const Rows rows = rows_of(operand(0), step_.node->attrs.dimensions[0], members);
    for (int64_t m = 0; m < members; ++m) {
      const std::byte* source = in(group[static_cast<size_t>(m)], 0);
      for (int64_t o = 0; o < rows.outer; ++o)
        copy_bytes(out(receiver, 0) + (o * members + m) * rows.row,
                   source + (o * members + self) * rows.row, rows.row);
    }
  }

  // Devices that nobody sends to get zeros.
  void permute() {
    for (int64_t device = args_.local.first; device < args_.local.last; ++device) {
      if (owner(args_, device) != worker_ || !active(device)) continue;
      const auto found =
          std::lower_bound(step_.pairs.begin(), step_.pairs.end(), std::pair(device, int64_t{0}));
      const bool receives = found != step_.pairs.end() && found->first == device;
      for (int64_t i = 0; i < step_.operands; ++i) {
        const int64_t bytes = operand(i).bytes();
        if (receives)
          copy_bytes(out(device, i), in(found->second, i), bytes);
        else if (bytes > 0)
          std::memset(out(device, i), 0, static_cast<size_t>(bytes));
      }
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
  if (!combiner || !is_loop_dtype(stored)) return nullptr;
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
  step.groups = materialize(node.attrs.replica_groups, num_devices);
  for (const std::vector<int64_t>& group : step.groups) {
    for (const int64_t device : group) {
      check(device);
      step.covered[static_cast<size_t>(device)] = true;
    }
  }
  std::erase_if(step.groups, [](const auto& group) { return group.empty(); });
  const bool combines = step.opcode == Opcode::all_reduce || step.opcode == Opcode::reduce_scatter;
  for (const Node* operand : node.operands()) {
    step.reference |= combines && combining_function(node, operand->shape.dtype) == nullptr;
  }
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
