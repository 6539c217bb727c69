#include <fmt/format.h>

#include <algorithm>

#include "gspmd/ir/text.h"
#include "gspmd/ops/builders.h"
#include "gspmd/ops/loop_guard.h"
#include "gspmd/passes/explain/collective_stats.h"
#include "gspmd/passes/explain/explain.h"
#include "gspmd/passes/verify/manual_reference.h"
#include "gspmd/runtime/executor.h"
#include "passes/graph/trip_count.h"
#include "passes/spmd_check.h"
#include "programs/program.h"
#include "runtime/thread_transport.h"

namespace gspmd::testing {
namespace {

std::vector<Sharding> leaf_shardings(const Node& node) {
  const auto count = static_cast<size_t>(leaf_count(node.shape));
  if (!node.sharding) return std::vector<Sharding>(count);
  return node.sharding->is_tuple() ? node.sharding->elements() : std::vector(count, *node.sharding);
}

std::string difference(const std::vector<Array>& expected, const std::vector<Array>& found,
                       const char* where) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (bitwise_equal(expected[i], found[i])) continue;
    int64_t at = 0;
    while (at + 1 < expected[i].size() && expected[i].at(at) == found[i].at(at)) ++at;
    return fmt::format("{}: result {} differs at {}: expected {}, found {}", where, i, at,
                       expected[i].at(at), found[i].at(at));
  }
  return {};
}

// What one device sends, from the predictions, against what all devices received.
std::string wrong_bytes(const CompiledModule& compiled, int64_t devices, int64_t received) {
  int64_t sent = 0, permuted = 0, rounding = 0, counted = 0;
  for (const CollectiveStats& c : collective_stats(*compiled.local)) {
    counted += c.count;
    if (c.kind == "collective-permute" || c.kind == "collective-broadcast")  // not all receive
      permuted += c.bytes;
    else {
      sent += c.bytes;
      rounding += c.count;
    }
  }
  const int64_t most = devices * (sent + permuted), least = devices * (sent - rounding);
  if (received <= most && received >= least) return {};
  return fmt::format("bytes: {} received, predicted {} to {} in {} collectives", received, least,
                     most, counted);
}

bool is_counted(const Module& local) {
  for (const auto& c : local.computations())
    for (const auto& node : c->nodes())
      if (node->is(Opcode::conditional) || (node->is(Opcode::while_) && !trip_count(*node)))
        return false;
  return true;
}

// Of every second program all products that can be looped are.
WindowedEinsumOptions loops_of(const Module& module) {
  const size_t size = module.entry()->nodes().size();
  WindowedEinsumOptions options;
  if (size % 2 == 0) options.threshold_mib = 0;
  options.bidirectional = size / 2 % 2 == 0;
  options.unroll = size / 4 % 2 == 0;
  return options;
}

bool is_partial(const Sharding& s, int64_t devices) {
  if (s.is_tuple())
    return std::any_of(s.elements().begin(), s.elements().end(),
                       [&](const Sharding& leaf) { return is_partial(leaf, devices); });
  return s.kind() == ShardingKind::maximal || (s.order() && s.order()->count < devices);
}

// Whether some value is on some of the devices only.
bool has_absent(const Module& completed) {
  for (const auto& c : completed.computations())
    for (const auto& node : c->nodes())
      if (node->sharding && is_partial(*node->sharding, completed.num_partitions)) return true;
  return false;
}

// Of programs with manual regions, what copies give that cut and gather at the regions' borders.
std::vector<Array> expected_of(const Module& module, const CompiledModule& compiled,
                               const std::vector<Value>& arguments, std::string& ambiguous) {
  if (!has_manual_regions(module)) return leaves(evaluate(module, arguments));
  const int64_t devices = module.num_partitions;
  const std::vector<std::vector<Value>> all(static_cast<size_t>(devices), arguments);
  const std::vector<Value> results =
      evaluate_devices(*copies_with_regions(*compiled.completed), devices, all);
  std::vector<Array> first = leaves(results.at(0));
  for (const Value& other : results)
    if (ambiguous.empty()) ambiguous = difference(first, leaves(other), "copies");
  return first;
}

