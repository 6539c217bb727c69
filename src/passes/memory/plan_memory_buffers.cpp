#include "passes/memory/plan_memory_buffers.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "gspmd/base/error.h"
#include "gspmd/ir/effects.h"
#include "gspmd/ir/op.h"
#include "gspmd/ir/place.h"
#include "ir/node_marks.h"
#include "ops/common/loop_lowering.h"
#include "passes/graph/alias.h"
#include "passes/graph/started_collective.h"

namespace gspmd {

std::string source_line_of(const Node& node) {
  const Node* at = &node;
  while (at->metadata.source_file.empty()) {
    if (at->is(Opcode::fusion)) {
      at = at->called.at(0)->root();
      if (!at->is(Opcode::tuple)) continue;
    }
    if (at->operands().empty()) return "";
    at = at->operand(0);
  }
  return source_line(at->metadata);
}

namespace {

// What a fused computation does with its parameters, looked up once for all of them.
class FusedReads {
 public:
  explicit FusedReads(const Computation& fused) : fused_(fused) {
    int64_t position = 0;
    find_moved();
    for (const auto& node : fused.nodes()) {
      positions_.emplace(node.get(), position);
      for (const Node* operand : node->operands())
        if (operand->is(Opcode::parameter)) read(*operand, *node, position);
      ++position;
    }
    if (fused.root()->is(Opcode::parameter)) last_[fused.root()] = INT64_MAX;
  }

  // Whether the result's leaf may lie where the operand does: it is read before, element by
  // element.
  bool may_share(int64_t operand, int64_t leaf) const {
    const Node* made = fused_.root();
    if (made->is(Opcode::tuple)) made = made->operand(leaf);
    const Node& parameter = *fused_.parameters().at(static_cast<size_t>(operand));
    if (made->dims() != parameter.dims() || made == &parameter) return false;
    const int64_t* const last = last_.find(&parameter);
    return last == nullptr || *last <= positions_.at(made);
  }

 private:
  // Values that slices, concatenations and the like read at other places than their own, and what
  // these are computed from.
  void find_moved() {
    const auto& nodes = fused_.nodes();
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      if (reads_in_place(**node) || (*node)->is(Opcode::tuple)) continue;
      for (const Node* operand : (*node)->operands()) moved_.insert(operand);
    }
  }

  // Element by element at a place of its own; what a loop folds is read before the result is.
  bool reads_in_place(const Node& node) const {
    return loop_steps(node) && (!node.op().has(kElementwise) || moved_.count(&node) == 0);
  }

  void read(const Node& parameter, const Node& reader, int64_t position) {
    const bool plain = reads_in_place(reader) && *loop_steps(reader) == parameter.dims();
    last_.emplace(&parameter, -1);
    int64_t& last = last_.at(&parameter);
    if (last != INT64_MAX) last = plain ? position : INT64_MAX;
  }

  const Computation& fused_;
  FlatMap<const Node*, int64_t> positions_;
  std::set<const Node*> moved_;
  FlatMap<const Node*, int64_t> last_;  // plain read; INT64_MAX: read in another way
};

// Whether the result leaf of `node` may be written over `operand`, which nobody reads afterwards:
// every element is read before, or at, the moment its place is written. `fused`: of a fusion.
bool can_share(const Node& node, const std::optional<FusedReads>& fused, int64_t operand,
               int64_t leaf) {
  const Node& x = *node.operand(operand);
  if (x.shape.is_tuple) return false;
  const bool several = node.shape.is_tuple;  // flat, for the ops below
  if (several && leaf >= std::ssize(node.shape.elements)) return false;
  const Shape& result = several ? node.shape.elements.at(static_cast<size_t>(leaf)) : node.shape;
  if (result.is_tuple) return false;
  if (x.dims() != result.dims || dtype_size(x.shape.dtype) != dtype_size(result.dtype))
    return false;
  if (node.is(Opcode::fusion)) return fused->may_share(operand, leaf);
  if (node.is(Opcode::all_reduce)) return operand == leaf;
  if (node.op().has(kWritesFirst))
    return operand == 0 && (!several || node.shape.elements.size() == 1);
  return node.op().has(kElementwise);
}

// Leaves of a loop's state that its body hands on as they are.
std::vector<bool> invariant_leaves(const Computation& body) {
  const Node& state = *body.parameters().at(0);
  const Node& next = *body.root();
  std::vector<bool> stays(static_cast<size_t>(leaf_count(state.shape)), false);
  if (!next.is(Opcode::tuple)) return stays;
  size_t leaf = 0;
  for (size_t i = 0; i < next.operands().size(); ++i) {
    const Node& value = *next.operands()[i];
    const bool same = value.is(Opcode::get_tuple_element) && value.operand(0) == &state &&
                      value.attrs.index == static_cast<int64_t>(i);
    for (int64_t k = leaf_count(value.shape); k > 0; --k) stays.at(leaf++) = same;
  }
  return stays;
}

class Builder {
 public:
  explicit Builder(const std::map<int64_t, int64_t>& scratch) : scratch_(scratch) {}

