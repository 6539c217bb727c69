#include "passes/partition/agree_layouts.h"

#include <algorithm>
#include <unordered_set>

#include "gspmd/base/flat_map.h"
#include "passes/partition/factor_sharding_problem.h"
#include "passes/partition/factor_sharding_search.h"

namespace gspmd {
namespace {

// Larger groups of values, and those that more nodes read, have too many neighbours to be laid out
// anew for the sake of one.
constexpr size_t kMostValues = 32;
// In a program of many products values are laid out for layers after layers: anew only where that
// sends so many times less.
constexpr int64_t kManyWeight = 4;
// The layouts that are tried for one.
constexpr size_t kMostLayouts = 12;

bool has_pointwise_factors(const Node& node) {
  return node.op().has(kElementwise) && node.op().factors && !node.operands().empty() &&
         !node.shape.is_tuple;
}

// What has no way of its own (docs/spec/partitioning.md 2.4) and reads no windows, whose halos are
// not priced here.
bool is_product(const Node& node) {
  if (node.op().partition || has_pointwise_factors(node) || node.op().has(kDataMovement) ||
      !node.op().factors || node.op().has(kCollective))
    return false;
  const FactorRule rule = node.op().factors(node);
  return rule.windows.empty() && rule.sums.empty() && has_sums(rule);
}

// The iterations of one device.
double work_of(const FactorRule& rule, const FactorDigits& spread) {
  double work = 1;
  for (size_t f = 0; f < rule.factors.size(); ++f)
    work *= static_cast<double>(ceil_div(rule.factors[f].size, tile_count(spread[f])));
  return work;
}

// Values of one shape that are computed of each other element by element, and the nodes at their
// border.
struct Group {
  std::vector<Node*> values;
  std::vector<Node*> products;                  // that make or read some of them
  std::vector<std::pair<Node*, Node*>> others;  // reader (or nullptr), value: keep its layout
  std::vector<Node*> entering;                  // values of others that are read
};

class Agreement {
 public:
  Agreement(SpmdPartitioner& spmd, const Computation& computation)
      : spmd_(spmd), computation_(computation) {}

  void run() {
    for (const auto& node : computation_.nodes())
      if (!seen_.contains(node->id()) && may_change(*node) && has_sums(*node)) look_at(*node);
  }

 private:
  // As is_product(), found once.
  bool has_sums(const Node& node) {
    if (const bool* known = has_sums_.find(&node)) return *known;
    return has_sums_[&node] = is_product(node);
  }

  bool may_change(const Node& node) {
    if (!spmd_.is_open(node) || node.is_root() || node.shape.is_tuple || node.rank() == 0)
      return false;
    if (!has_pointwise_factors(node) && !has_sums(node)) return false;
    const Sharding& s = spmd_.sharding(node);
    return s.is_tiled() && s.manual_digits().empty() &&
           (!s.order() || s.order()->count == spmd_.num_devices());
  }

  bool belongs(const Node& node, const Node& first) {
    return may_change(node) && node.dims() == first.dims() &&
           equivalent(spmd_.sharding(node), spmd_.sharding(first));
  }

  std::optional<Group> group_of(Node& first) {
    Group group;
    std::unordered_set<int64_t> inside;
    bool meets_crowd = false;
    const auto add = [&](Node& node) {
      if (inside.insert(node.id()).second) group.values.push_back(&node);
      meets_crowd = meets_crowd || crowded_.contains(node.id());
    };
    const auto add_once = [](auto& list, const auto& item) {
      if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
    };
    add(first);
    for (size_t v = 0; v < group.values.size(); ++v) {
      Node& value = *group.values[v];
      if (meets_crowd || group.values.size() > kMostValues || value.users().size() > kMostValues) {
        for (const Node* member : group.values) crowded_.insert(member->id());
        return std::nullopt;
      }
      if (has_pointwise_factors(value)) {
        for (Node* operand : value.operands())
          if (belongs(*operand, first)) add(*operand);
      }
      for (Node* user : value.users())
        if (has_pointwise_factors(*user) && belongs(*user, first)) add(*user);
    }
    for (Node* value : group.values) {
      if (!has_pointwise_factors(*value)) add_once(group.products, value);
      if (has_pointwise_factors(*value))
        for (Node* operand : value->operands())
          if (!inside.contains(operand->id()) && operand->rank() > 0 && !is_uniform(*operand) &&
              !operand->op().has(kConstantLike))
            add_once(group.entering, operand);
      for (Node* user : value->users()) {
        if (inside.contains(user->id()) && has_pointwise_factors(*user)) continue;
        if (has_sums(*user) && is_plain(*user))
          add_once(group.products, user);
        else
          add_once(group.others, std::pair<Node*, Node*>{user, value});
      }
    }
    for (const Node* value : group.values) seen_.insert(value->id());
    return group;
  }

  bool is_plain(const Node& node) const {
    const auto plain = [&](const Node& value) {
      if (value.shape.is_tuple) return false;
      const Sharding& s = spmd_.sharding(value);
      return s.is_tiled() && s.manual_digits().empty();
    };
    return plain(node) && std::all_of(node.operands().begin(), node.operands().end(),
                                      [&](const Node* operand) { return plain(*operand); });
  }

