#include "runtime/shared_values.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "gspmd/ir/effects.h"
#include "gspmd/ir/op.h"
#include "passes/graph/alias.h"
#include "passes/memory/plan_memory_buffers.h"

namespace gspmd {
namespace {

// Steps in a row that write less are not worth two meetings of all workers.
constexpr int64_t kLeastSharedBytes = 1 << 16;

// For each device a number; the first device of each number.
template <class Key>
Replicas first_of_each(const std::vector<Key>& keys) {
  std::map<Key, int64_t> first;
  Replicas replicas;
  for (size_t d = 0; d < keys.size(); ++d)
    replicas.push_back(first.try_emplace(keys[d], static_cast<int64_t>(d)).first->second);
  return replicas;
}

// Ways of dividing the devices into those that have the same, by number: few, and met often.
class Divisions {
 public:
  static constexpr int64_t kTogether = 0, kApart = 1;

  explicit Divisions(int64_t devices) {
    number(Replicas(static_cast<size_t>(devices), 0));
    Replicas apart;
    for (int64_t d = 0; d < devices; ++d) apart.push_back(d);
    number(apart);
  }
  const Replicas& operator[](int64_t division) const {
    return list_[static_cast<size_t>(division)];
  }
  const std::vector<Replicas>& list() const { return list_; }
  int64_t number(const Replicas& replicas) {
    const auto [at, is_new] = numbers_.try_emplace(replicas, std::ssize(list_));
    if (is_new) list_.push_back(replicas);
    return at->second;
  }
  // Devices that are together in both.
  int64_t meet(int64_t a, int64_t b) {
    if (a == b || b == kTogether) return a;
    if (a == kTogether) return b;
    const auto [at, is_new] = met_.try_emplace(std::minmax(a, b), 0);
    if (is_new) {
      std::vector<std::pair<int64_t, int64_t>> keys;
      for (size_t d = 0; d < list_[0].size(); ++d) keys.emplace_back((*this)[a][d], (*this)[b][d]);
      at->second = number(first_of_each(keys));
    }
    return at->second;
  }
  // Whether devices that are together in b are so in a.
  bool holds(int64_t a, int64_t b) { return meet(a, b) == b; }

 private:
  std::vector<Replicas> list_;
  std::map<Replicas, int64_t> numbers_;
  std::map<std::pair<int64_t, int64_t>, int64_t> met_;
};

// Whether equal operands need not give equal results on two devices.
bool differs_by_device(const Node& node) {
  switch (node.opcode()) {
    case Opcode::partition_id:
    case Opcode::replica_id:
    case Opcode::rng:
    case Opcode::rng_get_and_update_state:
    case Opcode::custom_call:
    case Opcode::async_start:
      return true;
    default:
      break;
  }
  if (node.op().has(kCollective) || has_side_effect(node)) return true;
  for (const Computation* called : node.called)
    for (const auto& inner : called->nodes())
      if (differs_by_device(*inner)) return true;
  return false;
}

class Finder {
 public:
  Finder(const CompiledModule& compiled, const ProgramOptions& options)
      : module_(*compiled.program),
        plan_(compiled.plan),
        options_(options),
        root_(*module_.entry()->root()),
        divisions_(options.num_devices) {}

  SharedValues find() {
    if (!collect_parameters()) return {};
    collect_state();
    for (const Node* node : live_nodes(*module_.entry()))
      if (!node->is(Opcode::parameter)) nodes_.push_back(node);
    live_.insert(nodes_.begin(), nodes_.end());
    do {
      divide_values();
    } while (forget_unequal());
    for (State& state : states_) state.shared = state.equal;
    if (std::none_of(states_.begin(), states_.end(), [](const State& s) { return s.equal; }))
      return shared();
    do {  // what is taken from the choice may take more with it
      choose();
    } while (drop_unwritten() || drop_short_runs());
    return shared();
  }

 private:
  // A parameter whose storage a result takes over.
  struct State {
    const Node* parameter = nullptr;
    int64_t division = 0;  // of its devices
    bool equal = false;    // old and new value are the same where the division says so
    bool shared = false;   // and lie in one place
  };

  State* state_of_result(int64_t leaf) {
    const auto found = states_by_result_.find(leaf);
    return found == states_by_result_.end() ? nullptr : &states_[found->second];
  }

  static bool is_array(const Node* node) { return !node->shape.is_tuple; }

  bool collect_parameters() {
    const auto& parameters = module_.entry()->parameters();
    if (!std::all_of(parameters.begin(), parameters.end(), is_array)) return false;
    if (options_.parameters.empty()) {
      parameters_.assign(parameters.size(), Divisions::kApart);
      return true;
    }
    if (options_.parameters.size() != parameters.size()) return false;
    for (const ProgramOptions::Layout& layout : options_.parameters)
      parameters_.push_back(division_of(layout));
    return true;
  }

