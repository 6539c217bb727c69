#pragma once

// The collectives of a per-device program, counted.

#include <string>
#include <vector>

#include "gspmd/base/export.h"
#include "gspmd/ir/module_fwd.h"
#include "gspmd/mesh/mesh.h"

namespace gspmd {

// One kind of collective at one cause, as docs/spec/command.md 4.5 defines it.
struct CollectiveStats {
  std::string kind;    // "all-gather"
  int64_t count = 0;   // with loop trip counts where known
  int64_t sites = 0;   // places in the program
  int64_t bytes = 0;   // one device sends in all
  std::string groups;  // HLO replica groups
  Digits digits;       // the group's digits where they are known (iota groups)
  std::string axes;    // names of mesh axes where a mesh is known: "data,model"
  std::string op;      // the user's name of what needed it; else as `instruction`
  std::string
      instruction;     // of the completed module, that needed it; of sums: that left them partial
  std::string tensor;  // instruction whose value it moves
  std::string source;  // file:line
  bool backward = false;  // needed by the backward pass
};

// One collective of a per-device program, run once.
GSPMD_API CollectiveStats describe_collective(const Node& node, int64_t num_devices,
                                              const Mesh* mesh = nullptr);

// Every collective of a per-device program, equal (kind, groups, op, instruction, tensor, source)
// joined, in program order. A combined collective counts once, with its bytes summed.
GSPMD_API std::vector<CollectiveStats> collective_stats(const Module& local,
                                                        const Mesh* mesh = nullptr);

}  // namespace gspmd