  CheapestFactorSharding factor_sharding_of(Node& node, const FactorRule& rule, const Node* free) {
    FactorShardingProblem problem = factor_sharding_problem(spmd_, node, rule, {});
    problem.exchanged.resize(rule.factors.size());
    problem.held = problem.operands;
    problem.known.resize(problem.held.size());
    for (const Node* operand : node.operands())
      problem.sends_nothing.push_back(operand == free || is_uniform(*operand) ||
                                      operand->op().has(kConstantLike));
    problem.repeats.assign(problem.held.size(), 1);
    order_ = problem.order;
    return choose_among_sums(problem, spmd_.factor_shardings());
  }

  void add_move(ScaledBytes& total, const Node& value, const Sharding& from,
                const Sharding& to) const {
    const ScaledBytes moved = move_bytes(value.shape, from, to, spmd_.num_devices());
    total.priced = saturating_add(total.priced, moved.priced);
    total.real = saturating_add(total.real, moved.real);
  }

  // What all at the border send, and what a device computes of the products.
  struct Price : ScaledBytes {
    double work = 0;
  };
  Price price(const Group& group, const Sharding& before) {
    const Sharding now = spmd_.sharding(*group.values[0]);
    Price total;
    for (Node* product : group.products) {
      const FactorRule rule = product->op().factors(*product);
      const CheapestFactorSharding found = factor_sharding_of(*product, rule, nullptr);
      if (!found.priced) return {{INT64_MAX, INT64_MAX}};
      total.work += work_of(rule, found.spread);
      total.priced = saturating_add(total.priced, found.cost.bytes);
      total.real = saturating_add(total.real, found.real);
    }
    for (const Node* operand : group.entering)
      add_move(total, *operand, spmd_.sharding(*operand), now);
    for (const auto& [reader, value] : group.others) add_move(total, *value, now, before);
    return total;
  }

  void try_layout(std::vector<Sharding>& layouts, Sharding layout) const {
    layout = layout.is_tiled() && !layout.unreduced().empty() ? layout.with_unreduced({}) : layout;
    const auto same = [&](const Sharding& s) { return equivalent(s, layout); };
    if (layouts.size() < kMostLayouts && std::none_of(layouts.begin(), layouts.end(), same))
      layouts.push_back(std::move(layout));
  }

  // As the products have their parts of the values, or would, were the values there already.
  std::vector<Sharding> layouts_for(const Group& group) {
    std::vector<Sharding> layouts{spmd_.sharding(*group.values[0])};
    for (Node* product : group.products) {
      const FactorRule rule = product->op().factors(*product);
      const auto add = [&](const CheapestFactorSharding& found) {
        for (size_t i = 0; i < rule.operands.size(); ++i)
          if (is_value(group, product->operands()[i]))
            try_layout(layouts, project(order_, rule.operands[i], found.spread));
        if (is_value(group, product))
          try_layout(layouts, project(order_, rule.results[0], found.spread));
      };
      add(factor_sharding_of(*product, rule, nullptr));
      for (const Node* operand : product->operands())
        if (is_value(group, operand)) add(factor_sharding_of(*product, rule, operand));
    }
    for (const Node* operand : group.entering) try_layout(layouts, spmd_.sharding(*operand));
    try_layout(layouts, Sharding::replicated());
    return layouts;
  }

  static bool is_value(const Group& group, const Node* node) {
    return std::find(group.values.begin(), group.values.end(), node) != group.values.end();
  }

  static int64_t held(const Node& value, const Sharding& layout) {
    return local_shape(value.shape, layout).bytes();
  }

  // Of what a device holds for the products, without the values themselves.
  int64_t largest_at_border(const Group& group) const {
    int64_t largest = 0;
    const auto look = [&](const Node* value) {
      if (!is_value(group, value))
        largest = std::max(largest, held(*value, spmd_.sharding(*value)));
    };
    for (const Node* product : group.products) {
      look(product);
      for (const Node* operand : product->operands()) look(operand);
    }
    return largest;
  }

  void look_at(Node& first) {
    const std::optional<Group> group = group_of(first);
    if (!group || group->products.size() < 2) return;
    for (const Node* product : group->products)
      if (!is_plain(*product)) return;
    const std::vector<Sharding> layouts = layouts_for(*group);
    Sharding best = layouts[0];
    const Price before = price(*group, layouts[0]);
    const int64_t most = std::max(held(first, layouts[0]), largest_at_border(*group));
    const bool few = spmd_.factor_shardings().shared.has_few_sums(computation_.module());
    if (before.priced == INT64_MAX) return;
    int64_t least = few ? before.priced : before.priced / kManyWeight;
    for (size_t k = 1; k < layouts.size() && least > 0; ++k) {
      if (held(first, layouts[k]) > most) continue;
      lay_out(*group, layouts[k]);
      const Price sent = price(*group, layouts[0]);
      if (sent.priced >= least || sent.real > before.real || sent.work > before.work) continue;
      least = sent.priced;
      best = layouts[k];
    }
    lay_out(*group, best);
  }

  void lay_out(const Group& group, const Sharding& layout) {
    for (const Node* value : group.values) spmd_.lay_out(*value, layout);
  }

  SpmdPartitioner& spmd_;
  const Computation& computation_;
  DeviceOrder order_ = nullptr;  // of the last spread
  std::unordered_set<int64_t> seen_;
  std::unordered_set<int64_t> crowded_;  // values of groups that are too large
  FlatMap<const Node*, bool> has_sums_;
};

}  // namespace

void agree_layouts(SpmdPartitioner& spmd, const Computation& computation) {
  Agreement(spmd, computation).run();
}

}  // namespace gspmd