  BufferTable build(const Computation& entry) {
    int64_t leaf = 0;
    std::vector<int64_t> arguments;
    count_calls(entry);
    step(*entry.root());
    for (const Node* parameter : entry.parameters()) {
      for (const Shape& shape : leaf_shapes(parameter->shape)) {
        const int64_t made = make(*parameter, shape);
        table_[made].kind = PlannedBuffer::parameter;
        table_[made].index = leaf++;
        table_[made].first = 0;
        arguments.push_back(made);
      }
    }
    table_.parameters = arguments;
    table_.roots = walk(entry, arguments);
    const int64_t end = step(*entry.root());
    for (const int64_t root : table_.roots) read(root, end);
    sort_leaves();
    return std::move(table_);
  }

 private:
  // What was last said of each.
  void sort_leaves() {
    auto& all = table_.of_leaf;
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    size_t count = 0;
    for (size_t i = 0; i < all.size(); ++i)
      if (i + 1 == all.size() || all[i].first != all[i + 1].first) all[count++] = all[i];
    all.resize(count);
  }

  // Of what runs: a computation that nobody reaches calls nothing.
  void count_calls(const Computation& computation) {
    for (const Node* node : live_nodes(computation)) {
      if (!node->is(Opcode::while_) && !node->is(Opcode::call) && !node->is(Opcode::conditional))
        continue;
      for (const Computation* called : node->called)
        if (++call_sites_[called] == 1) count_calls(*called);
    }
  }

  int64_t step(const Node& node) {
    table_.at.push_back(&node);
    return static_cast<int64_t>(table_.at.size()) - 1;
  }
  int64_t now() const { return static_cast<int64_t>(table_.at.size()) - 1; }

  int64_t make(const Node& node, const Shape& shape) {
    PlannedBuffer buffer;
    buffer.bytes = std::max<int64_t>(shape.bytes(), 1);
    buffer.first = buffer.last = now();
    buffer.node = &node;
    buffer.shape = shape;
    table_.buffers.push_back(std::move(buffer));
    return static_cast<int64_t>(table_.buffers.size()) - 1;
  }

  void read(int64_t buffer, int64_t position) {
    PlannedBuffer& b = table_[buffer];
    b.last = std::max(b.last, position);
  }

  using Leaves = std::vector<int64_t>;

  Leaves fresh(const Node& node) {
    Leaves leaves;
    for (const Shape& shape : leaf_shapes(node.shape)) leaves.push_back(make(node, shape));
    return leaves;
  }