// One run of the program, in all processes together, whose results are gathered.
std::vector<Array> run_program(const std::shared_ptr<const Program>& program,
                               const CompiledModule& compiled, const std::vector<Value>& arguments,
                               int64_t* received, int workers = 1) {
  const int64_t devices = compiled.local->num_partitions;
  static const std::shared_ptr<WorkerPool> two = make_worker_pool(2);
  Executor executor(program, workers == 2 ? two : make_worker_pool(1));
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
  const Computation& completed = *compiled.completed->entry();
  for (size_t p = 0; p < arguments.size(); ++p) {
    const std::vector<Array> arrays = leaves(arguments[p]);
    const std::vector<Sharding> shardings = leaf_shardings(*completed.parameters()[p]);
    for (size_t i = 0; i < arrays.size(); ++i)
      buffers.push_back(scatter_to_devices(arrays[i], shardings[i], devices));
  }
  const auto results = executor.run(buffers);
  const std::vector<Sharding> shardings = leaf_shardings(*completed.root());
  const std::vector<Shape> shapes = leaf_shapes(completed.root()->shape);
  std::vector<Array> gathered;
  for (size_t i = 0; i < results.size(); ++i)
    gathered.push_back(gather_to_host(*results[i], shapes[i], shardings[i]));
  if (received != nullptr) *received = executor.counters().bytes_received;
  return gathered;
}

// The same in several processes, which threads stand for: 2 to as many as there are devices; with
// collectives at once, or (`overlap`) between computations.
std::string wrong_in_processes(const Module& module, PipelineOptions options, bool overlap,
                               const std::vector<Value>& arguments,
                               const std::vector<Array>& expected) {
  const int64_t devices = options.num_devices;
  if (devices == 1) return {};
  const auto size = static_cast<int64_t>(module.entry()->nodes().size());
  ThreadJob job(2 + size % (devices - 1));
  if (overlap) {
    ThreadTransport first(job, 0);
    const TransportScope scope(&first);
    options.schedule.process_of = process_of_devices(devices);
  }
  const CompiledModule compiled = run_pipeline(module, options);
  ProgramOptions run;
  run.num_devices = devices;
  run.poison = true;
  const auto program = build_program(compiled, run);
  std::vector<std::string> wrong(static_cast<size_t>(job.count));
  const auto errors = run_as_processes(job, [&](int64_t p) {
    wrong[static_cast<size_t>(p)] = difference(
        expected, run_program(program, compiled, arguments, nullptr),
        fmt::format("process {} of {}{}", p, job.count, overlap ? ", overlapping" : "").c_str());
  });
  for (size_t p = 0; p < wrong.size(); ++p) {
    if (!errors[p].empty()) return fmt::format("process {} of {}: {}", p, job.count, errors[p]);
    if (!wrong[p].empty()) return wrong[p];
  }
  return {};
}

// The same in as little memory as values made again bring about.
std::string wrong_in_less_memory(const Module& module, PipelineOptions options,
                                 const std::vector<Value>& arguments, int64_t peak,
                                 const std::vector<Array>& expected) {
  options.memory_limit = 0;
  const CompiledModule compiled = run_pipeline(module, options);
  if (compiled.recomputations.empty()) return {};
  if (compiled.plan.peak_bytes >= peak)
    return fmt::format("less memory: {} bytes, {} before", compiled.plan.peak_bytes, peak);
  ProgramOptions run;
  run.num_devices = options.num_devices;
  run.poison = true;
  return difference(expected,
                    run_program(build_program(compiled, run), compiled, arguments, nullptr),
                    "less memory");
}

