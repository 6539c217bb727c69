// Which annotations stand behind each digit: a graph of who told whom what, each annotation carried
// along it.

#include "passes/explain/annotation_graph.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "gspmd/ir/op.h"
#include "ops/common/completion.h"
#include "passes/complete/origins.h"

namespace gspmd {
namespace {

constexpr CompletionMode kAll{3, true};

void keep_distinct(std::vector<int32_t>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

// The strongly connected components of a graph, those that an edge leads to before those that it
// comes from (Tarjan, without recursion).
class Components {
 public:
  explicit Components(const std::vector<std::vector<int32_t>>& sources) : sources_(sources) {
    const size_t count = sources.size();
    of.assign(count, -1);
    index_.assign(count, -1);
    low_.assign(count, 0);
    for (size_t start = 0; start < count; ++start)
      if (index_[start] < 0) visit(static_cast<int32_t>(start));
  }
  std::vector<int32_t> of;  // by entry; sources have smaller numbers
  int32_t count = 0;

 private:
  void open(int32_t entry) {
    index_[size_t(entry)] = low_[size_t(entry)] = next_++;
    open_.push_back(entry);
    work_.emplace_back(entry, 0);
  }

  void visit(int32_t start) {
    open(start);
    while (!work_.empty()) {
      const int32_t entry = work_.back().first;
      int32_t& low = low_[size_t(entry)];
      if (work_.back().second < sources_[size_t(entry)].size()) {
        const int32_t source = sources_[size_t(entry)][work_.back().second++];
        if (index_[size_t(source)] < 0)
          open(source);
        else if (of[size_t(source)] < 0)
          low = std::min(low, index_[size_t(source)]);
        continue;
      }
      work_.pop_back();
      if (!work_.empty()) {
        int32_t& above = low_[size_t(work_.back().first)];
        above = std::min(above, low);
      }
      if (low != index_[size_t(entry)]) continue;
      for (int32_t member = -1; member != entry;) {
        member = open_.back();
        open_.pop_back();
        of[size_t(member)] = count;
      }
      ++count;
    }
  }

  const std::vector<std::vector<int32_t>>& sources_;
  std::vector<int32_t> index_, low_, open_;
  std::vector<std::pair<int32_t, size_t>> work_;
  int32_t next_ = 0;
};

}  // namespace

// One entry per origin of every node; `sources_of_[e]` are entries that say what entry e holds.
class AnnotationGraph::Graph {
 public:
  explicit Graph(const Module& module) {
    for (const auto& computation : module.computations())
      for (const auto& node : computation->nodes()) {
        first_[node.get()] = static_cast<int32_t>(size_);
        size_ += node->origins.size();
      }
    sources_.resize(size_);
    for (const auto& computation : module.computations())
      for (const auto& node : computation->nodes()) {
        connect_operands(*node);
        connect_readers(*node);
        connect_computations(*node);
      }
  }

  const std::vector<std::vector<int32_t>>& sources() const { return sources_; }
  int32_t entry(const Node& node, size_t origin) const {
    return first_.at(&node) + static_cast<int32_t>(origin);
  }

 private:
  // `said` of leaf `leaf` of `node`, as known from leaf `speaker_leaf` of `speaker`.
  void connect(const Node& node, int64_t leaf, const Node& speaker, int64_t speaker_leaf,
               const Sharding& said) {
    if (!said.is_tiled() || speaker.origins.empty()) return;
    const Sharding* own = leaf_sharding(node, leaf);
    if (!own) return;
    const auto begin = std::lower_bound(node.origins.begin(), node.origins.end(), leaf,
                                        [](const Origin& o, int64_t l) { return o.leaf < l; });
    for (auto o = begin; o != node.origins.end() && o->leaf == leaf; ++o) {
      if (o->dim < 0) continue;
      const auto to = static_cast<size_t>(entry(node, size_t(o - node.origins.begin())));
      const std::vector<OriginPart> parts =
          parts_behind(speaker, speaker_leaf, said, o->dim, o->digit, own->order());
      Digits covered;
      for (const OriginPart& part : parts) covered.push_back(part.digit);
      // Who says a part of it only would leave it coarser.
      const auto rest = difference({o->digit}, covered);
      if (!rest || !rest->empty()) continue;
      for (const OriginPart& part : parts)
        sources_[to].push_back(entry(speaker, size_t(part.origin - speaker.origins.data())));
    }
  }

  // Leaves [from, ...) of `speaker` are leaves [to, ...) of `node`, `count` of them.
  void connect_leaves(const Node& node, int64_t to, const Node& speaker, int64_t from,
                      int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      if (const Sharding* said = leaf_sharding(speaker, from + i))
        connect(node, to + i, speaker, from + i, *said);
  }

  void connect_operands(const Node& node) {
    if (node.origins.empty() || node.operands().empty()) return;
    if (node.is(Opcode::tuple)) {
      int64_t leaf = 0;
      for (const Node* operand : node.operands()) {
        const int64_t count = leaf_count(operand->shape);
        connect_leaves(node, leaf, *operand, 0, count);
        leaf += count;
      }
      return;
    }
    if (node.is(Opcode::get_tuple_element))
      return connect_leaves(node, 0, *node.operand(0),
                            first_leaf(node.operand(0)->shape, node.attrs.index),
                            leaf_count(node.shape));
    for (const ShardingProposal& said : proposals_of_operands(node, kAll)) {
      if (said.operand < 0) continue;
      const Node& speaker = *node.operand(said.operand);
      if (said.sharding.is_tuple()) {
        connect_leaves(node, 0, speaker, 0, leaf_count(node.shape));
        continue;
      }
      const int64_t count = said.leaf < 0 ? leaf_count(node.shape) : 1;
      for (int64_t leaf = std::max<int64_t>(said.leaf, 0), i = 0; i < count; ++i)
        connect(node, leaf + i, speaker, 0, said.sharding);
    }
  }