  // Runs through one call of a computation; gives the buffers of its root.
  Leaves walk(const Computation& computation, const Leaves& arguments) {
    const std::vector<const Node*> live = live_nodes(computation);
    FlatMap<const Node*, Leaves> values;
    values.reserve(computation.parameters().size() + live.size());
    size_t at = 0;
    for (const Node* parameter : computation.parameters()) {
      const auto count = static_cast<size_t>(leaf_count(parameter->shape));
      values[parameter] = Leaves(arguments.begin() + static_cast<std::ptrdiff_t>(at),
                                 arguments.begin() + static_cast<std::ptrdiff_t>(at + count));
      at += count;
      note(*parameter, values[parameter]);
    }
    std::vector<const Leaves*> operands;
    for (const Node* node : live) {
      if (node->is(Opcode::parameter)) continue;
      operands.clear();
      for (const Node* operand : node->operands()) operands.push_back(&values.at(operand));
      Leaves made = visit(*node, operands);
      note(*node, made);
      values[node] = std::move(made);
    }
    return values.at(computation.root());
  }

  void note(const Node& node, const Leaves& leaves) {
    for (size_t i = 0; i < leaves.size(); ++i) {
      table_.of_leaf.push_back({{node.id(), static_cast<int64_t>(i)}, leaves[i]});
    }
  }

  Leaves visit(const Node& node, const std::vector<const Leaves*>& operands) {
    if (is_alias(node)) return visit_alias(node, operands);
    step(node);
    for (const Leaves* leaves : operands) {
      for (const int64_t buffer : *leaves) read(buffer, now());
    }
    if (begins(node)) return visit_start(node, operands);
    if (ends(node)) return visit_done(node, *operands.at(0));
    if (node.is(Opcode::while_)) return visit_while(node, *operands.at(0));
    if (node.is(Opcode::call)) return visit_call(node, operands);
    if (node.is(Opcode::conditional)) return visit_conditional(node, operands);
    const Leaves results = fresh(node);
    if (node.is(Opcode::constant)) {
      table_[results.at(0)].kind = PlannedBuffer::constant;
      return results;
    }
    add_shares(node, operands, results);
    if (const auto found = scratch_.find(node.id()); found != scratch_.end() && found->second > 0) {
      make(node, Shape(DType::u8, {found->second}));
    }
    return results;
  }

  static bool begins(const Node& node) {
    return node.is(Opcode::all_reduce_start) || starts_with_operands(node);
  }
  static bool starts_with_operands(const Node& node) {
    return node.is(Opcode::all_gather_start) || node.is(Opcode::collective_permute_start) ||
           begins_collective(node);
  }
  static bool ends(const Node& node) {
    return node.is(Opcode::all_reduce_done) || node.is(Opcode::all_gather_done) ||
           node.is(Opcode::collective_permute_done) ||
           (node.is(Opcode::async_done) && begins_collective(*node.operand(0)));
  }

  // Operands are read, and results written, at any time until the done.
  Leaves visit_start(const Node& node, const std::vector<const Leaves*>& operands) {
    Leaves given;
    for (const Leaves* leaves : operands) given.insert(given.end(), leaves->begin(), leaves->end());
    begun_[&node] = given;
    if (!starts_with_operands(node)) return fresh(node);
    Leaves all = given;
    for (size_t i = 1; i < node.shape.elements.size(); ++i)
      for (const Shape& shape : leaf_shapes(node.shape.elements[i]))
        all.push_back(make(node, shape));
    return all;
  }

  Leaves visit_done(const Node& node, const Leaves& started) {
    const Node& start = *node.operand(0);
    const Leaves& given = begun_.at(&start);
    for (const int64_t buffer : given) read(buffer, now());
    const size_t first = starts_with_operands(start) ? given.size() : 0;
    const auto begin = started.begin() + static_cast<std::ptrdiff_t>(first);
    return Leaves(begin, begin + static_cast<std::ptrdiff_t>(leaf_count(node.shape)));
  }

