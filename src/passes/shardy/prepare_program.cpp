#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>

#include "passes/shardy/prepare.h"
#include "passes/shardy/program_builder.h"

namespace gspmd {
namespace {

bool is_fully_closed(const SdySharding& sharding) {
  return std::none_of(sharding.dims.begin(), sharding.dims.end(),
                      [](const SdyDim& dim) { return dim.open; });
}

// What says how a value has to be where it is read.
struct Wish {
  int64_t operand = 0;
  int64_t result = 0;
  SdySharding sharding;
  bool is_border = false;  // of a manual computation
};

bool is_constraint(const SdyOp& op) {
  return op.node != nullptr && !op.is_edge && is_call_of(*op.node, "Sharding") &&
         op.operands.size() == 1;
}

// Constraints and manual borders, in program order.
std::vector<Wish> wishes_of(const SdyProgram& program) {
  std::vector<Wish> wishes;
  const auto sharding_of = [&](int64_t slot) {
    return program.slots[static_cast<size_t>(slot)].sharding;
  };
  for (const SdyOp& op : program.ops) {
    if (is_constraint(op) && sharding_of(op.results[0]))
      wishes.push_back({op.operands[0], op.results[0], *sharding_of(op.results[0]), false});
    if (op.is_edge && is_call_of(*op.node, kToLocalShape) && !op.operands.empty() &&
        sharding_of(op.results[0]))
      wishes.push_back({op.operands[0], op.results[0], *sharding_of(op.results[0]), true});
  }
  return wishes;
}

bool is_edge_target(const SdyProgram& program, int64_t slot) {
  const std::vector<int64_t>& edges = program.slots[static_cast<size_t>(slot)].edges;
  return std::any_of(edges.begin(), edges.end(), [&](int64_t edge) {
    return program.ops[static_cast<size_t>(edge)].results[0] == slot;
  });
}

template <class F>
void for_each_list(SdySharding& sharding, F f) {
  for (SdyDim& dim : sharding.dims) f(dim.axes);
  f(sharding.replicated);
  f(sharding.unreduced);
}

// A name for a mesh that a sharding spelled out.
std::string name_for(const SdyMesh& mesh, const SdyMeshes& meshes) {
  std::string base = "mesh";
  if (mesh.is_maximal()) base = fmt::format("maximal_mesh_{}", mesh.device_ids[0]);
  if (mesh.is_empty()) base = "empty_mesh";
  std::string name = base;
  for (int64_t i = 0; meshes.find(name) >= 0; ++i) name = fmt::format("{}_{}", base, i);
  return name;
}

void cut_to_divide(SdySharding& sharding, const Shape& shape) {
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    int64_t rest = shape.dims[d];
    SdyAxes& axes = sharding.dims[d].axes;
    for (size_t i = 0; i < axes.size(); ++i) {
      const int64_t part = std::gcd(rest, axes[i].size);
      if (part == axes[i].size) {
        rest /= part;
        continue;
      }
      axes.resize(part > 1 ? i + 1 : i);
      if (part > 1) axes[i].size = part;
      break;
    }
  }
}

// The open dims of an argument or result of main end before their first sub-axis.
void cut_to_whole_axes(SdySharding& sharding, const SdyMesh& mesh) {
  for (SdyDim& dim : sharding.dims) {
    if (!dim.open) continue;
    const auto part = std::find_if(dim.axes.begin(), dim.axes.end(), [&](const SdyAxis& axis) {
      return axis.size != mesh.axes[static_cast<size_t>(axis.axis)].size;
    });
    dim.axes.erase(part, dim.axes.end());
  }
}

}  // namespace

void apply_constraints(SdyProgram& program) {
  const std::vector<Wish> wishes = wishes_of(program);
  std::map<int64_t, std::vector<const Wish*>> by_operand;
  for (const Wish& wish : wishes) by_operand[wish.operand].push_back(&wish);
  for (const Wish& wish : wishes) {
    SdySlot& slot = program.slots[static_cast<size_t>(wish.operand)];
    if (slot.sharding || !is_fully_closed(wish.sharding)) continue;
    if (!wish.is_border && is_edge_target(program, wish.operand)) continue;
    const auto& all = by_operand[wish.operand];
    if (std::all_of(all.begin(), all.end(),
                    [&](const Wish* other) { return other->sharding == wish.sharding; })) {
      note_taken(slot, wish.sharding, [&](size_t, const SdyAxis&) { return wish.result; });
      slot.sharding = wish.sharding;
    }
  }
}