// The same in the processes of this job.
std::string wrong_in_job(const Module& module) {
  const int64_t devices = module.num_partitions;
  const std::vector<Value> arguments = integer_arguments(module, 99);
  PipelineOptions options;
  options.num_devices = devices;
  options.windowed_einsum = loops_of(module);
  ProgramOptions run;
  run.num_devices = devices;
  run.poison = true;
  std::vector<Array> expected;
  {
    const TransportScope alone(nullptr);
    const CompiledModule compiled = run_pipeline(module, options);
    expected = run_program(build_program(compiled, run), compiled, arguments, nullptr);
  }
  for (const bool overlap : {false, true}) {
    if (overlap) options.schedule.process_of = process_of_devices(devices);
    const CompiledModule compiled = run_pipeline(module, options);
    const std::vector<Array> found =
        run_program(build_program(compiled, run), compiled, arguments, nullptr);
    if (std::string wrong = difference(expected, found, overlap ? "overlapping" : "at once");
        !wrong.empty())
      return wrong;
  }
  return {};
}

// The same where it is known how arguments lie, so that devices share what they have the same of:
// one after the other, and two at once.
std::string wrong_in_shared_memory(const CompiledModule& compiled, ProgramOptions run,
                                   const std::vector<Value>& arguments,
                                   const std::vector<Array>& expected) {
  for (const Node* parameter : compiled.completed->entry()->parameters()) {
    const std::vector<Shape> shapes = leaf_shapes(parameter->shape);
    const std::vector<Sharding> shardings = leaf_shardings(*parameter);
    for (size_t i = 0; i < shapes.size(); ++i) run.parameters.push_back({shapes[i], shardings[i]});
  }
  const auto program = build_program(compiled, run);
  std::string wrong;
  for (const int workers : {1, 2})
    if (wrong.empty())
      wrong = difference(expected, run_program(program, compiled, arguments, nullptr, workers),
                         fmt::format("shared memory, {} workers", workers).c_str());
  return wrong;
}

std::string check(const Module& module) {
  const int64_t devices = module.num_partitions;
  const std::string text = to_text(module);
  const auto read = parse_module(text);
  if (to_text(*read) != text) return "text: printed differently after reading";
  const std::vector<Value> arguments = integer_arguments(*read, 99);
  PipelineOptions options;
  options.num_devices = devices;
  options.verify_between = true;
  options.windowed_einsum = loops_of(*read);
  const CompiledModule compiled = run_pipeline(*read, options);
  std::string ambiguous;
  const std::vector<Array> expected = expected_of(*read, compiled, arguments, ambiguous);
  if (!ambiguous.empty()) return ambiguous;
  const std::vector<Array> found = leaves(run_partitioned(compiled, devices, arguments));
  if (std::string wrong = difference(expected, found, "interpreter"); !wrong.empty()) return wrong;
  ProgramOptions run;
  run.num_devices = devices;
  run.poison = true;
  const auto program = build_program(compiled, run);
  int64_t received = 0;
  const std::vector<Array> gathered = run_program(program, compiled, arguments, &received);
  if (std::string wrong = difference(expected, gathered, "executor"); !wrong.empty()) return wrong;
  if (std::string wrong = wrong_in_shared_memory(compiled, run, arguments, gathered);
      !wrong.empty())
    return wrong;
  for (const bool overlap : {false, true})
    if (std::string wrong = wrong_in_processes(*read, options, overlap, arguments, gathered);
        !wrong.empty())
      return wrong;
  if (std::string wrong =
          wrong_in_less_memory(*read, options, arguments, compiled.plan.peak_bytes, gathered);
      !wrong.empty())
    return wrong;
  if (has_absent(*compiled.completed)) {
    options.poison_absent = true;
    const CompiledModule poisoned = run_pipeline(*read, options);
    const std::vector<Array> there = leaves(run_partitioned(poisoned, devices, arguments));
    if (std::string wrong = difference(expected, there, "poisoned"); !wrong.empty()) return wrong;
  }
  if (!is_counted(*compiled.local)) return {};
  return wrong_bytes(compiled, devices, received);
}

// The loops of random programs end; those of shrunk ones may not.
std::string failure_within(const Module& module, double seconds) {
  try {
    const LoopDeadline deadline(seconds);
    return check(module);
  } catch (const std::exception& error) {
    return error.what();
  }
}

// The part of a message that stays while numbers and names change.
std::string kind_of(const std::string& message) { return message.substr(0, message.find(':')); }

class Shrinker {
 public:
  explicit Shrinker(std::unique_ptr<Module> module)
      : module_(std::move(module)), kind_(kind_of(failure_of(*module_))) {}