  // One buffer may be several operands, under names of its own: it has to suit all of them.
  void add_shares(const Node& node, const std::vector<const Leaves*>& operands,
                  const Leaves& results) {
    std::optional<FusedReads> fused;
    if (node.is(Opcode::fusion)) {
      if (node.attrs.fusion_kind != "kLoop" && node.attrs.fusion_kind != "kInput") return;
      fused.emplace(*node.called.at(0));
    }
    std::vector<std::pair<int64_t, size_t>> names;  // of each buffer in turn
    for (size_t i = 0; i < operands.size(); ++i)
      for (const int64_t buffer : *operands[i]) names.emplace_back(buffer, i);
    std::sort(names.begin(), names.end());
    // Arrays by size, those of one size in order.
    using Sized = std::pair<const Shape*, size_t>;
    const auto is_less = [](const Sized& a, const Sized& b) {
      const int64_t x = dtype_size(a.first->dtype), y = dtype_size(b.first->dtype);
      return x != y ? x < y : a.first->dims < b.first->dims;
    };
    std::vector<Sized> by_size;
    for (size_t i = 0; i < operands.size(); ++i)
      if (const Shape& shape = node.operands()[i]->shape; !shape.is_tuple)
        by_size.emplace_back(&shape, i);
    std::stable_sort(by_size.begin(), by_size.end(), is_less);
    const std::vector<Shape> shapes = leaf_shapes(node.shape);
    for (size_t leaf = 0; leaf < results.size(); ++leaf) {
      const auto [first, last] =
          std::equal_range(by_size.begin(), by_size.end(), Sized(&shapes[leaf], 0), is_less);
      for (auto candidate = first; candidate != last; ++candidate) {
        const int64_t buffer = operands[candidate->second]->at(0);
        auto name = std::lower_bound(names.begin(), names.end(), std::pair(buffer, size_t{0}));
        const auto suits = [&](size_t i) {
          return operands[i]->size() == 1 &&
                 can_share(node, fused, static_cast<int64_t>(i), static_cast<int64_t>(leaf));
        };
        while (name != names.end() && name->first == buffer && suits(name->second)) ++name;
        if (name == names.end() || name->first != buffer)
          table_.shares.push_back({now(), buffer, results[leaf]});
      }
    }
  }

  // The position among the leaves of a tuple where those of an element begin; of one tuple after
  // another, whose many elements may all be taken.
  int64_t first_leaf_of(const Node& tuple, int64_t element) {
    if (counted_ != &tuple) {
      counted_ = &tuple;
      first_leaves_.clear();
      int64_t first = 0;
      for (const Shape& shape : tuple.shape.elements) {
        first_leaves_.push_back(first);
        first += leaf_count(shape);
      }
    }
    return first_leaves_.at(static_cast<size_t>(element));
  }

  Leaves visit_alias(const Node& node, const std::vector<const Leaves*>& operands) {
    if (node.is(Opcode::get_tuple_element)) {
      const int64_t first = first_leaf_of(*node.operand(0), node.attrs.index);
      const auto begin = operands[0]->begin() + static_cast<std::ptrdiff_t>(first);
      return Leaves(begin, begin + static_cast<std::ptrdiff_t>(leaf_count(node.shape)));
    }
    Leaves all;
    for (const Leaves* leaves : operands) all.insert(all.end(), leaves->begin(), leaves->end());
    return all;
  }

  // One buffer per leaf of the state holds it from before the loop to after it; what no iteration
  // changes is read where it lay before.
  Leaves visit_while(const Node& node, const Leaves& initial) {
    const int64_t start = now();
    std::vector<bool> stays = invariant_leaves(*node.called.at(1));
    const bool is_alone = call_sites_.at(node.called.at(1)) == 1;
    if (!is_alone) stays.assign(stays.size(), false);
    Leaves carried;
    for (const Shape& shape : leaf_shapes(node.shape)) {
      const size_t i = carried.size();
      carried.push_back(stays[i] ? initial[i] : make(node, shape));
      if (!stays[i]) table_.shares.push_back({start, initial[i], carried[i]});
    }
    const Leaves condition = walk_once(*node.called.at(0), carried);
    const int64_t begin = step(node);
    for (const int64_t buffer : condition) read(buffer, begin);
    const Leaves next = walk_once(*node.called.at(1), carried);
    for (size_t i = 0; i < carried.size(); ++i)
      if (!stays[i]) table_[carried[i]].last_inside = table_[carried[i]].last;
    const int64_t end = step(node);
    for (size_t i = 0; i < carried.size(); ++i) {
      read(next[i], end);
      read(carried[i], end);
      if (stays[i]) continue;
      table_.carries.push_back({carried[i], next[i]});
      // Copied to the body's own at every iteration, or what another leaf takes on.
      if (!is_alone || std::find(next.begin(), next.end(), carried[i]) != next.end()) continue;
      PlannedBuffer& buffer = table_[carried[i]];
      buffer.free_first = std::max(begin, buffer.last_inside) + 1;
      buffer.free_last = end - 1;
    }
    return carried;
  }

