#include "passes/complete/agree_aliases.h"

#include <fmt/format.h>

#include <unordered_map>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "gspmd/ir/text.h"
#include "ir/leaf_path.h"
#include "passes/complete/boundary_flags.h"

namespace gspmd {
namespace {

// The completed shardings of a value's leaves.
class LeafShardings {
 public:
  explicit LeafShardings(Node& node) : node_(node), shapes_(leaf_shapes(node.shape)) {
    leaves_.resize(shapes_.size());
    if (node.sharding && node.sharding->is_tuple())
      leaves_ = node.sharding->elements();
    else if (node.sharding)
      leaves_.assign(shapes_.size(), *node.sharding);
    for (Sharding& leaf : leaves_)
      if (leaf.kind() == ShardingKind::unknown) leaf = Sharding::replicated();
    if (leaves_.size() != shapes_.size())
      user_error(place_of(node), "input_output_alias: \"{}\" has {} leaves and a sharding of {}",
                 node.name(), shapes_.size(), leaves_.size());
  }

  const Sharding& at(int64_t leaf) const { return leaves_.at(static_cast<size_t>(leaf)); }
  const Shape& shape(int64_t leaf) const { return shapes_.at(static_cast<size_t>(leaf)); }
  Shape shard(int64_t leaf) const { return local_shape(shape(leaf), at(leaf)); }

  void set(int64_t leaf, Sharding sharding) {
    leaves_.at(static_cast<size_t>(leaf)) = std::move(sharding);
    node_.sharding = node_.shape.is_tuple ? Sharding::tuple(leaves_) : leaves_.at(0);
  }

 private:
  Node& node_;
  std::vector<Shape> shapes_;
  std::vector<Sharding> leaves_;
};

class AliasAgreement {
 public:
  AliasAgreement(Module& module, const PropagateOptions& options)
      : entry_(*module.entry()),
        open_(boundary_flags(module, options)),
        is_traced_(module.frontend_attributes.contains("gspmd.open_outputs")) {}

  // Empty: the pair agrees.
  std::string disagreement(const Alias& alias) {
    Node& root = *entry_.root();
    Node& parameter = *entry_.parameters().at(static_cast<size_t>(alias.parameter));
    if (&parameter == &root) return {};
    const auto [result, leaves] = leaves_at(root.shape, alias.output);
    const int64_t donor = leaves_at(parameter.shape, alias.parameter_index).first;
    LeafShardings& results = shardings_of(root);
    LeafShardings& donors = shardings_of(parameter);
    for (int64_t i = 0; i < leaves; ++i) {
      const Sharding& from = donors.at(donor + i);
      const Sharding& to = results.at(result + i);
      if (equivalent(from, to)) continue;
      if (is_result_open(alias))
        results.set(result + i, from.with_open({}));
      else if (is_parameter_open(alias))
        donors.set(donor + i, to.with_open({}));
      else if (!(donors.shard(donor + i) == results.shard(result + i)))
        return fmt::format(
            "result {{{}}} {} take the storage of parameter {} \"{}\", but the parameter is laid "
            "out {} with shards {}, the result {} with shards {}: annotate both alike, or leave "
            "one of them open to completion",
            fmt::join(alias.output, ","), alias.must_alias ? "must" : "may", alias.parameter,
            parameter.name(), to_string(from), to_string(donors.shard(donor + i)), to_string(to),
            to_string(results.shard(result + i)));
    }
    return {};
  }

 private:
  // As the node has them, found once: programs have as many pairs as leaves.
  LeafShardings& shardings_of(Node& node) {
    return shardings_.try_emplace(&node, node).first->second;
  }

  // What a program returns of its own parameters is laid out as these.
  bool is_result_open(const Alias& alias) const {
    if (is_traced_) return true;
    if (entry_.root()->is(Opcode::parameter)) return false;
    return is_open_at(open_.results,
                      alias.output.empty() ? 0 : static_cast<size_t>(alias.output[0]));
  }

  bool is_parameter_open(const Alias& alias) const {
    const bool by_element = is_single_tuple(entry_) && !alias.parameter_index.empty();
    return is_open_at(open_.parameters,
                      static_cast<size_t>(by_element ? alias.parameter_index[0] : alias.parameter));
  }

  Computation& entry_;
  const BoundaryFlags open_;
  const bool is_traced_;
  std::unordered_map<const Node*, LeafShardings> shardings_;
};

}  // namespace

std::vector<std::string> agree_aliases(Module& module, const PropagateOptions& options) {
  std::vector<std::string> notes;
  if (module.aliases.empty()) return notes;
  AliasAgreement agreement(module, options);
  std::erase_if(module.aliases, [&](const Alias& alias) {
    const std::string text = agreement.disagreement(alias);
    if (text.empty()) return false;
    const Node& parameter = *module.entry()->parameters()[static_cast<size_t>(alias.parameter)];
    const Site place = place_of(parameter);
    if (alias.must_alias) user_error(place, "input_output_alias: {}", text);
    const UserError note("input_output_alias: " + text + "; it gets storage of its own", place);
    notes.emplace_back(note.what());
    return true;
  });
  return notes;
}

}  // namespace gspmd
