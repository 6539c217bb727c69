#include <numeric>

#include "gspmd/base/error.h"
#include "gspmd/ir/effects.h"
#include "gspmd/ir/place.h"
#include "gspmd/ops/debug_calls.h"
#include "gspmd/ops/evaluate.h"
#include "gspmd/ops/loop_guard.h"
#include "ops/collective/collective.h"
#include "ops/control/control.h"
#include "ops/evaluate/interpreter.h"
#include "ops/evaluate/lockstep.h"

namespace gspmd {
namespace {

using Lanes = std::vector<Value>;  // a value per device of a subset

// All devices of a subset go through a computation together, node by node.
class Lockstep {
 public:
  Lockstep(int64_t num_devices, const DeviceObserver& observer)
      : num_devices_(num_devices), observer_(observer) {}

  // arguments[parameter][lane]; lane i is devices[i], ascending.
  Lanes run(const Computation& computation, const std::vector<int64_t>& devices,
            const std::vector<Lanes>& arguments) {
    const RunPlan& plan = plans_[computation];
    std::vector<Lanes> values(plan.steps.size());
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      const RunPlan::Step& step = plan.steps[i];
      if (step.node->is(Opcode::parameter)) {
        values[i] = arguments[static_cast<size_t>(step.node->attrs.index)];
        continue;
      }
      std::vector<Lanes> operands;
      for (const size_t operand : step.operands) operands.push_back(values[operand]);
      for (const size_t dead : step.dead) values[dead] = {};
      values[i] = at_node(*step.node, [&] { return step_of(*step.node, devices, operands); });
      if (observer_) observer_(*step.node, devices, values[i]);
    }
    return std::move(values[plan.root]);
  }

 private:
  Lanes step_of(const Node& node, const std::vector<int64_t>& devices,
                const std::vector<Lanes>& operands) {
    if (node.is(Opcode::partition_id)) return partition_ids(devices);
    if (node.is(Opcode::call) || node.is(Opcode::fusion))
      return run(*node.called[0], devices, operands);
    if (node.is(Opcode::async_start)) return start_async(node, devices, operands);
    if (node.is(Opcode::while_)) return run_while(node, devices, operands[0]);
    if (node.is(Opcode::conditional)) return run_conditional(node, devices, operands);
    std::vector<Lanes> by_device(devices.size());
    for (size_t lane = 0; lane < devices.size(); ++lane)
      for (const Lanes& operand : operands) by_device[lane].push_back(operand[lane]);
    if (is_debug_call(node)) return say(node, devices, by_device);
    if (node.op().has(kCollective))
      return evaluate_collective(node, devices, by_device, num_devices_, single_.call());
    Lanes results;
    for (const Lanes& lane : by_device)
      results.push_back(evaluate_node(node, lane, single_.call()));
    return results;
  }

  static Lanes say(const Node& node, const std::vector<int64_t>& devices,
                   const std::vector<Lanes>& by_device) {
    for (size_t lane = 0; lane < devices.size(); ++lane) {
      std::vector<Array> operands;
      for (const Value& value : by_device[lane]) operands.push_back(value.array);
      run_debug_call(node, operands, devices[lane]);
    }
    return Lanes(devices.size(), {Array::scalar(true), {}, false});
  }

  static Lanes partition_ids(const std::vector<int64_t>& devices) {
    Lanes ids;
    for (const int64_t device : devices)
      ids.push_back({Array::scalar(static_cast<uint32_t>(device)), {}, false});
    return ids;
  }

  static void show(LoopGuard& guard, const Lanes& states) {
    std::vector<Array> arrays;
    for (const Value& state : states)
      for (Array& leaf : leaves(state)) arrays.push_back(std::move(leaf));
    std::vector<std::span<const std::byte>> values;
    for (const Array& array : arrays) values.emplace_back(array.bytes());
    guard.carried(values);
  }

