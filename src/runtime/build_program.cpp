#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/guard_bytes.h"
#include "gspmd/base/error.h"
#include "gspmd/ir/effects.h"
#include "gspmd/ir/known_literal.h"
#include "gspmd/ir/op.h"
#include "gspmd/ir/place.h"
#include "gspmd/ops/loop_guard.h"
#include "gspmd/passes/pipeline.h"
#include "ir/leaf_path.h"
#include "ops/evaluate/evaluated_kernel.h"
#include "passes/graph/alias.h"
#include "passes/graph/started_collective.h"
#include "passes/graph/trip_count.h"
#include "passes/memory/plan_memory_buffers.h"
#include "runtime/collective_run.h"
#include "runtime/exchanged_values.h"
#include "runtime/program.h"
#include "runtime/reference_kernel.h"
#include "runtime/schedule.h"
#include "runtime/shared_values.h"

namespace gspmd {
namespace {

PreparedKernel copy_kernel(int64_t bytes) {
  constexpr int64_t kPartBytes = 1 << 18;
  PreparedKernel kernel;
  kernel.parts = std::clamp<int64_t>(bytes / kPartBytes, 1, 8);
  kernel.cost = 10 + 0.05 * static_cast<double>(bytes);
  kernel.run = [bytes, parts = kernel.parts](const KernelArgs& args) {
    const int64_t first = args.part * bytes / parts, last = (args.part + 1) * bytes / parts;
    std::memcpy(args.results[0] + first, args.operands[0] + first,
                static_cast<size_t>(last - first));
  };
  return kernel;
}

PreparedKernel partition_id_kernel() {
  PreparedKernel kernel;
  kernel.run = [](const KernelArgs& args) {
    const auto id = static_cast<uint32_t>(args.device);
    std::memcpy(args.results[0], &id, sizeof(id));
  };
  return kernel;
}

class Builder {
 public:
  Builder(const CompiledModule& compiled, const ProgramOptions& options)
      : compiled_(compiled), p_(std::make_shared<Program>()) {
    if (options.num_devices < 1)
      user_error("build_program: {} devices; give 1 or more", options.num_devices);
    p_->options = options;
    p_->module = compiled.program;
    p_->plan = compiled.plan;
  }

  std::shared_ptr<const Program> build() {
    const Computation& entry = *p_->module->entry();
    for (const Node* parameter : entry.parameters()) {
      first_parameter_leaf_.push_back(static_cast<int64_t>(p_->parameter_leaves.size()));
      for (const Shape& leaf : leaf_shapes(parameter->shape)) p_->parameter_leaves.push_back(leaf);
    }
    p_->result_leaves = leaf_shapes(entry.root()->shape);
    read_aliases(entry);
    shared_ = find_shared_values(compiled_, p_->options);
    p_->shared_results = shared_.results;
    p_->shared_results.resize(p_->result_leaves.size());
    walk(entry, p_->main);
    finish_outputs(entry);
    place_common_stages(*p_, shared_);
    if constexpr (kGuardBytes == 0) share_exchanged(*p_, shared_);  // guards know own arenas only
    mark_met(p_->main, true, true);
    for (const Step& step : p_->steps) {
      p_->scratch_bytes = std::max(p_->scratch_bytes, step.kernel.scratch_bytes);
      p_->shared_bytes = std::max(p_->shared_bytes, step.kernel.shared_bytes);
    }
    return p_;
  }

 private:
  // Segments between two points where all workers meet; whether they do before a block, and behind.
  void mark_met(Block& block, bool before, bool behind) const {
    const auto count = static_cast<int64_t>(block.items.size());
    const auto meets = [&](int64_t i) {
      if (i < 0) return before;
      return i == count ? behind
                        : block.items[static_cast<size_t>(i)].kind == Block::Item::collective ||
                              block.items[static_cast<size_t>(i)].shared;
    };
    for (int64_t i = 0; i < count; ++i) {
      Block::Item& item = block.items[static_cast<size_t>(i)];
      item.met = item.kind == Block::Item::segment && meets(i - 1) && meets(i + 1);
      if (item.kind != Block::Item::loop) continue;  // branches follow each other
      LoopStep& loop = *p_->loops[static_cast<size_t>(item.first)];
      mark_met(loop.condition, false, loop.lockstep);
      mark_met(loop.body, loop.lockstep, false);
    }
  }

  void read_aliases(const Computation& entry) {
    p_->donor.assign(p_->result_leaves.size(), -1);
    for (const Alias& alias : p_->module->aliases) {
      const Node& parameter = *entry.parameters().at(static_cast<size_t>(alias.parameter));
      p_->donor.at(static_cast<size_t>(leaves_at(entry.root()->shape, alias.output).first)) =
          first_parameter_leaf_.at(static_cast<size_t>(alias.parameter)) +
          leaves_at(parameter.shape, alias.parameter_index).first;
    }
  }

