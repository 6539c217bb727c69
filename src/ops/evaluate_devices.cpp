#include <numeric>

#include "gspmd/base/error.h"
#include "gspmd/ops/evaluate.h"
#include "ops/collective.h"
#include "ops/interpreter.h"

namespace gspmd {
namespace {

using Lanes = std::vector<Value>;  // a value per device of a subset

// All devices of a subset go through a computation together, node by node.
class Lockstep {
 public:
  explicit Lockstep(int64_t num_devices) : num_devices_(num_devices) {}

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
      values[i] = step_of(*step.node, devices, operands);
    }
    return std::move(values.back());
  }

 private:
  Lanes step_of(const Node& node, const std::vector<int64_t>& devices,
                const std::vector<Lanes>& operands) {
    if (node.is(Opcode::partition_id)) return partition_ids(devices);
    if (node.is(Opcode::call) || node.is(Opcode::fusion))
      return run(*node.called[0], devices, operands);
    if (node.is(Opcode::while_)) return run_while(node, devices, operands[0]);
    std::vector<Lanes> by_device(devices.size());
    for (size_t lane = 0; lane < devices.size(); ++lane)
      for (const Lanes& operand : operands) by_device[lane].push_back(operand[lane]);
    if (node.op().has(kCollective))
      return evaluate_collective(node, devices, by_device, num_devices_, single_.call());
    Lanes results;
    for (const Lanes& lane : by_device)
      results.push_back(evaluate_node(node, lane, single_.call()));
    return results;
  }

  static Lanes partition_ids(const std::vector<int64_t>& devices) {
    Lanes ids;
    for (const int64_t device : devices)
      ids.push_back({Array::scalar(static_cast<uint32_t>(device)), {}, false});
    return ids;
  }

  // Devices whose condition fails leave; the others go on as a smaller subset.
  Lanes run_while(const Node& node, std::vector<int64_t> devices, const Lanes& start) {
    Lanes results(devices.size());
    std::vector<size_t> lanes(devices.size());
    std::iota(lanes.begin(), lanes.end(), size_t(0));
    Lanes state = start;
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
      devices = std::move(going_devices);
      lanes = std::move(going_lanes);
      state = run(*node.called[1], devices, {going});
    }
  }

  int64_t num_devices_;
  PlanCache plans_;
  Interpreter single_;  // for combiner computations
};

}  // namespace

std::vector<Value> evaluate_devices(const Module& module, int64_t num_devices,
                                    const std::vector<std::vector<Value>>& arguments) {
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
  return Lockstep(num_devices).run(entry, devices, by_parameter);
}

}  // namespace gspmd