  void collect_state() {
    const Computation& entry = *module_.entry();
    if (!root_.is(Opcode::tuple) ||
        !std::all_of(root_.operands().begin(), root_.operands().end(), is_array))
      return;
    for (const Alias& alias : module_.aliases) {
      if (alias.output.size() != 1 || !alias.parameter_index.empty()) continue;
      const int64_t division = parameters_.at(static_cast<size_t>(alias.parameter));
      states_by_result_[alias.output[0]] = states_by_parameter_[alias.parameter] = states_.size();
      states_.push_back({entry.parameters()[static_cast<size_t>(alias.parameter)], division,
                         division != Divisions::kApart});
    }
  }

  // Most lie as another one does.
  int64_t division_of(const ProgramOptions::Layout& layout) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const ProgramOptions::Layout& other = options_.parameters[i];
      if (other.global == layout.global && other.sharding == layout.sharding) return parameters_[i];
    }
    return divisions_.number(replicas_of(layout.global, layout.sharding, options_.num_devices));
  }

  void divide_values() {
    for (size_t i = 0; i < parameters_.size(); ++i)
      division_[module_.entry()->parameters()[i]] = parameters_[i];
    for (const State& state : states_)
      if (!state.equal) division_[state.parameter] = Divisions::kApart;
    for (const Node* node : nodes_) {
      int64_t division = Divisions::kTogether;
      for (const Node* operand : node->operands())
        division = divisions_.meet(division, division_.at(operand));
      if (node->op().has(kCollective))
        division = exchanged(*node, division);
      else if (differs_by_device(*node))
        division = Divisions::kApart;
      division_[node] = division;
    }
  }

  // Groups whose members have the same operands in the same order give their members the same.
  int64_t exchanged(const Node& node, int64_t operands) {
    const bool gives_all = node.is(Opcode::all_reduce) || node.is(Opcode::all_gather);
    if (!gives_all && !node.is(Opcode::reduce_scatter)) return Divisions::kApart;
    using Members = std::vector<int64_t>;
    std::map<Members, int64_t> known;
    std::vector<std::pair<int64_t, int64_t>> keys;  // what is combined, which part of it
    for (int64_t d = 0; d < options_.num_devices; ++d) keys.emplace_back(-1, d);
    for (const Members& group : materialize(node.attrs.replica_groups, options_.num_devices)) {
      Members values;
      for (const int64_t device : group) {
        if (device < 0 || device >= options_.num_devices)
          return Divisions::kApart;  // refused later
        values.push_back(divisions_[operands].at(static_cast<size_t>(device)));
      }
      const int64_t combined = known.try_emplace(values, std::ssize(known)).first->second;
      for (size_t i = 0; i < group.size(); ++i)
        keys.at(static_cast<size_t>(group[i])) = {combined, gives_all ? 0 : int64_t(i)};
    }
    return divisions_.number(first_of_each(keys));
  }

  // State whose new value is not as equal as the old one was. Whether there was any.
  bool forget_unequal() {
    bool any = false;
    for (const auto& [result, index] : states_by_result_) {
      State& state = states_[index];
      const Node* const value = root_.operands().at(static_cast<size_t>(result));
      if (!state.equal || divisions_.holds(division_.at(value), state.division)) continue;
      state.equal = false;
      any = true;
    }
    return any;
  }

  // How what reads the value is divided; nullopt where something reads it on each device.
  std::optional<int64_t> division_of_readers(const Node& value) {
    int64_t division = Divisions::kTogether;
    for (const Node* user : value.users()) {
      if (user == &root_) {
        for (int64_t i = 0; i < std::ssize(root_.operands()); ++i) {
          if (root_.operand(i) != &value) continue;
          const State* const state = state_of_result(i);
          if (state == nullptr || !state->shared) return std::nullopt;
          division = divisions_.meet(division, state->division);
        }
        continue;
      }
      if (!live_.contains(user)) continue;
      std::optional<int64_t> read;
      if (is_alias(*user))
        read = division_of_readers(*user);
      else if (const auto found = chosen_.find(user); found != chosen_.end())
        read = found->second;
      if (!read) return std::nullopt;
      division = divisions_.meet(division, *read);
    }
    return division;
  }

  // Loops over elements, whose kernels do not prepare anything, and what they read of others.
  static bool may_be_shared(const Node& node) {
    if (node.is(Opcode::fusion))
      return node.attrs.fusion_kind.empty() || node.attrs.fusion_kind == "kLoop";
    return node.is(Opcode::all_reduce) || node.op().has(kElementwise);
  }

  void choose() {
    chosen_.clear();
    for (auto at = nodes_.rbegin(); at != nodes_.rend(); ++at) {
      const Node& node = **at;
      if (is_alias(node) || !may_be_shared(node) || banned_.contains(&node)) continue;
      const std::optional<int64_t> division = division_of_readers(node);
      if (!division || *division == Divisions::kApart) continue;
      if (divisions_.holds(division_.at(&node), *division)) chosen_[&node] = *division;
    }
  }

