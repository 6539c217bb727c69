#include "gspmd/passes/collectives/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "gspmd/ir/module.h"
#include "gspmd/ir/op.h"
#include "passes/graph/alias.h"

namespace gspmd {
namespace {

struct Pair {
  Opcode whole, start, done;
  // What the start's value is: the results, (operands, results), or that of an asynchronous call of
  // a computation that holds the collective: HLO has no start of its own for all kinds.
  enum class Value : uint8_t { results, both, call } value;
};
constexpr Pair kStartedPairs[] = {
    {Opcode::all_reduce, Opcode::all_reduce_start, Opcode::all_reduce_done, Pair::Value::results},
    {Opcode::all_gather, Opcode::all_gather_start, Opcode::all_gather_done, Pair::Value::both},
    {Opcode::collective_permute, Opcode::collective_permute_start, Opcode::collective_permute_done,
     Pair::Value::both},
    {Opcode::reduce_scatter, Opcode::async_start, Opcode::async_done, Pair::Value::call},
    {Opcode::all_to_all, Opcode::async_start, Opcode::async_done, Pair::Value::call},
};

const Pair* pair_of(const Node& node) {
  const auto found = std::find_if(std::begin(kStartedPairs), std::end(kStartedPairs),
                                  [&](const Pair& pair) { return node.is(pair.whole); });
  return found == std::end(kStartedPairs) ? nullptr : found;
}

bool computes(const Node& node) {
  return !node.is(Opcode::parameter) && !node.is(Opcode::constant) && !is_alias(node);
}

// The order of one computation: its nodes, and starts and dones in the place of those that are
// split.
class Order {
 public:
  enum class Part : uint8_t { all, start, done };
  struct Place {
    const Node* node;
    Part part;
  };

  Order(const Computation& computation, const ScheduleOptions& options) : options_(options) {
    for (const auto& node : computation.nodes()) {
      if (!crosses(*node)) continue;
      std::unordered_set<const Node*> operands(node->operands().begin(), node->operands().end());
      missing_[node.get()] = std::ssize(operands);
    }
    if (missing_.empty()) return;
    for (const auto& node : computation.nodes()) take(*node);
    while (!flying_.empty()) finish(flying_.front());
    join();
  }

  const std::vector<Place>& places() const { return places_; }
  bool has_pairs() const {
    return std::any_of(places_.begin(), places_.end(),
                       [](const Place& place) { return place.part == Part::start; });
  }

 private:
  bool crosses(const Node& node) const {
    if (pair_of(node) == nullptr) return false;
    const auto process = [&](int64_t device) {
      return device >= 0 && device < std::ssize(options_.process_of)
                 ? options_.process_of[static_cast<size_t>(device)]
                 : -1;
    };
    if (node.is(Opcode::collective_permute)) {
      for (const auto& [source, target] : materialize(node.attrs.permutation))
        if (process(source) != process(target)) return node.operands().size() == 1;
      return false;
    }
    for (const auto& group :
         materialize(node.attrs.replica_groups, std::ssize(options_.process_of)))
      for (const int64_t device : group)
        if (process(device) != process(group[0])) return true;
    return false;
  }

  bool is_split(const Node* node) const { return missing_.contains(node); }

  void take(const Node& node) {
    for (const Node* operand : node.operands()) finish(operand);
    if (is_split(&node)) return;  // it has started behind its last operand
    places_.push_back({&node, Part::all});
    made(node);
  }

  // A value is there: what waited for it alone starts.
  void made(const Node& value) {
    for (const Node* user : value.users()) {
      const auto waiting = missing_.find(user);
      if (waiting == missing_.end() || --waiting->second != 0) continue;
      while (std::ssize(flying_) >= options_.in_flight) finish(flying_.front());
      places_.push_back({user, Part::start});
      flying_.push_back(user);
    }
  }

  void finish(const Node* node) {
    const auto flying = std::find(flying_.begin(), flying_.end(), node);
    if (flying == flying_.end()) return;
    flying_.erase(flying);
    places_.push_back({node, Part::done});
    made(*node);
  }

  // Pairs without computation between them become one again, where the done is.
  void join() {
    std::unordered_map<const Node*, int64_t> started;  // how much was computed before
    std::unordered_set<const Node*> joined;
    int64_t computed = 0;
    for (const Place& place : places_) {
      if (place.part == Part::all && computes(*place.node)) ++computed;
      if (place.part == Part::start) started[place.node] = computed;
      if (place.part == Part::done && started.at(place.node) == computed) joined.insert(place.node);
    }
    std::erase_if(places_, [&](const Place& place) {
      return place.part == Part::start && joined.contains(place.node);
    });
    for (Place& place : places_)
      if (joined.contains(place.node)) place.part = Part::all;
  }

