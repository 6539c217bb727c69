// "interpreter.run_parallel" of StableHLO's tests: a function as a program of many processes, whose
// inputs are constants. They run while the text is read, and their results are constants.
#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/ops/evaluate.h"
#include "stablehlo/lowering.h"

namespace gspmd::stablehlo {
namespace {

constexpr int64_t kMostProcesses = 1024;
constexpr double kMostParallelWork = 1 << 28;  // elements that all processes compute

// "[[@f, @f], [@f, @f]]": a list per replica, a program per partition; all the same.
std::pair<Processes, const Function*> read_programs(OpLowering& op) {
  const std::vector<Attribute>& replicas = op.attribute("programs").list;
  if (replicas.empty() || replicas[0].list.empty()) op.fail("programs is no list of lists");
  const Processes grid{std::ssize(replicas), std::ssize(replicas[0].list)};
  if (saturating_multiply(grid.replicas, grid.partitions) > kMostProcesses)
    op.fail("{} times {} processes; {} are supported", grid.replicas, grid.partitions,
            kMostProcesses);
  const std::string& name = replicas[0].list[0].text;
  for (const Attribute& replica : replicas) {
    if (std::ssize(replica.list) != grid.partitions)
      op.fail("the lists of programs are of {} and {}", grid.partitions, replica.list.size());
    for (const Attribute& program : replica.list) {
      if (program.kind != AttributeKind::symbol) op.fail("a program is @name");
      if (program.text != name)
        op.fail(
            "it runs @{} and @{}; processes of several programs are not supported: write one "
            "program that asks for its partition_id or replica_id",
            name, program.text);
    }
  }
  const auto& by_name = op.lowering().syntax().by_name;
  const auto found = by_name.find(name);
  if (found == by_name.end() || !found->second->has_body) op.fail("there is no function @{}", name);
  return {grid, found->second};
}

// A program that surely ends soon.
void check_work(OpLowering& op, const Module& program, int64_t processes) {
  double work = 0;
  for (const auto& computation : program.computations()) {
    for (const auto& node : computation->nodes()) {
      if (node->is(Opcode::while_))
        op.fail("its program has a loop; give the program a file, and run it with --num-devices");
      for (const Shape& leaf : leaf_shapes(node->shape))
        work += static_cast<double>(leaf.elements_count());
    }
  }
  if (work * static_cast<double>(processes) > kMostParallelWork)
    op.fail(
        "its processes compute {:.0f} elements, {:.0f} at most while the text is read; give "
        "the program a file, and run it with --num-devices",
        work * static_cast<double>(processes), kMostParallelWork);
}

Node* lower_run_parallel(OpLowering& op) {
  if (const Attribute* const infeed = op.find("infeed"); infeed && !infeed->list.empty())
    op.fail("infeed queues of processes are not supported; give the values as operands");
  const auto [grid, function] = read_programs(op);
  const int64_t processes = grid.replicas * grid.partitions;
  const size_t each = function->body.arguments.size();
  op.need_operands(each * static_cast<size_t>(processes), each * static_cast<size_t>(processes));
  const std::unique_ptr<Module> program = op.lowering().program_of(*function, grid);
  check_work(op, *program, processes);
  std::vector<std::vector<Value>> arguments(static_cast<size_t>(processes));
  for (size_t i = 0; i < op.count(); ++i) {
    const std::optional<Array> value = op.known_value(i);
    if (!value)
      op.fail("operand {} is not constant; give the program a file, and run it with --num-devices",
              i);
    const Shape& shape = program->entry()->parameters()[i % each]->shape;
    if (!(value->shape() == shape))
      op.fail("operand {} is {}, argument {} of @{} is {}", i, to_string(value->shape()), i % each,
              function->name, to_string(shape));
    arguments[i / each].push_back({*value, {}, false});
  }
  std::vector<Value> values;
  try {
    values = evaluate_devices(*program, processes, arguments);
  } catch (const ExecutionError& error) {
    op.fail_with(error.what());
  }
  std::vector<Node*> results;
  for (const Value& value : values)
    for (const Array& leaf : leaves(value))
      results.push_back(hlo::constant(op.computation(), leaf));
  op.set_results(std::move(results));
  return nullptr;
}

const OpRow kParallelRows[] = {
    {"interpreter.run_parallel", lower_run_parallel, Opcode::constant},
};

}  // namespace

std::span<const OpRow> parallel_rows() { return kParallelRows; }

}  // namespace gspmd::stablehlo