  void connect_readers(const Node& node) {
    if (node.origins.empty()) return;
    for (const Node* reader : node.users())
      for (size_t p = 0; p < reader->operands().size(); ++p) {
        if (reader->operands()[p] != &node) continue;
        const auto at = static_cast<int64_t>(p);
        const int64_t count = leaf_count(node.shape);
        if (reader->is(Opcode::tuple)) {
          connect_leaves(node, 0, *reader, first_leaf(reader->shape, at), count);
        } else if (reader->is(Opcode::get_tuple_element)) {
          connect_leaves(node, first_leaf(node.shape, reader->attrs.index), *reader, 0,
                         leaf_count(reader->shape));
        } else if (node.shape.is_tuple) {
          if (same_dims(node.shape, reader->shape)) connect_leaves(node, 0, *reader, 0, count);
        } else {
          for (const OperandSuggestion& said : suggestions_of_reader(*reader, at, kAll)) {
            const Node& speaker = said.operand < 0 ? *reader : *reader->operand(said.operand);
            connect(node, 0, speaker, said.operand < 0 ? said.leaf : 0, said.sharding);
          }
        }
      }
  }

  void tie(const Node& a, const Node& b) {
    const int64_t count = leaf_count(a.shape);
    if (count != leaf_count(b.shape)) return;
    connect_leaves(a, 0, b, 0, count);
    connect_leaves(b, 0, a, 0, count);
  }

  // Values of several computations that are one.
  void connect_computations(const Node& node) {
    const auto& called = node.called;
    if (node.is(Opcode::while_) && called.size() == 2) {
      tie(node, *called[1]->root());
      tie(node, *called[1]->parameters().at(0));
      tie(node, *called[0]->parameters().at(0));
    } else if (node.is(Opcode::call) && called.size() == 1) {
      tie(node, *called[0]->root());
      for (size_t p = 0; p < node.operands().size(); ++p)
        tie(*node.operands()[p], *called[0]->parameters().at(p));
    } else if (node.is(Opcode::conditional)) {
      for (size_t b = 0; b < called.size(); ++b) {
        tie(node, *called[b]->root());
        if (b + 1 < node.operands().size())
          tie(*node.operands()[b + 1], *called[b]->parameters().at(0));
      }
    }
  }

  std::unordered_map<const Node*, int32_t> first_;
  size_t size_ = 0;
  std::vector<std::vector<int32_t>> sources_;
};

AnnotationGraph::AnnotationGraph(const Module& completed)
    : graph_(std::make_unique<Graph>(completed)) {
  const auto& sources = graph_->sources();
  const Components components(sources);
  component_of_ = components.of;
  const auto count = static_cast<size_t>(components.count);
  std::unordered_map<std::string, int32_t> numbers;
  std::vector<std::vector<int32_t>> found(count);   // annotations named in a component
  std::vector<std::vector<int32_t>> behind(count);  // components that it hears
  for (const auto& computation : completed.computations())
    for (const auto& node : computation->nodes())
      for (size_t i = 0; i < node->origins.size(); ++i) {
        const auto entry = static_cast<size_t>(graph_->entry(*node, i));
        const auto at = static_cast<size_t>(component_of_[entry]);
        const std::string& name = node->origins[i].annotation;
        const auto [number, is_new] = numbers.emplace(name, static_cast<int32_t>(names_.size()));
        if (is_new) names_.push_back(name);
        found[at].push_back(number->second);
        for (const int32_t source : sources[entry])
          behind[at].push_back(component_of_[static_cast<size_t>(source)]);
      }
  std::map<std::vector<int32_t>, int32_t> known;
  set_of_.resize(count);
  for (size_t c = 0; c < count; ++c) {
    std::vector<int32_t> set = std::move(found[c]), heard;
    for (const int32_t other : std::exchange(behind[c], {}))
      if (static_cast<size_t>(other) != c) heard.push_back(set_of_[static_cast<size_t>(other)]);
    keep_distinct(heard);
    for (const int32_t other : heard) {
      const auto& more = sets_[static_cast<size_t>(other)];
      set.insert(set.end(), more.begin(), more.end());
    }
    keep_distinct(set);
    const auto [at, is_new] = known.emplace(set, static_cast<int32_t>(sets_.size()));
    if (is_new) sets_.push_back(set);
    set_of_[c] = at->second;
  }
}

AnnotationGraph::~AnnotationGraph() = default;

std::vector<std::string> AnnotationGraph::annotations(const Node& node, size_t origin) const {
  const std::string& recorded = node.origins.at(origin).annotation;
  std::vector<std::string> result{recorded};
  const auto component = component_of_[static_cast<size_t>(graph_->entry(node, origin))];
  for (const int32_t number : sets_[size_t(set_of_[size_t(component)])])
    if (names_[static_cast<size_t>(number)] != recorded)
      result.push_back(names_[static_cast<size_t>(number)]);
  return result;
}

}  // namespace gspmd