void normalize_axes(SdyProgram& program) {
  std::vector<int64_t> same(static_cast<size_t>(program.meshes.size()));
  for (int64_t i = 0; i < program.meshes.size(); ++i) {
    same[static_cast<size_t>(i)] = i;
    for (int64_t j = 0; j < program.meshes.size(); ++j) {
      const bool better =
          !program.meshes.name(j).empty() && (j < i || program.meshes.name(i).empty());
      if (!better || !(program.meshes[j] == program.meshes[i])) continue;
      same[static_cast<size_t>(i)] = j;
      break;
    }
    if (same[static_cast<size_t>(i)] == i && program.meshes.name(i).empty())
      program.meshes.rename(i, name_for(program.meshes[i], program.meshes));
  }
  for (SdySlot& slot : program.slots) {
    if (!slot.sharding) continue;
    slot.sharding->mesh = same.at(static_cast<size_t>(slot.sharding->mesh));
    for_each_list(*slot.sharding, [](SdyAxes& axes) {
      std::erase_if(axes, [](const SdyAxis& axis) { return axis.size == 1; });
    });
    std::erase_if(slot.manual, [](const SdyAxis& axis) { return axis.size == 1; });
  }
}

void unite_groups(SdyProgram& program) {
  std::map<int64_t, int64_t> said;
  for (size_t i = 0; i < program.slots.size(); ++i) {
    const SdySlot& slot = program.slots[i];
    if (slot.group >= 0 && slot.sharding && !says_nothing(*slot.sharding))
      said.emplace(slot.group, static_cast<int64_t>(i));
  }
  for (SdySlot& slot : program.slots) {
    const auto found = said.find(slot.group);
    if (slot.group < 0 || found == said.end()) continue;
    const SdySharding sharding = *program.slots[static_cast<size_t>(found->second)].sharding;
    note_taken(slot, sharding, [&](size_t, const SdyAxis&) { return found->second; });
    slot.sharding = sharding;
  }
}

void finish_program(SdyProgram& program) {
  const auto cut = [&](int64_t index) {
    SdySlot& slot = program.slots[static_cast<size_t>(index)];
    if (slot.sharding) cut_to_divide(*slot.sharding, slot.shape);
  };
  const auto whole = [&](int64_t index) {
    SdySlot& slot = program.slots[static_cast<size_t>(index)];
    if (slot.sharding) cut_to_whole_axes(*slot.sharding, program.meshes[slot.sharding->mesh]);
  };
  const auto across = [&](int64_t index) {
    SdySlot& slot = program.slots[static_cast<size_t>(index)];
    if (slot.sharding)
      program.slots[static_cast<size_t>(slot.border)].sharding =
          without_manual(*slot.sharding, slot.manual);
  };
  for (const SdyFunction& function : program.functions) {
    for (const int64_t argument : function.arguments) cut(argument);
    for (const SdyResult& result : function.results) {
      // Of other functions a result is laid out as what they return.
      if (function.is_main) cut(result.result);
      if (function.is_main) whole(result.result);
    }
    if (function.is_main)
      for (const int64_t argument : function.arguments) whole(argument);
  }
  for (const int64_t result : program.call_results) cut(result);
  for (const auto* borders : {&program.in_borders, &program.out_borders})
    for (const SdyBorder& border : *borders)
      for (const int64_t slot : border.outside) cut(slot), across(slot);
  for (SdySlot& slot : program.slots) {
    if (!slot.sharding) continue;
    for (SdyDim& dim : slot.sharding->dims) dim.open = false;
    slot.sharding->replicated.clear();  // what is closed needs no such promise
  }
}

}  // namespace gspmd
