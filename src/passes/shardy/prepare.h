#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "gspmd/ir/module.h"
#include "passes/shardy/program.h"

namespace gspmd {

// Each computation that is part of its callers gets one caller: copies, per call. `calls`: those of
// functions too. Returns the copies of each computation, itself first.
std::vector<std::vector<Computation*>> give_each_call_its_own(Module& module, bool calls);
// Copies that ended up alike are one again; others are called f, f_0, f_1.
void merge_copies(Module& module, std::vector<std::vector<Computation*>> copies);
// Private functions that nobody calls go.
void remove_unused_functions(Module& module);

// Each reader of a constant expression, or of a scalar's broadcast, has one of its own. Returns the
// copies of each, itself first.
std::vector<std::vector<Node*>> split_constants(Module& module);
// Copies of one constant that ended up with the same sharding are one again.
void merge_constants(const std::vector<std::vector<Node*>>& copies);

// Later readers of a value that a chain of constraints reads take the end of the chain.
void apply_constraint_chains(Module& module);
// Of a value that a data-flow edge flows into, and that says nothing, the readers beside a closed
// constraint take the constraint.
void read_edges_through_constraints(Module& module);
// A loop reads values around it that say a sharding through an open constraint: what they are
// outside does not decide what they are in the loop. Returns the constraints.
std::vector<Node*> read_captures_through_constraints(Module& module);
// Those that ended up with the sharding of what they read go.
void remove_idle_constraints(const std::vector<Node*>& constraints);
// Values get the sharding of the closed constraint, or manual border, that reads them; those that
// a data-flow edge flows into only of a border.
void apply_constraints(SdyProgram& program);

// Axes of size 1 leave all shardings; meshes that shardings spell out get names, equal ones are
// one.
void normalize_axes(SdyProgram& program);
// Members of groups that say different shardings are routed through open constraints, which are
// the group then, with a warning. Whether there were such: the program is of the module before.
bool route_differing_groups(Module& module, const SdyProgram& program);
// Members of a group get the sharding that some have.
void unite_groups(SdyProgram& program);

// An argument of main and the result that takes over its storage: slots, and what the module says.
struct SdyDonated {
  int64_t argument = -1, result = -1;
  std::optional<SdySharding> given_argument = {}, given_result = {};
};
// Before propagation: the one that says nothing gets the other's sharding.
std::vector<SdyDonated> share_donated(const Module& module, SdyProgram& program);
// After it: they agree where one of them is open enough for the other's sharding.
void agree_donated(SdyProgram& program, const std::vector<SdyDonated>& pairs);

// What stands after propagation: shardings of arguments, results and borders are cut to what
// divides, all dims are closed, nothing is said to be replicated.
void finish_program(SdyProgram& program);

// The module says what the program knows.
void write_back(Module& module, SdyProgram& program, bool closed_results);
void write_rules(Module& module, const SdyProgram& program, bool conservative);
// Node::sharding of every node, from the program. `complete`: a value without a sharding is
// replicated; else it has none.
void write_shardings(Module& module, SdyProgram& program, bool complete);
// Where the digits of these shardings came from, as the slots noted it.
void write_origins(Module& module, const SdyProgram& program);

}  // namespace gspmd
