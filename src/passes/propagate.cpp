#include "gspmd/passes/propagate.h"

#include <set>

#include "gspmd/base/error.h"
#include "gspmd/ops/builders.h"
#include "passes/propagation.h"

namespace gspmd {
namespace {

std::vector<bool> flags_from_attribute(const Module& module, const char* name) {
  const auto found = module.frontend_attributes.find(name);
  if (found == module.frontend_attributes.end()) return {};
  std::vector<bool> flags;
  for (const std::string_view rest = found->second; const char c : rest) {
    // "true,false" or "1,0": the first letter of each word decides.
    if (c == ',' || c == ' ' || c == '"' || c == '{' || c == '}') continue;
    if (c == 't' || c == '1') flags.push_back(true);
    if (c == 'f' || c == '0') flags.push_back(false);
  }
  return flags;
}

bool allowed(const std::vector<bool>& flags, size_t i) {
  if (flags.empty()) return false;
  return flags.size() == 1 ? flags[0] : i < flags.size() && flags[i];
}

bool any(const std::vector<bool>& flags) {
  return std::find(flags.begin(), flags.end(), true) != flags.end();
}

bool is_sharding_op(const Node& node) {
  return node.is(Opcode::custom_call) && node.attrs.custom_call_target == "Sharding";
}

// backend_config="unspecified_dims=[0,1]" of a Sharding op, as open dims.
std::vector<bool> unspecified_dims(const Node& node) {
  const auto found = node.attrs.other.find("backend_config");
  if (found == node.attrs.other.end()) return {};
  const size_t at = found->second.find("unspecified_dims=[");
  if (at == std::string::npos) return {};
  std::vector<bool> open(static_cast<size_t>(node.rank()), false);
  size_t i = at + std::string_view("unspecified_dims=[").size();
  int64_t dim = -1;
  for (; i < found->second.size(); ++i) {
    const char c = found->second[i];
    if (c >= '0' && c <= '9') {
      dim = (dim < 0 ? 0 : dim * 10) + (c - '0');
      if (dim > 1'000'000) break;
      continue;
    }
    if (dim >= node.rank())
      user_error("Sharding: unspecified_dims of {} names dim {}, the value has rank {}", node.name(),
                 dim, node.rank());
    if (dim >= 0) open[static_cast<size_t>(dim)] = true;
    dim = -1;
    if (c == ']') break;
  }
  return open;
}

bool divides(const Shape& shape, const Sharding& sharding) {
  for (int64_t d = 0; d < shape.rank(); ++d)
    if (shape.dims[static_cast<size_t>(d)] % sharding.tiles(d) != 0) return false;
  return true;
}

// One boundary value after completion: what may not change goes back, what does not divide is dropped.
std::optional<Sharding> boundary(const Shape& shape, const std::optional<Sharding>& saved,
                                 const std::optional<Sharding>& completed,
                                 const std::function<bool(size_t)>& open, bool replicate_indivisible) {
  if (!completed) return saved;
  const std::vector<Shape> shapes = leaf_shapes(shape);
  const auto leaf_of = [&](const std::optional<Sharding>& s, size_t i) {
    if (!s) return std::optional<Sharding>();
    if (!s->is_tuple()) return s;
    return i < s->elements().size() ? std::optional<Sharding>(s->elements()[i]) : std::nullopt;
  };
  std::vector<Sharding> result;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::optional<Sharding> before = leaf_of(saved, i);
    std::optional<Sharding> after = open(i) ? leaf_of(completed, i) : before;
    if (after && replicate_indivisible && after->is_tiled() && !(before && *before == *after) &&
        !divides(shapes[i], *after))
      after = Sharding::replicated();
    if (!after && !shape.is_tuple) return std::nullopt;
    result.push_back(after.value_or(Sharding::replicated()));
  }
  return shape.is_tuple ? Sharding::tuple(std::move(result)) : result.at(0);
}

}  // namespace

