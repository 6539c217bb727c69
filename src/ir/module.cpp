#include "gspmd/ir/module.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "gspmd/base/error.h"
#include "ir/node_marks.h"

namespace gspmd {
namespace {

// "dot.12" -> "dot": numbering starts again from the base, so names do not grow by suffixes.
std::string_view without_number(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == name.size()) return name;
  const std::string_view digits = name.substr(dot + 1);
  const bool number =
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  return number ? name.substr(0, dot) : name;
}

// Takes `base` from `names` (name -> last number given), with the first free number if it is taken.
std::string take_name(NameTable& names, std::string base) {
  const auto [own, is_new] = names.add(base);
  if (is_new) return base;
  const std::string_view stem = without_number(base);
  // The number stands there only until a name is added.
  int64_t* number = stem.size() == base.size() ? &own : &names.add(stem).number;
  std::string name(stem);
  name += '.';
  const size_t length = name.size();
  for (;;) {
    char digits[20];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), ++*number).ptr;
    name.resize(length);
    name.append(digits, end);
    if (names.add(name).is_new) return name;
    number = &names.add(stem).number;
  }
}

}  // namespace

void copy_annotations(const Node& from, Node& to) {
  to.sharding = from.sharding;
  to.origins = from.origins;
  to.metadata = from.metadata;
  to.frontend_attributes = from.frontend_attributes;
  to.backward = from.backward;
}

Module::Module(std::string name) : name(std::move(name)) {}

std::string Module::unique_name(std::string base) { return take_name(names_, std::move(base)); }

Computation* Module::add_computation(std::string base) {
  std::unique_ptr<Computation> owned(new Computation);
  Computation* const computation = owned.get();
  computation->name_ = take_name(computation_names_, std::move(base));
  computation->module_ = this;
  by_name_.emplace(computation->name_, computation);
  computations_.push_back(std::move(owned));
  return computation;
}

Computation* Module::find(std::string_view computation) const {
  const auto found = by_name_.find(computation);
  return found == by_name_.end() ? nullptr : found->second;
}

namespace {

// The computations that `computation` calls, each once, in order of first call.
std::vector<Computation*> callees(const Computation& computation) {
  std::vector<Computation*> result;
  std::unordered_set<const Computation*> seen;
  for (const std::unique_ptr<Node>& node : computation.nodes())
    for (Computation* called : node->called)
      if (called != nullptr && seen.insert(called).second) result.push_back(called);
  return result;
}

struct Visit {
  Computation* computation;
  std::vector<Computation*> callees;
  size_t next = 0;
};

}  // namespace

void Module::sort_computations() {
  enum class Mark : uint8_t { open, done };
  std::unordered_map<const Computation*, Mark> marks;
  std::unordered_map<const Computation*, size_t> rank;
  std::vector<Visit> stack;
  const auto visit_from = [&](Computation* start) {
    if (marks.contains(start)) return;
    marks.emplace(start, Mark::open);
    stack.push_back({start, callees(*start)});
    while (!stack.empty()) {
      Visit& visit = stack.back();
      if (visit.next == visit.callees.size()) {
        marks[visit.computation] = Mark::done;
        rank.emplace(visit.computation, rank.size());
        stack.pop_back();
        continue;
      }
      Computation* const callee = visit.callees[visit.next++];
      const auto [at, fresh] = marks.emplace(callee, Mark::open);
      if (!fresh && at->second == Mark::open)
        user_error(
            "computation \"{}\" calls itself through \"{}\"; HLO has no recursion, write a "
            "while loop",
            callee->name(), visit.computation->name());
      if (fresh) stack.push_back({callee, callees(*callee)});
    }
  };
  for (const std::unique_ptr<Computation>& computation : computations_)
    if (computation.get() != entry_) visit_from(computation.get());
  if (entry_ != nullptr) visit_from(entry_);
  std::sort(computations_.begin(), computations_.end(),
            [&](const auto& a, const auto& b) { return rank.at(a.get()) < rank.at(b.get()); });
}