  const ScheduleOptions& options_;
  std::unordered_map<const Node*, int64_t> missing_;  // of those to split: operands not yet made
  std::deque<const Node*> flying_;
  std::vector<Place> places_;
};

// The computation anew, in another order.
class Splitter {
 public:
  Splitter(Computation& from, Computation& to) : to_(to) { to.attributes = from.attributes; }

  void add(const Order::Place& place) {
    const Node& node = *place.node;
    const Pair* const pair = pair_of(node);
    switch (place.part) {
      case Order::Part::all:
        made_[&node] = copy(node, node.opcode(), node.shape, node.name());
        break;
      case Order::Part::start:
        started_[&node] = start(node, *pair, to_.module().unique_name(node.name() + "-start"));
        break;
      case Order::Part::done:
        made_[&node] = to_.append_as(node.name(), pair->done, node.shape, {started_.at(&node)});
        copy_annotations(node, *made_[&node]);
        break;
    }
  }

  Node* made(const Node* node) const { return made_.at(node); }

 private:
  std::vector<Node*> operands_of(const Node& node) const {
    std::vector<Node*> operands;
    for (const Node* operand : node.operands()) operands.push_back(made_.at(operand));
    return operands;
  }

  Node* copy(const Node& node, Opcode opcode, Shape shape, std::string name) {
    Node* const made =
        to_.append_as(std::move(name), opcode, std::move(shape), operands_of(node), node.attrs);
    made->called = node.called;
    copy_annotations(node, *made);
    return made;
  }

  Node* start(const Node& node, const Pair& pair, std::string name) {
    if (pair.value == Pair::Value::results) return copy(node, pair.start, node.shape, name);
    std::vector<Shape> operands;
    for (const Node* operand : node.operands()) operands.push_back(operand->shape);
    const bool bare = pair.value == Pair::Value::both && operands.size() == 1;
    Shape shape =
        Shape::tuple({bare ? operands[0] : Shape::tuple(std::move(operands)), node.shape});
    if (pair.value == Pair::Value::both) return copy(node, pair.start, std::move(shape), name);
    Computation* const wrapper = wrap(node);
    Node* const made =
        to_.append_as(std::move(name), pair.start, std::move(shape), operands_of(node));
    made->called = {wrapper};
    copy_annotations(node, *made);
    return made;
  }

  // A computation that is the collective.
  Computation* wrap(const Node& node) {
    Computation* const wrapper =
        to_.module().add_computation(fmt::format("async_{}", opcode_name(node.opcode())));
    std::vector<Node*> parameters;
    for (const Node* operand : node.operands()) {
      Attributes attrs;
      attrs.index = std::ssize(parameters);
      parameters.push_back(
          wrapper->append(Opcode::parameter, operand->shape, {}, std::move(attrs)));
    }
    Node* const wrapped = wrapper->append(node.opcode(), node.shape, std::move(parameters),
                                          node.attrs, std::string(opcode_name(node.opcode())));
    wrapped->called = node.called;
    copy_annotations(node, *wrapped);
    wrapper->set_root(wrapped);
    return wrapper;
  }

  Computation& to_;
  std::unordered_map<const Node*, Node*> made_, started_;
};

void replace(Module& module, Computation& old, const Order& order) {
  Computation* const made = module.add_computation(old.name());
  Splitter rewriter(old, *made);
  for (const Order::Place& place : order.places()) rewriter.add(place);
  made->set_root(rewriter.made(old.root()));
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      std::replace(node->called.begin(), node->called.end(), &old, made);
  if (module.entry() == &old) module.set_entry(made);
  module.remove_computation(&old);
}

}  // namespace

bool schedule_collectives(Module& program, const ScheduleOptions& options) {
  if (options.process_of.empty() || options.process_of.front() == options.process_of.back())
    return false;
  std::vector<Computation*> all;
  for (const auto& computation : program.computations()) all.push_back(computation.get());
  bool changed = false;
  for (Computation* computation : all) {
    const Order order(*computation, options);
    if (!order.has_pairs()) continue;
    replace(program, *computation, order);
    changed = true;
  }
  if (changed) program.sort_computations();
  return changed;
}

}  // namespace gspmd
