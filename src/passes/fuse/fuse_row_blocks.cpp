// Attention, and whatever else multiplies, goes through rows and multiplies again: the values
// between the products are made again, block by block, wherever products need them, so that no one
// reads them from memory.

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "gspmd/ir/op.h"
#include "gspmd/ops/builders.h"
#include "ops/dot/row_blocks.h"
#include "passes/fuse/equal_bodies.h"
#include "passes/fuse/fuse_steps.h"

namespace gspmd {
namespace {

constexpr int64_t kLeastRows = 16, kLeastColumns = 32;  // of a space
constexpr int64_t kMostInner = 128;   // of products without a reduction between them
constexpr int64_t kLeastBatches = 4;  // for sums over rows, which a batch does alone

using NodeSet = std::set<int64_t>;

// What becomes one fusion.
struct RowGroup {
  std::vector<int64_t> sums;  // the products that sum, in order
  NodeSet body;               // what they need of the space, and copies of masks and broadcasts
  NodeSet inputs;             // what these read
  bool is_active = true;
};

class RowBlockFuser {
 public:
  explicit RowBlockFuser(Computation& computation)
      : c_(computation),
        g_(loop_graph(computation, false)),
        kind_(g_.nodes.size(), Kind::other),
        batch_(g_.nodes.size(), 0),
        positional_(g_.nodes.size(), false),
        row_of_(g_.nodes.size(), -1),
        owner_(g_.nodes.size(), -1) {}

  bool run() {
    for (int64_t n = 0; n < size(); ++n) classify(n);
    for (int64_t n = 0; n < size(); ++n)
      if (summed_operand(n) >= 0) place(n);
    keep_whole_spaces();
    if (has_cycle()) return false;
    return rewrite();
  }

 private:
  // Of a space: a product that makes one, a value with its dims, a value of each row, and such a
  // value under other dims of size 1, which each reader makes for itself.
  enum class Kind : uint8_t { other, score, tile, row, view };

  static size_t index(int64_t n) { return static_cast<size_t>(n); }
  int64_t size() const { return std::ssize(g_.nodes); }
  const Node& node(int64_t n) const { return *g_.nodes[index(n)]; }
  int64_t position(const Node* node) const { return g_.position_of.at(node); }
  Kind kind(int64_t n) const { return kind_[index(n)]; }
  bool has_space_dims(int64_t n) const { return kind(n) == Kind::score || kind(n) == Kind::tile; }

  // --- What nodes are

  void classify(int64_t n) {
    const Node& x = node(n);
    positional_[index(n)] = is_positional(n);
    if (is_space(x)) {
      kind_[index(n)] = Kind::score;
      batch_[index(n)] = space_batches(x);
    }
    if (moves_ones(x) && !x.is_root() && row_of_[index(position(x.operand(0)))] >= 0) {
      row_of_[index(n)] = row_of_[index(position(x.operand(0)))];
      if (!g_.absorbed[index(n)]) kind_[index(n)] = Kind::view;
    }
    if (!g_.fusible[index(n)] || x.is_root()) return;
    for (const int64_t read : g_.reads[index(n)])
      if (has_space_dims(read) && g_.domain[index(n)] == node(read).dims())
        return g_.folds(n) ? set_row_of_tile(n, read) : set_kind(n, Kind::tile, read);
    for (const int64_t read : g_.reads[index(n)]) {
      const int64_t row = row_of_[index(read)];
      if (row >= 0 && !g_.folds(n) && without_ones(x.dims()) == without_ones(node(row).dims()))
        return set_kind(n, Kind::row, row);
    }
  }

  void set_kind(int64_t n, Kind kind, int64_t from) {
    kind_[index(n)] = kind;
    batch_[index(n)] = batch_[index(from)];
    if (kind == Kind::row) row_of_[index(n)] = n;
  }
  void set_row_of_tile(int64_t n, int64_t tile) {
    if (g_.folded[index(n)] == Dims{node(tile).rank() - 1}) set_kind(n, Kind::row, tile);
  }

  static Dims without_ones(Dims dims) {
    std::erase(dims, 1);
    return dims;
  }

  // Positions and scalars are absorbed nodes that read nothing.
  bool is_positional(int64_t n) const {
    const Node& x = node(n);
    const bool is_copied =
        g_.absorbed[index(n)] || (g_.fusible[index(n)] && !g_.folds(n)) || moves_ones(x);
    return is_copied && std::all_of(x.operands().begin(), x.operands().end(), [&](Node* operand) {
             return positional_[index(position(operand))];
           });
  }

  static bool is_space(const Node& dot) {
    return makes_space(dot) && !dot.is_root() && dot.dim(dot.rank() - 2) >= kLeastRows &&
           dot.dims().back() >= kLeastColumns && dot.shape.elements_count() >= kLeastSpaceElements;
  }

