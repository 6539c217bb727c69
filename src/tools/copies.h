#pragma once

#include <span>
#include <vector>

#include "gspmd/ir/op.h"
#include "tools/command.h"
#include "tools/execute.h"

namespace gspmd::tools {

// Whether the module is a per-device program already: it has collectives or asks for the device's
// number, and no sharding splits anything, or it is one that XLA has compiled (scheduled, or with
// an entry named by its partitioner), where shardings only tell of what values were parts. Each of
// its num_partitions devices then runs the whole of it.
bool runs_as_copies(const Module& module);

// The module as each device runs it. UserError where an op cannot run.
struct CopiesProgram {
  std::unique_ptr<Module> module;
  CompiledModule compiled;
  int64_t num_devices = 1;
  double compile_seconds = 0;
  int64_t bytes() const;  // of all devices, with their arguments and results
};
CopiesProgram prepare_copies(const Module& module);

using PerDevice = std::vector<std::vector<Array>>;  // [device][leaf]

// From --inputs: an array of a parameter's shape is every device's, one with a leading dim of the
// number of devices holds one for each. Without it all devices get the random values of one-device
// runs.
PerDevice copies_inputs(const CopiesProgram& program, const Command& command);
struct CopiesOutcome {
  PerDevice outputs;
  double seconds = 0;                    // of the run itself
  std::vector<EvaluatedStep> evaluated;  // what has no kernel
};
CopiesOutcome run_copies(const CopiesProgram& program, const PerDevice& inputs,
                         const Command& command);
// The same by the reference kernels.
PerDevice evaluate_copies(const CopiesProgram& program, const PerDevice& inputs);

// The devices' results one after the other along a new leading dim, per leaf.
std::vector<Array> stack(const PerDevice& outputs);

}  // namespace gspmd::tools