void Module::remove_computation(Computation* computation) {
  by_name_.erase(computation->name());
  std::erase_if(computations_, [&](const auto& owned) { return owned.get() == computation; });
}

int64_t Module::remove_unreachable() {
  std::unordered_set<const Computation*> live;
  std::vector<Computation*> stack;
  if (entry_ != nullptr) stack.push_back(entry_);
  while (!stack.empty()) {
    Computation* const computation = stack.back();
    stack.pop_back();
    if (!live.insert(computation).second) continue;
    const std::vector<Computation*> called = callees(*computation);
    stack.insert(stack.end(), called.begin(), called.end());
  }
  const auto count = static_cast<int64_t>(computations_.size() - live.size());
  std::erase_if(computations_, [&](const std::unique_ptr<Computation>& computation) {
    if (live.contains(computation.get())) return false;
    by_name_.erase(computation->name());
    return true;
  });
  return count;
}

namespace {

// The shape at an index path; nullptr where there is none.
const Shape* shape_at(const Shape& shape, const Dims& path) {
  const Shape* at = &shape;
  for (const int64_t index : path) {
    if (!at->is_tuple || index < 0 || index >= static_cast<int64_t>(at->elements.size()))
      return nullptr;
    at = &at->elements[static_cast<size_t>(index)];
  }
  return at;
}

}  // namespace

const Shape* output_shape(const Module& module, const Alias& alias) {
  return shape_at(module.entry()->root()->shape, alias.output);
}

const Shape* parameter_shape(const Module& module, const Alias& alias) {
  const std::vector<Node*>& parameters = module.entry()->parameters();
  if (alias.parameter < 0 || alias.parameter >= static_cast<int64_t>(parameters.size()))
    return nullptr;
  return shape_at(parameters[static_cast<size_t>(alias.parameter)]->shape, alias.parameter_index);
}

int64_t Module::remove_unfit_aliases() {
  return static_cast<int64_t>(std::erase_if(aliases, [&](const Alias& alias) {
    const Shape* const output = output_shape(*this, alias);
    const Shape* const parameter = parameter_shape(*this, alias);
    return output == nullptr || parameter == nullptr || !(*output == *parameter);
  }));
}

std::unique_ptr<Module> Module::clone() const {
  auto copy = std::make_unique<Module>(name);
  copy->names_ = names_;
  copy->num_partitions = num_partitions;
  copy->num_replicas = num_replicas;
  copy->aliases = aliases;
  copy->frontend_attributes = frontend_attributes;
  copy->header = header;
  std::unordered_map<const Computation*, Computation*> computations;
  for (const std::unique_ptr<Computation>& from : computations_)
    computations.emplace(from.get(), copy->add_computation(from->name()));
  for (const std::unique_ptr<Computation>& from : computations_) {
    Computation& to = *computations.at(from.get());
    to.attributes = from->attributes;
    to.nodes_.reserve(from->nodes().size());
    NodeMap<Node*> twins(*from);
    for (const std::unique_ptr<Node>& node : from->nodes()) {
      std::vector<Node*> operands;
      operands.reserve(node->operands().size());
      for (const Node* operand : node->operands()) {
        operands.push_back(twins[operand]);
        if (operands.back() == nullptr)
          internal_error("clone: \"{}\" of computation \"{}\" stands before \"{}\", which it reads",
                         node->name(), from->name(), operand->name());
      }
      Node* const twin =
          to.append_named(std::string(node->name()), node->opcode(), Shape(node->shape),
                          std::move(operands), Attributes(node->attrs));
      twin->users_.reserve(node->users().size());
      copy_annotations(*node, *twin);
      twin->called.reserve(node->called.size());
      for (Computation* called : node->called) twin->called.push_back(computations.at(called));
      twins[node.get()] = twin;
    }
    if (from->root() != nullptr) to.set_root(twins[from->root()]);
  }
  if (entry_ != nullptr) copy->entry_ = computations.at(entry_);
  copy->computation_names_ = computation_names_;
  return copy;
}

}  // namespace gspmd