  const BufferPlace& place_of_leaf(const Node& node, int64_t leaf) const {
    const auto found = p_->plan.places.find({node.id(), leaf});
    if (found == p_->plan.places.end())
      user_error("build_program: no memory is planned for \"{}\"; do not disable plan-memory",
                 node.name());
    return found->second;
  }

  Slot slot(const Node& node, int64_t leaf) const {
    const BufferPlace& place = place_of_leaf(node, leaf);
    return {place.kind, place.index, place.offset, place.bytes};
  }

  // Donated results and their parameters are the same storage.
  Slot storage(Slot slot) const {
    if (slot.kind != BufferPlace::output) return slot;
    const int64_t donor = p_->donor[static_cast<size_t>(slot.index)];
    if (donor >= 0) slot.kind = BufferPlace::parameter, slot.index = donor;
    return slot;
  }

  void add_arguments(const Node& node, int64_t first = 0) {
    const int64_t leaves = leaf_count(node.shape);
    for (int64_t leaf = first; leaf < leaves; ++leaf) {
      Slot s = slot(node, leaf);
      if (s.kind == BufferPlace::constant) s.index = constant_index(s.index);
      p_->arguments.push_back(s);
    }
  }

  int64_t constant_index(int64_t place) const { return constants_.at(place); }

  void add_step(Block& block, PreparedKernel kernel, const Node& node, int64_t first_argument,
                int64_t operands, int64_t results) {
    const auto index = static_cast<int64_t>(p_->steps.size());
    const Replicas* const replicas = shared_.nodes.find(&node);
    const bool shared = replicas != nullptr;
    if (block.items.empty() || block.items.back().kind != Block::Item::segment ||
        block.items.back().last != index || block.items.back().shared != shared) {
      block.items.push_back({Block::Item::segment, index, index, false, shared, false});
    }
    block.items.back().last = index + 1;
    p_->steps.push_back({std::move(kernel), first_argument, operands, results,
                         fmt::format("{}: \"{}\"", opcode_name(node.opcode()), node.name()),
                         &node});
    if (shared) p_->steps.back().devices = holders_of(*replicas);
  }

  static std::vector<int64_t> holders_of(const Replicas& replicas) {
    std::vector<int64_t> holders;
    for (int64_t d = 0; d < std::ssize(replicas); ++d)
      if (replicas[static_cast<size_t>(d)] == d) holders.push_back(d);
    return holders;
  }

  void add_copy(Block& block, const Slot& from, const Slot& to, const Node& node) {
    if (storage(from) == storage(to) || to.bytes == 0) return;
    const auto first = static_cast<int64_t>(p_->arguments.size());
    for (Slot s : {from, to}) {
      if (s.kind == BufferPlace::constant) s.index = constant_index(s.index);
      p_->arguments.push_back(s);
    }
    add_step(block, copy_kernel(to.bytes), node, first, 1, 1);
    p_->steps.back().is_copy = true;
  }

  void walk(const Computation& computation, Block& block) {
    if (!walked_.insert(&computation).second)
      internal_error("build_program: computation {} is called twice", computation.name());
    for (const Node* node : live_nodes(computation))
      if (!node->is(Opcode::parameter) && !is_alias(*node))
        at_node(*node, [&] { add(*node, block); });
  }

  void add(const Node& node, Block& block) {
    if (node.is(Opcode::constant)) {
      constants_[place_of_leaf(node, 0).index] = static_cast<int64_t>(p_->constants.size());
      p_->constants.push_back(known_literal(node));
    } else if (node.is(Opcode::while_)) {
      add_loop(node, block);
    } else if (node.is(Opcode::conditional)) {
      add_conditional(node, block);
    } else if (node.op().has(kCollective)) {
      add_collective(node, node, block);
    } else if (begins_collective(node)) {
      add_collective(node, *node.called.at(0)->root(), block);
    } else if (const auto begun = begun_.find(node.operands().empty() ? nullptr : node.operand(0));
               begun != begun_.end() && !is_alias(node)) {
      block.items.push_back({Block::Item::collective, begun->second, begun->second});
    } else {
      const auto first = static_cast<int64_t>(p_->arguments.size());
      int64_t operands = 0;
      for (const Node* operand : node.operands()) {
        operands += leaf_count(operand->shape);
        add_arguments(*operand);
      }
      add_arguments(node);
      PreparedKernel kernel = kernel_of(node);
      const bool is_evaluated = !kernel.run;
      if (is_evaluated) kernel = evaluated_kernel(node);
      add_step(block, std::move(kernel), node, first, operands, leaf_count(node.shape));
      p_->steps.back().is_evaluated = is_evaluated;
    }
  }

  // `run` is empty where the op has no kernel for the node.
  PreparedKernel kernel_of(const Node& node) const {
    if (node.is(Opcode::partition_id)) return partition_id_kernel();
    if (is_debug_call(node)) return debug_kernel(node);
    if (p_->options.reference_kernels || node.op().lower == nullptr) return {};
    return node.op().lower(node);
  }