Propagation::Propagation(Module& module, const PropagateOptions& options)
    : module_(module), options_(options) {
  if (options_.allow_output.empty())
    options_.allow_output = flags_from_attribute(module, "gspmd.open_outputs");
  if (options_.allow_parameters.empty())
    options_.allow_parameters = flags_from_attribute(module, "gspmd.open_parameters");
}

// A Sharding op becomes a copy of the same name that carries the user's sharding.
void Propagation::convert_sharding_ops() {
  for (const auto& computation : module_.computations()) {
    std::vector<Node*> annotations;
    for (const auto& node : computation->nodes())
      if (is_sharding_op(*node) && node->sharding) annotations.push_back(node.get());
    if (annotations.empty()) continue;
    for (Node* old : annotations) {
      Node* copy = computation->append(Opcode::copy, old->shape, {old->operand(0)});
      copy->sharding = old->sharding;
      const std::vector<bool> open = unspecified_dims(*old);
      if (!open.empty()) copy->sharding = copy->sharding->with_open(open);
      copy->metadata = old->metadata;
      copy->frontend_attributes = old->frontend_attributes;
      copy->backward = old->backward;
      const std::string name = old->name();
      computation->replace_uses(old, copy);
      computation->rename(old, name + ".annotation");
      computation->rename(copy, name);
      Node* source = copy->operand(0);
      if (open.empty() && !source->sharding && source->shape == copy->shape &&
          copy->sharding->open().empty() && copy->sharding->shard_group() == 0)
        source->sharding = copy->sharding;
      changed_ = true;
    }
    computation->remove_dead();
    computation->sort();
  }
}

void Propagation::collect_groups() {
  for (const auto& computation : module_.computations())
    for (const auto& node : computation->nodes()) {
      if (!node->sharding || node->sharding->is_tuple() || node->sharding->shard_group() == 0) continue;
      const int64_t id = node->sharding->shard_group();
      groups_[id].push_back(node.get());
      group_is_as_[id] = node->sharding->shard_group_is_as();
      Sharding plain = node->sharding->with_shard_group(0, false);
      // A group mark on an otherwise unsharded value says nothing of its own layout.
      if (plain.is_replicated() || plain.kind() == ShardingKind::unknown) node->sharding.reset();
      else node->sharding = plain;
    }
}

// Donated state: a parameter and the result that takes its storage are completed as one, where both
// are open.
void Propagation::group_donated() {
  const Computation& entry = *module_.entry();
  int64_t id = 0;
  for (const Alias& alias : module_.aliases) {
    const auto p = static_cast<size_t>(alias.parameter);
    if (p >= entry.parameters().size() || !alias.parameter_index.empty()) continue;
    if (!entry.root()->is(Opcode::tuple) || alias.output.size() != 1) continue;
    const auto o = static_cast<size_t>(alias.output[0]);
    if (o >= entry.root()->operands().size()) continue;
    if (!allowed(options_.allow_parameters, p) || !allowed(options_.allow_output, o)) continue;
    Node* parameter = entry.parameters()[p];
    Node* result = entry.root()->operands()[o];
    if (parameter == result || parameter->shape.is_tuple || result->shape.is_tuple) continue;
    groups_[--id] = {parameter, result};
    group_is_as_[id] = true;
  }
}