  // Of a product that sums values of a space: which; else -1.
  int64_t summed_operand(int64_t n) const {
    const Node& x = node(n);
    if (x.operands().size() != 2) return -1;
    for (const int64_t side : {0, 1}) {
      const int64_t tile = position(x.operand(side)), other = position(x.operand(1 - side));
      if (has_space_dims(tile) && kind(other) == Kind::other &&
          space_sum(x, side, batch_[index(tile)]))
        return tile;
    }
    return -1;
  }

  // --- Groups

  // Adds what a value needs; values of rows that other groups than `own` give are inputs.
  void need(int64_t n, int64_t own, RowGroup& to) const {
    const bool is_taken = kind(n) == Kind::row && owner_[index(n)] >= 0 && owner_[index(n)] != own;
    const bool is_inside = kind(n) != Kind::other || g_.absorbed[index(n)] || positional_[index(n)];
    if (is_taken || !is_inside) {
      to.inputs.insert(n);
      return;
    }
    if (!to.body.insert(n).second) return;
    for (const Node* operand : node(n).operands()) {
      if (kind(n) == Kind::score)
        to.inputs.insert(position(read_from(mutable_node(operand))));
      else
        need(position(operand), own, to);
    }
  }
  static Node* mutable_node(const Node* node) { return const_cast<Node*>(node); }

  // What sum n would be with group `own`, -1: alone.
  RowGroup with_sum(int64_t n, int64_t own) const {
    RowGroup group;
    if (own >= 0) group = groups_[index(own)];
    const int64_t tile = summed_operand(n);
    need(tile, own, group);
    for (const Node* operand : node(n).operands())
      if (position(operand) != tile)
        group.inputs.insert(position(read_from(mutable_node(operand))));
    group.sums.push_back(n);
    return group;
  }

  bool is_in_space(int64_t n) const { return kind(n) != Kind::other; }

  // Whether an input needs what the group gives: sums and values of rows. (Values of the space are
  // the group's own, also where others make them too.)
  bool depends_on_itself(const RowGroup& group) const {
    NodeSet gives(group.sums.begin(), group.sums.end());
    for (const int64_t n : group.body)
      if (kind(n) == Kind::row) gives.insert(n);
    const int64_t first = *gives.begin();
    std::vector<int64_t> pending(group.inputs.begin(), group.inputs.end());
    std::unordered_set<int64_t> seen;
    while (!pending.empty()) {
      const int64_t n = pending.back();
      pending.pop_back();
      if (n < first || !seen.insert(n).second) continue;
      if (gives.contains(n)) return true;
      for (const Node* operand : node(n).operands()) pending.push_back(position(operand));
    }
    return false;
  }

  // A sum joins the last group that shares values of the space with it, or begins one.
  void place(int64_t n) {
    const RowGroup alone = with_sum(n, -1);
    for (int64_t i = std::ssize(groups_); i-- > 0;) {
      const bool shares = std::any_of(alone.body.begin(), alone.body.end(), [&](int64_t m) {
        return has_space_dims(m) && groups_[index(i)].body.contains(m);
      });
      if (!shares) continue;
      RowGroup joined = with_sum(n, i);
      if (depends_on_itself(joined)) continue;
      groups_[index(i)] = std::move(joined);
      return own_rows(i);
    }
    if (depends_on_itself(alone)) return;
    groups_.push_back(alone);
    own_rows(std::ssize(groups_) - 1);
  }

  void own_rows(int64_t group) {
    for (const int64_t n : groups_[index(group)].body)
      if (kind(n) == Kind::row && owner_[index(n)] < 0) owner_[index(n)] = group;
  }

  // Groups stay where nobody else needs the values of their spaces.
  void keep_whole_spaces() {
    for (bool changed = true; changed;) {
      changed = false;
      for (RowGroup& group : groups_) {
        if (!group.is_active || (fits(group) && is_whole(group))) continue;
        group.is_active = false;
        changed = true;
      }
    }
  }

  bool is_whole(const RowGroup& group) const {
    return std::all_of(group.body.begin(), group.body.end(), [&](int64_t n) {
      if (!has_space_dims(n)) return true;
      const auto& users = node(n).users();
      return !node(n).is_root() && std::all_of(users.begin(), users.end(), [&](const Node* user) {
        return is_fused(position(user));
      });
    });
  }

  bool is_fused(int64_t n) const {
    return std::any_of(groups_.begin(), groups_.end(), [&](const RowGroup& group) {
      return group.is_active &&
             ((is_in_space(n) && group.body.contains(n)) ||
              std::find(group.sums.begin(), group.sums.end(), n) != group.sums.end());
    });
  }

  std::optional<SpaceSum> sum_of(int64_t n) const {
    const int64_t tile = summed_operand(n);
    const int64_t side = position(node(n).operand(0)) == tile ? 0 : 1;
    return space_sum(node(n), side, batch_[index(tile)]);
  }