  // `collective` is the node, or what the node begins.
  void add_collective(const Node& node, const Node& collective, Block& block) {
    CollectiveStep step =
        prepare_collective(collective, p_->options.num_devices, p_->options.reference_kernels);
    step.is_split |= &collective != &node;
    step.first_argument = static_cast<int64_t>(p_->arguments.size());
    step.operands = static_cast<int64_t>(node.operands().size());
    for (const Node* operand : node.operands()) add_arguments(*operand);
    // A start's operands may stand before its results.
    const bool is_pair = step.is_split && step.opcode != Opcode::all_reduce;
    const int64_t first = is_pair ? first_leaf(node.shape, 1) : 0;
    add_arguments(node, first);
    step.results = leaf_count(node.shape) - first;
    if (const Replicas* const replicas = shared_.nodes.find(&node)) {
      step.receives.assign(replicas->size(), false);
      for (const int64_t device : holders_of(*replicas))
        step.receives[static_cast<size_t>(device)] = true;
    }
    const auto index = static_cast<int64_t>(p_->collectives.size());
    block.items.push_back(
        {step.is_split ? Block::Item::start : Block::Item::collective, index, index});
    if (step.is_split) begun_[&node] = index;
    p_->collectives.push_back(std::move(step));
  }

  void add_loop(const Node& node, Block& block) {
    const int64_t leaves = leaf_count(node.shape);
    for (int64_t i = 0; i < leaves; ++i) {
      add_copy(block, slot(*node.operand(0), i), slot(node, i), node);
    }
    auto loop = std::make_unique<LoopStep>();
    loop->name = node.metadata.op_name.empty() ? node.name() : *node.metadata.op_name;
    loop->node = &node;
    loop->repeatable = is_repeatable(node);
    loop->trips = trip_count(node);
    loop->first_carried = static_cast<int64_t>(p_->arguments.size());
    add_arguments(node);
    for (const Shape& leaf : leaf_shapes(node.shape)) loop->carried_bytes.push_back(leaf.bytes());
    const size_t before = p_->collectives.size();
    const Computation& condition = *node.called.at(0);
    walk(condition, loop->condition);
    loop->predicate_argument = static_cast<int64_t>(p_->arguments.size());
    add_arguments(*condition.root());
    const Computation& body = *node.called.at(1);
    walk(body, loop->body);
    for (int64_t i = 0; i < leaves; ++i) {
      add_copy(loop->body, slot(*body.root(), i), slot(node, i), node);
    }
    loop->lockstep = p_->collectives.size() > before;
    const auto index = static_cast<int64_t>(p_->loops.size());
    block.items.push_back({Block::Item::loop, index, index});
    p_->loops.push_back(std::move(loop));
  }

  // Branches read their operands where they are; what they return is copied to the conditional's
  // own.
  void add_conditional(const Node& node, Block& block) {
    auto branch = std::make_unique<BranchStep>();
    branch->name = node.name();
    branch->node = &node;
    branch->is_pred = node.operand(0)->shape.dtype == DType::pred;
    branch->selector_argument = static_cast<int64_t>(p_->arguments.size());
    add_arguments(*node.operand(0));
    const size_t before = p_->collectives.size();
    for (const Computation* called : node.called) {
      Block& inner = branch->blocks.emplace_back();
      walk(*called, inner);
      for (int64_t i = 0; i < leaf_count(node.shape); ++i) {
        add_copy(inner, slot(*called->root(), i), slot(node, i), node);
      }
    }
    branch->lockstep = p_->collectives.size() > before;
    const auto index = static_cast<int64_t>(p_->branches.size());
    block.items.push_back({Block::Item::branch, index, index});
    p_->branches.push_back(std::move(branch));
  }

  // Result leaves whose value was not computed in place: parameters, constants, repeated values.
  void finish_outputs(const Computation& entry) {
    for (size_t i = 0; i < p_->result_leaves.size(); ++i) {
      const Slot from = slot(*entry.root(), static_cast<int64_t>(i));
      const Slot to{BufferPlace::output, static_cast<int64_t>(i), 0, from.bytes};
      add_copy(p_->main, from, to, *entry.root());
    }
  }

  const CompiledModule& compiled_;
  std::shared_ptr<Program> p_;
  SharedValues shared_;
  std::vector<int64_t> first_parameter_leaf_;
  std::map<int64_t, int64_t> constants_;  // place index -> Program::constants
  std::map<const Node*, int64_t> begun_;  // starts -> Program::collectives
  std::set<const Computation*> walked_;
};

}  // namespace

std::shared_ptr<const Program> build_program(const CompiledModule& compiled,
                                             const ProgramOptions& options) {
  return Builder(compiled, options).build();
}

std::shared_ptr<const Program> build_program(const Module& local, const ProgramOptions& options) {
  return build_program(prepare_local(local), options);
}

int64_t scratch_bytes(const Program& program) {
  return program.scratch_bytes + program.shared_bytes;
}

}  // namespace gspmd