  // Branches lie one after the other; each reads its operand where it is, and its roots are copied
  // to the conditional's buffers, which hold from the end of the first branch to after the last.
  Leaves visit_conditional(const Node& node, const std::vector<const Leaves*>& operands) {
    Leaves results;
    for (size_t i = 0; i < node.called.size(); ++i) {
      const Leaves roots = walk_once(*node.called[i], *operands.at(i + 1));
      const int64_t end = step(node);
      if (i == 0) results = fresh(node);
      for (const int64_t buffer : roots) read(buffer, end);
      for (const int64_t buffer : results) read(buffer, end);
    }
    return results;
  }

  // A computation called from several places has buffers of its own for parameters, filled by
  // copies.
  Leaves visit_call(const Node& node, const std::vector<const Leaves*>& operands) {
    Leaves arguments;
    for (const Leaves* leaves : operands)
      arguments.insert(arguments.end(), leaves->begin(), leaves->end());
    if (call_sites_.at(node.called.at(0)) == 1) return walk(*node.called[0], arguments);
    const Leaves roots = walk_once(*node.called.at(0), arguments);
    const int64_t end = step(node);
    for (const int64_t buffer : roots) read(buffer, end);
    return fresh(node);
  }

  // Of a computation with several call sites the buffers of the first visit live through all
  // visits.
  Leaves walk_once(const Computation& computation, const Leaves& arguments) {
    if (call_sites_.at(&computation) == 1) return walk(computation, arguments);
    Visit& visit = visits_[&computation];
    if (visit.end == 0) {
      visit.begin = static_cast<int64_t>(table_.buffers.size());
      Leaves own;
      for (const Node* parameter : computation.parameters()) {
        const Leaves made = fresh(*parameter);
        own.insert(own.end(), made.begin(), made.end());
      }
      visit.roots = walk(computation, own);
      visit.end = static_cast<int64_t>(table_.buffers.size());
      for (int64_t i = visit.begin; i < visit.end; ++i)
        visit.start = std::min(visit.start, table_[i].first);
    }
    const int64_t end = step(*computation.root());
    for (int64_t i = visit.begin; i < visit.end; ++i) {
      if (table_[i].kind != PlannedBuffer::arena) continue;
      table_[i].first = visit.start;
      read(i, end);
    }
    return visit.roots;
  }

  struct Visit {
    int64_t begin = 0, end = 0, start = INT64_MAX;
    Leaves roots;
  };
  const std::map<int64_t, int64_t>& scratch_;
  std::unordered_map<const Node*, Leaves> begun_;  // a start's operands
  const Node* counted_ = nullptr;
  std::vector<int64_t> first_leaves_;  // of its elements
  std::map<const Computation*, int> call_sites_;
  std::map<const Computation*, Visit> visits_;
  BufferTable table_;
};

}  // namespace

std::vector<const Node*> live_nodes(const Computation& computation) {
  const NodeMarks reached = running_marks(computation);
  std::vector<const Node*> live;
  live.reserve(reached.size());
  for (const auto& node : computation.nodes())
    if (reached.contains(node.get())) live.push_back(node.get());
  return live;
}

BufferTable table_of_buffers(const Module& module, const std::map<int64_t, int64_t>& scratch) {
  if (module.entry() == nullptr)
    user_error("plan_memory: module {} has no entry computation", module.name);
  return Builder(scratch).build(*module.entry());
}

}  // namespace gspmd
