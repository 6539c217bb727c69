#include "api/varying.h"

#include <algorithm>
#include <unordered_map>

#include "gspmd/base/error.h"
#include "gspmd/ir/place.h"
#include "passes/differentiate/markers.h"

namespace gspmd::detail {
namespace {

using LeafAxes = std::vector<AxisSet>;

AxisSet union_of(const LeafAxes& leaves) {
  AxisSet all = 0;
  for (const AxisSet set : leaves) all |= set;
  return all;
}

class Varying {
 public:
  explicit Varying(const ManualRegion& region) : region_(region) {}

  // `branch`: along which axes devices may not be here together.
  LeafAxes run(const Computation& c, const std::vector<LeafAxes>& parameters, AxisSet branch) {
    std::unordered_map<const Node*, LeafAxes> known;
    for (const std::unique_ptr<Node>& node : c.nodes())
      known[node.get()] =
          node->is(Opcode::parameter)
              ? parameters.at(static_cast<size_t>(node->attrs.index))
              : at_node(*node, [&] { return visited(*node, operands_of(*node, known), branch); });
    return known.at(c.root());
  }

 private:
  static std::vector<LeafAxes> operands_of(const Node& node,
                                           const std::unordered_map<const Node*, LeafAxes>& known) {
    std::vector<LeafAxes> operands;
    for (const Node* operand : node.operands()) operands.push_back(known.at(operand));
    return operands;
  }

  LeafAxes visited(const Node& node, const std::vector<LeafAxes>& operands, AxisSet branch) {
    if (node.is(Opcode::tuple)) {
      LeafAxes all;
      for (const LeafAxes& operand : operands)
        all.insert(all.end(), operand.begin(), operand.end());
      return all;
    }
    if (node.is(Opcode::get_tuple_element)) {
      const auto first = operands[0].begin() + first_leaf(node.operand(0)->shape, node.attrs.index);
      return {first, first + static_cast<std::ptrdiff_t>(leaf_count(node.shape))};
    }
    if (node.is(Opcode::while_)) return of_loop(node, operands[0], branch);
    if (node.is(Opcode::conditional)) return of_branches(node, operands, branch);
    if (node.is(Opcode::optimization_barrier)) return operands[0];
    if (node.is(Opcode::call) || marker_of(node) != Marker::none)
      return run(*node.called.at(0), shortened(operands, *node.called[0]), branch);
    AxisSet all = 0;
    for (const LeafAxes& operand : operands) all |= union_of(operand);
    if (const auto named = node.frontend_attributes.find(kVariesAlong);
        named != node.frontend_attributes.end())
      all = named_axes(named->second);
    else if (node.is(Opcode::partition_id))
      all = every_axis();
    else if (node.op().has(kCollective))
      all = of_collective(node, all, branch);
    return LeafAxes(static_cast<size_t>(leaf_count(node.shape)), all);
  }

  // A marker has the operands of its rules behind those of the function itself.
  static std::vector<LeafAxes> shortened(std::vector<LeafAxes> operands,
                                         const Computation& called) {
    operands.resize(called.parameters().size());
    return operands;
  }

  LeafAxes of_loop(const Node& node, LeafAxes state, AxisSet branch) {
    while (true) {
      const AxisSet going = union_of(run(*node.called[0], {state}, branch));
      LeafAxes next = run(*node.called[1], {state}, branch | going);
      for (size_t i = 0; i < next.size(); ++i) next[i] |= state[i] | going;
      if (next == state) {
        run(*node.called[0], {state}, branch | going);  // collectives in the condition
        return state;
      }
      state = std::move(next);
    }
  }

  LeafAxes of_branches(const Node& node, const std::vector<LeafAxes>& operands, AxisSet branch) {
    const AxisSet selector = union_of(operands[0]);
    LeafAxes all(static_cast<size_t>(leaf_count(node.shape)), selector);
    for (size_t i = 0; i < node.called.size(); ++i) {
      const LeafAxes results = run(*node.called[i], {operands[i + 1]}, branch | selector);
      for (size_t l = 0; l < all.size(); ++l) all[l] |= results[l];
    }
    return all;
  }

  AxisSet of_collective(const Node& node, AxisSet operands, AxisSet branch) {
    const AxisSet over = axes_over(node);
    if ((over & branch) != 0)
      user_error(
          "{}: \"{}\" is in a branch or loop that devices along axis \"{}\" may not take together, "
          "and exchanges between them; take it out, or make the condition the same on all with "
          "psum or pmax",
          opcode_name(node.opcode()), node.name(), first_of(over & branch));
    const bool same_after = node.is(Opcode::all_reduce) || node.is(Opcode::all_gather) ||
                            node.is(Opcode::collective_broadcast);
    return same_after ? operands & ~over : operands | over;
  }

  // The manual axes along which the collective brings devices together.
  AxisSet axes_over(const Node& node) const {
    const DeviceOrder order = region_.mesh.order();
    std::unordered_map<int64_t, int64_t> group_of;  // by rank
    const auto join = [&](const std::vector<int64_t>& devices, AxisSet over) {
      for (const int64_t device : devices)
        for (size_t a = 0; a < region_.axes.size(); ++a) {
          const Digits digit{region_.mesh.digit(region_.mesh.index(region_.axes[a]))};
          if (tile_index(digit, order->rank(device)) != tile_index(digit, order->rank(devices[0])))
            over |= AxisSet(1) << a;
        }
      return over;
    };
    AxisSet over = 0;
    if (node.attrs.permutation.present()) {
      for (const auto& [source, target] : materialize(*node.attrs.permutation))
        over = join({source, target}, over);
      return over;
    }
    if (!node.attrs.replica_groups.present()) return every_axis();
    for (const auto& group : materialize(*node.attrs.replica_groups, region_.mesh.num_devices()))
      over = join(group, over);
    return over;
  }

  AxisSet every_axis() const { return (AxisSet(1) << region_.axes.size()) - 1; }

  AxisSet named_axes(const std::string& names) const {
    AxisSet set = 0;
    for (size_t a = 0; a < region_.axes.size(); ++a)
      if (("," + names + ",").find("," + region_.axes[a] + ",") != std::string::npos)
        set |= AxisSet(1) << a;
    return set;
  }

  const std::string& first_of(AxisSet set) const {
    size_t a = 0;
    while ((set >> a & 1) == 0) ++a;
    return region_.axes[a];
  }

  const ManualRegion& region_;
};

}  // namespace

std::vector<AxisSet> varying_results(const Computation& body, const ManualRegion& region,
                                     const std::vector<AxisSet>& parameters) {
  std::vector<LeafAxes> each;
  for (const AxisSet set : parameters) each.push_back({set});
  return Varying(region).run(body, each, 0);
}

}  // namespace gspmd::detail