  static const Node& made_by(const Node* value) {
    while (is_alias(*value) && !value->is(Opcode::tuple)) value = value->operand(0);
    return *value;
  }

  // State whose memory something else writes, or whose new value is not made in its place. Whether
  // there was any.
  bool drop_unwritten() {
    bool any = false;
    const auto drop = [&](State& state) {
      any |= state.shared;
      state.shared = false;
    };
    std::unordered_map<int64_t, const Node*> entry;
    for (const Node* node : nodes_) entry[node->id()] = node;
    for (const auto& [key, place] : plan_.places) {
      State* const state = state_in(place);
      if (state == nullptr || key.first == state->parameter->id()) continue;
      const auto node = entry.find(key.first);
      if (node != entry.end() && node->second->is(Opcode::tuple)) continue;  // of such values
      if (node == entry.end() || !is_made_once(made_by(node->second), *state)) drop(*state);
    }
    for (const auto& [result, index] : states_by_result_) {
      State& state = states_[index];
      const Node* const value = root_.operands().at(static_cast<size_t>(result));
      const Node& made = made_by(value);
      const auto place = plan_.places.find({value->id(), 0});
      const bool written = is_made_once(made, state) && place != plan_.places.end() &&
                           state_in(place->second) == &state;
      if (!written && &made != state.parameter) drop(state);
    }
    return any;
  }

  // On one of the devices that share it: another one's would read what the first has written.
  bool is_made_once(const Node& made, const State& state) const {
    const auto chosen = chosen_.find(&made);
    return made.is(Opcode::parameter) ||
           (chosen != chosen_.end() && chosen->second == state.division);
  }
  // Whose old or new value lies there.
  State* state_in(const BufferPlace& place) {
    if (place.kind == BufferPlace::output) return state_of_result(place.index);
    if (place.kind != BufferPlace::parameter) return nullptr;
    const auto found = states_by_parameter_.find(place.index);
    return found == states_by_parameter_.end() ? nullptr : &states_[found->second];
  }

  bool drop_short_runs() {
    const size_t before = banned_.size();
    std::vector<const Node*> run;
    int64_t bytes = 0;
    const auto end_run = [&] {
      if (bytes < kLeastSharedBytes) banned_.insert(run.begin(), run.end());
      run.clear();
      bytes = 0;
    };
    for (const Node* node : nodes_) {
      if (is_alias(*node) || node->is(Opcode::constant)) continue;
      if (!chosen_.contains(node) || node->is(Opcode::all_reduce)) {
        end_run();
        continue;
      }
      run.push_back(node);
      for (const Shape& leaf : leaf_shapes(node->shape)) bytes += leaf.bytes();
    }
    end_run();
    return banned_.size() > before;
  }

  SharedValues shared() {
    SharedValues out;
    for (const auto& [node, division] : chosen_) out.nodes.emplace(node, divisions_[division]);
    for (const auto& [node, division] : division_) out.divisions.emplace(node, division);
    out.replicas = divisions_.list();
    out.results.resize(root_.operands().size());
    for (const auto& [result, index] : states_by_result_)
      if (states_[index].shared)
        out.results.at(static_cast<size_t>(result)) = divisions_[states_[index].division];
    return out;
  }

  const Module& module_;
  const MemoryPlan& plan_;
  const ProgramOptions& options_;
  const Node& root_;
  Divisions divisions_;
  std::vector<int64_t> parameters_;  // divisions of the entry's
  std::vector<State> states_;
  std::map<int64_t, size_t> states_by_result_, states_by_parameter_;  // by leaf
  std::vector<const Node*> nodes_;  // in the order in which they run
  std::set<const Node*> live_, banned_;
  std::unordered_map<const Node*, int64_t> division_, chosen_;
};

}  // namespace

Replicas replicas_of(const Shape& global, const Sharding& sharding, int64_t num_devices) {
  const bool known = sharding.is_tiled() && sharding.unreduced().empty() &&
                     sharding.manual_digits().empty() && !sharding.is_unreduced_everywhere();
  std::vector<std::pair<int64_t, Dims>> keys;
  for (int64_t d = 0; d < num_devices; ++d) {
    const Box box = known ? shard_box(global, sharding, d) : Box();
    keys.emplace_back(known && !box.is_empty() ? -1 : d, known ? box.start : Dims());
  }
  return first_of_each(keys);
}

SharedValues find_shared_values(const CompiledModule& compiled, const ProgramOptions& options) {
  const Computation& entry = *compiled.program->entry();
  if (options.num_devices == 1 || options.reference_kernels || entry.root() == nullptr) return {};
  return Finder(compiled, options).find();
}

}  // namespace gspmd