  bool fits(const RowGroup& group) const {
    for (const int64_t n : group.sums) {
      const int64_t tile = summed_operand(n);
      int64_t batches = 1;
      for (int64_t d = 0; d < batch_[index(tile)]; ++d) batches *= node(tile).dim(d);
      if (!sum_of(n)->over_columns && batches < kLeastBatches) return false;
    }
    return true;
  }

  // Whether fusions would need each other's results.
  bool has_cycle() const {
    std::vector<int64_t> unit(g_.nodes.size());
    for (int64_t n = 0; n < size(); ++n) unit[index(n)] = n;
    for (int64_t i = 0; i < std::ssize(groups_); ++i) {
      if (!groups_[index(i)].is_active) continue;
      for (const int64_t n : groups_[index(i)].sums) unit[index(n)] = size() + i;
      for (const int64_t n : groups_[index(i)].body)
        if (owner_[index(n)] == i) unit[index(n)] = size() + i;
    }
    const auto read_by = [&](int64_t u) {
      std::vector<int64_t> reads;
      if (u >= size()) {
        const NodeSet& inputs = groups_[index(u - size())].inputs;
        reads.assign(inputs.begin(), inputs.end());
      } else {
        for (const Node* operand : node(u).operands()) reads.push_back(position(operand));
      }
      for (int64_t& n : reads) n = unit[index(n)];
      return reads;
    };
    enum : uint8_t { fresh, open, done };
    std::vector<uint8_t> state(g_.nodes.size() + groups_.size(), fresh);
    for (int64_t start = 0; start < std::ssize(state); ++start) {
      std::vector<int64_t> stack{start};
      while (!stack.empty()) {
        const int64_t u = stack.back();
        uint8_t& now = state[index(u)];
        if (now != fresh) {
          if (now == open) now = done;
          stack.pop_back();
          continue;
        }
        now = open;
        for (const int64_t read : read_by(u)) {
          if (state[index(read)] == open) return true;
          if (state[index(read)] == fresh) stack.push_back(read);
        }
      }
    }
    return false;
  }

  // --- Fusions

  struct Body {
    Computation* fused = nullptr;
    std::vector<Node*> inputs = {};
    std::map<const Node*, Node*> copies = {};
    std::vector<Node*> given = {};  // what its results replace
  };

  // Values that go through no reduction between two large products cost less on their way through
  // memory than products of few rows.
  static bool gains(const RowBlockSpec& spec) {
    const auto is_reduced = [](const LoopOutput& output) { return output.reduced; };
    if (std::any_of(spec.loop.outputs.begin(), spec.loop.outputs.end(), is_reduced)) return true;
    int64_t longest = 0;
    for (const auto* products : {&spec.scores, &spec.row_sums, &spec.column_sums})
      for (const BlockProduct& product : *products) longest = std::max(longest, product.inner);
    return longest <= kMostInner;
  }

  // Bodies that differ, and what was found of each: layers have equal ones.
  using Judged = std::vector<std::pair<const Computation*, bool>>;

  static bool has_good_kernel(const Computation& fused, Judged& judged) {
    for (const auto& [known, is_good] : judged)
      if (equal_bodies(*known, fused)) return is_good;
    std::optional<RowBlockSpec> spec = row_block_spec(fused);
    const bool is_good = spec && gains(*spec) && prepare_row_blocks(std::move(*spec)).run;
    judged.emplace_back(&fused, is_good);
    return is_good;
  }

  // Of the groups whose fusions have kernels, without those that share values with others.
  std::vector<std::pair<const RowGroup*, Body>> runnable_bodies() {
    while (true) {
      std::vector<std::pair<const RowGroup*, Body>> bodies;
      Judged judged;
      bool all_run = true;
      for (int64_t i = 0; i < std::ssize(groups_); ++i) {
        RowGroup& group = groups_[index(i)];
        if (!group.is_active) continue;
        bodies.emplace_back(&group, body_of(i));
        group.is_active = has_good_kernel(*bodies.back().second.fused, judged);
        all_run &= group.is_active;
      }
      if (all_run) return bodies;
      for (const auto& [group, body] : bodies) c_.module().remove_computation(body.fused);
      keep_whole_spaces();
    }
  }

  bool rewrite() {
    std::vector<std::pair<Node*, Node*>> replaced;
    for (const auto& [group, body] : runnable_bodies())
      add_fusion(body, node(group->sums.front()), replaced);
    if (replaced.empty()) return false;
    c_.replace_uses(replaced);
    c_.remove_dead();
    c_.sort();
    return true;
  }

