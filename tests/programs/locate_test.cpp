// A fault put into the partitioned program of a random one is found where it was put.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "gspmd/ir/text.h"
#include "gspmd/passes/pipeline.h"
#include "gspmd/passes/verify/locate_difference.h"
#include "gspmd/passes/verify/manual_reference.h"
#include "load.h"
#include "passes/spmd_check.h"
#include "programs/builder.h"
#include "programs/program.h"

using namespace gspmd;
using namespace gspmd::testing;

namespace {

std::optional<int64_t> first_unequal(const Array& a, const Array& b) {
  if (bitwise_equal(a, b)) return std::nullopt;
  int64_t at = 0;
  while (at + 1 < a.size() && a.at(at) == b.at(at)) ++at;
  return at;
}

struct Fault {
  Node* local = nullptr;
  int64_t global = 0;  // the node that it belongs to
};

// A binary op of the partitioner's, for a binary op of the program.
Fault some_binary(const Module& completed, const PartitionResult& partitioned, Draws& draws) {
  std::map<int64_t, const Node*> globals;
  for (const auto& c : completed.computations())
    for (const auto& node : c->nodes()) globals[node->id()] = node.get();
  std::map<int64_t, Node*> locals;
  for (const auto& c : partitioned.module->computations())
    for (const auto& node : c->nodes()) locals[node->id()] = node.get();
  std::vector<Fault> fits;
  for (const PartitionedValue& value : partitioned.values) {
    const Node* global = globals.at(value.global);
    Node* local = locals.at(value.local);
    if (global->opcode() != local->opcode() || local->operands().size() != 2) continue;
    if (!local->op().has(kElementwise) || local->operand(0) == local->operand(1)) continue;
    if (local->rank() == 0) continue;  // a counter of a loop, which would not end
    if (local->operand(0)->shape == local->operand(1)->shape) fits.push_back({local, value.global});
  }
  return fits.empty() ? Fault{} : draws.one_of(fits);
}

std::string difference_text(const ValueDifference& d) {
  return fmt::format("{} leaf {} run {} device {} at {}: expected {}, found {}", to_text(*d.node),
                     d.leaf, d.run, d.device, fmt::join(d.index, ","), d.expected.at(0),
                     d.found.at(0));
}

}  // namespace

TEST_CASE("planted faults are found where they were put, right programs have none", "[locate]") {
  int64_t found = 0;
  for (uint32_t seed = 0; seed < random_load(120); ++seed) {
    Draws draws(seed);
    std::vector<uint32_t> numbers;
    for (int i = 0; i < 12; ++i) numbers.push_back(static_cast<uint32_t>(draws.next()));
    const auto module = random_program(numbers);
    // Regions have no values of one device to compare.
    if (has_manual_regions(*module) || !failure_of(*module).empty()) continue;
    PipelineOptions pipeline;
    const LocateOptions options{module->num_partitions};
    pipeline.num_devices = options.num_devices;
    const auto completed = run_pipeline(*module, pipeline).completed;
    PartitionResult partitioned = partition(*completed, {options.num_devices});
    const std::vector<Value> arguments = integer_arguments(*completed, seed);
    INFO(to_text(*completed));
    const auto none = locate_difference(*completed, partitioned, arguments, first_unequal, options);
    INFO("seed " << seed << ": " << (none ? difference_text(*none) : ""));
    CHECK_FALSE(none);
    const Fault fault = some_binary(*completed, partitioned, draws);
    if (fault.local == nullptr) continue;
    fault.local->set_operand(1, fault.local->operand(0));
    const auto there =
        locate_difference(*completed, partitioned, arguments, first_unequal, options);
    if (!there) continue;  // nothing reads what changed, or it is the same number
    ++found;
    INFO("fault in " << fault.local->name() << ", found " << difference_text(*there));
    CHECK(there->node->id() == fault.global);
  }
  CHECK(found > random_load(20));
}