void Propagation::tie_related_nodes() {
  const auto tie = [&](std::vector<Node*> nodes) {
    for (Node* node : nodes) {
      auto& others = related_[node->id()];
      for (Node* other : nodes)
        if (other != node) others.push_back(other);
    }
  };
  std::set<const Computation*> visited{module_.entry()};
  computations_ = {module_.entry()};
  for (size_t i = 0; i < computations_.size(); ++i)
    for (const auto& node : computations_[i]->nodes()) {
      if (!node->is(Opcode::while_) && !node->is(Opcode::call)) continue;
      for (Computation* called : node->called)
        if (visited.insert(called).second) computations_.push_back(called);
      if (node->is(Opcode::while_)) {
        tie({node.get(), node->operand(0), node->called[0]->parameters().at(0),
             node->called[1]->parameters().at(0), node->called[1]->root()});
        continue;
      }
      tie({node.get(), node->called[0]->root()});
      for (size_t p = 0; p < node->operands().size(); ++p)
        tie({node->operands()[p], node->called[0]->parameters().at(p)});
    }
  std::reverse(computations_.begin(), computations_.end());  // callees first, as the text has them
  for (Computation* computation : computations_) orders_[computation] = post_order(*computation);
  for (Computation* computation : computations_)
    for (const auto& node : computation->nodes())
      if (node->sharding) copy_to_related(*node);
}

void Propagation::mark_given() {
  for (Computation* computation : computations_)
    for (const auto& node : computation->nodes()) {
      if (!node->sharding) continue;
      if (node->sharding->kind() == ShardingKind::unknown) {
        node->sharding = Sharding::replicated();
        continue;
      }
      const bool entry_parameter = node->is(Opcode::parameter) && computation == module_.entry();
      const bool entry_root = computation == module_.entry() && node->is_root();
      if (entry_parameter && any(options_.allow_parameters)) continue;
      if (entry_root && any(options_.allow_output)) continue;
      flags(*node) |= kGiven;
    }
  if (!any(options_.allow_output)) flags(*module_.entry()->root()) |= kGiven;
}

void Propagation::align_shard_as_groups() {
  for (const auto& [id, members] : groups_) {
    if (!group_is_as_[id]) continue;
    std::optional<Sharding> common;
    for (const Node* node : members) {
      if (!node->sharding) continue;
      if (!common) common = node->sharding;
      else if (auto both = merge(*common, *node->sharding, node->rank())) common = both;
    }
    if (!common) continue;
    for (Node* node : members) {
      if (node->sharding && *node->sharding == *common) continue;
      node->sharding = common;
      copy_to_related(*node);
      changed_ = true;
    }
  }
}

void Propagation::restore_boundary() {
  Computation& entry = *module_.entry();
  Node& root = *entry.root();
  root.sharding = boundary(
      root.shape, saved_root_, root.sharding,
      [&](size_t i) { return allowed(options_.allow_output, root.shape.is_tuple ? i : 0); },
      options_.replicate_indivisible_boundary);
  for (size_t p = 0; p < entry.parameters().size(); ++p) {
    Node& parameter = *entry.parameters()[p];
    const bool single_tuple = entry.parameters().size() == 1 && parameter.shape.is_tuple;
    parameter.sharding = boundary(
        parameter.shape, saved_parameters_[p], parameter.sharding,
        [&](size_t i) { return allowed(options_.allow_parameters, single_tuple ? i : p); },
        options_.replicate_indivisible_boundary);
  }
}

bool Propagation::run() {
  convert_sharding_ops();
  collect_groups();
  group_donated();
  Computation& entry = *module_.entry();
  saved_root_ = entry.root()->sharding;
  for (const Node* parameter : entry.parameters()) saved_parameters_.push_back(parameter->sharding);
  flags_.assign(static_cast<size_t>(module_.next_id()), 0);
  rules_.resize(flags_.size());
  tie_related_nodes();
  mark_given();
  for (const auto& computation : computations_)
    for (const auto& node : computation->nodes()) {
      if (node->sharding && node->origins.empty()) record_origins(*node, *node);
    }
  for (int level = 0; level <= 3; ++level) run_to_fixed_point(level);
  align_shard_as_groups();
  run_to_fixed_point(3);
  restore_boundary();
  return changed_;
}

bool propagate(Module& module, const PropagateOptions& options) {
  if (!module.entry() || !module.entry()->root())
    user_error("propagate: module {} has no entry computation", module.name);
  return Propagation(module, options).run();
}

}  // namespace gspmd