  // Values of rows that somebody else reads.
  std::vector<int64_t> rows_given(int64_t group) const {
    std::vector<int64_t> given;
    for (const int64_t n : groups_[index(group)].body)
      if (owner_[index(n)] == group && is_read_outside(n, group)) given.push_back(n);
    return given;
  }
  bool is_read_outside(int64_t n, int64_t group) const {
    for (const RowGroup& other : groups_)
      if (other.is_active && other.inputs.contains(n)) return true;
    const auto& users = node(n).users();
    return std::any_of(users.begin(), users.end(), [&](const Node* user) {
      const int64_t at = position(user);
      if (g_.absorbed[index(at)] || kind(at) == Kind::view) return is_read_outside(at, group);
      return !groups_[index(group)].body.contains(at);
    });
  }

  static Node* input(Body& body, Node* source) {
    Node*& parameter = body.copies[source];
    if (parameter == nullptr) {
      body.inputs.push_back(source);
      parameter = add_parameter(*body.fused, body.inputs);
    }
    return parameter;
  }
  // An operand of a product, with the views in front of it.
  static Node* view(Body& body, Node* operand) {
    Node* const source = read_from(operand);
    return copy_chain(*body.fused, *operand, *source, input(body, source));
  }

  // Of sum n: the value that the fusion writes.
  Node* result_of(int64_t n) const {
    Node* const x = g_.nodes[index(n)];
    Node* const root = written_as(x);
    return gives_lines(*x, *sum_of(n), *root) ? root : x;
  }

  Body body_of(int64_t number) const {
    const RowGroup& group = groups_[index(number)];
    Body body{c_.module().add_computation(c_.module().unique_name("fused_rows"))};
    for (const int64_t n : group.body) {
      Node* const x = g_.nodes[index(n)];
      std::vector<Node*> operands;
      for (Node* operand : x->operands()) {
        if (kind(n) == Kind::score)
          operands.push_back(view(body, operand));
        else if (group.body.contains(position(operand)))
          operands.push_back(body.copies.at(operand));
        else
          operands.push_back(input(body, operand));
      }
      body.copies[x] = copy_into(*body.fused, *x, std::move(operands));
    }
    std::vector<Node*> results;
    for (const int64_t n : group.sums) {
      Node* const x = g_.nodes[index(n)];
      std::vector<Node*> operands;
      for (Node* operand : x->operands())
        operands.push_back(position(operand) == summed_operand(n) ? body.copies.at(operand)
                                                                  : view(body, operand));
      body.given.push_back(result_of(n));
      Node* const product = copy_into(*body.fused, *x, std::move(operands));
      results.push_back(copy_views(*body.fused, *x, body.given.back(), product));
    }
    Dims rows = node(summed_operand(group.sums.front())).dims();
    rows.pop_back();
    for (const int64_t n : rows_given(number)) {
      body.given.push_back(g_.nodes[index(n)]);
      Node* const copy = body.copies.at(body.given.back());
      results.push_back(copy->dims() == rows ? copy : hlo::reshape(copy, rows));
    }
    body.fused->set_root(results.size() == 1 ? results[0] : hlo::tuple(*body.fused, results));
    return body;
  }

  void add_fusion(const Body& body, const Node& model,
                  std::vector<std::pair<Node*, Node*>>& replaced) {
    const std::vector<Node*>& given = body.given;
    Node* const fusion = append_fusion(c_, *body.fused, body.inputs, "kCustom", model);
    if (given.size() == 1) {
      replaced.emplace_back(given[0], fusion);
      return;
    }
    for (size_t i = 0; i < given.size(); ++i) {
      Node* value = hlo::get_tuple_element(fusion, static_cast<int64_t>(i));
      if (value->dims() != given[i]->dims()) value = hlo::reshape(value, given[i]->dims());
      value->metadata = given[i]->metadata;
      value->backward = model.backward;
      replaced.emplace_back(given[i], value);
    }
  }

  Computation& c_;
  LoopGraph g_;
  std::vector<Kind> kind_;
  std::vector<int64_t> batch_;    // dims of batches, of what is in a space
  std::vector<bool> positional_;  // made of positions and constants only: copied, not read
  std::vector<int64_t> row_of_;   // the value of a row that this is, under whatever dims; -1: none
  std::vector<int64_t> owner_;    // of values of rows: the group that gives them
  std::vector<RowGroup> groups_;
};

}  // namespace

bool fuse_row_blocks(Computation& computation) {
  const bool has_dot = std::any_of(computation.nodes().begin(), computation.nodes().end(),
                                   [](const std::unique_ptr<Node>& node) {
                                     return makes_space(*node) || may_make_space(*node);
                                   });
  if (!has_dot) return false;
  bool changed = computation.remove_dead() > 0;
  changed |= drop_reductions_of_one(computation);
  changed |= turn_spaces(computation);
  return RowBlockFuser(computation).run() || changed;
}

}  // namespace gspmd