  std::unique_ptr<Module> run() {
    while (fewer_results() || without_result() || fewer_values() || fewer_annotations()) {
    }
    return std::move(module_);
  }

 private:
  bool accept(std::unique_ptr<Module> smaller) {
    if (tries_-- <= 0) return false;
    for (const auto& c : smaller->computations()) c->remove_dead();
    smaller->remove_unreachable();
    smaller->sort_computations();
    if (kind_of(failure_within(*smaller, 5)) != kind_) return false;
    module_ = std::move(smaller);
    return true;
  }

  static Node* at(Module& module, size_t computation, size_t node) {
    return module.computations()[computation]->nodes()[node].get();
  }

  // `change` on a copy, for each node from the last: true when one of the copies was taken.
  template <class Change>
  bool some_node(Change change) {
    for (size_t c = module_->computations().size(); c-- > 0;)
      for (size_t n = module_->computations()[c]->nodes().size(); n-- > 0;) {
        auto copy = module_->clone();
        if (!change(*copy, at(*copy, c, n))) continue;
        if (accept(std::move(copy))) return true;
      }
    return false;
  }

  bool fewer_results() {
    bool changed = false;
    while (some_node([](Module& m, Node* node) {
      Node* root = m.entry()->root();
      if (&node->parent() != m.entry() || node == root || !root->shape.is_tuple) return false;
      if (std::count(root->operands().begin(), root->operands().end(), node) == 0) return false;
      m.entry()->set_root(node);
      return true;
    }))
      changed = true;
    return changed;
  }

  // One element of the entry's result, or of what a loop carries, less.
  bool without_result() {
    const Node* root = module_->entry()->root();
    if (!root->is(Opcode::tuple) || root->operands().size() < 2) return false;
    for (size_t i = 0; i < root->operands().size(); ++i) {
      auto copy = module_->clone();
      Node* tuple = copy->entry()->root();
      std::vector<Node*> kept = tuple->operands();
      kept.erase(kept.begin() + int64_t(i));
      copy->entry()->set_root(hlo::tuple(*copy->entry(), kept));
      if (accept(std::move(copy))) return true;
    }
    return false;
  }

  bool fewer_values() {
    const bool replaced = some_node([](Module& m, Node* node) {
      if (node->shape.is_tuple || node->operands().empty() || node->users().empty()) return false;
      if (node->is(Opcode::get_tuple_element) && node->operand(0)->is(Opcode::parameter))
        return false;
      if (node->operands().size() == 1 && node->operand(0)->is(Opcode::constant)) return false;
      Computation& c = node->parent();
      Node* instead = nullptr;
      if (&c == m.entry())
        instead = hlo::parameter(c, int64_t(c.parameters().size()), node->shape);
      else
        for (Node* operand : node->operands())
          if (operand->shape == node->shape) instead = operand;
      if (instead == nullptr) instead = hlo::splat(c, node->shape, 1);
      if (node->sharding && !instead->sharding) instead->sharding = node->sharding;
      c.replace_uses(node, instead);
      c.sort();
      return true;
    });
    return replaced || some_node([](Module& m, Node* node) {
             Node* root = m.entry()->root();
             if (&node->parent() != m.entry() || root->operands().empty()) return false;
             if (std::count(root->operands().begin(), root->operands().end(), node) == 0)
               return false;
             if (node->is(Opcode::parameter)) return false;
             m.entry()->set_root(node);
             return true;
           });
  }

  bool fewer_annotations() {
    return some_node([](Module&, Node* node) {
      if (!node->sharding) return false;
      if (node->is(Opcode::custom_call)) return false;
      node->sharding.reset();
      return true;
    });
  }

  std::unique_ptr<Module> module_;
  std::string kind_;
  int64_t tries_ = 3000;
};

}  // namespace

std::string failure_of(const Module& module) { return failure_within(module, 600); }

std::string failure_in_job(const Module& module) {
  try {
    return wrong_in_job(module);
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::unique_ptr<Module> shrunk(std::unique_ptr<Module> module) {
  return Shrinker(std::move(module)).run();
}

}  // namespace gspmd::testing