  Lanes start_async(const Node& node, const std::vector<int64_t>& devices,
                    const std::vector<Lanes>& operands) {
    const Lanes made = run(*node.called[0], devices, operands);
    Lanes results;
    for (size_t lane = 0; lane < devices.size(); ++lane) {
      std::vector<Value> own;
      for (const Lanes& operand : operands) own.push_back(operand[lane]);
      results.push_back(started_value(node.shape, std::move(own), made[lane]));
    }
    return results;
  }

  // The devices that take a branch go through it as a smaller subset.
  Lanes run_conditional(const Node& node, const std::vector<int64_t>& devices,
                        const std::vector<Lanes>& operands) {
    Lanes results(devices.size());
    const auto branches = static_cast<int64_t>(node.called.size());
    for (int64_t branch = 0; branch < branches; ++branch) {
      std::vector<int64_t> taking;
      std::vector<size_t> lanes;
      Lanes arguments;
      for (size_t i = 0; i < devices.size(); ++i) {
        if (chosen_branch(operands[0][i].array, branches) != branch) continue;
        taking.push_back(devices[i]);
        lanes.push_back(i);
        arguments.push_back(operands[static_cast<size_t>(branch) + 1][i]);
      }
      if (taking.empty()) continue;
      Lanes made = run(*node.called[static_cast<size_t>(branch)], taking, {arguments});
      for (size_t i = 0; i < lanes.size(); ++i) results[lanes[i]] = std::move(made[i]);
    }
    return results;
  }

  // Devices whose condition fails leave; the others go on as a smaller subset.
  Lanes run_while(const Node& node, std::vector<int64_t> devices, const Lanes& start) {
    Lanes results(devices.size());
    std::vector<size_t> lanes(devices.size());
    std::iota(lanes.begin(), lanes.end(), size_t(0));
    Lanes state = start;
    LoopGuard guard(node.name(), is_repeatable(node));
    while (true) {
      const Lanes conditions = run(*node.called[0], devices, {state});
      std::vector<int64_t> going_devices;
      std::vector<size_t> going_lanes;
      Lanes going;
      for (size_t i = 0; i < devices.size(); ++i) {
        if (!conditions[i].array.data<bool>()[0]) {
          results[lanes[i]] = std::move(state[i]);
          continue;
        }
        going_devices.push_back(devices[i]);
        going_lanes.push_back(lanes[i]);
        going.push_back(std::move(state[i]));
      }
      if (going.empty()) return results;
      if (going.size() < devices.size()) guard.restart();
      if (guard.begin_iteration()) show(guard, going);
      devices = std::move(going_devices);
      lanes = std::move(going_lanes);
      state = run(*node.called[1], devices, {going});
    }
  }

  int64_t num_devices_;
  const DeviceObserver& observer_;
  PlanCache plans_;
  Interpreter single_;  // for combiner computations
};

}  // namespace

std::vector<Value> evaluate_devices(const Module& module, int64_t num_devices,
                                    const std::vector<std::vector<Value>>& arguments) {
  return evaluate_devices(module, num_devices, arguments, DeviceObserver());
}

std::vector<Value> evaluate_devices(const Module& module, int64_t num_devices,
                                    const std::vector<std::vector<Value>>& arguments,
                                    const DeviceObserver& observer) {
  if (module.entry() == nullptr)
    user_error("evaluate: module {} has no entry computation", module.name);
  if (module.num_replicas > 1)
    user_error("evaluate: num_replicas={}; only partitions of one replica are simulated",
               module.num_replicas);
  if (num_devices < 1 || static_cast<int64_t>(arguments.size()) != num_devices)
    user_error("evaluate: arguments of {} devices are given for {} devices", arguments.size(),
               num_devices);
  const Computation& entry = *module.entry();
  check_runnable(entry, true);
  std::vector<Lanes> by_parameter(entry.parameters().size());
  for (const std::vector<Value>& device : arguments) {
    check_arguments(entry, device);
    for (size_t i = 0; i < device.size(); ++i) by_parameter[i].push_back(device[i]);
  }
  std::vector<int64_t> devices(static_cast<size_t>(num_devices));
  std::iota(devices.begin(), devices.end(), 0);
  return Lockstep(num_devices, observer).run(entry, devices, by_parameter);
}

}  // namespace gspmd
